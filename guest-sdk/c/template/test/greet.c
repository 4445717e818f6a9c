#include "tests.h"

static void a_person_is_greeted(void) {
  WL_CHECK_JSON(wl_run(&greet, NULL, WL_JSON({"name": "Zoë"}))->value,
                WL_JSON({"greeting": "Hello, Zoë!"}));
}

static void an_empty_name_is_invalid(void) {
  WL_CHECK(wl_run(&greet, NULL, WL_JSON({"name": ""}))->error == WL_INVALID);
}

void test_greet(void) {
  WL_TEST(a_person_is_greeted);
  WL_TEST(an_empty_name_is_invalid);
}
