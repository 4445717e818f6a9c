// The contract of `wit/` in C, by hand: records, variants and functions as the canonical ABI lays
// them out. On wasm32 a struct of C has that layout by its nature: members in order, each aligned,
// and a variant is a tag before a union. In a native program testing.c has the functions.

#ifndef WINDLASS_CONTRACT_H
#define WINDLASS_CONTRACT_H

#include "../windlass.h"

#ifdef __wasm__
#define WL_IMPORT(interface, name) \
  __attribute__((import_module("windlass:" interface "@0.1.0"), import_name(name)))
#else
#define WL_IMPORT(interface, name)
#endif

#define WL_MAYBE(type) \
  struct { \
    uint8_t some; \
    type value; \
  }

typedef struct {
  const char *at;
  size_t length;
} wl_abi_string; // also list<u8>
typedef struct {
  void *at;
  size_t length;
} wl_abi_list;
typedef WL_MAYBE(wl_abi_string) wl_abi_maybe_string;
typedef WL_MAYBE(uint64_t) wl_abi_maybe_u64;

// windlass:types
enum { WL_BODY_INLINE, WL_BODY_TEXT, WL_BODY_BLOB };
typedef struct {
  wl_abi_maybe_string content_type;
  uint8_t tag;
  wl_abi_string body;
} wl_abi_payload;
typedef WL_MAYBE(wl_abi_payload) wl_abi_maybe_payload;
typedef struct {
  wl_abi_maybe_string source;
  uint32_t line, column;
} wl_abi_position;
typedef WL_MAYBE(wl_abi_position) wl_abi_maybe_position;
typedef struct {
  wl_abi_string message;
  wl_abi_maybe_payload details;
  wl_abi_maybe_string stack;
  wl_abi_maybe_position position;
} wl_abi_failure;
// A case with a text or a number, as the errors of the host have it.
typedef struct {
  uint8_t tag;
  union {
    wl_abi_string text;
    uint64_t number;
  } value;
} wl_abi_error;
// The same where no case has a number.
typedef struct {
  uint8_t tag;
  wl_abi_string text;
} wl_abi_text_error;

// windlass:node
typedef WL_MAYBE(uint8_t) wl_abi_maybe_bool;
typedef struct {
  wl_abi_string name;
  wl_abi_maybe_payload match;
  wl_abi_maybe_string correlation;
  wl_abi_maybe_bool is_private, auto_burn;
  wl_abi_maybe_payload metadata;
  wl_abi_maybe_u64 expires;
} wl_abi_bookmark;
typedef struct {
  uint8_t tag; // as wl_result
  union {
    struct {
      wl_abi_payload output;
      wl_abi_list ports;
    } done;
    struct {
      wl_abi_list bookmarks;
      wl_abi_maybe_payload state;
    } suspend;
    struct {
      uint64_t after;
      wl_abi_maybe_payload state;
    } again;
  } value;
} wl_abi_outcome;
typedef struct {
  uint8_t tag; // as wl_class
  struct {
    wl_abi_failure failure;
    wl_abi_maybe_u64 after; // of WL_RETRYABLE
  } value;
} wl_abi_node_error;
typedef struct {
  uint8_t is_error;
  union {
    wl_abi_outcome outcome;
    wl_abi_node_error error;
  } value;
} wl_abi_executed;

// windlass:consumer
typedef struct {
  uint8_t tag; // as wl_result after WL_EXECUTE
  union {
    wl_abi_maybe_payload vars;
    uint64_t after;
    wl_abi_failure reason;
  } value;
} wl_abi_disposition;
typedef struct {
  uint8_t is_error;
  union {
    wl_abi_disposition disposition;
    struct {
      uint8_t tag; // 0 retryable, 1 other
      wl_abi_failure failure;
    } error;
  } value;
} wl_abi_accepted;

// windlass:check
typedef struct {
  uint8_t is_warning;
  wl_abi_string message;
  wl_abi_maybe_string pointer;
  wl_abi_maybe_position position;
} wl_abi_finding;

// windlass:log
typedef struct {
  wl_abi_string name, value;
} wl_abi_field;
WL_IMPORT("log/log", "write")
void wl_import_log(uint32_t level, const char *message, size_t length, const wl_abi_field *fields,
                   size_t count);

// windlass:context
typedef struct {
  uint8_t tag; // as wl_reason
  union {
    struct {
      wl_abi_string bookmark;
      wl_abi_payload input;
      wl_abi_maybe_payload metadata;
    } resumed;
    wl_abi_string text;
  } value;
} wl_abi_reason;
typedef struct {
  wl_abi_reason reason;
  uint32_t phase;
  wl_abi_maybe_payload state;
} wl_abi_resumed_call;
typedef WL_MAYBE(wl_abi_resumed_call) wl_abi_resumption;
WL_IMPORT("context/context", "run-id") void wl_import_run_id(wl_abi_string *);
WL_IMPORT("context/context", "workflow") void wl_import_workflow(wl_abi_string *);
WL_IMPORT("context/context", "node-id") void wl_import_node_id(wl_abi_maybe_string *);
WL_IMPORT("context/context", "trigger-id") void wl_import_trigger_id(wl_abi_string *);
WL_IMPORT("context/context", "attempt") uint32_t wl_import_attempt(void);
WL_IMPORT("context/context", "idempotency-key") void wl_import_idempotency_key(wl_abi_string *);
WL_IMPORT("context/context", "deadline") uint64_t wl_import_deadline(void);
WL_IMPORT("context/context", "correlation-id")
void wl_import_correlation_id(wl_abi_maybe_string *);
WL_IMPORT("context/context", "trace-parent") void wl_import_trace_parent(wl_abi_maybe_string *);
WL_IMPORT("context/context", "resumption") void wl_import_resumption(wl_abi_resumption *);
WL_IMPORT("context/context", "resume-token")
void wl_import_resume_token(const char *bookmark, size_t length, wl_abi_maybe_string *);
WL_IMPORT("context/context", "cancelled") uint32_t wl_import_cancelled(void);
WL_IMPORT("context/context", "progress")
void wl_import_progress(double fraction, const char *note, size_t length);

// windlass:memory
typedef struct {
  uint8_t is_error;
  union {
    wl_abi_maybe_payload found;
    wl_abi_error error;
  } value;
} wl_abi_memory;
WL_IMPORT("memory/memory", "get")
void wl_import_memory(const char *path, size_t length, wl_abi_memory *);

// windlass:blobs
typedef struct {
  uint8_t is_error;
  union {
    uint64_t size;
    wl_abi_text_error error;
  } value;
} wl_abi_blob_size;
// A list, a writer, a reference or none.
typedef struct {
  uint8_t is_error;
  union {
    wl_abi_string bytes;
    uint32_t writer;
    wl_abi_text_error error;
  } value;
} wl_abi_blob;
WL_IMPORT("blobs/blobs", "size")
void wl_import_blob_size(const char *blob, size_t length, wl_abi_blob_size *);
WL_IMPORT("blobs/blobs", "read")
void wl_import_blob_read(const char *blob, size_t length, uint64_t offset, uint32_t count,
                         wl_abi_blob *);
WL_IMPORT("blobs/blobs", "begin") void wl_import_blob_begin(wl_abi_blob *);
WL_IMPORT("blobs/blobs", "append")
void wl_import_blob_append(uint32_t writer, const char *bytes, size_t length, wl_abi_blob *);
WL_IMPORT("blobs/blobs", "finish") void wl_import_blob_finish(uint32_t writer, wl_abi_blob *);

// windlass:http
typedef struct {
  wl_abi_string name;
  uint8_t is_secret;
  wl_abi_string value;
} wl_abi_header;
typedef struct {
  uint8_t is_error;
  union {
    struct {
      uint16_t status;
      wl_abi_list headers; // of wl_abi_field
      uint8_t is_text;
      wl_abi_string body;
    } response;
    wl_abi_error error;
  } value;
} wl_abi_fetched;
WL_IMPORT("http/http", "fetch")
void wl_import_fetch(const char *method, size_t method_length, const char *url, size_t url_length,
                     const wl_abi_header *headers, size_t header_count, uint32_t has_body,
                     uint32_t is_text, const char *body, size_t body_length, uint32_t has_timeout,
                     uint64_t timeout, uint32_t has_most, uint64_t most, uint32_t has_redirects,
                     uint32_t redirects, wl_abi_fetched *);

// windlass:events
typedef struct {
  wl_abi_string name;
  wl_abi_maybe_payload match;
  wl_abi_maybe_string correlation, run;
  wl_abi_maybe_payload input;
} wl_abi_stimulus;
typedef struct {
  uint8_t is_error;
  wl_abi_text_error error;
} wl_abi_sent;
WL_IMPORT("events/events", "send")
void wl_import_send(const wl_abi_stimulus *, wl_abi_sent *);
WL_IMPORT("events/events", "schedule")
void wl_import_schedule(const char *node, size_t node_length, uint64_t at, uint32_t has_payload,
                        uint32_t typed, const char *type, size_t type_length, uint32_t tag,
                        const char *payload, size_t length, wl_abi_sent *);

// windlass:clock, windlass:random
WL_IMPORT("clock/clock", "now") uint64_t wl_import_now(void);
WL_IMPORT("clock/clock", "monotonic-ns") uint64_t wl_import_monotonic_ns(void);
WL_IMPORT("random/random", "bytes") void wl_import_random_bytes(uint32_t, wl_abi_string *);
WL_IMPORT("random/random", "number") uint64_t wl_import_random(void);

#ifdef __wasm__
// The sizes that the canonical ABI gives these types.
_Static_assert(sizeof(wl_abi_failure) == 72, "failure");
_Static_assert(sizeof(wl_abi_bookmark) == 96, "bookmark");
_Static_assert(sizeof(wl_abi_executed) == 104, "result of execute");
_Static_assert(sizeof(wl_abi_accepted) == 88, "result of accept");
_Static_assert(sizeof(wl_abi_finding) == 48, "finding-level");
_Static_assert(sizeof(wl_abi_resumption) == 100, "result of resumption");
_Static_assert(sizeof(wl_abi_memory) == 40, "result of memory.get");
_Static_assert(sizeof(wl_abi_fetched) == 32, "result of fetch");
_Static_assert(sizeof(wl_abi_stimulus) == 88, "stimulus");
#endif

#endif
