"""Values on their way between Python and the contract."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from json import encoder
from typing import Any

from windlass._host import contract

_types = contract("imports.types")
Payload, Text, Inline, Reference = _types.Payload, _types.Body_Text, _types.Body_Inline, _types.Body_Blob

_MAX_WIDE = 2**53 - 1


@dataclass(frozen=True)
class Raw:
    """A value of another media type than JSON; its content is a text or bytes."""

    content_type: str
    content: str | bytes


@dataclass(frozen=True)
class Blob:
    """A value that stays in the blob store of the host; `blobs` reads ranges of it."""

    reference: str
    content_type: str | None = None


_names: dict[type, list[str]] = {}


def _plain(value: Any) -> Any:
    """A value that JSON has no form for, as one that it has."""
    kind = type(value)
    names = _names.get(kind)
    if names is None:
        if isinstance(value, Enum):
            return value.value
        if not is_dataclass(kind):
            raise TypeError(f"a value of the type {kind.__name__} has no JSON")
        names = _names[kind] = [field.name for field in fields(kind)]
    return {name: getattr(value, name) for name in names}


def _encoder(ensure_ascii: bool) -> Callable[[Any], str]:
    made = json.JSONEncoder(ensure_ascii=ensure_ascii, allow_nan=False, separators=(",", ":"), default=_plain)
    if encoder.c_make_encoder is None:
        return made.encode
    # `encode` makes this one in each call.
    text = encoder.encode_basestring_ascii if ensure_ascii else encoder.encode_basestring
    fast = encoder.c_make_encoder(None, _plain, text, None, ":", ",", False, False, False)
    return lambda value: "".join(fast(value, 0))


_utf8, _ascii = _encoder(False), _encoder(True)


def dumps(value: Any) -> str:
    """A value as JSON that is UTF-8: a lone surrogate is escaped."""
    found = _utf8(value)
    return found if found.isascii() or _is_utf8(found) else _ascii(value)


_scan = json.JSONDecoder().scan_once


def loads(value: str | bytes) -> Any:
    """A value of JSON."""
    if type(value) is str:
        try:
            found, end = _scan(value, 0)
        except (StopIteration, ValueError):
            end = -1
        # Otherwise there is space around it, or a mistake.
        if end == len(value):
            return found
    return json.loads(value)


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value: object) -> str:
    """A text for the host: lone surrogates, which have no form in UTF-8, become U+FFFD."""
    found = str(value)
    if found.isascii() or _is_utf8(found):
        return found
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def optional_text(value: object) -> str | None:
    """A text that may be absent."""
    return None if value is None else text(value)


def encode(value: Any) -> Any:
    """A value as a payload."""
    if isinstance(value, Raw):
        is_text = isinstance(value.content, str)
        body = Text(text(value.content)) if is_text else Inline(bytes(value.content))
        return Payload(text(value.content_type), body)
    if isinstance(value, Blob):
        return Payload(optional_text(value.content_type), Reference(text(value.reference)))
    return Payload(None, Text(dumps(value)))


def encode_optional(value: Any) -> Any:
    """As `encode`, of a value that may be absent."""
    return None if value is None else encode(value)


def decode(payload: Any) -> Any:
    """A payload as a value."""
    body, content_type = payload.body, payload.content_type
    if isinstance(body, Reference):
        return Blob(body.value, content_type)
    if content_type and content_type.partition(";")[0].strip() != "application/json":
        return Raw(content_type, body.value)
    return loads(body.value)


def decode_optional(payload: Any) -> Any:
    """As `decode`, of a payload that may be absent."""
    return None if payload is None else decode(payload)


def whole(value: float, what: str) -> int:
    """A whole number that the contract takes."""
    if not 0 <= value <= _MAX_WIDE:
        raise ValueError(f"{what} is {value}: it has to be a number from 0 to 2^53 - 1")
    return round(value)


def milliseconds(value: float | timedelta, what: str) -> int:
    """A length of time in seconds, as the contract takes it."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return whole(seconds * 1000, what)


def instant(value: datetime | float, what: str) -> int:
    """An instant, as the contract takes it."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{what} is a datetime without a time zone")
        value = value.timestamp()
    return whole(value * 1000, what)
