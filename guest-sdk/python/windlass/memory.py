"""Data of the run beyond the input of the node."""

from typing import Any

from windlass._call import need
from windlass._data import decode, text
from windlass._failure import host_error
from windlass._host import contract

_host = contract("imports.memory")
_ERRORS = {
    "invalid-path": ("invalid", "is not a path"),
    "too-large": ("permanent", "is more than a payload may have, in bytes"),
}


def get(path: str, default: Any = None) -> Any:
    """The value at `input`, `vars.NAME` or `nodes.NAME.output`, or at a member of it."""
    need(f"memory.get({path!r})")
    try:
        found = _host.get(text(path))
    except Exception as error:
        raise host_error(f"memory {path}", "memory", error, _ERRORS) from None
    return default if found is None else decode(found)
