// The trigger consumer: it admits the triggers of the route `__NAME__` that name a user.

import { consumer, decide } from "windlass";

export const gate = consumer({
  routes: ["__NAME__"],
  accept({ payload }) {
    // A trigger that the engine makes has no payload: it belongs to a run that was admitted.
    if (!Object.keys(payload).length || "user" in payload) return decide.execute(payload);
    return decide.reject("`user` is missing");
  },
});
