// Values of JSON: reading them, making them, and writing them as text.

#include "internal.h"

static const wl_json *is(const wl_json *value, wl_kind kind) {
  return value && value->kind == kind ? value : NULL;
}

static bool has_items(const wl_json *value) {
  return value && (value->kind == WL_LIST || value->kind == WL_OBJECT);
}

wl_kind wl_kind_of(const wl_json *value) { return value ? (wl_kind)value->kind : WL_MISSING; }

const wl_json *wl_first(const wl_json *value) {
  return has_items(value) ? value->of.items.first : NULL;
}

const wl_json *wl_next(const wl_json *item) { return item ? item->next : NULL; }

static bool is_named(const wl_json *member, wl_text name) {
  return member->name.length == name.length &&
         !__builtin_memcmp(member->name.at, name.at, name.length);
}

const wl_json *wl_get(const wl_json *object, const char *name) {
  const wl_json *found = NULL;
  wl_text wanted = wl_text_of(name);
  for (const wl_json *it = is(object, WL_OBJECT) ? wl_first(object) : NULL; it; it = it->next)
    if (is_named(it, wanted)) found = it;
  return found;
}

const wl_json *wl_at(const wl_json *list, size_t position) {
  const wl_json *it = is(list, WL_LIST) ? wl_first(list) : NULL;
  while (it && position--) it = it->next;
  return it;
}

size_t wl_count(const wl_json *value) {
  size_t count = 0;
  for (const wl_json *it = wl_first(value); it; it = it->next) count++;
  return count;
}

wl_text wl_name(const wl_json *member) {
  return member && member->name.at ? member->name : wl_text_of(NULL);
}

bool wl_as_bool(const wl_json *value, bool otherwise) {
  return is(value, WL_BOOL) ? value->of.truth : otherwise;
}

// The integer of digits without a fraction and an exponent.
static bool read_int(wl_text digits, int64_t *to) {
  bool is_negative = digits.at[0] == '-';
  uint64_t number = 0, most = (uint64_t)INT64_MAX + is_negative;
  for (size_t i = is_negative; i < digits.length; i++) {
    unsigned digit = (unsigned)(digits.at[i] - '0');
    if (digit > 9 || number > (most - digit) / 10) return false;
    number = number * 10 + digit;
  }
  *to = (int64_t)(is_negative ? -number : number);
  return true;
}

static bool to_int(const wl_json *value, int64_t *to) {
  if (!is(value, WL_NUMBER)) return false;
  if (read_int(value->of.text, to)) return true;
  // 1.0 and 1e3 are integers, too, as far as a double is exact.
  double number = wl_digits_to_double(value->of.text);
  if (!(number > -9007199254740992.0 && number < 9007199254740992.0)) return false;
  *to = (int64_t)number;
  return (double)*to == number;
}

int64_t wl_as_int(const wl_json *value, int64_t otherwise) {
  int64_t number;
  return to_int(value, &number) ? number : otherwise;
}

bool wl_is_int(const wl_json *value) {
  int64_t number;
  return to_int(value, &number);
}

double wl_as_double(const wl_json *value, double otherwise) {
  return is(value, WL_NUMBER) ? wl_digits_to_double(value->of.text) : otherwise;
}

const char *wl_as_string(const wl_json *value, const char *otherwise) {
  return is(value, WL_STRING) ? value->of.text.at : otherwise;
}

wl_text wl_as_text(const wl_json *value) {
  bool has_text = value && !has_items(value) && value->kind != WL_BOOL && value->kind != WL_NULL;
  if (!has_text) return wl_text_of(NULL);
  // Behind the digits of a number that was read, the text of the JSON goes on.
  return value->kind == WL_NUMBER ? wl_format("%.*s", WL_F(value->of.text)) : value->of.text;
}

wl_json *wl_make(wl_kind kind, wl_text text) {
  wl_json *value = wl_alloc(sizeof *value);
  value->kind = (uint8_t)kind;
  value->of.text = text;
  return value;
}

// The kinds that are no text have zeros in its place.
static wl_json *make_empty(wl_kind kind) { return wl_make(kind, (wl_text){NULL, 0}); }

wl_json *wl_null(void) { return make_empty(WL_NULL); }
wl_json *wl_list(void) { return make_empty(WL_LIST); }
wl_json *wl_object(void) { return make_empty(WL_OBJECT); }

wl_json *wl_bool(bool truth) {
  wl_json *value = make_empty(WL_BOOL);
  value->of.truth = truth;
  return value;
}

wl_json *wl_int(int64_t value) { return wl_make(WL_NUMBER, wl_format("%lld", (long long)value)); }

wl_json *wl_double(double value) {
  bool is_finite = value - value == 0;
  return is_finite ? wl_make(WL_NUMBER, wl_format("%g", value)) : wl_null();
}

wl_json *wl_number(const char *digits) {
  wl_json *number = wl_parse(wl_text_of(digits), NULL);
  if (!is(number, WL_NUMBER)) wl_panic("wl_number: the digits are no number of JSON");
  return number;
}

static wl_text copied(wl_text text) { return wl_format("%.*s", WL_F(text)); }

wl_json *wl_string(const char *text) { return wl_string_of(wl_text_of(text)); }
wl_json *wl_string_of(wl_text text) { return wl_make(WL_STRING, copied(text)); }

wl_json *wl_stringf(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  wl_text text = wl_format_list(format, arguments);
  va_end(arguments);
  return wl_make(WL_STRING, text);
}

static wl_json *make_typed(wl_kind kind, const char *content_type, wl_text text) {
  wl_json *value = wl_make(kind, text);
  value->name = copied(wl_text_of(content_type));
  return value;
}

wl_json *wl_bytes(const char *content_type, wl_text bytes) {
  return make_typed(WL_BYTES, content_type, copied(bytes));
}

wl_json *wl_blob(const char *content_type, const char *reference) {
  return make_typed(WL_BLOB, content_type, copied(wl_text_of(reference)));
}

// The value as an item: itself, or a copy if it is in a container already.
static wl_json *owned(const wl_json *value) {
  wl_json *item = value ? (wl_json *)value : wl_null();
  if (item->is_owned) {
    item = wl_alloc(sizeof *item);
    *item = *value;
    item->next = NULL;
  }
  return item;
}

wl_json *wl_append(wl_json *container, wl_json *item) {
  if (container->of.items.last) container->of.items.last->next = item;
  else container->of.items.first = item;
  container->of.items.last = item;
  item->is_owned = true;
  return container;
}

wl_json *wl_add(wl_json *list, const wl_json *value) {
  if (!is(list, WL_LIST)) wl_panic("wl_add: the value to append to is no list");
  return wl_append(list, owned(value));
}

wl_json *wl_set(wl_json *object, const char *name, const wl_json *value) {
  if (!is(object, WL_OBJECT)) wl_panic("wl_set: the value with the member is no object");
  wl_json *item = owned(value), *before = NULL, *old = object->of.items.first;
  item->name = copied(wl_text_of(name));
  for (; old && !is_named(old, item->name); old = old->next) before = old;
  if (!old) return wl_append(object, item);
  item->is_owned = true;
  item->next = old->next;
  if (before) before->next = item;
  else object->of.items.first = item;
  if (object->of.items.last == old) object->of.items.last = item;
  return object;
}

typedef struct {
  wl_buffer to;
  int depth;
  const char *wrong;
} writer;

static void write_text(writer *it, wl_text text) {
  if (!wl_is_utf8(text)) it->wrong = "a string is not UTF-8";
  wl_put(&it->to, "\"", 1);
  size_t plain = 0;
  for (size_t i = 0; i < text.length; i++) {
    unsigned char c = (unsigned char)text.at[i];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    wl_put(&it->to, text.at + plain, i - plain);
    plain = i + 1;
    const char *hex = "0123456789abcdef";
    const char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    const char quoted[] = {'\\', (char)c};
    if (c < 0x20) wl_put(&it->to, escape, sizeof escape);
    else wl_put(&it->to, quoted, sizeof quoted);
  }
  wl_put(&it->to, text.at + plain, text.length - plain);
  wl_put(&it->to, "\"", 1);
}

static void write_value(writer *it, const wl_json *value);

static void write_items(writer *it, const wl_json *value) {
  bool is_object = value->kind == WL_OBJECT;
  if (++it->depth > WL_DEPTH_MAX) it->wrong = "lists and objects are nested too deep";
  wl_put(&it->to, is_object ? "{" : "[", 1);
  for (const wl_json *item = value->of.items.first; item && !it->wrong; item = item->next) {
    if (item != value->of.items.first) wl_put(&it->to, ",", 1);
    if (is_object) {
      write_text(it, item->name);
      wl_put(&it->to, ":", 1);
    }
    write_value(it, item);
  }
  wl_put(&it->to, is_object ? "}" : "]", 1);
  it->depth--;
}

static void write_value(writer *it, const wl_json *value) {
  switch (wl_kind_of(value)) {
  case WL_MISSING:
  case WL_NULL: wl_put(&it->to, "null", 4); break;
  case WL_BOOL: wl_put(&it->to, value->of.truth ? "true" : "false", value->of.truth ? 4 : 5); break;
  case WL_NUMBER: wl_put(&it->to, value->of.text.at, value->of.text.length); break;
  case WL_STRING: write_text(it, value->of.text); break;
  case WL_LIST:
  case WL_OBJECT: write_items(it, value); break;
  case WL_BYTES:
  case WL_BLOB: it->wrong = "bytes and blobs are no JSON"; break;
  }
}

wl_text wl_write(const wl_json *value, wl_fault *fault) {
  writer it = {0};
  write_value(&it, value);
  if (it.wrong) {
    if (fault) *fault = (wl_fault){it.wrong, it.to.length};
    return wl_text_of(NULL);
  }
  return wl_taken(&it.to);
}
