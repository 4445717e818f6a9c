#include <testing.h>

#include "../src/plugin.h"

void test_gate(void);
void test_greet(void);
