// A plugin of all that the SDK offers, for its tests.

#ifndef TEST_PLUGIN_H
#define TEST_PLUGIN_H

#include "testing.h"

extern const wl_node echo_node, poll_node, ask_node, fail_node, reach_node, look_node;
extern const wl_consumer gate;

#endif
