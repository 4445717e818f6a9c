// The node `__NAME__/greet`.

#include "plugin.h"

static wl_outcome *run(const wl_call *call) {
  wl_text name = wl_as_text(wl_get(call->input, "name"));
  if (name.length == 0) return wl_invalid("`name` is empty");
  return wl_done(wl_set(wl_object(), "greeting", wl_stringf("Hello, %.*s!", WL_F(name))));
}

const wl_node greet = {
    .name = "greet",
    .title = "Greet",
    .run = run,
    .input = WL_JSON({
      "type": "object",
      "properties": {"name": {"type": "string", "description": "The name of the person."}},
      "required": ["name"]
    }),
    .output = WL_JSON({
      "type": "object",
      "properties": {"greeting": {"type": "string"}},
      "required": ["greeting"]
    }),
};
