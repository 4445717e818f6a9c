// A node executor in C with stdio and nothing but libc: the functions of the contract by hand, as
// the canonical ABI lays them out.

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT(name) __attribute__((export_name(name)))

static const char ABOUT[] =
    "{\"windlass\":1,\"package\":\"c\",\"version\":\"1.0.0\",\"nodes\":["
    "{\"name\":\"prints\"},{\"name\":\"looks\"},{\"name\":\"times\"},{\"name\":\"exits\"},"
    "{\"name\":\"aborts\"}]}";

// A result of any kind, in words of 32 bits.
static uint32_t answer[32];

static uint32_t *say(int at, const char *text) {
  answer[at] = (uint32_t)(uintptr_t)text;
  answer[at + 1] = strlen(text);
  return answer;
}

EXPORT("cabi_realloc")
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  (void)old_size, (void)align;
  return size ? realloc(old, size) : (void *)align;
}

EXPORT("windlass:node/node@0.1.0#describe")
uint32_t *describe(void) {
  memset(answer, 0, sizeof answer);
  return say(4, ABOUT);
}

extern char **environ;

static char output[512];

static void prints(void) {
  printf("%s %d\n", "printed", 1);
  fprintf(stderr, "%.2f\n", 2.5);
  printf("3 without an end");
  fflush(stdout);
  strcpy(output, "\"printed\"");
}

// All that a program may look for and that is not there.
static void looks(void) {
  FILE *file = fopen("/etc/passwd", "r");
  int file_error = errno;
  int first = getchar();
  int terminal = isatty(1);
  int count = 0;
  while (environ && environ[count]) count++;
  snprintf(output, sizeof output,
           "{\"file\":%s,\"error\":\"%s\",\"stdin\":%d,\"terminal\":%d,\"variables\":%d,\"home\":%s}",
           file ? "true" : "false", strerror(file_error), first, terminal, count,
           getenv("HOME") ? "true" : "false");
}

static int64_t nanoseconds(clockid_t clock) {
  struct timespec at;
  if (clock_gettime(clock, &at)) abort();
  return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void times(void) {
  int64_t began = nanoseconds(CLOCK_MONOTONIC);
  struct timespec pause = {0, 20 * 1000 * 1000};
  if (nanosleep(&pause, NULL)) abort();
  int64_t slept = nanoseconds(CLOCK_MONOTONIC) - began;
  uint64_t random[3] = {0};
  if (getentropy(random, 17)) abort();
  snprintf(output, sizeof output,
           "{\"slept\":%s,\"second\":%lld,\"random\":%s,\"beyond\":%d}",
           slept >= 20 * 1000 * 1000 ? "true" : "false",
           (long long)(nanoseconds(CLOCK_REALTIME) / 1000000000),
           random[0] && random[1] ? "true" : "false", (int)(random[2] >> 8 != 0));
}

EXPORT("windlass:node/node@0.1.0#execute")
uint32_t *execute(const char *type, uint32_t length, uint32_t c0, uint32_t c1, uint32_t c2,
                  uint32_t c3, uint32_t c4, uint32_t c5, uint32_t i0, uint32_t i1, uint32_t i2,
                  uint32_t i3, uint32_t i4, uint32_t i5) {
  (void)c0, (void)c1, (void)c2, (void)c3, (void)c4, (void)c5;
  (void)i0, (void)i1, (void)i2, (void)i3, (void)i4, (void)i5;
  memset(answer, 0, sizeof answer);
  const char *name = type + strlen("c/");
  length -= strlen("c/");
#define IS(text) (length == strlen(text) && !memcmp(name, text, length))
  if (IS("prints")) prints();
  if (IS("looks")) looks();
  if (IS("times")) times();
  if (IS("exits")) exit(3);
  if (IS("aborts")) {
    fprintf(stderr, "nothing works\n");
    abort();
  }
  return say(8, output);
}
