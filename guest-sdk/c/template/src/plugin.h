// The parts of the plugin `__NAME__`.

#include <windlass.h>

extern const wl_consumer gate;
extern const wl_node greet;
