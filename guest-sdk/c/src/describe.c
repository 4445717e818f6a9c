// The description of the plugin (DESCRIBE.md), of its tables.

#include "internal.h"

static void set_text(wl_json *to, const char *name, const char *text) {
  if (text) wl_set(to, name, wl_string(text));
}

static void set_texts(wl_json *to, const char *name, const char *const *texts, size_t most) {
  if (!texts[0]) return;
  wl_json *list = wl_list();
  for (size_t i = 0; i < most && texts[i]; i++) wl_add(list, wl_string(texts[i]));
  wl_set(to, name, list);
}

static void set_json(wl_json *to, const wl_node *node, const char *name, const char *text) {
  wl_fault fault;
  if (!text) return;
  const wl_json *value = wl_parse(wl_text_of(text), &fault);
  if (!value)
    wl_panic(wl_format("the node `%s`: `%s` is no JSON: %s, at byte %zu", node->name, name,
                       fault.message, fault.offset)
                 .at);
  wl_set(to, name, value);
}

static wl_json *node_of(const wl_node *node) {
  if (!node->name || !node->run) wl_panic("a node has no `name` or no `run`");
  wl_json *it = wl_object();
  set_text(it, "name", node->name);
  set_text(it, "title", node->title);
  set_text(it, "description", node->description);
  set_text(it, "icon", node->icon);
  set_json(it, node, "config", node->config);
  set_json(it, node, "input", node->input);
  set_json(it, node, "output", node->output);
  set_texts(it, "ports", node->ports, WL_PORTS_MAX);
  set_texts(it, "capabilities", node->capabilities, sizeof node->capabilities / sizeof(char *));
  if (node->by_reference) wl_set(it, "by-reference", wl_bool(true));
  if (node->suspends) wl_set(it, "suspends", wl_bool(true));
  set_json(it, node, "resources", node->resources);
  return it;
}

static wl_json *consumer_of(const wl_consumer *consumer) {
  if (!consumer->accept) wl_panic("the consumer has no `accept`");
  wl_json *it = wl_object();
  set_texts(it, "types", consumer->types, sizeof consumer->types / sizeof(char *));
  set_texts(it, "routes", consumer->routes, sizeof consumer->routes / sizeof(char *));
  return it;
}

const void *wl_abi_describe(void) {
  if (!wl_this_plugin.package || !wl_this_plugin.version)
    wl_panic("WL_PLUGIN has no `package` or no `version`");
  wl_json *it = wl_set(wl_object(), "windlass", wl_int(1));
  set_text(it, "package", wl_this_plugin.package);
  set_text(it, "version", wl_this_plugin.version);
  set_text(it, "title", wl_this_plugin.title);
  set_text(it, "description", wl_this_plugin.description);
  if (wl_nodes[0]) {
    wl_json *nodes = wl_list();
    for (const wl_node *const *node = wl_nodes; *node; node++) wl_add(nodes, node_of(*node));
    wl_set(it, "nodes", nodes);
  }
  if (wl_consumers[0]) wl_set(it, "consumer", consumer_of(wl_consumers[0]));
  wl_abi_payload *payload = wl_alloc(sizeof *payload);
  const char *why = wl_lower_payload(it, payload);
  if (why) wl_panic(why);
  return payload;
}
