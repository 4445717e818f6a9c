"""Failures: what a node raises to say whether a retry makes sense."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar


@dataclass(frozen=True)
class Position:
    """A position in a text; without `source` the text is in the configuration of the node."""

    line: int
    """From 1."""
    column: int = 1
    """From 1, in characters."""
    source: str | None = None


class Failure(Exception):
    """A failure with a class, by which the retry policies and the `on-error` of a workflow choose.

    `details` is data for conditions and programs: JSON of at most 16 KiB. `position` is a place in
    a text of the configuration. `code` is that of an error of the host, such as `http.denied`.
    """

    kind: ClassVar[str] = "other"

    def __init__(
        self,
        message: str,
        *,
        details: Any = None,
        position: Position | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.position = position
        self.code = code


class Invalid(Failure):
    """The configuration or the input is wrong: a retry is useless."""

    kind = "invalid"


class Retryable(Failure):
    """A retry may succeed; `after` seconds from now at the earliest."""

    kind = "retryable"

    def __init__(self, message: str, *, after: float | timedelta | None = None, **options: Any) -> None:
        super().__init__(message, **options)
        self.after = after


class Permanent(Failure):
    """A retry cannot succeed."""

    kind = "permanent"


class Cancelled(Failure):
    """The node noticed that it was cancelled."""

    kind = "cancelled"

    def __init__(self, message: str = "cancelled") -> None:
        super().__init__(message)


_CLASSES: dict[str, type[Failure]] = {it.kind: it for it in (Invalid, Retryable, Permanent, Failure)}


def host_error(what: str, area: str, raised: Exception, known: dict[str, tuple[str, str]]) -> Failure:
    """An error of the host as a failure. `known` has, for each case, the class and the sentence."""
    value = getattr(raised, "value", raised)
    # The cases of a variant are classes, like `HttpError_TooLarge`.
    case = type(value).__name__.rpartition("_")[2]
    tag = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", case).lower()
    kind, sentence = known.get(tag, ("other", "failed"))
    detail = getattr(value, "value", None)
    message = f"{what} {sentence}" + ("" if detail is None else f": {detail}")
    return _CLASSES[kind](message, code=f"{area}.{tag}")
