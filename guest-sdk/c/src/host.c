// The functions of the host for authors. A component imports those that its code reaches: the linker
// removes the others.

#include "internal.h"

// Logging ----------------------------------------------------------------------------------------

void wl_log(wl_level level, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  wl_abi_string line = wl_lower(wl_format_list(format, arguments));
  va_end(arguments);
  wl_import_log(level, line.at, line.length, NULL, 0);
}

void wl_log_fields(wl_level level, const char *message, const wl_field *fields, size_t count) {
  wl_abi_field *lowered = wl_alloc(count * sizeof *lowered);
  for (size_t i = 0; i < count; i++) {
    lowered[i].name = wl_lower(wl_text_of(fields[i].name));
    lowered[i].value = wl_lower(wl_text_of(fields[i].value));
  }
  wl_abi_string line = wl_lower(wl_text_of(message));
  wl_import_log(level, line.at, line.length, lowered, count);
}

// Context ----------------------------------------------------------------------------------------

#define TEXT(name) \
  const char *wl_##name(void) { \
    wl_abi_string it = {0}; \
    wl_import_##name(&it); \
    return wl_lift(it); \
  }
#define MAYBE_TEXT(name) \
  const char *wl_##name(void) { \
    wl_abi_maybe_string it = {0}; \
    wl_import_##name(&it); \
    return it.some ? wl_lift(it.value) : NULL; \
  }

TEXT(run_id)
TEXT(workflow)
TEXT(trigger_id)
TEXT(idempotency_key)
MAYBE_TEXT(node_id)
MAYBE_TEXT(correlation_id)
MAYBE_TEXT(trace_parent)

uint32_t wl_attempt(void) { return wl_import_attempt(); }
uint64_t wl_deadline_ms(void) { return wl_import_deadline(); }
bool wl_is_cancelled(void) { return wl_import_cancelled() != 0; }

const char *wl_resume_token(const char *bookmark) {
  wl_abi_string name = wl_lower(wl_text_of(bookmark));
  wl_abi_maybe_string it = {0};
  wl_import_resume_token(name.at, name.length, &it);
  return it.some ? wl_lift(it.value) : NULL;
}

void wl_progress(double fraction, const char *note) {
  wl_abi_string text = wl_lower(wl_text_of(note));
  wl_import_progress(fraction, text.at, text.length);
}

const wl_resumption *wl_resumed(void) {
  wl_abi_resumption it = {0};
  wl_import_resumption(&it);
  if (!it.some) return NULL;
  const wl_abi_reason *reason = &it.value.reason;
  wl_resumption *to = wl_alloc(sizeof *to);
  to->reason = (wl_reason)reason->tag;
  to->phase = it.value.phase;
  to->state = wl_lift_maybe(&it.value.state);
  if (to->reason == WL_BY_EXPIRY) to->bookmark = wl_lift(reason->value.text);
  if (to->reason == WL_BY_BOOKMARK) {
    to->bookmark = wl_lift(reason->value.resumed.bookmark);
    wl_abi_maybe_payload input = {true, reason->value.resumed.input};
    to->input = wl_lift_maybe(&input);
    to->metadata = wl_lift_maybe(&reason->value.resumed.metadata);
  }
  return to;
}

// Errors of the host -----------------------------------------------------------------------------

// A case of an error: the class of a node that fails with it, its name, and a sentence.
typedef struct {
  wl_class class;
  const char *name, *says;
} refusal;

// Sets a failure like `GET http://… is not granted: TEXT`, with the code `http.denied`.
static void refuse(wl_outcome **failure, const char *area, const refusal *refusals, size_t count,
                   uint8_t tag, wl_text subject, wl_text why) {
  if (!failure) return;
  static const refusal OTHER = {WL_OTHER, "other", "failed"};
  const refusal *it = tag < count ? &refusals[tag] : &OTHER;
  *failure = wl_fail(it->class, "%.*s %s%s%.*s", WL_F(subject), it->says, why.length ? ": " : "",
                     WL_F(why));
  wl_code(*failure, wl_format("%s.%s", area, it->name).at);
}

#define REFUSE(failure, area, refusals, tag, subject, why) \
  refuse(failure, area, refusals, sizeof refusals / sizeof *refusals, tag, subject, why)

static wl_text lifted(wl_abi_string text) { return (wl_text){wl_lift(text), text.length}; }

// HTTP -------------------------------------------------------------------------------------------

enum { HTTP_TOO_LARGE = 3, HTTP_TIMEOUT = 2 };
static const refusal HTTP[] = {
    {WL_PERMANENT, "denied", "is not granted"},
    {WL_INVALID, "invalid", "is malformed"},
    {WL_RETRYABLE, "timeout", "got no answer in time"},
    {WL_PERMANENT, "too-large", "answered more than the bytes allowed"},
    {WL_RETRYABLE, "unreachable", "could not be reached"},
    {WL_PERMANENT, "no-secret", "needs a secret that is unknown or not granted"},
    {WL_PERMANENT, "limit", "is over a limit"},
};

// A request in messages: the query and the user may be confidential.
static wl_text shown(const char *method, const char *url) {
  size_t length = 0, begin = 0;
  while (url[length] && url[length] != '?' && url[length] != '#') length++;
  for (size_t i = 0; i + 2 < length && !begin; i++)
    if (url[i] == ':' && url[i + 1] == '/' && url[i + 2] == '/') begin = i + 3;
  size_t user = begin;
  for (size_t i = begin; begin && i < length && url[i] != '/'; i++)
    if (url[i] == '@') user = i + 1;
  return wl_format("%s %.*s%.*s", method, (int)begin, url, (int)(length - user), url + user);
}

const wl_response *wl_fetch(const wl_request *request, wl_outcome **failure) {
  const char *method = request->method ? request->method : "GET";
  const char *address = request->url ? request->url : "";
  wl_abi_header *headers = wl_alloc((WL_HEADERS_MAX + 1) * sizeof *headers);
  size_t count = 0;
  for (; count < WL_HEADERS_MAX && request->headers[count].name; count++) {
    const wl_header *it = &request->headers[count];
    headers[count].name = wl_lower(wl_text_of(it->name));
    headers[count].is_secret = it->secret != NULL;
    headers[count].value = wl_lower(wl_text_of(it->secret ? it->secret : it->value));
  }
  wl_text body = request->body, subject = shown(method, address);
  if (request->json) {
    wl_fault fault = {0};
    body = wl_write(request->json, &fault);
    if (fault.message) {
      if (failure) *failure = wl_fail(WL_OTHER, "%.*s: the body: %s", WL_F(subject), fault.message);
      return NULL;
    }
    headers[count].name = wl_lower(wl_text_of("content-type"));
    headers[count++].value = wl_lower(wl_text_of("application/json"));
  }
  wl_abi_string lowered = wl_lower(wl_text_of(method)), url = wl_lower(wl_text_of(address));
  wl_abi_fetched it = {0};
  wl_import_fetch(lowered.at, lowered.length, url.at, url.length, headers, count, body.at != NULL,
                  false, body.at, body.length, request->timeout_ms > 0, request->timeout_ms,
                  request->max_bytes > 0, request->max_bytes, true, request->max_redirects, &it);
  if (it.is_error) {
    uint8_t tag = it.value.error.tag;
    wl_text why = tag == HTTP_TOO_LARGE
        ? wl_format("%llu", (unsigned long long)it.value.error.value.number)
        : tag == HTTP_TIMEOUT ? wl_text_of(NULL)
                              : lifted(it.value.error.value.text);
    REFUSE(failure, "http", HTTP, tag, subject, why);
    return NULL;
  }
  wl_response *response = wl_alloc(sizeof *response);
  const wl_abi_field *fields = it.value.response.headers.at;
  response->header_count = it.value.response.headers.length;
  wl_field *lifted_fields = wl_alloc(response->header_count * sizeof *lifted_fields);
  for (size_t i = 0; i < response->header_count; i++) {
    char *name = (char *)wl_lift(fields[i].name);
    for (char *c = name; *c; c++)
      if (*c >= 'A' && *c <= 'Z') *c |= 32;
    lifted_fields[i] = (wl_field){name, wl_lift(fields[i].value)};
  }
  response->status = it.value.response.status;
  response->headers = lifted_fields;
  response->body = lifted(it.value.response.body);
  return response;
}

static bool is_same(const char *one, const char *other) {
  size_t length = __builtin_strlen(one);
  return length == __builtin_strlen(other) && !__builtin_memcmp(one, other, length);
}

const char *wl_header_of(const wl_response *response, const char *name) {
  for (size_t i = 0; i < response->header_count; i++)
    if (is_same(response->headers[i].name, name)) return response->headers[i].value;
  return NULL;
}

wl_outcome *wl_status_failure(const wl_response *response) {
  unsigned status = response->status;
  if (status < 400) return NULL;
  bool again = status == 408 || status == 425 || status == 429 || status >= 500;
  wl_outcome *failure =
      wl_fail(again ? WL_RETRYABLE : WL_PERMANENT, "the service answered %u", status);
  wl_details(failure, wl_set(wl_object(), "status", wl_int(status)));
  const char *wait = wl_header_of(response, "retry-after");
  int64_t seconds = wait ? wl_as_int(wl_parse(wl_text_of(wait), NULL), 0) : 0;
  // Of a date or a nonsense, nothing is known.
  if (again && seconds > 0 && seconds < 1000000000) wl_after(failure, (uint64_t)seconds * 1000);
  return failure;
}

// Memory and blobs -------------------------------------------------------------------------------

enum { MEMORY_TOO_LARGE = 1 };
static const refusal MEMORY[] = {
    {WL_INVALID, "invalid-path", "is no path of data"},
    {WL_PERMANENT, "too-large", "has more bytes than a payload may have"},
};

const wl_json *wl_memory(const char *path, wl_outcome **failure) {
  wl_abi_string text = wl_lower(wl_text_of(path));
  wl_abi_memory it = {0};
  wl_import_memory(text.at, text.length, &it);
  if (!it.is_error) return wl_lift_maybe(&it.value.found);
  const wl_abi_error *error = &it.value.error;
  wl_text why = error->tag == MEMORY_TOO_LARGE
      ? wl_format("%llu", (unsigned long long)error->value.number)
      : lifted(error->value.text);
  REFUSE(failure, "memory", MEMORY, error->tag, wl_format("memory %s", path), why);
  return NULL;
}

static const refusal BLOBS[] = {
    {WL_PERMANENT, "not-found", "does not exist"},
    {WL_PERMANENT, "limit", "is over a limit"},
};

static void refuse_blob(wl_outcome **failure, const wl_abi_text_error *error, const char *blob) {
  REFUSE(failure, "blobs", BLOBS, error->tag, wl_format("the blob %s", blob), lifted(error->text));
}

uint64_t wl_blob_size(const char *reference, wl_outcome **failure) {
  wl_abi_string text = wl_lower(wl_text_of(reference));
  wl_abi_blob_size it = {0};
  wl_import_blob_size(text.at, text.length, &it);
  if (it.is_error) return refuse_blob(failure, &it.value.error, reference), 0;
  return it.value.size;
}

wl_text wl_blob_read(const char *reference, uint64_t offset, uint32_t length,
                     wl_outcome **failure) {
  wl_abi_string text = wl_lower(wl_text_of(reference));
  wl_abi_blob it = {0};
  wl_import_blob_read(text.at, text.length, offset, length, &it);
  if (it.is_error) return refuse_blob(failure, &it.value.error, reference), wl_text_of(NULL);
  return lifted(it.value.bytes);
}

bool wl_blob_begin(uint32_t *writer, wl_outcome **failure) {
  wl_abi_blob it = {0};
  wl_import_blob_begin(&it);
  if (it.is_error) return refuse_blob(failure, &it.value.error, "to write"), false;
  *writer = it.value.writer;
  return true;
}

bool wl_blob_append(uint32_t writer, wl_text bytes, wl_outcome **failure) {
  wl_abi_blob it = {0};
  wl_import_blob_append(writer, bytes.at, bytes.length, &it);
  if (it.is_error) return refuse_blob(failure, &it.value.error, "to write"), false;
  return true;
}

const char *wl_blob_finish(uint32_t writer, wl_outcome **failure) {
  wl_abi_blob it = {0};
  wl_import_blob_finish(writer, &it);
  if (it.is_error) return refuse_blob(failure, &it.value.error, "to write"), NULL;
  return wl_lift(it.value.bytes);
}

const char *wl_blob_write(wl_text bytes, wl_outcome **failure) {
  uint32_t writer;
  if (!wl_blob_begin(&writer, failure) || !wl_blob_append(writer, bytes, failure)) return NULL;
  return wl_blob_finish(writer, failure);
}

// Events -----------------------------------------------------------------------------------------

static const refusal EVENTS[] = {
    {WL_PERMANENT, "unavailable", "is not granted"},
    {WL_INVALID, "invalid", "is malformed"},
    {WL_PERMANENT, "limit", "is over a limit"},
};

static bool sent(const wl_abi_sent *it, wl_text subject, wl_outcome **failure) {
  if (it->is_error)
    REFUSE(failure, "events", EVENTS, it->error.tag, subject, lifted(it->error.text));
  return !it->is_error;
}

static bool unwritable(const char *why, wl_text subject, wl_outcome **failure) {
  if (why && failure) *failure = wl_fail(WL_OTHER, "%.*s: %s", WL_F(subject), why);
  return why != NULL;
}

bool wl_send(const wl_stimulus *stimulus, wl_outcome **failure) {
  const char *name = stimulus->name ? stimulus->name : "";
  wl_text subject = wl_format("the stimulus %s", name);
  wl_abi_stimulus it = {
      .name = wl_lower(wl_text_of(name)),
      .correlation = wl_lower_maybe(stimulus->correlation),
      .run = wl_lower_maybe(stimulus->run),
  };
  const char *why = wl_lower_maybe_payload(stimulus->match, &it.match);
  if (!why) why = wl_lower_maybe_payload(stimulus->input, &it.input);
  if (unwritable(why, subject, failure)) return false;
  wl_abi_sent answer = {0};
  wl_import_send(&it, &answer);
  return sent(&answer, subject, failure);
}

bool wl_schedule(const char *node, uint64_t at_ms, const wl_json *payload, wl_outcome **failure) {
  wl_text subject = wl_format("the trigger of %s", node);
  wl_abi_string name = wl_lower(wl_text_of(node));
  wl_abi_maybe_payload it;
  if (unwritable(wl_lower_maybe_payload(payload, &it), subject, failure)) return false;
  wl_abi_sent answer = {0};
  wl_import_schedule(name.at, name.length, at_ms, it.some, it.value.content_type.some,
                     it.value.content_type.value.at, it.value.content_type.value.length,
                     it.value.tag, it.value.body.at, it.value.body.length, &answer);
  return sent(&answer, subject, failure);
}

// Time and chance --------------------------------------------------------------------------------

uint64_t wl_now_ms(void) { return wl_import_now(); }
uint64_t wl_monotonic_ns(void) { return wl_import_monotonic_ns(); }
uint64_t wl_random(void) { return wl_import_random(); }

wl_text wl_random_bytes(uint32_t length) {
  wl_abi_string it = {0};
  wl_import_random_bytes(length, &it);
  return lifted(it);
}
