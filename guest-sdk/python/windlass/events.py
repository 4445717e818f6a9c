"""Stimuli and triggers, which take effect with the commit of the call. The grant is `events`."""

from datetime import datetime
from typing import Any

from windlass._call import need
from windlass._data import encode_optional, instant, optional_text, text
from windlass._failure import host_error
from windlass._host import contract

_host = contract("imports.events")
_ERRORS = {
    "unavailable": ("permanent", "is not granted"),
    "invalid": ("invalid", "is malformed"),
    "limit": ("permanent", "is over a limit"),
}


def send(
    name: str,
    *,
    match: Any = None,
    correlation: str | None = None,
    run: str | None = None,
    input: Any = None,
) -> None:
    """Sends a stimulus, which starts or resumes runs: those of one correlation, or one run alone."""
    need("events.send")
    stimulus = _host.Stimulus(
        text(name), encode_optional(match), optional_text(correlation), optional_text(run), encode_optional(input)
    )
    try:
        _host.send(stimulus)
    except Exception as error:
        raise host_error(f"events.send {name}", "events", error, _ERRORS) from None


def schedule(node: str, at: datetime | float, payload: dict[str, Any] | None = None) -> None:
    """Schedules an execution of a node of this run, at an aware `datetime` or at seconds since 1970.
    The members of the payload are assigned to `vars`."""
    need("events.schedule")
    trigger = _host.Scheduled(text(node), instant(at, "at"), encode_optional(payload))
    try:
        _host.schedule(trigger)
    except Exception as error:
        raise host_error(f"events.schedule {node}", "events", error, _ERRORS) from None
