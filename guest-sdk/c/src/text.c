// Texts: UTF-8, bytes that grow, and a small printf.

#include "internal.h"

wl_text wl_text_of(const char *string) {
  return (wl_text){string ? string : "", string ? __builtin_strlen(string) : 0};
}

size_t wl_utf8_length(const unsigned char *at, size_t room) {
  if (room == 0) return 0;
  unsigned first = at[0];
  if (first < 0x80) return 1;
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || length > room) return 0;
  for (size_t i = 1; i < length; i++)
    if ((at[i] & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and codes beyond the last one.
  if (first == 0xe0 && at[1] < 0xa0) return 0;
  if (first == 0xed && at[1] > 0x9f) return 0;
  if (first == 0xf0 && at[1] < 0x90) return 0;
  if (first == 0xf4 && at[1] > 0x8f) return 0;
  return length;
}

bool wl_is_utf8(wl_text text) {
  const unsigned char *at = (const unsigned char *)text.at;
  for (size_t i = 0; i < text.length;) {
    size_t length = wl_utf8_length(at + i, text.length - i);
    if (!length) return false;
    i += length;
  }
  return true;
}

void wl_put(wl_buffer *to, const char *bytes, size_t length) {
  if (to->room - to->length < length) {
    size_t wanted = to->length + length;
    size_t room = wanted > 2 * to->room ? wanted : 2 * to->room;
    if (room < 64) room = 64;
    to->at = wl_grow(to->at, to->room, room);
    to->room = room;
  }
  if (length) __builtin_memcpy(to->at + to->length, bytes, length);
  to->length += length;
}

wl_text wl_taken(wl_buffer *from) {
  wl_put(from, "", 1);
  return (wl_text){from->at, from->length - 1};
}

static void put_number(wl_buffer *to, uint64_t number, unsigned base) {
  char digits[20];
  size_t at = sizeof digits;
  do digits[--at] = "0123456789abcdef"[number % base];
  while (number /= base);
  wl_put(to, digits + at, sizeof digits - at);
}

// One conversion; returns the character behind it.
static const char *convert(wl_buffer *to, const char *at, va_list *arguments) {
  long most = -1;
  if (at[0] == '.' && at[1] == '*') {
    most = va_arg(*arguments, int);
    at += 2;
  }
  int size = 0;
  for (; *at == 'l'; at++) size++;
  bool is_size = *at == 'z';
  if (is_size) at++;
  uint64_t number;
  switch (*at) {
  case '%': wl_put(to, "%", 1); break;
  case 'c': {
    char character = (char)va_arg(*arguments, int);
    wl_put(to, &character, 1);
    break;
  }
  case 's': {
    const char *string = va_arg(*arguments, const char *);
    // With a length, zeros are part of the text. NULL is the empty text.
    if (!string) string = "", most = 0;
    wl_put(to, string, most >= 0 ? (size_t)most : __builtin_strlen(string));
    break;
  }
  case 'd':
  case 'i': {
    int64_t value = is_size ? (int64_t)va_arg(*arguments, ptrdiff_t)
        : size == 2 ? va_arg(*arguments, long long)
        : size == 1 ? va_arg(*arguments, long)
                    : va_arg(*arguments, int);
    if (value < 0) wl_put(to, "-", 1);
    put_number(to, value < 0 ? -(uint64_t)value : (uint64_t)value, 10);
    break;
  }
  case 'u':
  case 'x':
    number = is_size ? va_arg(*arguments, size_t)
        : size == 2 ? va_arg(*arguments, unsigned long long)
        : size == 1 ? va_arg(*arguments, unsigned long)
                    : va_arg(*arguments, unsigned);
    put_number(to, number, *at == 'x' ? 16 : 10);
    break;
  case 'g': {
    char digits[WL_DIGITS_MAX];
    wl_put(to, digits, wl_double_to_digits(va_arg(*arguments, double), digits));
    break;
  }
  default: wl_panic("wl_format: a conversion that is none of s .*s c d i u x g %");
  }
  return at + 1;
}

wl_text wl_format_list(const char *format, va_list given) {
  wl_buffer to = {0};
  va_list arguments;
  va_copy(arguments, given);
  while (*format) {
    size_t plain = 0;
    while (format[plain] && format[plain] != '%') plain++;
    wl_put(&to, format, plain);
    format += plain;
    if (*format) format = convert(&to, format + 1, &arguments);
  }
  va_end(arguments);
  return wl_taken(&to);
}

wl_text wl_format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  wl_text text = wl_format_list(format, arguments);
  va_end(arguments);
  return text;
}
