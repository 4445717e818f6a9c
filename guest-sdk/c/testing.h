// Tests of nodes and consumers as an ordinary program, with a host that is a few variables.
//
// A test is a function; `main` runs each by wl_test. All memory of a test ends with it.

#ifndef WINDLASS_TESTING_H
#define WINDLASS_TESTING_H

#include "windlass.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WL_FAKES_MAX 16

// The host of a test. wl_test sets it to its beginning: these members are zero unless they say more.
typedef struct wl_fake {
  uint64_t now_ms;      // 2026-01-01T00:00:00Z
  uint64_t random;      // the next number; each call adds one
  uint32_t attempt;     // 1
  bool is_cancelled;
  const char *run_id, *workflow, *node_id, *trigger_id, *idempotency_key; // texts like "run-1"
  const char *correlation_id, *trace_parent;
  const wl_json *resumption; // {"reason": "again", "resumed" or "expired", "bookmark", "input",
                             // "metadata", "state", "phase"}
  const wl_json *memory;     // an object whose members are the values at each path
  // Answers a request, or returns NULL, as a host does that has not granted the address.
  const wl_response *(*fetch)(const wl_request *request);
  bool grants_events;
  // The deeds of the node: log lines as "info TEXT", blobs, and events as JSON.
  const char *log[WL_FAKES_MAX];
  wl_text blobs[WL_FAKES_MAX];
  const wl_json *sent[WL_FAKES_MAX];
  size_t log_count, blob_count, sent_count;
} wl_fake;
extern wl_fake wl_fake_host;

// Runs a test, and prints its name if it fails.
void wl_test(const char *name, void (*test)(void));
#define WL_TEST(function) wl_test(#function, function)
// The exit code of `main`.
int wl_test_end(void);

// Fails the test if the condition does not hold, and goes on.
#define WL_CHECK(condition) wl_check((condition), __FILE__, __LINE__, #condition)
bool wl_check(bool holds, const char *file, int line, const char *text);
// Fails the test if the value is not this JSON. Members have an order.
#define WL_CHECK_JSON(value, json) wl_check_json(value, json, __FILE__, __LINE__)
bool wl_check_json(const wl_json *value, const char *json, const char *file, int line);

// A value of a text, which has to be JSON.
wl_json *wl_read(const char *json);
// Calls a node with a configuration and an input. The test fails if the node takes a port that it
// does not declare, waits without `suspends`, or returns a value that cannot be sent.
wl_outcome *wl_run(const wl_node *node, const char *config, const char *input);
// Offers a trigger of the kind `manual` to a consumer.
wl_outcome *wl_offer(const wl_consumer *consumer, const char *payload);

#ifdef __cplusplus
}
#endif
#endif
