// Reads JSON (RFC 8259) in the place of its text: strings and numbers are parts of the text, and
// escapes, which are longer than their characters, are replaced where they stand.

#include "internal.h"

typedef struct {
  char *at, *end;
  int depth;
  const char *wrong; // the first mistake
  char *wrong_at;
} reader;

static wl_json *fail(reader *it, const char *wrong) {
  if (!it->wrong) it->wrong = wrong, it->wrong_at = it->at;
  return NULL;
}

static void skip_spaces(reader *it) {
  while (it->at < it->end &&
         (*it->at == ' ' || *it->at == '\n' || *it->at == '\t' || *it->at == '\r'))
    it->at++;
}

static bool is_next(reader *it, char wanted) {
  if (it->at == it->end || *it->at != wanted) return false;
  it->at++;
  return true;
}

// Four hexadecimal digits; -1 if they are not.
static int32_t hex(reader *it) {
  if (it->end - it->at < 4) return -1;
  int32_t code = 0;
  for (int i = 0; i < 4; i++, it->at++) {
    char c = *it->at;
    int digit = c >= '0' && c <= '9' ? c - '0'
        : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                              : -1;
    if (digit < 0) return -1;
    code = code * 16 + digit;
  }
  return code;
}

static char *encode(char *to, uint32_t code) {
  if (code < 0x80) *to++ = (char)code;
  else if (code < 0x800) *to++ = (char)(0xc0 | code >> 6);
  else if (code < 0x10000) *to++ = (char)(0xe0 | code >> 12);
  else *to++ = (char)(0xf0 | code >> 18);
  if (code >= 0x10000) *to++ = (char)(0x80 | (code >> 12 & 0x3f));
  if (code >= 0x800) *to++ = (char)(0x80 | (code >> 6 & 0x3f));
  if (code >= 0x80) *to++ = (char)(0x80 | (code & 0x3f));
  return to;
}

// An escape behind its backslash.
static bool read_escape(reader *it, char **to) {
  static const char NAMES[] = "\"\\/bfnrt", VALUES[] = "\"\\/\b\f\n\r\t";
  if (it->at == it->end) return fail(it, "an escape is cut off");
  char name = *it->at++;
  if (name != 'u') {
    for (int i = 0; NAMES[i]; i++)
      if (NAMES[i] == name) return *(*to)++ = VALUES[i], true;
    return it->at--, fail(it, "an escape is unknown");
  }
  int32_t code = hex(it);
  if (code >= 0xd800 && code < 0xdc00 && is_next(it, '\\') && is_next(it, 'u')) {
    int32_t low = hex(it);
    code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + low - 0xdc00 : -1;
  }
  if (code < 0 || (code >= 0xd800 && code < 0xe000))
    return fail(it, "an escape with \\u is no character");
  *to = encode(*to, (uint32_t)code);
  return true;
}

// A string behind its first quote.
static bool read_string(reader *it, wl_text *text) {
  char *begin = it->at, *to = begin;
  while (it->at < it->end) {
    unsigned char c = (unsigned char)*it->at;
    if (c == '"') {
      it->at++;
      *to = 0; // at the quote or before it
      *text = (wl_text){begin, (size_t)(to - begin)};
      return true;
    }
    if (c < 0x20) return fail(it, "a control character in a string has to be escaped");
    if (c == '\\') {
      it->at++;
      if (!read_escape(it, &to)) return false;
      continue;
    }
    size_t length = wl_utf8_length((unsigned char *)it->at, (size_t)(it->end - it->at));
    if (!length) return fail(it, "a string is not UTF-8");
    while (length--) *to++ = *it->at++;
  }
  return fail(it, "a string has no end");
}

static bool skip_digits(reader *it) {
  char *begin = it->at;
  while (it->at < it->end && *it->at >= '0' && *it->at <= '9') it->at++;
  return it->at > begin;
}

static wl_json *read_number(reader *it) {
  char *begin = it->at;
  is_next(it, '-');
  bool whole = is_next(it, '0') || skip_digits(it);
  bool fraction = !is_next(it, '.') || skip_digits(it);
  bool exponent = true;
  if (is_next(it, 'e') || is_next(it, 'E')) {
    if (!is_next(it, '+')) is_next(it, '-');
    exponent = skip_digits(it);
  }
  if (!whole || !fraction || !exponent) return fail(it, "a number lacks digits");
  return wl_make(WL_NUMBER, (wl_text){begin, (size_t)(it->at - begin)});
}

static wl_json *read_word(reader *it, const char *word, wl_json *value) {
  size_t length = __builtin_strlen(word);
  if ((size_t)(it->end - it->at) < length || __builtin_memcmp(it->at, word, length))
    return fail(it, "a value is expected");
  it->at += length;
  return value;
}

static wl_json *read_value(reader *it);

// A list or an object behind its bracket.
static wl_json *read_items(reader *it, wl_json *container, char end) {
  bool is_object = end == '}';
  if (++it->depth > WL_DEPTH_MAX) return fail(it, "lists and objects are nested too deep");
  skip_spaces(it);
  bool more = !is_next(it, end);
  while (more) {
    wl_text name = {0};
    skip_spaces(it);
    if (is_object) {
      if (!is_next(it, '"')) return fail(it, "the name of a member is expected");
      if (!read_string(it, &name)) return NULL;
      skip_spaces(it);
      if (!is_next(it, ':')) return fail(it, "`:` is expected");
    }
    wl_json *item = read_value(it);
    if (!item) return NULL;
    item->name = name;
    wl_append(container, item);
    skip_spaces(it);
    more = is_next(it, ',');
    if (!more && !is_next(it, end))
      return fail(it, is_object ? "`,` or `}` is expected" : "`,` or `]` is expected");
  }
  it->depth--;
  return container;
}

static wl_json *read_value(reader *it) {
  skip_spaces(it);
  char first = it->at < it->end ? *it->at : 0;
  wl_text text;
  switch (first) {
  case '{': return it->at++, read_items(it, wl_object(), '}');
  case '[': return it->at++, read_items(it, wl_list(), ']');
  case '"': return it->at++, read_string(it, &text) ? wl_make(WL_STRING, text) : NULL;
  case 't': return read_word(it, "true", wl_bool(true));
  case 'f': return read_word(it, "false", wl_bool(false));
  case 'n': return read_word(it, "null", wl_null());
  }
  bool is_number = first == '-' || (first >= '0' && first <= '9');
  return is_number ? read_number(it) : fail(it, "a value is expected");
}

wl_json *wl_parse_here(char *text, size_t length, wl_fault *fault) {
  reader it = {.at = text, .end = text + length};
  wl_json *value = read_value(&it);
  skip_spaces(&it);
  if (value && it.at < it.end) value = fail(&it, "there is more behind the value");
  if (!value && fault) *fault = (wl_fault){it.wrong, (size_t)(it.wrong_at - text)};
  return value;
}

wl_json *wl_parse(wl_text text, wl_fault *fault) {
  char *copy = wl_alloc(text.length + 1);
  if (text.length) __builtin_memcpy(copy, text.at, text.length);
  return wl_parse_here(copy, text.length, fault);
}
