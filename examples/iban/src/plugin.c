// The plugin `iban`: checks the account numbers of ISO 13616, and takes the port of the result.

#include <windlass.h>

// The shortest and the longest IBAN of a country, without spaces.
enum { SHORTEST = 15, LONGEST = 34 };

// The number of an IBAN without spaces, in capitals; its length, or 0 if a character is foreign or
// there are too many.
static size_t compact(wl_text given, char *to) {
  size_t length = 0;
  for (size_t i = 0; i < given.length; i++) {
    char c = given.at[i];
    if (c == ' ') continue;
    if (c >= 'a' && c <= 'z') c -= 'a' - 'A';
    bool is_known = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
    if (!is_known || length == LONGEST) return 0;
    to[length++] = c;
  }
  return length;
}

// The remainder by 97 of the number in which letters are 10 to 35 and the first four characters
// stand last; it is 1 for a right IBAN.
static unsigned remainder_of(const char *iban, size_t length) {
  unsigned remainder = 0;
  for (size_t i = 0; i < length; i++) {
    char c = iban[(i + 4) % length];
    remainder = c <= '9' ? remainder * 10 + (unsigned)(c - '0')
                         : remainder * 100 + (unsigned)(c - 'A' + 10);
    remainder %= 97;
  }
  return remainder;
}

static wl_outcome *check(const wl_call *call) {
  const wl_json *country = wl_get(call->config, "country");
  char iban[LONGEST + 1] = {0};
  size_t length = compact(wl_as_text(wl_get(call->input, "iban")), iban);
  bool is_right = length >= SHORTEST && remainder_of(iban, length) == 1;
  if (is_right && country) {
    wl_text wanted = wl_as_text(country);
    is_right = wanted.length == 2 && wanted.at[0] == iban[0] && wanted.at[1] == iban[1];
  }
  if (!is_right) return wl_done_by(call->input, "wrong");
  wl_json *account = wl_object();
  wl_set(account, "iban", wl_string(iban));
  wl_set(account, "country", wl_stringf("%.*s", 2, iban));
  return wl_done_by(account, "right");
}

static void check_country(const wl_json *config, const wl_json *unknown) {
  (void)unknown;
  const char *country = wl_as_string(wl_get(config, "country"), NULL);
  static const char *const WITHOUT[] = {"US", "CA", "AU", "JP", "CN", "IN"};
  for (size_t i = 0; country && i < sizeof WITHOUT / sizeof *WITHOUT; i++)
    if (country[0] == WITHOUT[i][0] && country[1] == WITHOUT[i][1])
      wl_error("/country", "%s has no IBAN: take another country, or leave it out", country);
}

const wl_node check_node = {
    .name = "check",
    .title = "Check an IBAN",
    .description = "Takes the port `right` with the number in its compact form, or `wrong`.",
    .run = check,
    .check = check_country,
    .config = WL_JSON({
      "type": "object",
      "properties": {
        "country": {"type": "string", "pattern": "^[A-Z]{2}$", "description": "The only country that is right."}
      },
      "additionalProperties": false
    }),
    .input = WL_JSON({
      "type": "object",
      "properties": {"iban": {"type": "string"}},
      "required": ["iban"]
    }),
    .ports = {"right", "wrong"},
};

WL_PLUGIN(.package = "iban", .version = "1.0.0", .title = "IBAN")
WL_NODES(&check_node)
WL_CHECKS
