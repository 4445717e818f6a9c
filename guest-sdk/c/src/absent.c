// What a plugin without nodes or without a consumer does not define. No function stands beside these:
// clang before version 15 takes the content of a weak constant for known, also where another object
// replaces it.

#include "internal.h"

__attribute__((weak)) const wl_node *const wl_nodes[] = {NULL};
__attribute__((weak)) const wl_consumer *const wl_consumers[] = {NULL};
