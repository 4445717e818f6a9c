#include "plugin.h"

static wl_outcome *echo(const wl_call *call) {
  const char *port = wl_as_string(wl_get(call->config, "port"), NULL);
  return port ? wl_done_by(call->input, port) : wl_done(call->input);
}

const wl_node echo_node = {
    .name = "echo",
    .title = "Echo",
    .run = echo,
    .config = WL_JSON({"type": "object", "properties": {"port": {"type": "string", "pattern": "\\w"}}}),
    .ports = {"done", "other"},
};

static wl_outcome *poll(const wl_call *call) {
  (void)call;
  const wl_resumption *resumed = wl_resumed();
  int64_t polls = resumed ? wl_as_int(wl_get(resumed->state, "polls"), 0) : 0;
  wl_json *state = wl_set(wl_object(), "polls", wl_int(polls + 1));
  return polls == 2 ? wl_done(state) : wl_again(10, state);
}

const wl_node poll_node = {.name = "poll", .run = poll, .suspends = true};

static wl_outcome *ask(const wl_call *call) {
  const wl_resumption *resumed = wl_resumed();
  if (resumed && resumed->reason == WL_BY_BOOKMARK) return wl_done(resumed->input);
  if (resumed) return wl_permanent("%s expired", resumed->bookmark);
  wl_bookmark approved = {.name = "approved", .match = call->input, .is_private = true, .expires_ms = 99};
  return wl_suspend(&approved, 1, call->config);
}

const wl_node ask_node = {.name = "ask", .run = ask, .suspends = true};

static wl_outcome *fail(const wl_call *call) {
  const char *how = wl_as_string(call->input, "");
  if (how[0] == 'i') return wl_position(wl_invalid("wrong \xff"), NULL, 3, 4);
  if (how[0] == 'r') return wl_after(wl_code(wl_retryable("busy"), "busy"), 1500);
  if (how[0] == 'c') return wl_cancelled();
  if (how[0] == 'd') return wl_details(wl_permanent("deep"), wl_bytes("text/csv", wl_text_of("a")));
  if (how[0] == 'u') return wl_done(wl_string("\xff"));
  if (how[0] == 'x') return wl_handled();
  if (how[0] == 'b') return wl_done(wl_bytes("text/csv", wl_text_of("\xff\xfe")));
  return NULL;
}

const wl_node fail_node = {.name = "fail", .run = fail};

static wl_outcome *reach(const wl_call *call) {
  wl_outcome *failure = NULL;
  const char *url = wl_as_string(wl_get(call->config, "url"), "https://me:secret@api.example/a?key=1");
  const char *secret = wl_as_string(wl_get(call->config, "secret"), NULL);
  wl_request request = {
      .method = "POST",
      .url = url,
      .headers = {{.name = "authorization", .value = "none", .secret = secret}},
      .json = call->input,
      .timeout_ms = 5000,
  };
  const wl_response *answer = wl_fetch(&request, &failure);
  if (!answer) return failure;
  if ((failure = wl_status_failure(answer))) return failure;
  const char *blob = wl_blob_write(answer->body, &failure);
  if (!blob) return failure;
  wl_stimulus paid = {.name = "paid", .input = wl_string_of(wl_blob_read(blob, 1, 2, &failure))};
  if (!wl_send(&paid, &failure)) return failure;
  wl_field field = {"size", wl_format("%llu", (unsigned long long)wl_blob_size(blob, &failure)).at};
  wl_log_fields(WL_WARN, wl_header_of(answer, "x-id"), &field, 1);
  return wl_done(wl_memory("vars.user", &failure));
}

const wl_node reach_node = {.name = "reach", .run = reach, .capabilities = {"http", "events"}};

// All functions of the host that need no grant, and one that does.
static wl_outcome *look(const wl_call *call) {
  (void)call;
  wl_outcome *failure = NULL;
  wl_json *it = wl_object();
  const char *blob = wl_blob_write((wl_text){"a\0bc", 4}, &failure);
  if (!blob) return failure;
  wl_text part = wl_blob_read(blob, 1, 2, &failure);
  wl_set(it, "size", wl_int((int64_t)wl_blob_size(blob, &failure)));
  wl_set(it, "part", wl_string_of(part));
  wl_set(it, "user", wl_memory("input.user", &failure));
  wl_set(it, "none", wl_bool(!wl_memory("vars.none", &failure)));
  if (failure) return failure;
  wl_schedule("it", wl_now_ms(), NULL, &failure);
  wl_set(it, "refused", failure ? wl_get(failure->details, "code") : NULL);
  failure = NULL;
  wl_memory("nothing", &failure);
  wl_set(it, "path", failure ? wl_get(failure->details, "code") : NULL);
  wl_set(it, "run", wl_int((int64_t)wl_text_of(wl_run_id()).length));
  wl_set(it, "node", wl_string(wl_node_id()));
  wl_set(it, "workflow", wl_string(wl_workflow()));
  wl_set(it, "attempt", wl_int(wl_attempt()));
  wl_set(it, "keyed", wl_bool(*wl_idempotency_key() && *wl_trigger_id()));
  wl_set(it, "correlation", wl_bool(wl_correlation_id() != NULL));
  wl_set(it, "in-time", wl_bool(wl_deadline_ms() > wl_now_ms() && wl_now_ms() > 1700000000000));
  wl_set(it, "chance", wl_bool(wl_random() != wl_random() && wl_random_bytes(17).length == 17));
  wl_set(it, "clock", wl_bool(wl_monotonic_ns() <= wl_monotonic_ns()));
  wl_set(it, "cancelled", wl_bool(wl_is_cancelled()));
  wl_progress(0.5, "half");
  return wl_done(it);
}

const wl_node look_node = {.name = "look", .run = look, .capabilities = {"events"}};

static wl_outcome *admit(const wl_trigger *trigger) {
  if (wl_get(trigger->payload, "handled")) return wl_handled();
  if (wl_get(trigger->payload, "later")) return wl_later(5);
  if (wl_get(trigger->payload, "broken")) return wl_retryable("broken");
  if (wl_get(trigger->payload, "refused")) return wl_reject("refused");
  return wl_execute(wl_set(wl_object(), "accepted", wl_string(trigger->kind)));
}

const wl_consumer gate = {.accept = admit, .routes = {"script"}};

static void check_echo(const wl_json *config, const wl_json *unknown) {
  if (wl_count(unknown)) wl_warning("/port", "%s is not known", wl_as_string(wl_at(unknown, 0), ""));
  if (wl_get(config, "prot")) wl_error("/prot", "`prot` is no member")->line = 2;
}

static const wl_node checked = {.name = "checked", .run = echo, .check = check_echo};

WL_PLUGIN(.package = "script", .version = "1.0.0", .title = "Test")
WL_NODES(&echo_node, &poll_node, &ask_node, &fail_node, &reach_node, &look_node, &checked)
WL_CONSUMER(&gate)
WL_CHECKS
