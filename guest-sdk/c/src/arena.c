// The memory of a call: blocks that are filled one after another and become free together, when the
// host has taken the answer. The host allocates its arguments here as well.
//
// A component never gives memory back, so its blocks serve the next call. A native program frees
// them, so that tools which watch memory find mistakes.

#include "internal.h"

#include <stddef.h>
#include <stdint.h>

#ifndef __wasm__
#include <stdlib.h>
#endif

typedef struct block {
  struct block *next;
  size_t room, used; // in bytes, without this head
} block;

#define ALIGNMENT 16
#define HEAD ((sizeof(block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)
#define BLOCK_BYTES 65536 // a page

static block *first, *last, *current;

static char *start_of(block *it) { return (char *)it + HEAD; }

// Adds room for at least this many bytes.
static void more(size_t bytes) {
  size_t whole = (bytes + HEAD + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
#ifdef __wasm__
  size_t page = __builtin_wasm_memory_grow(0, whole / BLOCK_BYTES);
  if (page == SIZE_MAX) wl_panic("out of memory: the call needs more than its limit");
  block *new = (block *)(page * BLOCK_BYTES);
  if (last && start_of(last) + last->room == (char *)new) {
    last->room += whole;
    return;
  }
#else
  block *new = malloc(whole);
  if (!new) wl_panic("out of memory");
#endif
  new->next = NULL;
  new->room = whole - HEAD;
  new->used = 0;
  if (last) last->next = new;
  else first = current = new;
  last = new;
}

// Memory with any content.
static void *take(size_t bytes) {
  if (bytes > SIZE_MAX / 4) wl_panic("out of memory: more bytes than there are addresses");
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  while (!current || current->room - current->used < bytes) {
    if (current && current->next) current = current->next;
    else more(bytes);
  }
  void *taken = start_of(current) + current->used;
  current->used += bytes;
  return taken;
}

void *wl_alloc(size_t bytes) {
  void *taken = take(bytes ? bytes : 1);
  __builtin_memset(taken, 0, bytes);
  return taken;
}

void *wl_grow(void *old, size_t old_size, size_t size) {
  if (old && size <= old_size) return old;
  size_t rounded = (old_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  // The latest memory grows where it is.
  if (old && current && (char *)old + rounded == start_of(current) + current->used) {
    size_t before = (size_t)((char *)old - start_of(current));
    if (size < SIZE_MAX / 4 && current->room - before >= size + ALIGNMENT) {
      current->used = before;
      take(size);
      return old;
    }
  }
  void *new = take(size ? size : 1);
  if (old) __builtin_memcpy(new, old, old_size);
  return new;
}

void wl_free_all(void) {
#ifdef __wasm__
  for (block *it = first; it; it = it->next) it->used = 0;
#else
  while (first) {
    block *next = first->next;
    free(first);
    first = next;
  }
  last = NULL;
#endif
  current = first;
}

// By which the host allocates its arguments.
WL_EXPORT("cabi_realloc")
void *wl_abi_realloc(void *old, size_t old_size, size_t align, size_t size);
void *wl_abi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  if (size == 0) return (void *)align;
  // A byte more than the text, for the zero behind it.
  return wl_grow(old_size ? old : NULL, old_size, size + 1);
}
