#include "tests.h"

int main(void) {
  test_gate();
  test_greet();
  return wl_test_end();
}
