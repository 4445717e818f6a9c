"""The context of a call."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from windlass._call import need
from windlass._data import decode, decode_optional, text
from windlass._host import contract

_host = contract("imports.context")

Config = TypeVar("Config")


@dataclass(frozen=True)
class Resumption:
    """A later call of a node that suspended or asked to be called again."""

    reason: str
    """`again`, `resumed`, `expired`, `cancelled`, or a reason that a later host adds."""
    phase: int
    """The number of the repeated call, from 1."""
    state: Any = None
    """The state that the node returned last."""
    bookmark: str | None = None
    """The bookmark that was resumed or that expired."""
    input: Any = None
    """The input of the stimulus."""
    metadata: Any = None
    """The metadata of the bookmark."""


class Context(Generic[Config]):
    """The context of the current call. Each member but `config` asks the host when it is read."""

    def __init__(self, config: Config) -> None:
        self.config = config
        """The rendered `with` of the node."""

    @property
    def run_id(self) -> str:
        """The id of the run, a UUID."""
        return _ask("run_id")

    @property
    def workflow(self) -> str:
        """The name of the workflow."""
        return _ask("workflow")

    @property
    def node_id(self) -> str | None:
        """The node that executes; None for a trigger that starts a workflow."""
        return _ask("node_id")

    @property
    def trigger_id(self) -> str:
        """The trigger of this call."""
        return _ask("trigger_id")

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return _ask("attempt")

    @property
    def idempotency_key(self) -> str:
        """The same over crashes and retries of one execution: send it with side effects."""
        return _ask("idempotency_key")

    @property
    def deadline(self) -> float:
        """The instant at which the host ends this call: seconds since 1970, as of `time.time`."""
        return _ask("deadline") / 1000

    @property
    def correlation_id(self) -> str | None:
        """The correlation id of the run."""
        return _ask("correlation_id")

    @property
    def trace_parent(self) -> str | None:
        """The W3C trace context of the run."""
        return _ask("trace_parent")

    @property
    def cancelled(self) -> bool:
        """Whether the execution was cancelled: raise `Cancelled` then."""
        return _ask("cancelled")

    @property
    def resumption(self) -> Resumption | None:
        """Why the node is called again; None in its first call."""
        call = _ask("resumption")
        if call is None:
            return None
        reason, state = call.reason, decode_optional(call.state)
        kind = type(reason).__name__.rpartition("_")[2].lower()
        if kind == "resumed":
            it = reason.value
            return Resumption(kind, call.phase, state, it.bookmark, decode(it.input), decode_optional(it.metadata))
        if kind == "expired":
            return Resumption(kind, call.phase, state, reason.value)
        return Resumption(reason.value if kind == "other" else kind, call.phase, state)

    def resume_token(self, bookmark: str) -> str | None:
        """The token that resumes the bookmark of this name; known before the node suspends."""
        need("resume_token")
        return _host.resume_token(text(bookmark))

    def progress(self, fraction: float, note: str = "") -> None:
        """Reports the progress of a long execution; the fraction is between 0 and 1."""
        need("progress")
        _host.progress(float(fraction), text(note))


def _ask(name: str) -> Any:
    need(f"ctx.{name}")
    return getattr(_host, name)()
