// The trigger consumer: it admits the triggers of the route `__NAME__` that name a user.

#include "plugin.h"

static wl_outcome *accept(const wl_trigger *trigger) {
  // A trigger that the engine makes has no payload: it belongs to a run that was admitted.
  bool is_own = wl_count(trigger->payload) == 0;
  if (is_own || wl_get(trigger->payload, "user")) return wl_execute(trigger->payload);
  return wl_reject("`user` is missing");
}

const wl_consumer gate = {.accept = accept, .routes = {"__NAME__"}};
