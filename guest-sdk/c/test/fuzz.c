// Random bytes, and damaged JSON, as inputs of a node: each answer is a failure or an echo, whose
// text is read again. A sanitizer sees wrong accesses of memory.

#include <string.h>

#include "../src/internal.h"
#include "plugin.h"

static uint64_t seed = 42;

static uint32_t chance(uint32_t bound) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(seed >> 33) % bound;
}

static size_t random_bytes(char *to) {
  size_t length = chance(200);
  for (size_t i = 0; i < length; i++) to[i] = (char)chance(256);
  return length;
}

// Right JSON in which some bytes are replaced, removed or doubled, also with parts of syntax.
static size_t damaged(char *to) {
  static const char JSON[] = "{\"a\":[1,-2.5e+3,true,null,\"\\ud83e\\udd80\\u00e9\xc3\xa9\"],\"b\":{\"c\":\"d\"},"
                             "\"e\":123456789012345678901234567890.5e-320}";
  static const char SYNTAX[] = "{}[]\",:\\u0eE+-.\x80\xf0 ";
  size_t length = sizeof JSON - 1;
  memcpy(to, JSON, length);
  for (uint32_t i = chance(4); i > 0; i--) {
    size_t at = chance((uint32_t)length - 1);
    uint32_t how = chance(3);
    if (how == 0) to[at] = SYNTAX[chance(sizeof SYNTAX - 1)];
    else if (how == 1) memmove(to + at, to + at + 1, --length - at);
    else memmove(to + at + 1, to + at, length++ - at);
  }
  return length;
}

static uint32_t echoes, failures;

static void many_inputs(void) {
  for (int i = 0; i < 50000; i++) {
    char bytes[256], type[] = "script/echo", config[] = "{}";
    size_t length = i % 4 ? damaged(bytes) : random_bytes(bytes);
    // Memory of its own, so that a sanitizer knows its end.
    char *input = wl_alloc(length + 1);
    memcpy(input, bytes, length);
    const wl_abi_executed *it = wl_abi_execute(type, sizeof type - 1, 0, NULL, 0, WL_BODY_TEXT, config, 2, 0, NULL, 0,
                                               chance(2), input, length);
    if (it->is_error) {
      WL_CHECK(it->value.error.tag == WL_INVALID);
      failures++;
    } else {
      wl_abi_string body = it->value.outcome.value.done.output.body;
      wl_text first = {body.at, body.length};
      wl_text second = wl_write(wl_parse(first, NULL), NULL);
      WL_CHECK(first.length == second.length && !memcmp(first.at, second.at, first.length));
      WL_CHECK(wl_is_utf8(first));
      (void)wl_as_double(wl_get(wl_parse(first, NULL), "e"), 0);
      echoes++;
    }
    wl_abi_end();
  }
}

int main(void) {
  WL_TEST(many_inputs);
  // Both kinds occur, so the test has looked at both.
  return wl_test_end() || echoes < 1000 || failures < 1000;
}
