"""The trigger consumer: it admits the triggers of the route `__NAME__` that name a user."""

from windlass import Decision, Trigger, consumer, decide


@consumer(routes=["__NAME__"])
def gate(trigger: Trigger) -> Decision:
    # A trigger that the engine makes has no payload: it belongs to a run that was admitted.
    if not trigger.payload or "user" in trigger.payload:
        return decide.execute(trigger.payload)
    return decide.reject("`user` is missing")
