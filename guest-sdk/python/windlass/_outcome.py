"""Outcomes of a node other than a plain output, and decisions of a consumer."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from windlass._failure import Position

T = TypeVar("T")


@dataclass(frozen=True)
class Done(Generic[T]):
    """Finished, with an output, by some ports."""

    output: T
    ports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bookmark:
    """An event that a node waits for."""

    name: str
    """The name of the stimulus; compared exactly."""
    match: Any = None
    """The value that the `match` of the stimulus has to equal."""
    correlation: str | None = None
    """Only stimuli of this correlation resume it."""
    private: bool = False
    """Whether only the resume token of this wait resumes it."""
    auto_burn: bool = True
    """Whether resuming deletes it."""
    metadata: Any = None
    """Data that comes back unread with the resumption."""
    expires: datetime | float | None = None
    """When the wait ends by itself: an aware `datetime`, or seconds since 1970."""


@dataclass(frozen=True)
class Suspend:
    """Waits until one of the bookmarks is resumed or expires."""

    bookmarks: tuple[Bookmark, ...]
    state: Any = None


@dataclass(frozen=True)
class Again:
    """Asks to be called again after some seconds."""

    after: float | timedelta
    state: Any = None


def done(output: T, *ports: str) -> Done[T]:
    """Finished, with this output, by these ports; without a port, by `done`."""
    return Done(output, ports)


def suspend(bookmarks: Bookmark | Iterable[Bookmark], *, state: Any = None) -> Suspend:
    """Waits until one of the bookmarks is resumed or expires; needs `suspends=True`."""
    return Suspend((bookmarks,) if isinstance(bookmarks, Bookmark) else tuple(bookmarks), state)


def again(after: float | timedelta, *, state: Any = None) -> Again:
    """Asks to be called again after this many seconds; needs `suspends=True`."""
    return Again(after, state)


@dataclass(frozen=True)
class Decision:
    """A decision about a trigger; `decide` makes it."""

    kind: str
    value: Any = None
    details: Any = None
    position: Position | None = None


class decide:
    """Makes decisions about triggers."""

    @staticmethod
    def execute(vars: Any = None) -> Decision:
        """Assigns these members to `vars`, then executes the node or starts the workflow."""
        return Decision("execute", vars)

    @staticmethod
    def handled() -> Decision:
        """The trigger is finished."""
        return Decision("handled")

    @staticmethod
    def later(after: float | timedelta) -> Decision:
        """Offers the trigger again after this many seconds."""
        return Decision("later", after)

    @staticmethod
    def reject(message: str, *, details: Any = None, position: Position | None = None) -> Decision:
        """The trigger becomes a dead letter with this reason."""
        return Decision("reject", message, details, position)
