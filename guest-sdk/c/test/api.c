// Nodes, consumers and the functions of the host, above and below the ABI.

#include <string.h>

#include "../src/internal.h"
#include "plugin.h"

static bool is(wl_abi_string text, const char *wanted) {
  return text.length == strlen(wanted) && !memcmp(text.at, wanted, text.length);
}

// Calls a node as a host does: the arguments are memory of the plugin.
static const wl_abi_executed *execute(const char *type, const char *config, const char *input) {
  const char *texts[] = {type, config, input};
  char *given[3];
  for (int i = 0; i < 3; i++) given[i] = (char *)wl_format("%s", texts[i]).at;
  return wl_abi_execute(given[0], strlen(type), 0, NULL, 0, WL_BODY_TEXT, given[1], strlen(config), 0,
                        NULL, 0, WL_BODY_TEXT, given[2], strlen(input));
}

static void the_description_has_what_the_tables_have(void) {
  const wl_abi_payload *it = wl_abi_describe();
  const wl_json *document = wl_parse((wl_text){it->body.at, it->body.length}, NULL);
  WL_CHECK(wl_as_int(wl_get(document, "windlass"), 0) == 1);
  const wl_json *nodes = wl_get(document, "nodes");
  WL_CHECK(wl_count(nodes) == 7);
  WL_CHECK_JSON(wl_at(nodes, 0),
                "{\"name\":\"echo\",\"title\":\"Echo\",\"config\":{\"type\":\"object\",\"properties\":"
                "{\"port\":{\"type\":\"string\",\"pattern\":\"\\\\w\"}}},\"ports\":[\"done\",\"other\"]}");
  WL_CHECK_JSON(wl_get(wl_at(nodes, 4), "capabilities"), "[\"http\",\"events\"]");
  WL_CHECK(wl_as_bool(wl_get(wl_at(nodes, 1), "suspends"), false));
  WL_CHECK_JSON(wl_get(document, "consumer"), "{\"routes\":[\"script\"]}");
}

static void an_output_and_its_ports_are_sent(void) {
  const wl_abi_executed *it = execute("script/echo", "{\"port\":\"other\"}", "{\"a\":[1.50]}");
  WL_CHECK(!it->is_error && it->value.outcome.tag == WL_DONE);
  WL_CHECK(is(it->value.outcome.value.done.output.body, "{\"a\":[1.50]}"));
  const wl_abi_list *ports = &it->value.outcome.value.done.ports;
  WL_CHECK(ports->length == 1 && is(*(wl_abi_string *)ports->at, "other"));
  it = execute("script/fail", "{}", "\"bytes\"");
  WL_CHECK(it->value.outcome.value.done.output.tag == WL_BODY_INLINE);
  WL_CHECK(is(it->value.outcome.value.done.output.content_type.value, "text/csv"));
}

static void failures_have_class_details_and_position(void) {
  const wl_abi_executed *it = execute("script/fail", "{}", "\"invalid\"");
  const wl_abi_failure *failure = &it->value.error.value.failure;
  WL_CHECK(it->is_error && it->value.error.tag == WL_INVALID);
  WL_CHECK(is(failure->message, "wrong \xef\xbf\xbd"));
  WL_CHECK(failure->position.some && failure->position.value.column == 4);
  it = execute("script/fail", "{}", "\"retry\"");
  WL_CHECK(it->value.error.tag == WL_RETRYABLE && it->value.error.value.after.value == 1500);
  WL_CHECK(is(it->value.error.value.failure.details.value.body, "{\"code\":\"busy\"}"));
  WL_CHECK(execute("script/fail", "{}", "\"cancelled\"")->value.error.tag == WL_CANCELLED);
  it = execute("script/fail", "{}", "\"details\"");
  WL_CHECK(it->value.error.tag == WL_PERMANENT);
  WL_CHECK(it->value.error.value.failure.details.value.tag == WL_BODY_INLINE);
}

static void mistakes_of_a_node_are_failures(void) {
  static const char *const INPUTS[] = {"\"utf\"", "\"x\"", "null", "{", "\"\xff\"", ""};
  for (int i = 0; i < 6; i++) {
    const wl_abi_executed *it = execute("script/fail", "{}", INPUTS[i]);
    WL_CHECK(it->is_error && it->value.error.tag == (i < 3 ? WL_OTHER : WL_INVALID));
    WL_CHECK(it->value.error.value.failure.message.length > 0);
  }
  WL_CHECK(execute("script/none", "{}", "1")->value.error.tag == WL_INVALID);
  WL_CHECK(execute("o", "{}", "1")->value.error.tag == WL_INVALID);
}

static void a_node_polls_and_waits(void) {
  WL_CHECK(wl_run(&poll_node, NULL, NULL)->result == WL_AGAIN);
  wl_fake_host.resumption = wl_read("{\"reason\":\"again\",\"state\":{\"polls\":2},\"phase\":2}");
  WL_CHECK_JSON(wl_run(&poll_node, NULL, NULL)->value, "{\"polls\":3}");
  wl_fake_host.resumption = NULL;
  const wl_abi_executed *it = execute("script/ask", "{\"a\":1}", "7");
  const wl_abi_bookmark *bookmark = it->value.outcome.value.suspend.bookmarks.at;
  WL_CHECK(it->value.outcome.tag == WL_SUSPEND && is(bookmark->name, "approved"));
  WL_CHECK(is(bookmark->match.value.body, "7") && bookmark->is_private.value);
  WL_CHECK(bookmark->auto_burn.value && bookmark->expires.value == 99 && !bookmark->metadata.some);
  WL_CHECK(is(it->value.outcome.value.suspend.state.value.body, "{\"a\":1}"));
  wl_fake_host.resumption = wl_read("{\"reason\":\"resumed\",\"bookmark\":\"approved\",\"input\":[1]}");
  WL_CHECK_JSON(wl_run(&ask_node, NULL, NULL)->value, "[1]");
  wl_fake_host.resumption = wl_read("{\"reason\":\"expired\",\"bookmark\":\"approved\"}");
  WL_CHECK(!strcmp(wl_run(&ask_node, NULL, NULL)->message.at, "approved expired"));
}

static uint16_t status;

static const wl_response *answer(const wl_request *request) {
  static const wl_field HEADERS[] = {{"X-Id", "7"}, {"Retry-After", "3"}};
  static wl_response it = {.headers = HEADERS, .header_count = 2, .body = {"body", 4}};
  WL_CHECK(!strcmp(request->method, "POST") && !strcmp(request->headers[0].secret, "KEY"));
  WL_CHECK(!strcmp(request->headers[1].value, "application/json"));
  WL_CHECK(!strcmp(request->body.at, "{\"a\":1}"));
  it.status = status;
  return &it;
}

static void the_functions_of_the_host_work_and_refuse(void) {
  wl_outcome *it = wl_run(&reach_node, "{\"secret\":\"KEY\"}", "{\"a\":1}");
  WL_CHECK(it->error == WL_PERMANENT);
  WL_CHECK(!strcmp(it->message.at, "POST https://api.example/a is not granted: the test has no answer"));
  WL_CHECK_JSON(it->details, "{\"code\":\"http.denied\"}");
  wl_fake_host.fetch = answer;
  status = 503;
  it = wl_run(&reach_node, "{\"secret\":\"KEY\"}", "{\"a\":1}");
  WL_CHECK(it->error == WL_RETRYABLE && it->after_ms == 3000);
  WL_CHECK_JSON(it->details, "{\"status\":503}");
  status = 404;
  WL_CHECK(wl_run(&reach_node, "{\"secret\":\"KEY\"}", "{\"a\":1}")->error == WL_PERMANENT);
  status = 200;
  it = wl_run(&reach_node, "{\"secret\":\"KEY\"}", "{\"a\":1}");
  WL_CHECK_JSON(it->details, "{\"code\":\"events.unavailable\"}");
  wl_fake_host.grants_events = true;
  wl_fake_host.memory = wl_read("{\"vars.user\":\"ada\"}");
  it = wl_run(&reach_node, "{\"secret\":\"KEY\"}", "{\"a\":1}");
  WL_CHECK_JSON(it->value, "\"ada\"");
  WL_CHECK_JSON(wl_fake_host.sent[0], "{\"name\":\"paid\",\"input\":\"od\"}");
  WL_CHECK(!strcmp(wl_fake_host.log[0], "warn 7 size=4"));
  it = wl_run(&look_node, NULL, NULL);
  WL_CHECK(wl_as_int(wl_get(it->value, "size"), 0) == 4);
  WL_CHECK(wl_as_bool(wl_get(it->value, "chance"), false));
  wl_outcome *failure = NULL;
  WL_CHECK(!wl_blob_size("none", &failure) && failure->error == WL_PERMANENT);
  WL_CHECK(wl_schedule("a", 5, NULL, NULL) && !strcmp(wl_idempotency_key(), "key-1"));
  WL_CHECK(!wl_correlation_id() && wl_random_bytes(3).length == 3 && wl_attempt() == 1);
}

static void a_consumer_decides(void) {
  WL_CHECK_JSON(wl_offer(&gate, NULL)->value, "{\"accepted\":\"manual\"}");
  WL_CHECK(wl_offer(&gate, "{\"handled\":1}")->result == WL_HANDLED);
  WL_CHECK(wl_offer(&gate, "{\"later\":1}")->after_ms == 5);
  char refused[] = "{\"refused\":1}";
  const wl_abi_accepted *it = wl_abi_accept(NULL, 0, 0, NULL, 0, 1, 0, NULL, 0, WL_BODY_TEXT, refused,
                                            sizeof refused - 1);
  WL_CHECK(!it->is_error && is(it->value.disposition.value.reason.message, "refused"));
  it = wl_abi_accepted_of(wl_offer(&gate, "{\"broken\":1}"));
  WL_CHECK(it->is_error && it->value.error.tag == 0);
  WL_CHECK(((const wl_abi_accepted *)wl_abi_accepted_of(wl_done(NULL)))->value.error.tag == 1);
}

static void a_check_finds_mistakes(void) {
  char type[] = "script/checked", config[] = "{\"prot\":1}";
  wl_abi_string unknown = {"/port", 5};
  const wl_abi_list *it = wl_abi_check(type, sizeof type - 1, 0, NULL, 0, WL_BODY_TEXT, config,
                                       sizeof config - 1, &unknown, 1);
  const wl_abi_finding *list = it->at;
  WL_CHECK(it->length == 2 && list[0].is_warning && !list[1].is_warning);
  WL_CHECK(is(list[0].message, "/port is not known") && is(list[1].pointer.value, "/prot"));
  WL_CHECK(!list[0].position.some && list[1].position.value.line == 2);
}

int main(void) {
  WL_TEST(the_description_has_what_the_tables_have);
  WL_TEST(an_output_and_its_ports_are_sent);
  WL_TEST(failures_have_class_details_and_position);
  WL_TEST(mistakes_of_a_node_are_failures);
  WL_TEST(a_node_polls_and_waits);
  WL_TEST(the_functions_of_the_host_work_and_refuse);
  WL_TEST(a_consumer_decides);
  WL_TEST(a_check_finds_mistakes);
  return wl_test_end();
}
