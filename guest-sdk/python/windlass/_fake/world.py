"""What the fake host answers in the current call, and what it was asked to do."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass._context import Resumption


@dataclass(frozen=True)
class Line:
    """A line of the log."""

    level: str
    message: str
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """A report of progress."""

    fraction: float
    note: str


@dataclass(frozen=True)
class Request:
    """A request that was sent. The value of a header is a text or a `Secret`."""

    method: str
    url: str
    headers: dict[str, Any]
    body: str | bytes | None
    timeout_ms: int | None
    max_redirects: int


@dataclass(frozen=True)
class Sent:
    """A stimulus that was sent."""

    name: str
    match: Any
    correlation: str | None
    run: str | None
    input: Any


@dataclass(frozen=True)
class Scheduled:
    """A trigger that was scheduled; `at` is in seconds since 1970."""

    node: str
    at: float
    payload: Any


@dataclass
class World:
    """A host in memory."""

    http: Callable[[Request], Any] | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    resumption: "Resumption | None" = None
    run_id: str = "00000000-0000-4000-8000-000000000001"
    workflow: str = "test"
    node_id: str | None = "node"
    attempt: int = 1
    idempotency_key: str = "test-key"
    correlation_id: str | None = None
    trace_parent: str | None = None
    cancelled: bool = False
    deadline_ms: int = 4_102_444_800_000
    writers: list[bytearray] = field(default_factory=list)
    log: list[Line] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    scheduled: list[Scheduled] = field(default_factory=list)


_world: World | None = None


def here() -> World:
    """The world of the current call."""
    if _world is None:
        raise RuntimeError("there is no host here: call the node by `call` of windlass.testing")
    return _world


def enter(fresh: World) -> None:
    """Begins a call in a world."""
    global _world
    if _world is not None:
        raise RuntimeError("a call is under way: a node cannot call another one")
    _world = fresh


def leave() -> None:
    """Ends it."""
    global _world
    _world = None
