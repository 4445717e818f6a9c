// The functions that compilers call, for targets without a libc.

#if defined(__wasm__) && !defined(__wasi__)

#include <stddef.h>

#define PLAIN __attribute__((no_builtin, weak))

void *memcpy(void *restrict to, const void *restrict from, size_t length);
void *memmove(void *to, const void *from, size_t length);
void *memset(void *to, int byte, size_t length);
int memcmp(const void *one, const void *other, size_t length);
size_t strlen(const char *text);

PLAIN void *memcpy(void *restrict to, const void *restrict from, size_t length) {
  for (size_t i = 0; i < length; i++) ((char *)to)[i] = ((const char *)from)[i];
  return to;
}

PLAIN void *memmove(void *to, const void *from, size_t length) {
  if ((char *)to <= (const char *)from) return memcpy(to, from, length);
  while (length-- > 0) ((char *)to)[length] = ((const char *)from)[length];
  return to;
}

PLAIN void *memset(void *to, int byte, size_t length) {
  for (size_t i = 0; i < length; i++) ((char *)to)[i] = (char)byte;
  return to;
}

PLAIN int memcmp(const void *one, const void *other, size_t length) {
  const unsigned char *a = one, *b = other;
  for (size_t i = 0; i < length; i++)
    if (a[i] != b[i]) return a[i] - b[i];
  return 0;
}

PLAIN size_t strlen(const char *text) {
  size_t length = 0;
  while (text[length]) length++;
  return length;
}

#else
typedef int wl_has_libc; // a source must not be empty
#endif
