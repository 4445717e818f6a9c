// The calls of the host: arguments to values, the author's function, and its answer back.

#include "internal.h"

#ifdef __wasm__
void wl_panic(const char *message) {
  // The host adds the last line of the log to the message of the crash.
  wl_import_log(WL_ERROR, message, __builtin_strlen(message), NULL, 0);
  __builtin_trap();
}
#endif

// The memory of the call lives until the host has read the answer.
void wl_abi_end(void) { wl_free_all(); }

static wl_abi_payload payload_of(WL_PAYLOAD(it)) {
  return (wl_abi_payload){{it_typed != 0, {it_type, it_type_length}}, (uint8_t)it_tag, {it, it_length}};
}

// A payload of JSON as a value; NULL and a failure if it is none.
static const wl_json *value_of(const wl_abi_payload *payload, const char *name,
                               wl_outcome **failure) {
  wl_fault fault = {0};
  const wl_json *value = wl_lift_payload(payload, &fault);
  if (!value)
    *failure = wl_invalid("the %s is no JSON: %s, at byte %zu", name, fault.message, fault.offset);
  return value;
}

static const wl_node *node_of(wl_text type) {
  for (const wl_node *const *it = wl_nodes; *it; it++) {
    size_t length = __builtin_strlen((*it)->name), before = type.length - length;
    bool is_long = type.length > length && type.at[before - 1] == '/';
    if (is_long && !__builtin_memcmp(type.at + before, (*it)->name, length)) return *it;
  }
  return NULL;
}

static wl_abi_maybe_position position_of(const char *source, uint32_t line, uint32_t column) {
  return (wl_abi_maybe_position){line > 0, {wl_lower_maybe(source), line, column ? column : 1}};
}

static wl_abi_failure failure_of(const wl_outcome *outcome) {
  wl_abi_failure it = {
      .message = wl_lower(outcome->message),
      .position = position_of(outcome->source, outcome->line, outcome->column),
  };
  const char *why = wl_lower_maybe_payload(outcome->details, &it.details);
  if (!why) return it;
  it.details.some = false;
  it.message = wl_lower(wl_format("%.*s (its details cannot be sent: %s)", WL_F(outcome->message), why));
  return it;
}

// Nodes ------------------------------------------------------------------------------------------

// Returns why the answer cannot be sent, or NULL.
static const char *lower_bookmarks(const wl_outcome *from, wl_abi_list *to) {
  if (!from->bookmark_count) return "a suspension has no bookmark";
  wl_abi_bookmark *list = wl_alloc(from->bookmark_count * sizeof *list);
  *to = (wl_abi_list){list, from->bookmark_count};
  const char *why = NULL;
  for (size_t i = 0; i < from->bookmark_count && !why; i++) {
    const wl_bookmark *it = &from->bookmarks[i];
    list[i].name = wl_lower(wl_text_of(it->name));
    list[i].correlation = wl_lower_maybe(it->correlation);
    list[i].is_private = (wl_abi_maybe_bool){true, it->is_private};
    list[i].auto_burn = (wl_abi_maybe_bool){true, !it->stays};
    list[i].expires = (wl_abi_maybe_u64){it->expires_ms > 0, it->expires_ms};
    why = wl_lower_maybe_payload(it->match, &list[i].match);
    if (!why) why = wl_lower_maybe_payload(it->metadata, &list[i].metadata);
  }
  return why;
}

static void lower_ports(const wl_outcome *from, wl_abi_list *to) {
  wl_abi_string *ports = wl_alloc(WL_PORTS_MAX * sizeof *ports);
  size_t count = 0;
  for (; count < WL_PORTS_MAX && from->ports[count]; count++)
    ports[count] = wl_lower(wl_text_of(from->ports[count]));
  *to = (wl_abi_list){ports, count};
}

static const char *lower_outcome(const wl_outcome *from, wl_abi_outcome *to) {
  *to = (wl_abi_outcome){.tag = (uint8_t)from->result};
  switch (from->result) {
  case WL_DONE:
    lower_ports(from, &to->value.done.ports);
    return wl_lower_payload(from->value, &to->value.done.output);
  case WL_SUSPEND: {
    const char *why = lower_bookmarks(from, &to->value.suspend.bookmarks);
    return why ? why : wl_lower_maybe_payload(from->value, &to->value.suspend.state);
  }
  case WL_AGAIN:
    to->value.again.after = from->after_ms;
    return wl_lower_maybe_payload(from->value, &to->value.again.state);
  default: return "the outcome is a decision of a consumer";
  }
}

const void *wl_abi_executed_of(const wl_outcome *outcome) {
  wl_abi_executed *it = wl_alloc(sizeof *it);
  if (!outcome) outcome = wl_fail(WL_OTHER, "the node returned NULL in place of an outcome");
  if (outcome->result != WL_FAILED) {
    const char *why = lower_outcome(outcome, &it->value.outcome);
    if (!why) return it;
    *it = (wl_abi_executed){0};
    outcome = wl_fail(WL_OTHER, "the outcome cannot be sent: %s", why);
  }
  it->is_error = true;
  it->value.error.tag = (uint8_t)outcome->error;
  if (outcome->error != WL_CANCELLED) it->value.error.value.failure = failure_of(outcome);
  bool has_delay = outcome->error == WL_RETRYABLE && outcome->after_ms > 0;
  it->value.error.value.after = (wl_abi_maybe_u64){has_delay, outcome->after_ms};
  return it;
}

const void *wl_abi_execute(char *type, size_t type_length, WL_PAYLOAD(config), WL_PAYLOAD(input)) {
  wl_abi_payload given[2] = {payload_of(WL_PASS(config)), payload_of(WL_PASS(input))};
  wl_text name = {type, type_length};
  const wl_node *node = node_of(name);
  if (!node) return wl_abi_executed_of(wl_invalid("the plugin has no node `%.*s`", WL_F(name)));
  wl_outcome *failure = NULL;
  wl_call call = {.node = node->name};
  call.config = value_of(&given[0], "configuration", &failure);
  if (!failure) call.input = value_of(&given[1], "input", &failure);
  return wl_abi_executed_of(failure ? failure : node->run(&call));
}

// Consumers --------------------------------------------------------------------------------------

static const char *lower_decision(const wl_outcome *from, wl_abi_disposition *to) {
  *to = (wl_abi_disposition){.tag = (uint8_t)(from->result - WL_EXECUTE)};
  switch (from->result) {
  case WL_EXECUTE: return wl_lower_maybe_payload(from->value, &to->value.vars);
  case WL_HANDLED: return NULL;
  case WL_LATER: to->value.after = from->after_ms; return NULL;
  case WL_REJECT: to->value.reason = failure_of(from); return NULL;
  default: return "it is an outcome of a node";
  }
}

const void *wl_abi_accepted_of(const wl_outcome *decision) {
  wl_abi_accepted *it = wl_alloc(sizeof *it);
  if (!decision) decision = wl_fail(WL_OTHER, "the consumer returned NULL in place of a decision");
  if (decision->result != WL_FAILED) {
    const char *why = lower_decision(decision, &it->value.disposition);
    if (!why) return it;
    *it = (wl_abi_accepted){0};
    decision = wl_fail(WL_OTHER, "the decision cannot be sent: %s", why);
  }
  it->is_error = true;
  it->value.error.tag = decision->error != WL_RETRYABLE;
  it->value.error.failure = failure_of(decision);
  return it;
}

const void *wl_abi_accept(char *kind, size_t kind_length, uint32_t has_node, char *node,
                          size_t node_length, uint32_t has_payload, WL_PAYLOAD(payload)) {
  wl_abi_payload given = payload_of(WL_PASS(payload));
  wl_outcome *failure = NULL;
  wl_trigger trigger = {.kind = wl_lift((wl_abi_string){kind, kind_length})};
  if (has_node) trigger.node = wl_lift((wl_abi_string){node, node_length});
  if (has_payload) trigger.payload = value_of(&given, "payload of the trigger", &failure);
  if (!wl_consumers[0]) failure = wl_fail(WL_OTHER, "the plugin has no consumer");
  return wl_abi_accepted_of(failure ? failure : wl_consumers[0]->accept(&trigger));
}

// Checks -----------------------------------------------------------------------------------------

// The findings of the call, as the host keeps them.
#define FINDINGS_MAX 64
static struct {
  wl_finding list[FINDINGS_MAX + 1];
  size_t count;
} found;

static wl_finding *find(bool is_warning, const char *pointer, const char *format,
                        va_list arguments) {
  // Those beyond the last one overwrite each other.
  wl_finding *it = &found.list[found.count < FINDINGS_MAX ? found.count++ : FINDINGS_MAX];
  *it = (wl_finding){is_warning, wl_format_list(format, arguments), pointer, 0, 0};
  return it;
}

wl_finding *wl_error(const char *pointer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  wl_finding *it = find(false, pointer, format, arguments);
  va_end(arguments);
  return it;
}

wl_finding *wl_warning(const char *pointer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  wl_finding *it = find(true, pointer, format, arguments);
  va_end(arguments);
  return it;
}

const void *wl_abi_check(char *type, size_t type_length, WL_PAYLOAD(config), void *unknown,
                         size_t unknown_length) {
  wl_abi_payload given = payload_of(WL_PASS(config));
  const wl_node *node = node_of((wl_text){type, type_length});
  wl_outcome *failure = NULL;
  const wl_json *value = value_of(&given, "configuration", &failure);
  wl_json *pointers = wl_list();
  for (size_t i = 0; i < unknown_length; i++) {
    wl_abi_string it = ((wl_abi_string *)unknown)[i];
    wl_add(pointers, wl_string_of((wl_text){it.at, it.length}));
  }
  found.count = 0;
  if (failure) wl_error(NULL, "%.*s", WL_F(failure->message));
  else if (node && node->check) node->check(value, pointers);
  wl_abi_finding *list = wl_alloc(found.count * sizeof *list);
  for (size_t i = 0; i < found.count; i++) {
    const wl_finding *it = &found.list[i];
    list[i] = (wl_abi_finding){it->is_warning, wl_lower(it->message), wl_lower_maybe(it->pointer),
                               position_of(NULL, it->line, it->column)};
  }
  wl_abi_list *answer = wl_alloc(sizeof *answer);
  *answer = (wl_abi_list){list, found.count};
  return answer;
}
