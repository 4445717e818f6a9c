"""One node for each promise of the SDK that needs a real host. `python.rs` of the system tests calls
them."""

import datetime
import logging
import os
import random
import sys
import time
import uuid
from typing import Any

from deep.broken import broken

from windlass import (
    Bookmark,
    Context,
    Decision,
    Finding,
    Invalid,
    Retryable,
    Trigger,
    again,
    blobs,
    consumer,
    decide,
    done,
    events,
    memory,
    node,
    suspend,
)

BUILT = time.time()


@node
def echo(input: Any) -> Any:
    return input


@node
def bug(input: Any) -> Any:
    return broken([{"customer": None}])


@node
def caused(input: Any) -> Any:
    try:
        return broken([{}])
    except KeyError as error:
        raise ValueError("no customer") from error


@node
def refuses(input: Any) -> Any:
    raise Invalid("no orders", details={"orders": 0})


@node
def waits_for_shop(input: Any) -> Any:
    raise Retryable("the shop is closed", after=0.2)


@node
def leaves(input: Any) -> Any:
    sys.exit(3)


@node
def deep(input: Any) -> Any:
    return deep.run(input) + 1


@node
def prints(input: Any) -> Any:
    print("to stdout")
    print("to stderr", file=sys.stderr)
    logging.getLogger("shop").error("%s orders", 3, extra={"user": "ada"})
    print("without an end", end="")


@node
def looks(input: Any) -> Any:
    import csv

    try:
        open("/etc/passwd")
        opened = "opened"
    except OSError as error:
        opened = type(error).__name__
    return {
        "uuid": str(uuid.uuid4()),
        "random": random.random(),
        "urandom": os.urandom(8).hex(),
        "now": time.time(),
        "elapsed": time.monotonic() - time.monotonic() <= 0,
        "year": datetime.datetime.now(datetime.UTC).year,
        "parsed": datetime.datetime.strptime("2026-01-02", "%Y-%m-%d").day,
        "late": csv.__name__,
        "opened": opened,
        "environment": len([name for name in os.environ if not name.startswith("PYTHON")]),
    }


@node
def sleeps(seconds: float) -> bool:
    time.sleep(seconds)
    return True


@node(suspends=True)
def waits(_: Any, ctx: Context[Any]) -> Any:
    it = ctx.resumption
    if it is None:
        return again(0.001, state={"polls": 1})
    if it.reason == "again" and it.state["polls"] < 3:
        return again(0.001, state={"polls": it.state["polls"] + 1})
    if it.reason == "again":
        return suspend(Bookmark("paid", match={"order": 7}, expires=time.time() + 0.001), state=it.state)
    return {"reason": it.reason, "bookmark": it.bookmark, "phase": it.phase, "state": it.state}


@node(ports=["done", "large"], capabilities=["events"])
def parts(_: Any, ctx: Context[Any]) -> Any:
    blob = blobs.write([b"\x01\x02\x03", b"\x04"], "application/octet-stream")
    read = list(blobs.read(blob, 1, 2))
    try:
        events.send("paid", match={"order": 1}, input=1)
        refused = []
    except Exception as error:
        refused = [error.kind, error.code]
    ctx.progress(0.5, "half")
    output = {"size": blobs.size(blob), "read": read, "user": memory.get("input.user"), "refused": refused}
    return done({**output, "key": bool(ctx.idempotency_key), "attempt": ctx.attempt}, "large")


@node
def checked(_: Any, ctx: Context[Any]) -> Any:
    return ctx.config


@checked.check
def _(config: dict[str, Any], unknown: list[str]) -> list[Finding]:
    return [Finding("the pattern is empty", "/pattern")] if config.get("pattern") == "" else []


@consumer(routes=["script"])
def gate(trigger: Trigger) -> Decision:
    return decide.execute({"accepted": trigger.kind})
