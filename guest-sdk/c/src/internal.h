// Types and functions that the sources of the SDK share, and no plugin uses.

#ifndef WINDLASS_INTERNAL_H
#define WINDLASS_INTERNAL_H

#include "contract.h"

// A value. Items and members are a list; a member has a name.
struct wl_json {
  uint8_t kind;
  bool is_owned; // it is in a container
  wl_text name;
  wl_json *next;
  union {
    bool truth;
    wl_text text;
    struct {
      wl_json *first, *last;
    } items;
  } of;
};

// A value of this kind that is a text, or empty without one; and an item at the end of a container.
wl_json *wl_make(wl_kind kind, wl_text text);
wl_json *wl_append(wl_json *container, wl_json *item);

// Memory of the call that grows, without zeros. `old` may be NULL.
void *wl_grow(void *old, size_t old_size, size_t size);
// Frees the memory of the call.
void wl_free_all(void);

// Reads JSON in the place of its text, behind which one byte is free.
wl_json *wl_parse_here(char *text, size_t length, wl_fault *fault);

// Digits of a number of JSON to the nearest double, and the shortest digits of a double. `to` has
// room for WL_DIGITS_MAX bytes; the length is returned.
#define WL_DIGITS_MAX 32
double wl_digits_to_double(wl_text digits);
size_t wl_double_to_digits(double value, char *to);

// Bytes that grow.
typedef struct wl_buffer {
  char *at;
  size_t length, room;
} wl_buffer;
void wl_put(wl_buffer *to, const char *bytes, size_t length);
// The bytes with a zero behind them.
wl_text wl_taken(wl_buffer *from);

// The length in bytes of the character of UTF-8 at the beginning; 0 if there is none.
size_t wl_utf8_length(const unsigned char *at, size_t room);

// A text for the host, in which U+FFFD replaces bytes that are no UTF-8: with them the host ends the call.
wl_abi_string wl_lower(wl_text text);
wl_abi_maybe_string wl_lower_maybe(const char *text);
// A payload for the host. Returns why it cannot be one, or NULL.
const char *wl_lower_payload(const wl_json *value, wl_abi_payload *to);
const char *wl_lower_maybe_payload(const wl_json *value, wl_abi_maybe_payload *to);
// Values of the host. A payload of JSON that is none is NULL with a fault.
const char *wl_lift(wl_abi_string text);
wl_json *wl_lift_payload(const wl_abi_payload *payload, wl_fault *fault);
// The same of the payloads that the SDK itself has written, or the host.
const wl_json *wl_lift_maybe(const wl_abi_maybe_payload *payload);

// The answers of `execute` and `accept`: a wl_abi_executed and a wl_abi_accepted.
const void *wl_abi_executed_of(const wl_outcome *outcome);
const void *wl_abi_accepted_of(const wl_outcome *decision);

#endif
