#include "tests.h"

static void a_user_is_admitted(void) {
  wl_outcome *decision = wl_offer(&gate, WL_JSON({"user": "ada"}));
  WL_CHECK(decision->result == WL_EXECUTE);
  WL_CHECK_JSON(decision->value, WL_JSON({"user": "ada"}));
}

static void a_trigger_without_a_user_is_rejected(void) {
  WL_CHECK(wl_offer(&gate, WL_JSON({"amount": 7}))->result == WL_REJECT);
}

void test_gate(void) {
  WL_TEST(a_user_is_admitted);
  WL_TEST(a_trigger_without_a_user_is_rejected);
}
