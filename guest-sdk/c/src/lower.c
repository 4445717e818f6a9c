// Values of the SDK as the contract has them, and back.

#include "internal.h"

static const char JSON[] = "application/json";

wl_abi_string wl_lower(wl_text text) {
  if (wl_is_utf8(text)) return (wl_abi_string){text.at, text.length};
  wl_buffer to = {0};
  const unsigned char *at = (const unsigned char *)text.at;
  for (size_t i = 0; i < text.length;) {
    size_t length = wl_utf8_length(at + i, text.length - i);
    if (length) wl_put(&to, text.at + i, length);
    else wl_put(&to, "\xef\xbf\xbd", 3);
    i += length ? length : 1;
  }
  wl_text clean = wl_taken(&to);
  return (wl_abi_string){clean.at, clean.length};
}

wl_abi_maybe_string wl_lower_maybe(const char *text) {
  return (wl_abi_maybe_string){text != NULL, wl_lower(wl_text_of(text))};
}

const char *wl_lower_payload(const wl_json *value, wl_abi_payload *to) {
  *to = (wl_abi_payload){0};
  wl_kind kind = wl_kind_of(value);
  if (kind == WL_BYTES || kind == WL_BLOB) {
    to->content_type.some = value->name.length > 0;
    to->content_type.value = wl_lower(value->name);
    to->tag = kind == WL_BYTES ? WL_BODY_INLINE : WL_BODY_BLOB;
    to->body = kind == WL_BLOB ? wl_lower(value->of.text)
                               : (wl_abi_string){value->of.text.at, value->of.text.length};
    return NULL;
  }
  wl_fault fault = {0};
  wl_text text = wl_write(value, &fault);
  to->tag = WL_BODY_TEXT;
  to->body = (wl_abi_string){text.at, text.length};
  return fault.message;
}

const char *wl_lower_maybe_payload(const wl_json *value, wl_abi_maybe_payload *to) {
  *to = (wl_abi_maybe_payload){.some = value != NULL};
  return value ? wl_lower_payload(value, &to->value) : NULL;
}

const char *wl_lift(wl_abi_string text) {
  if (!text.length) return "";
  // The host allocates by `cabi_realloc`, which adds a byte.
  ((char *)text.at)[text.length] = 0;
  return text.at;
}

static bool is_json(wl_abi_maybe_string type) {
  size_t length = sizeof JSON - 1;
  if (!type.some || !type.value.length) return true;
  if (type.value.length < length || __builtin_memcmp(type.value.at, JSON, length)) return false;
  return type.value.length == length || type.value.at[length] == ';';
}

wl_json *wl_lift_payload(const wl_abi_payload *payload, wl_fault *fault) {
  wl_text body = {wl_lift(payload->body), payload->body.length};
  bool is_blob = payload->tag == WL_BODY_BLOB;
  if (!is_blob && is_json(payload->content_type))
    return wl_parse_here((char *)body.at, body.length, fault);
  wl_json *value = wl_make(is_blob ? WL_BLOB : WL_BYTES, body);
  if (payload->content_type.some)
    value->name = (wl_text){wl_lift(payload->content_type.value), payload->content_type.value.length};
  return value;
}

const wl_json *wl_lift_maybe(const wl_abi_maybe_payload *payload) {
  wl_fault fault = {0};
  const wl_json *value = payload->some ? wl_lift_payload(&payload->value, &fault) : NULL;
  if (fault.message) wl_panic("a payload of the host is no JSON that this SDK reads");
  return value;
}
