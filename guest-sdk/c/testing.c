// The host of tests, and the runner.

#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/internal.h"

wl_fake wl_fake_host;
static int failed_tests, tests;
static bool has_failed;

void wl_panic(const char *message) {
  fprintf(stderr, "crash: %s\n", message);
  abort();
}

void wl_test(const char *name, void (*test)(void)) {
  wl_fake_host = (wl_fake){
      .now_ms = 1767225600000,
      .attempt = 1,
      .run_id = "run-1",
      .workflow = "test",
      .node_id = "node-1",
      .trigger_id = "trigger-1",
      .idempotency_key = "key-1",
  };
  has_failed = false;
  test();
  wl_free_all();
  tests++;
  failed_tests += has_failed;
  if (has_failed) fprintf(stderr, "%s failed\n", name);
}

int wl_test_end(void) {
  fprintf(stderr, "%d of %d tests failed\n", failed_tests, tests);
  // A program without tests proves nothing.
  return failed_tests > 0 || tests == 0;
}

bool wl_check(bool holds, const char *file, int line, const char *text) {
  if (!holds) fprintf(stderr, "%s:%d: %s does not hold\n", file, line, text);
  has_failed |= !holds;
  return holds;
}

bool wl_check_json(const wl_json *value, const char *json, const char *file, int line) {
  wl_fault fault = {0};
  wl_text is = wl_write(value, &fault), wanted = wl_write(wl_read(json), NULL);
  bool same = !fault.message && is.length == wanted.length && !memcmp(is.at, wanted.at, is.length);
  if (!same)
    fprintf(stderr, "%s:%d: the value is %s and not %s\n", file, line,
            fault.message ? fault.message : is.at, wanted.at);
  has_failed |= !same;
  return same;
}

wl_json *wl_read(const char *json) {
  wl_fault fault;
  wl_json *value = wl_parse(wl_text_of(json), &fault);
  if (!value) wl_panic(wl_format("%s, at byte %zu of %s", fault.message, fault.offset, json).at);
  return value;
}

static void must(bool holds, const char *name, const char *text) {
  if (!holds) fprintf(stderr, "%s %s\n", name, text);
  has_failed |= !holds;
}

static bool declares(const wl_node *node, const char *port) {
  bool any = node->ports[0] != NULL;
  for (size_t i = 0; i < WL_PORTS_MAX && node->ports[i]; i++)
    if (!strcmp(node->ports[i], port)) return true;
  return !any && !strcmp(port, "done");
}

// The ABI of a result begins with whether it is an error.
static bool is_sent(const void *answer) { return *(const uint8_t *)answer == 0; }

wl_outcome *wl_run(const wl_node *node, const char *config, const char *input) {
  wl_call call = {node->name, wl_read(config ? config : "{}"), wl_read(input ? input : "null")};
  wl_outcome *it = node->run(&call);
  if (!it) return wl_check(false, __FILE__, __LINE__, "the outcome is not NULL"), wl_fail(WL_OTHER, "NULL");
  bool waits = it->result == WL_AGAIN || it->result == WL_SUSPEND;
  must(!waits || node->suspends, node->name, "waits, and its description has no `suspends`");
  for (size_t i = 0; i < WL_PORTS_MAX && it->ports[i]; i++)
    must(declares(node, it->ports[i]), node->name, "takes a port that it does not declare");
  must(it->result == WL_FAILED || is_sent(wl_abi_executed_of(it)), node->name,
       "returns an outcome that cannot be sent");
  return it;
}

wl_outcome *wl_offer(const wl_consumer *consumer, const char *payload) {
  wl_trigger trigger = {"manual", NULL, payload ? wl_read(payload) : NULL};
  wl_outcome *it = consumer->accept(&trigger);
  if (!it) return wl_check(false, __FILE__, __LINE__, "the decision is not NULL"), wl_fail(WL_OTHER, "NULL");
  must(it->result == WL_FAILED || is_sent(wl_abi_accepted_of(it)), "the consumer",
       "returns a decision that cannot be sent");
  return it;
}

// The functions of the host ----------------------------------------------------------------------

static wl_abi_string lend(const char *text) {
  wl_text copy = wl_format("%s", text ? text : "");
  return (wl_abi_string){copy.at, copy.length};
}

static wl_abi_maybe_string lend_maybe(const char *text) {
  return (wl_abi_maybe_string){text != NULL, lend(text)};
}

static const char *copy_of(const char *text, size_t length) {
  return wl_format("%.*s", (int)length, text).at;
}

static wl_abi_maybe_payload lend_payload(const wl_json *value) {
  wl_abi_maybe_payload it;
  if (wl_lower_maybe_payload(value, &it)) wl_panic("a value of the test is no payload");
  return it;
}

static size_t next(size_t *count) {
  if (*count == WL_FAKES_MAX) wl_panic("the node does more than a test keeps");
  return (*count)++;
}

void wl_import_log(uint32_t level, const char *message, size_t length, const wl_abi_field *fields,
                   size_t count) {
  static const char *const LEVELS[] = {"trace", "debug", "info", "warn", "error"};
  wl_text line = wl_format("%s %.*s", LEVELS[level], (int)length, message);
  for (size_t i = 0; i < count; i++)
    line = wl_format("%s %.*s=%.*s", line.at, WL_F(fields[i].name), WL_F(fields[i].value));
  wl_fake_host.log[next(&wl_fake_host.log_count)] = line.at;
}

void wl_import_run_id(wl_abi_string *to) { *to = lend(wl_fake_host.run_id); }
void wl_import_workflow(wl_abi_string *to) { *to = lend(wl_fake_host.workflow); }
void wl_import_trigger_id(wl_abi_string *to) { *to = lend(wl_fake_host.trigger_id); }
void wl_import_idempotency_key(wl_abi_string *to) { *to = lend(wl_fake_host.idempotency_key); }
void wl_import_node_id(wl_abi_maybe_string *to) { *to = lend_maybe(wl_fake_host.node_id); }
void wl_import_correlation_id(wl_abi_maybe_string *to) {
  *to = lend_maybe(wl_fake_host.correlation_id);
}
void wl_import_trace_parent(wl_abi_maybe_string *to) { *to = lend_maybe(wl_fake_host.trace_parent); }
uint32_t wl_import_attempt(void) { return wl_fake_host.attempt; }
uint32_t wl_import_cancelled(void) { return wl_fake_host.is_cancelled; }
uint64_t wl_import_deadline(void) { return wl_fake_host.now_ms + 10000; }
uint64_t wl_import_now(void) { return wl_fake_host.now_ms; }
uint64_t wl_import_monotonic_ns(void) { return wl_fake_host.now_ms * 1000000; }
uint64_t wl_import_random(void) { return wl_fake_host.random++; }

void wl_import_random_bytes(uint32_t length, wl_abi_string *to) {
  char *bytes = wl_alloc((size_t)length + 1);
  for (uint32_t i = 0; i < length; i++) bytes[i] = (char)wl_fake_host.random++;
  *to = (wl_abi_string){bytes, length};
}

void wl_import_resume_token(const char *bookmark, size_t length, wl_abi_maybe_string *to) {
  *to = lend_maybe(wl_format("token-%.*s", (int)length, bookmark).at);
}

void wl_import_progress(double fraction, const char *note, size_t length) {
  wl_log(WL_INFO, "%g %.*s", fraction, (int)length, note);
}

void wl_import_resumption(wl_abi_resumption *to) {
  static const char *const REASONS[] = {"again", "resumed", "expired", "cancelled"};
  const wl_json *it = wl_fake_host.resumption;
  *to = (wl_abi_resumption){.some = it != NULL};
  const char *reason = wl_as_string(wl_get(it, "reason"), "again");
  uint8_t *tag = &to->value.reason.tag;
  while (*tag < WL_BY_OTHER && strcmp(REASONS[*tag], reason)) ++*tag;
  wl_abi_string bookmark = lend(wl_as_string(wl_get(it, "bookmark"), ""));
  if (*tag == WL_BY_EXPIRY) to->value.reason.value.text = bookmark;
  if (*tag == WL_BY_BOOKMARK) {
    to->value.reason.value.resumed.bookmark = bookmark;
    const wl_json *input = wl_get(it, "input");
    to->value.reason.value.resumed.input = lend_payload(input ? input : wl_null()).value;
    to->value.reason.value.resumed.metadata = lend_payload(wl_get(it, "metadata"));
  }
  to->value.state = lend_payload(wl_get(it, "state"));
  to->value.phase = (uint32_t)wl_as_int(wl_get(it, "phase"), 1);
}

void wl_import_memory(const char *path, size_t length, wl_abi_memory *to) {
  *to = (wl_abi_memory){0};
  to->value.found = lend_payload(wl_get(wl_fake_host.memory, copy_of(path, length)));
}

void wl_import_fetch(const char *method, size_t method_length, const char *url, size_t url_length,
                     const wl_abi_header *headers, size_t header_count, uint32_t has_body,
                     uint32_t is_text, const char *body, size_t body_length, uint32_t has_timeout,
                     uint64_t timeout, uint32_t has_most, uint64_t most, uint32_t has_redirects,
                     uint32_t redirects, wl_abi_fetched *to) {
  (void)is_text, (void)has_timeout, (void)has_most, (void)has_redirects;
  wl_request it = {.method = copy_of(method, method_length), .url = copy_of(url, url_length)};
  for (size_t i = 0; i < header_count && i < WL_HEADERS_MAX; i++) {
    const char *value = copy_of(headers[i].value.at, headers[i].value.length);
    it.headers[i].name = copy_of(headers[i].name.at, headers[i].name.length);
    *(headers[i].is_secret ? &it.headers[i].secret : &it.headers[i].value) = value;
  }
  if (has_body) it.body = wl_format("%.*s", (int)body_length, body);
  it.timeout_ms = timeout, it.max_bytes = most, it.max_redirects = redirects;
  const wl_response *answer = wl_fake_host.fetch ? wl_fake_host.fetch(&it) : NULL;
  *to = (wl_abi_fetched){.is_error = answer == NULL};
  if (!answer) {
    to->value.error.value.text = lend("the test has no answer");
    return;
  }
  wl_abi_field *fields = wl_alloc(answer->header_count * sizeof *fields);
  for (size_t i = 0; i < answer->header_count; i++)
    fields[i] = (wl_abi_field){lend(answer->headers[i].name), lend(answer->headers[i].value)};
  wl_text content = wl_format("%.*s", WL_F(answer->body));
  to->value.response.status = answer->status;
  to->value.response.headers = (wl_abi_list){fields, answer->header_count};
  to->value.response.body = (wl_abi_string){content.at, content.length};
}

// A blob by its reference, `blob-N`; NULL if there is none.
static wl_text *blob_at(const char *blob, size_t length) {
  for (size_t i = 0; i < wl_fake_host.blob_count; i++)
    if (!strcmp(wl_format("blob-%zu", i).at, copy_of(blob, length))) return &wl_fake_host.blobs[i];
  return NULL;
}

void wl_import_blob_size(const char *blob, size_t length, wl_abi_blob_size *to) {
  wl_text *found = blob_at(blob, length);
  *to = (wl_abi_blob_size){.is_error = !found};
  if (found) to->value.size = found->length;
}

void wl_import_blob_read(const char *blob, size_t length, uint64_t offset, uint32_t count,
                         wl_abi_blob *to) {
  wl_text *found = blob_at(blob, length);
  *to = (wl_abi_blob){.is_error = !found};
  if (!found || offset >= found->length) return;
  size_t rest = found->length - (size_t)offset;
  wl_text part = wl_format("%.*s", (int)(count < rest ? count : rest), found->at + offset);
  to->value.bytes = (wl_abi_string){part.at, part.length};
}

void wl_import_blob_begin(wl_abi_blob *to) {
  *to = (wl_abi_blob){0};
  to->value.writer = (uint32_t)next(&wl_fake_host.blob_count);
}

void wl_import_blob_append(uint32_t writer, const char *bytes, size_t length, wl_abi_blob *to) {
  *to = (wl_abi_blob){.is_error = writer >= wl_fake_host.blob_count};
  if (to->is_error) return;
  wl_text *it = &wl_fake_host.blobs[writer];
  *it = wl_format("%.*s%.*s", WL_F(*it), (int)length, bytes);
}

void wl_import_blob_finish(uint32_t writer, wl_abi_blob *to) {
  *to = (wl_abi_blob){.is_error = writer >= wl_fake_host.blob_count};
  if (!to->is_error) to->value.bytes = lend(wl_format("blob-%u", writer).at);
}

static void take(wl_json *event, const wl_abi_payload *payload, bool has_payload, const char *name,
                 wl_abi_sent *to) {
  *to = (wl_abi_sent){.is_error = !wl_fake_host.grants_events};
  if (to->is_error) return;
  if (has_payload) {
    wl_text text = {payload->body.at, payload->body.length};
    wl_set(event, name, wl_parse(text, NULL));
  }
  wl_fake_host.sent[next(&wl_fake_host.sent_count)] = event;
}

void wl_import_send(const wl_abi_stimulus *it, wl_abi_sent *to) {
  wl_json *event = wl_object();
  wl_set(event, "name", wl_string(copy_of(it->name.at, it->name.length)));
  take(event, &it->input.value, it->input.some, "input", to);
}

void wl_import_schedule(const char *node, size_t node_length, uint64_t at, uint32_t has_payload,
                        uint32_t typed, const char *type, size_t type_length, uint32_t tag,
                        const char *payload, size_t length, wl_abi_sent *to) {
  (void)typed, (void)type, (void)type_length, (void)tag;
  wl_json *event = wl_object();
  wl_set(event, "node", wl_string(copy_of(node, node_length)));
  wl_set(event, "at", wl_int((int64_t)at));
  wl_abi_payload it = {.body = {payload, length}};
  take(event, &it, has_payload, "payload", to);
}
