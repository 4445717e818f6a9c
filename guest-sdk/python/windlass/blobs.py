"""Large values in the blob store of the host, read in ranges and written in parts."""

from collections.abc import Iterable
from typing import Any

from windlass._call import need
from windlass._data import Blob, text, whole
from windlass._failure import host_error
from windlass._host import contract

_host = contract("imports.blobs")
_ERRORS = {
    "not-found": ("permanent", "found no such blob"),
    "limit": ("permanent", "is over a limit"),
}


def size(blob: Blob | str) -> int:
    """The length in bytes."""
    return _attempt("size", _reference(blob))


def read(blob: Blob | str, offset: int, length: int) -> bytes:
    """At most `length` bytes from `offset`; fewer at the end."""
    return bytes(_attempt("read", _reference(blob), whole(offset, "offset"), whole(length, "length")))


def write(parts: bytes | Iterable[bytes], content_type: str | None = None) -> Blob:
    """Writes a blob, which lives as long as the outcome of the call."""
    writer = _attempt("begin")
    for part in (parts,) if isinstance(parts, bytes | bytearray | memoryview) else parts:
        _attempt("append", writer, bytes(part))
    return Blob(_attempt("finish", writer), content_type)


def _reference(blob: Blob | str) -> str:
    return text(blob.reference if isinstance(blob, Blob) else blob)


def _attempt(name: str, *given: Any) -> Any:
    need(f"blobs.{name}")
    try:
        return getattr(_host, name)(*given)
    except Exception as error:
        raise host_error(f"blobs.{name}", "blobs", error, _ERRORS) from None
