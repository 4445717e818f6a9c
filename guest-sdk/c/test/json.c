// JSON: the reader, the writer, and numbers.

#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_text(wl_text text, const char *wanted, size_t length) {
  return text.length == length && !memcmp(text.at, wanted, length);
}

static void values_are_written_as_they_were_read(void) {
  static const char *const TEXTS[] = {
      "null", "true", "false", "0", "-0", "1", "-1.50", "1e400", "123456789012345678901234567890",
      "1E+2", "\"\"", "\"a\"", "[]", "{}", "[1,[2,{\"a\":[]}],\"b\"]",
      "{\"a\":1,\"b\":{\"c\":null}}", "\"h\u00e9llo \U0001F389\"", "\"\\u0000\\u001f\\\"\\\\\"",
  };
  for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
    wl_text written = wl_write(wl_read(TEXTS[i]), NULL);
    if (!WL_CHECK(is_text(written, TEXTS[i], strlen(TEXTS[i])))) puts(TEXTS[i]);
  }
  WL_CHECK_JSON(wl_read(" {\n\"a\" : [ 1 , 2 ]\t}\r"), "{\"a\":[1,2]}");
}

static void escapes_are_their_characters(void) {
  wl_text text = wl_as_text(wl_read("\"\\b\\f\\n\\r\\t\\/\\u0041\\u00e9\\u6f22\\ud83e\\udd80\""));
  WL_CHECK(is_text(text, "\b\f\n\r\t/A\u00e9\u6f22\U0001F980", 16));
  WL_CHECK(is_text(wl_as_text(wl_read("\"a\\u0000b\"")), "a\0b", 3));
  WL_CHECK(!strcmp(wl_as_string(wl_read("\"a\\u0000b\""), ""), "a"));
}

static void mistakes_are_faults_with_their_places(void) {
  static const struct {
    const char *text;
    size_t length, offset;
  } WRONG[] = {
#define W(text, offset) {text, sizeof text - 1, offset}
      W("", 0), W(" ", 1), W("nul", 0), W("nulll", 4), W("1 2", 2), W("01", 1), W("-", 1),
      W("+1", 0), W(".5", 0), W("1.", 2), W("1e", 2), W("1e+", 3), W("NaN", 0), W("0x1", 1),
      W("[", 1), W("[1", 2), W("[1,]", 3), W("[1 2]", 3), W("{", 1), W("{1:2}", 1), W("{\"a\"}", 4),
      W("{\"a\":}", 5), W("{\"a\":1,}", 7), W("{\"a\":1 \"b\":2}", 7), W("\"", 1), W("\"a", 2),
      W("\"\\", 2), W("\"\\x\"", 2), W("\"\\u12\"", 6), W("\"\\u12g4\"", 6), W("\"\n\"", 1),
      W("\"\\ud800\"", 7), W("\"\\udc00\"", 7), W("\"\\ud800\\u0041\"", 13), W("\"\0\"", 1),
      W("\"\x80\"", 1), W("\"\xc0\xaf\"", 1), W("\"\xed\xa0\x80\"", 1), W("\"\xf4\x90\x80\x80\"", 1),
      W("\"\xf0\x8f\xbf\xbf\"", 1), W("\"\xe2\x82\"", 1), W("\xef\xbb\xbf" "1", 0), W("]", 0),
      W("'a'", 0), W("1\0", 1), W("// a\n1", 0),
  };
  for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
    wl_fault fault = {0};
    wl_json *value = wl_parse((wl_text){WRONG[i].text, WRONG[i].length}, &fault);
    bool is_refused = !value && fault.message;
    bool is_near = fault.offset <= WRONG[i].offset && fault.offset + 6 >= WRONG[i].offset;
    if (!WL_CHECK(is_refused && is_near)) printf("%s: %zu\n", WRONG[i].text, fault.offset);
  }
}

static void nesting_has_a_bound(void) {
  char text[4 * WL_DEPTH_MAX] = {0};
  for (int depth = WL_DEPTH_MAX; depth <= WL_DEPTH_MAX + 1; depth++) {
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    WL_CHECK((wl_parse(wl_text_of(text), NULL) != NULL) == (depth == WL_DEPTH_MAX));
  }
  memset(text, '[', sizeof text - 1);
  WL_CHECK(!wl_parse(wl_text_of(text), NULL));
  wl_json *within = wl_list();
  wl_add(within, within);
  wl_fault fault = {0};
  WL_CHECK(!wl_write(within, &fault).length && fault.message);
}

static void integers_are_exact_and_others_are_refused(void) {
  WL_CHECK(wl_as_int(wl_read("9223372036854775807"), 0) == INT64_MAX);
  WL_CHECK(wl_as_int(wl_read("-9223372036854775808"), 0) == INT64_MIN);
  WL_CHECK(wl_as_int(wl_read("9007199254740993"), 0) == 9007199254740993);
  WL_CHECK(wl_as_int(wl_read("1.0"), 0) == 1 && wl_as_int(wl_read("-25e-1"), 7) == 7);
  WL_CHECK(wl_as_int(wl_read("1e3"), 0) == 1000);
  static const char *const NONE[] = {"9223372036854775808", "-9223372036854775809", "1e19", "0.5",
                                     "1e-400", "\"1\"", "true", "null"};
  for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) {
    bool is_zero = !strcmp(NONE[i], "1e-400"); // the nearest double is 0
    if (!WL_CHECK(wl_is_int(wl_read(NONE[i])) == is_zero)) puts(NONE[i]);
  }
}

// Digits of all kinds, compared with the libc.
static void doubles_are_those_of_the_libc(void) {
  uint64_t seed = 1;
  for (int i = 0; i < 20000; i++) {
    char digits[900];
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = seed ^ seed >> 29;
    double wanted;
    memcpy(&wanted, &bits, sizeof wanted);
    if (wanted - wanted != 0) continue;
    // The digits of a double, also those halfway to the next one, and short ones.
    int places = i % 3 == 0 ? 16 : i % 3 == 1 ? (int)(bits % 17) : 770;
    snprintf(digits, sizeof digits, "%.*e", places, wanted);
    wanted = strtod(digits, NULL);
    double found = wl_as_double(wl_read(digits), 0);
    if (!WL_CHECK(!memcmp(&found, &wanted, sizeof found))) puts(digits);
    double again = wl_as_double(wl_read(wl_write(wl_double(wanted), NULL).at), 0);
    if (!WL_CHECK(!memcmp(&again, &wanted, sizeof again))) puts(digits);
  }
}

static void doubles_have_their_shortest_digits(void) {
  static const struct {
    double value;
    const char *digits;
  } SHORT[] = {
      {0, "0"}, {-0.0, "-0"}, {0.1, "0.1"}, {1.0 / 3, "0.3333333333333333"}, {100, "100"},
      {1e21, "1e21"}, {1.5e-7, "1.5e-7"}, {0.000123, "0.000123"}, {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e308"}, {2.2250738585072014e-308, "2.2250738585072014e-308"},
      {123456.789, "123456.789"}, {9007199254740993.0, "9007199254740992"}, {-2.5, "-2.5"}, {4.35, "4.35"},
  };
  for (size_t i = 0; i < sizeof SHORT / sizeof *SHORT; i++) {
    wl_text digits = wl_write(wl_double(SHORT[i].value), NULL);
    if (!WL_CHECK(is_text(digits, SHORT[i].digits, strlen(SHORT[i].digits)))) puts(digits.at);
  }
  WL_CHECK(wl_as_double(wl_read("1e309"), 0) > 1.7e308);
  WL_CHECK(wl_as_double(wl_read("2.4703282292062327208e-324"), 1) == 0);
  WL_CHECK(wl_as_double(wl_read("2.4703282292062328e-324"), 0) == 5e-324);
  WL_CHECK_JSON(wl_double(1e308 * 10), "null");
}

static void missing_values_are_read_as_their_defaults(void) {
  const wl_json *value = wl_read("{\"a\":[{\"b\":\"c\"}],\"n\":1,\"n\":2}");
  WL_CHECK(!strcmp(wl_as_string(wl_get(wl_at(wl_get(value, "a"), 0), "b"), ""), "c"));
  WL_CHECK(!strcmp(wl_as_string(wl_get(wl_at(wl_get(value, "x"), 7), "b"), "none"), "none"));
  WL_CHECK(wl_as_int(wl_get(value, "n"), 0) == 2);
  WL_CHECK(wl_kind_of(NULL) == WL_MISSING && !wl_count(NULL) && !wl_first(NULL) && !wl_next(NULL));
  WL_CHECK(!wl_as_text(NULL).length && !wl_name(value).length && wl_as_bool(NULL, true));
  WL_CHECK(!wl_at(value, 0) && !wl_get(wl_get(value, "a"), "b"));
}

static void containers_are_built_in_any_order(void) {
  wl_json *list = wl_list(), *object = wl_object();
  wl_set(object, "list", list);
  wl_add(list, wl_int(1));
  wl_set(object, "list", list); // in a container already, so a copy
  wl_add(wl_add(list, NULL), wl_get(wl_read("{\"x\":true}"), "x"));
  wl_set(wl_set(object, "a", wl_stringf("%d %s", 1, "b")), "a", wl_string("c"));
  WL_CHECK_JSON(list, "[1,null,true]");
  WL_CHECK_JSON(wl_get(object, "a"), "\"c\"");
  WL_CHECK(wl_count(object) == 2);
  wl_fault fault = {0};
  wl_write(wl_string("\xff"), &fault);
  WL_CHECK(fault.message);
  WL_CHECK_JSON(wl_number("-1.00"), "-1.00");
}

static void formats_are_those_of_printf(void) {
  wl_text text = wl_format("%s|%d|%u|%x|%lld|%zu|%c|%%|%.*s|%g|%ld", "a", -1, 2u, 255u,
                           (long long)INT64_MIN, sizeof(char), 'c', 3, "a\0b", 0.5, -7l);
  static const char WANTED[] = "a|-1|2|ff|-9223372036854775808|1|c|%|a\0b|0.5|-7";
  WL_CHECK(is_text(text, WANTED, sizeof WANTED - 1));
}

int main(void) {
  WL_TEST(values_are_written_as_they_were_read);
  WL_TEST(escapes_are_their_characters);
  WL_TEST(mistakes_are_faults_with_their_places);
  WL_TEST(nesting_has_a_bound);
  WL_TEST(integers_are_exact_and_others_are_refused);
  WL_TEST(doubles_are_those_of_the_libc);
  WL_TEST(doubles_have_their_shortest_digits);
  WL_TEST(missing_values_are_read_as_their_defaults);
  WL_TEST(containers_are_built_in_any_order);
  WL_TEST(formats_are_those_of_printf);
  return wl_test_end();
}
