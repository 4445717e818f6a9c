"""Runs a node or a consumer in an ordinary test, against a host in memory.

from windlass.testing import call

def test_a_person_is_greeted():
    report = call(greet, {"name": "Ada"})
    assert report.output == {"greeting": "Hello, Ada!"}
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windlass import _log
from windlass._answer import consumer_error, during, node_error, run_check, run_consumer, run_node
from windlass._context import Resumption
from windlass._data import decode, decode_optional, encode
from windlass._define import Consumer, Finding, Node
from windlass._failure import Position
from windlass._fake import Err
from windlass._fake import world as _world
from windlass._fake.world import Line, Progress, Request, Scheduled, Sent, World
from windlass._outcome import Bookmark

__all__ = ["Failed", "Line", "Report", "Request", "Resumption", "Scheduled", "Sent", "accept", "call", "check"]


@dataclass(frozen=True)
class Failed:
    """A failure, as the host gets it."""

    kind: str
    """`invalid`, `retryable`, `permanent`, `cancelled` or `other`."""
    message: str
    details: Any = None
    position: Position | None = None
    after: float | None = None
    """Seconds after which a retry makes sense."""
    error: BaseException | None = None
    """The exception."""


@dataclass(frozen=True)
class Report:
    """What a call did."""

    outcome: str
    """`done`, `suspend`, `again` or `failed`; of a consumer `execute`, `handled`, `later`, `reject`
    or `failed`."""
    output: Any = None
    ports: list[str] = field(default_factory=list)
    state: Any = None
    after: float | None = None
    """Seconds, of `again` and `later`."""
    bookmarks: list[Bookmark] = field(default_factory=list)
    vars: Any = None
    reason: str | None = None
    """Why a consumer rejects."""
    failure: Failed | None = None
    log: list[Line] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    scheduled: list[Scheduled] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)


def call(node: Node, input: Any = None, *, config: Any = None, **world: Any) -> Report:
    """Runs a node once. An undeclared port, or a wait without `suspends=True`, fails the test.

    `world` has what the host answers: `http` (a function from a `Request` to an `http.Response` or
    to the name of an error, like `"timeout"`), `memory` (values by path), `blobs`, `resumption`,
    `attempt`, `cancelled`, `run_id`, `idempotency_key` and the other members of the context.
    """
    given, settings = encode(input), encode({} if config is None else config)
    return _within(World(**world), lambda: run_node(node, settings, given), node_error, lambda it: _answer(node, it))


def accept(
    consumer: Consumer,
    payload: dict[str, Any] | None = None,
    *,
    kind: str = "manual",
    node: str | None = None,
    **world: Any,
) -> Report:
    """Offers a trigger to a consumer; `world` as of `call`."""
    given = encode(payload or {})
    here = World(**{"node_id": node, **world})
    return _within(here, lambda: run_consumer(consumer, kind, node, given), consumer_error, _decision)


def check(node: Node, config: Any, unknown: list[str] | None = None) -> list[Finding]:
    """Checks a configuration; `unknown` has the JSON pointers of members with expressions."""
    found = run_check(node, encode(config), unknown or [])
    levels = {"FindingLevel_Error": "error", "FindingLevel_Warning": "warning"}
    return [
        Finding(it.value.message, it.value.pointer, levels[type(it).__name__], _position(it.value.position))
        for it in found
    ]


def _within(
    world: World,
    work: Callable[[], Any],
    explain: Callable[[BaseException], Any],
    read: Callable[[Any], dict[str, Any]],
) -> Report:
    raised: list[BaseException] = []

    def fail(error: BaseException) -> Err:
        if isinstance(error, KeyboardInterrupt):
            raise error
        raised.append(error)
        return Err(explain(error))

    _world.enter(world)
    try:
        with contextlib.redirect_stdout(_log.stdout), contextlib.redirect_stderr(_log.stderr), _logging():
            said = during(fail, work)
    except Err as error:
        members = {"outcome": "failed", "failure": _failed(error.value, raised[0])}
    else:
        members = read(said)
    finally:
        _world.leave()
    return Report(
        **members,
        log=world.log,
        progress=world.progress,
        requests=world.requests,
        sent=world.sent,
        scheduled=world.scheduled,
        blobs=world.blobs,
    )


@contextlib.contextmanager
def _logging() -> Any:
    """Lets `logging` write to the log of the call, and to what it wrote to before afterwards."""
    import logging

    handlers, level, raises = logging.root.handlers[:], logging.root.level, logging.raiseExceptions
    try:
        _log.install()
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
        logging.raiseExceptions = raises


def _failed(error: Any, raised: BaseException) -> Failed:
    kind = type(error).__name__.rpartition("_")[2].lower()
    if kind == "cancelled":
        return Failed(kind, "cancelled", error=raised)
    # A consumer's error is the explanation itself.
    after = getattr(error.value, "after", None)
    it = getattr(error.value, "failure", error.value)
    seconds = None if after is None else after / 1000
    return Failed(kind, it.message, decode_optional(it.details), _position(it.position), seconds, raised)


def _position(it: Any) -> Position | None:
    return None if it is None else Position(it.line, it.column, it.source)


def _answer(node: Node, outcome: Any) -> dict[str, Any]:
    kind, value = type(outcome).__name__.rpartition("_")[2].lower(), outcome.value
    if kind != "done":
        if not node.about["suspends"]:
            raise AssertionError(f"the node returns {kind}, and its decorator has no suspends=True")
        members: dict[str, Any] = {"outcome": kind, "state": decode_optional(value.state)}
        if kind == "again":
            return {**members, "after": value.after / 1000}
        bookmarks = [
            Bookmark(
                it.name,
                decode_optional(it.match),
                it.correlation,
                it.private,
                it.auto_burn,
                decode_optional(it.metadata),
                None if it.expires is None else it.expires / 1000,
            )
            for it in value.bookmarks
        ]
        return {**members, "bookmarks": bookmarks}
    ports = value.ports or ["done"]
    for port in ports:
        if port not in (node.about["ports"] or ["done"]):
            raise AssertionError(f"the node takes the port {port}, which it does not declare")
    return {"outcome": kind, "output": decode(value.output), "ports": ports}


def _decision(it: Any) -> dict[str, Any]:
    kind = type(it).__name__.rpartition("_")[2].lower()
    if kind == "execute":
        return {"outcome": kind, "vars": decode_optional(it.value.vars) or {}}
    if kind == "later":
        return {"outcome": kind, "after": it.value / 1000}
    return {"outcome": kind, "reason": it.value.message if kind == "reject" else None}
