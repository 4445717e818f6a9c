#include <string.h>
#include <testing.h>

extern const wl_node check_node;

static const char *port_of(const char *config, const char *iban) {
  wl_json *input = wl_set(wl_object(), "iban", wl_string(iban));
  return wl_run(&check_node, config, wl_write(input, NULL).at)->ports[0];
}

static void right_numbers_are_compact(void) {
  wl_outcome *it = wl_run(&check_node, NULL, WL_JSON({"iban": "gb82 WEST 1234 5698 7654 32"}));
  WL_CHECK_JSON(it->value, WL_JSON({"iban": "GB82WEST12345698765432", "country": "GB"}));
  WL_CHECK(!strcmp(port_of(NULL, "DE89370400440532013000"), "right"));
  WL_CHECK(!strcmp(port_of("{\"country\":\"DE\"}", "DE89370400440532013000"), "right"));
}

static void wrong_numbers_take_the_port_wrong(void) {
  static const char *const WRONG[] = {
      "", "DE", "DE88370400440532013000", "DE8937040044053201300", "DE89-3704", "\xc3\xa4",
      "DE893704004405320130000000000000000000000000000000000",
  };
  for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
    WL_CHECK(!strcmp(port_of(NULL, WRONG[i]), "wrong"));
  WL_CHECK(!strcmp(port_of("{\"country\":\"FR\"}", "DE89370400440532013000"), "wrong"));
}

int main(void) {
  WL_TEST(right_numbers_are_compact);
  WL_TEST(wrong_numbers_take_the_port_wrong);
  return wl_test_end();
}
