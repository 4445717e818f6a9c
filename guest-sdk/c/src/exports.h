// The exports of a component, which the last lines of a plugin make. A component has only those that
// its author asks for, because a host gives triggers and checks to every component that exports them.

#ifndef WINDLASS_EXPORTS_H
#define WINDLASS_EXPORTS_H

#ifdef __wasm__
#define WL_EXPORT(name) __attribute__((export_name(name)))
#else
#define WL_EXPORT(name)
#endif

extern const wl_plugin wl_this_plugin;
extern const wl_node *const wl_nodes[];
extern const wl_consumer *const wl_consumers[];

// Arguments and results as the canonical ABI lays them out (contract.h).
#define WL_PAYLOAD(x) \
  uint32_t x##_typed, char *x##_type, size_t x##_type_length, uint32_t x##_tag, char *x, \
      size_t x##_length
#define WL_PASS(x) x##_typed, x##_type, x##_type_length, x##_tag, x, x##_length
const void *wl_abi_describe(void);
const void *wl_abi_execute(char *type, size_t type_length, WL_PAYLOAD(config), WL_PAYLOAD(input));
const void *wl_abi_accept(char *kind, size_t kind_length, uint32_t has_node, char *node,
                          size_t node_length, uint32_t has_payload, WL_PAYLOAD(payload));
const void *wl_abi_check(char *type, size_t type_length, WL_PAYLOAD(config), void *unknown,
                         size_t unknown_length);
void wl_abi_end(void);

// WL_PLUGIN(.package = "shop", .version = "1.0.0")
#define WL_PLUGIN(...) const wl_plugin wl_this_plugin = {__VA_ARGS__};

// A description, and the end of a call of each function.
#define WL_EXPORT_END(name, function) \
  WL_EXPORT("cabi_post_" name) void wl_end_##function(const void *); \
  void wl_end_##function(const void *answer) { (void)answer, wl_abi_end(); }
#define WL_EXPORT_DESCRIBE(interface, id) \
  WL_EXPORT(interface "#describe") const void *wl_##id##_describe(void); \
  const void *wl_##id##_describe(void) { return wl_abi_describe(); } \
  WL_EXPORT_END(interface "#describe", id##_describe)

// WL_NODES(&add, &sum): the nodes of the plugin.
#define WL_NODES(...) \
  const wl_node *const wl_nodes[] = {__VA_ARGS__, NULL}; \
  WL_EXTERN_BEGIN \
  WL_EXPORT_DESCRIBE("windlass:node/node@0.1.0", node) \
  WL_EXPORT("windlass:node/node@0.1.0#execute") \
  const void *wl_node_execute(char *, size_t, WL_PAYLOAD(config), WL_PAYLOAD(input)); \
  const void *wl_node_execute(char *type, size_t length, WL_PAYLOAD(config), WL_PAYLOAD(input)) { \
    return wl_abi_execute(type, length, WL_PASS(config), WL_PASS(input)); \
  } \
  WL_EXPORT_END("windlass:node/node@0.1.0#execute", node_execute) \
  WL_EXTERN_END

// WL_CONSUMER(&gate): the trigger consumer of the plugin.
#define WL_CONSUMER(address) \
  const wl_consumer *const wl_consumers[] = {address, NULL}; \
  WL_EXTERN_BEGIN \
  WL_EXPORT_DESCRIBE("windlass:consumer/consumer@0.1.0", consumer) \
  WL_EXPORT("windlass:consumer/consumer@0.1.0#accept") \
  const void *wl_consumer_accept(char *, size_t, uint32_t, char *, size_t, uint32_t, \
                                 WL_PAYLOAD(payload)); \
  const void *wl_consumer_accept(char *kind, size_t kind_length, uint32_t has_node, char *node, \
                                 size_t node_length, uint32_t has_payload, WL_PAYLOAD(payload)) { \
    return wl_abi_accept(kind, kind_length, has_node, node, node_length, has_payload, \
                         WL_PASS(payload)); \
  } \
  WL_EXPORT_END("windlass:consumer/consumer@0.1.0#accept", consumer_accept) \
  WL_EXTERN_END

// WL_CHECKS: the functions `check` of the nodes.
#define WL_CHECKS \
  WL_EXTERN_BEGIN \
  WL_EXPORT("windlass:check/check@0.1.0#check") \
  const void *wl_check_check(char *, size_t, WL_PAYLOAD(config), void *, size_t); \
  const void *wl_check_check(char *type, size_t type_length, WL_PAYLOAD(config), void *unknown, \
                             size_t unknown_length) { \
    return wl_abi_check(type, type_length, WL_PASS(config), unknown, unknown_length); \
  } \
  WL_EXPORT_END("windlass:check/check@0.1.0#check", check_check) \
  WL_EXTERN_END

#ifdef __cplusplus
#define WL_EXTERN_BEGIN extern "C" {
#define WL_EXTERN_END }
#else
#define WL_EXTERN_BEGIN
#define WL_EXTERN_END
#endif

#endif
