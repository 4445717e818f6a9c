// Nodes and trigger consumers for Windlass, in C and C++. README.md is the manual.
//
// All memory that these functions return lives until the end of the call, and is never freed by
// hand. Texts are UTF-8. Lengths of time are in milliseconds, instants in milliseconds since 1970.
// A NULL value is a value that is missing; every function that reads one takes it.

#ifndef WINDLASS_H
#define WINDLASS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Texts ------------------------------------------------------------------------------------------

// A text, or bytes. A text that this SDK returns has a zero behind it.
typedef struct wl_text {
  const char *at;
  size_t length; // in bytes
} wl_text;

// The text of a C string; NULL is the empty text.
wl_text wl_text_of(const char *string);

// A text by the conversions %s %.*s %c %d %i %u %x %g and %%, with the sizes l, ll and z. `%.*s` takes
// exactly as many bytes as it says, zeros included.
wl_text wl_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
wl_text wl_format_list(const char *format, va_list arguments);

// The two arguments of `%.*s`. A text may have zeros inside, at which `%s` ends.
#define WL_F(text) (int)(text).length, (text).at

// Whether the bytes are UTF-8.
bool wl_is_utf8(wl_text text);

// Memory of the call: zeroed, aligned for every type, never NULL.
void *wl_alloc(size_t bytes);

// Ends the call as a crash with this message, for mistakes of the program.
void wl_panic(const char *message) __attribute__((noreturn));

// JSON -------------------------------------------------------------------------------------------

typedef enum wl_kind {
  WL_MISSING, // NULL
  WL_NULL,
  WL_BOOL,
  WL_NUMBER,
  WL_STRING,
  WL_LIST,
  WL_OBJECT,
  WL_BYTES, // a payload of another media type than JSON
  WL_BLOB,  // a reference to a payload in the blob store
} wl_kind;

typedef struct wl_json wl_json;

// The deepest nesting of lists and objects that is read or written.
#define WL_DEPTH_MAX 128

// A mistake in a text of JSON.
typedef struct wl_fault {
  const char *message;
  size_t offset; // in bytes
} wl_fault;

// Reads JSON. NULL and a fault, which may be NULL, if the text is no JSON or is nested too deep.
wl_json *wl_parse(wl_text text, wl_fault *fault);

// Writes JSON without spaces. A text without bytes and a fault if a string is no UTF-8, or a value
// is nested too deep or cannot be JSON.
wl_text wl_write(const wl_json *value, wl_fault *fault);

wl_kind wl_kind_of(const wl_json *value);
// The member of this name, the last one if several have it. Takes time by the number of members.
const wl_json *wl_get(const wl_json *object, const char *name);
// The item at this position, from 0.
const wl_json *wl_at(const wl_json *list, size_t position);
// The number of items or members.
size_t wl_count(const wl_json *value);
// The first item or member, and the one after it: for (it = wl_first(x); it; it = wl_next(it)).
const wl_json *wl_first(const wl_json *value);
const wl_json *wl_next(const wl_json *item);
// The name of a member, and the media type of bytes and of a blob.
wl_text wl_name(const wl_json *member);

// These return `otherwise` for a value of another kind.
bool wl_as_bool(const wl_json *value, bool otherwise);
// Also `otherwise` for a number with a fraction, or beyond 64 bits.
int64_t wl_as_int(const wl_json *value, int64_t otherwise);
bool wl_is_int(const wl_json *value);
// The nearest double.
double wl_as_double(const wl_json *value, double otherwise);
const char *wl_as_string(const wl_json *value, const char *otherwise);
// A string, the digits of a number as they were written, the bytes, or the reference of a blob.
wl_text wl_as_text(const wl_json *value);

wl_json *wl_null(void);
wl_json *wl_bool(bool value);
wl_json *wl_int(int64_t value);
// The shortest digits that are this number; null if it is no finite number.
wl_json *wl_double(double value);
// A number by its digits, of any length.
wl_json *wl_number(const char *digits);
wl_json *wl_string(const char *text);
wl_json *wl_string_of(wl_text text);
wl_json *wl_stringf(const char *format, ...) __attribute__((format(printf, 1, 2)));
wl_json *wl_list(void);
wl_json *wl_object(void);
// Payloads of other media types: the bytes, or a reference that `wl_blob_write` has returned.
wl_json *wl_bytes(const char *content_type, wl_text bytes);
wl_json *wl_blob(const char *content_type, const char *reference);
// Sets a member, and appends an item. NULL is null. Both return the container.
wl_json *wl_set(wl_json *object, const char *name, const wl_json *value);
wl_json *wl_add(wl_json *list, const wl_json *value);

// Outcomes ---------------------------------------------------------------------------------------

// The class of a failure, by which retry policies choose.
typedef enum wl_class {
  WL_INVALID,   // the configuration or the input is wrong: a retry is useless
  WL_RETRYABLE, // a retry may succeed
  WL_PERMANENT, // a retry cannot succeed
  WL_CANCELLED, // the node noticed that it was cancelled
  WL_OTHER,
} wl_class;

// An event that a node waits for.
typedef struct wl_bookmark {
  const char *name;        // of the stimulus
  const wl_json *match;    // the value that the `match` of the stimulus has to equal
  const char *correlation; // only stimuli of this correlation resume it
  bool is_private;         // only the resume token of this wait resumes it
  bool stays;              // resuming it does not delete it
  const wl_json *metadata; // returned unread with the resumption
  uint64_t expires_ms;     // the instant at which the wait ends by itself; 0 is never
} wl_bookmark;

// The most ports of a node.
#define WL_PORTS_MAX 16

typedef enum wl_result {
  WL_DONE,
  WL_SUSPEND,
  WL_AGAIN,
  WL_FAILED,
  WL_EXECUTE, // from here on the decisions of a consumer
  WL_HANDLED,
  WL_LATER,
  WL_REJECT,
} wl_result;

// The result of a node or of a consumer. The functions below make it.
typedef struct wl_outcome {
  wl_result result;
  const wl_json *value; // the output, the state, or the variables to assign
  const char *ports[WL_PORTS_MAX];
  const wl_bookmark *bookmarks;
  size_t bookmark_count;
  uint64_t after_ms;
  // Of a failure and a rejection:
  wl_class error;
  wl_text message;
  wl_json *details;
  const char *source; // NULL is a text in the configuration
  uint32_t line, column; // from 1; line 0 is no position
} wl_outcome;

wl_outcome *wl_done(const wl_json *output);
wl_outcome *wl_done_by(const wl_json *output, const char *port);
// The node is called again after this delay, with this state. Needs `suspends`.
wl_outcome *wl_again(uint64_t after_ms, const wl_json *state);
// The node is called again when one of these bookmarks is resumed. Needs `suspends`.
wl_outcome *wl_suspend(const wl_bookmark *bookmarks, size_t count, const wl_json *state);
wl_outcome *wl_fail(wl_class error, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define wl_invalid(...) wl_fail(WL_INVALID, __VA_ARGS__)
#define wl_retryable(...) wl_fail(WL_RETRYABLE, __VA_ARGS__)
#define wl_permanent(...) wl_fail(WL_PERMANENT, __VA_ARGS__)
#define wl_cancelled() wl_fail(WL_CANCELLED, "cancelled")
// These change a failure, and return it: the delay before a retry, data for conditions (at most
// 16 KiB of JSON), the member `code` of that data, and a position in a text.
wl_outcome *wl_after(wl_outcome *failure, uint64_t after_ms);
wl_outcome *wl_details(wl_outcome *failure, wl_json *details);
wl_outcome *wl_code(wl_outcome *failure, const char *code);
wl_outcome *wl_position(wl_outcome *failure, const char *source, uint32_t line, uint32_t column);

// Nodes ------------------------------------------------------------------------------------------

typedef struct wl_call {
  const char *node; // without the package
  const wl_json *config;
  const wl_json *input; // WL_BYTES if it is no JSON, WL_BLOB of a node with `by_reference`
} wl_call;

// A node type. Members that are left out have the defaults of DESCRIBE.md.
typedef struct wl_node {
  const char *name;
  const char *title, *description, *icon;
  wl_outcome *(*run)(const wl_call *call);
  // JSON Schemas as text, best by WL_JSON; NULL is any value.
  const char *config, *input, *output;
  const char *ports[WL_PORTS_MAX];
  const char *capabilities[4]; // "http", "secrets", "events"
  bool by_reference, suspends;
  const char *resources; // JSON
  // Calls wl_error and wl_warning for mistakes in a configuration, before anything runs. Members
  // with expressions are absent; `unknown` is the list of their JSON pointers. Needs WL_CHECKS.
  void (*check)(const wl_json *config, const wl_json *unknown);
} wl_node;

typedef struct wl_trigger {
  const char *kind;
  const char *node;       // NULL starts the workflow
  const wl_json *payload; // an object, or NULL
} wl_trigger;

typedef struct wl_consumer {
  wl_outcome *(*accept)(const wl_trigger *trigger);
  const char *types[16];  // kinds of triggers; none is every kind
  const char *routes[16]; // none takes the triggers without a route
} wl_consumer;

// Decisions of a consumer: execute after assigning these variables (or NULL), finished, offer again
// later, or make a dead letter. wl_fail offers it again.
wl_outcome *wl_execute(const wl_json *vars);
wl_outcome *wl_handled(void);
wl_outcome *wl_later(uint64_t after_ms);
wl_outcome *wl_reject(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A mistake in a configuration. The position is one inside of the member; line 0 is none.
typedef struct wl_finding {
  bool is_warning;
  wl_text message;
  const char *pointer; // JSON pointer; NULL is the configuration as a whole
  uint32_t line, column;
} wl_finding;

wl_finding *wl_error(const char *pointer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
wl_finding *wl_warning(const char *pointer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

typedef struct wl_plugin {
  const char *package, *version;
  const char *title, *description;
} wl_plugin;

// JSON as it stands, as a C string: WL_JSON({"type": "string"}).
#define WL_JSON(...) #__VA_ARGS__

// The host ---------------------------------------------------------------------------------------
//
// A function with a `failure` sets it, unless it is NULL, when the host refuses; its class and its
// code, like `http.denied`, fit a node that returns it. It leaves it alone on success.

typedef enum wl_level { WL_TRACE, WL_DEBUG, WL_INFO, WL_WARN, WL_ERROR } wl_level;
typedef struct wl_field {
  const char *name, *value;
} wl_field;
void wl_log(wl_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void wl_log_fields(wl_level level, const char *message, const wl_field *fields, size_t count);

// The context of the call. NULL where the host has none.
const char *wl_run_id(void);
const char *wl_workflow(void);
const char *wl_node_id(void);
const char *wl_trigger_id(void);
const char *wl_idempotency_key(void); // the same over crashes and retries of one execution
const char *wl_correlation_id(void);
const char *wl_trace_parent(void);
const char *wl_resume_token(const char *bookmark);
uint32_t wl_attempt(void); // from 1
uint64_t wl_deadline_ms(void);
bool wl_is_cancelled(void);
void wl_progress(double fraction, const char *note); // between 0 and 1

typedef enum wl_reason {
  WL_BY_AGAIN,
  WL_BY_BOOKMARK,
  WL_BY_EXPIRY,
  WL_BY_CANCELLATION,
  WL_BY_OTHER,
} wl_reason;

// Why a node is called again.
typedef struct wl_resumption {
  wl_reason reason;
  const char *bookmark; // resumed or expired
  const wl_json *input, *metadata, *state;
  uint32_t phase; // the number of the repeated call, from 1
} wl_resumption;
// NULL in the first call of a node.
const wl_resumption *wl_resumed(void);

typedef struct wl_header {
  const char *name;
  const char *value;
  const char *secret; // in place of `value`: the host inserts the secret of this name
} wl_header;

#define WL_HEADERS_MAX 32

typedef struct wl_request {
  const char *method; // NULL is GET
  const char *url;
  wl_header headers[WL_HEADERS_MAX]; // those before the first without a name
  wl_text body;                      // `at` NULL is none
  const wl_json *json;               // in place of `body`, with the header content-type
  uint64_t timeout_ms;               // 0 is the deadline of the call
  uint64_t max_bytes;                // 0 is the limit of the host
  uint32_t max_redirects;
} wl_request;

typedef struct wl_response {
  uint16_t status;
  const wl_field *headers; // names in small letters
  size_t header_count;
  wl_text body;
} wl_response;

// Sends a request and waits for the response, which has any status.
const wl_response *wl_fetch(const wl_request *request, wl_outcome **failure);
// The first header of this name, which is in small letters; NULL if there is none.
const char *wl_header_of(const wl_response *response, const char *name);
// NULL below 400; otherwise a failure, retryable for 408, 425, 429 and from 500 on.
wl_outcome *wl_status_failure(const wl_response *response);

// The value at `input`, `vars.NAME` or `nodes.NAME.output`, or below; NULL without a failure if there
// is none.
const wl_json *wl_memory(const char *path, wl_outcome **failure);

uint64_t wl_blob_size(const char *reference, wl_outcome **failure);
wl_text wl_blob_read(const char *reference, uint64_t offset, uint32_t length, wl_outcome **failure);
// The reference of a new blob; NULL with a failure.
const char *wl_blob_write(wl_text bytes, wl_outcome **failure);
// The same in parts: a writer, bytes, and the reference.
bool wl_blob_begin(uint32_t *writer, wl_outcome **failure);
bool wl_blob_append(uint32_t writer, wl_text bytes, wl_outcome **failure);
const char *wl_blob_finish(uint32_t writer, wl_outcome **failure);

typedef struct wl_stimulus {
  const char *name;
  const wl_json *match;
  const char *correlation;
  const char *run;
  const wl_json *input;
} wl_stimulus;
// Both take effect with the commit of the call.
bool wl_send(const wl_stimulus *stimulus, wl_outcome **failure);
bool wl_schedule(const char *node, uint64_t at_ms, const wl_json *payload, wl_outcome **failure);

uint64_t wl_now_ms(void);
uint64_t wl_monotonic_ns(void);
// At most 64 KiB, fewer if more are asked for; fit for keys.
wl_text wl_random_bytes(uint32_t length);
uint64_t wl_random(void);

#include "src/exports.h"

#ifdef __cplusplus
}
#endif
#endif
