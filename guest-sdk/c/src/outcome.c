// Outcomes of nodes and decisions of consumers, as authors make them.

#include "internal.h"

static wl_outcome *make(wl_result result, const wl_json *value) {
  wl_outcome *outcome = wl_alloc(sizeof *outcome);
  outcome->result = result;
  outcome->value = value;
  return outcome;
}

static wl_outcome *make_failed(wl_result result, wl_class error, const char *format,
                               va_list arguments) {
  wl_outcome *outcome = make(result, NULL);
  outcome->error = error;
  outcome->message = wl_format_list(format, arguments);
  return outcome;
}

wl_outcome *wl_done(const wl_json *output) { return make(WL_DONE, output); }

wl_outcome *wl_done_by(const wl_json *output, const char *port) {
  wl_outcome *outcome = make(WL_DONE, output);
  outcome->ports[0] = port;
  return outcome;
}

wl_outcome *wl_again(uint64_t after_ms, const wl_json *state) {
  return wl_after(make(WL_AGAIN, state), after_ms);
}

wl_outcome *wl_suspend(const wl_bookmark *bookmarks, size_t count, const wl_json *state) {
  // The author's bookmarks may be on the stack.
  wl_bookmark *kept = wl_alloc(count * sizeof *kept);
  for (size_t i = 0; i < count; i++) kept[i] = bookmarks[i];
  wl_outcome *outcome = make(WL_SUSPEND, state);
  outcome->bookmarks = kept;
  outcome->bookmark_count = count;
  return outcome;
}

wl_outcome *wl_fail(wl_class error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  wl_outcome *outcome = make_failed(WL_FAILED, error, format, arguments);
  va_end(arguments);
  return outcome;
}

wl_outcome *wl_reject(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  wl_outcome *outcome = make_failed(WL_REJECT, WL_OTHER, format, arguments);
  va_end(arguments);
  return outcome;
}

wl_outcome *wl_after(wl_outcome *outcome, uint64_t after_ms) {
  outcome->after_ms = after_ms;
  return outcome;
}

wl_outcome *wl_details(wl_outcome *failure, wl_json *details) {
  failure->details = details;
  return failure;
}

wl_outcome *wl_code(wl_outcome *failure, const char *code) {
  if (!failure->details) failure->details = wl_object();
  wl_set(failure->details, "code", wl_string(code));
  return failure;
}

wl_outcome *wl_position(wl_outcome *failure, const char *source, uint32_t line, uint32_t column) {
  failure->source = source;
  failure->line = line;
  failure->column = column;
  return failure;
}

wl_outcome *wl_execute(const wl_json *vars) { return make(WL_EXECUTE, vars); }
wl_outcome *wl_handled(void) { return make(WL_HANDLED, NULL); }
wl_outcome *wl_later(uint64_t after_ms) { return wl_after(make(WL_LATER, NULL), after_ms); }
