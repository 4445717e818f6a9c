"""The SDK for nodes and trigger consumers for Windlass in Python.

A plugin is the module `plugin` with its nodes:

    from windlass import Invalid, node

    @node(title="Greet")
    def greet(input: Person) -> Greeting:
        if not input.name:
            raise Invalid("`name` is empty")
        return Greeting(f"Hello, {input.name}!")

More of the host is in modules of this package, each to be imported by itself: `http`, `memory`,
`blobs`, `events`. A component imports only the functions of the host whose modules it imports.
"""

from windlass._context import Context, Resumption
from windlass._data import Blob, Raw
from windlass._define import Consumer, Finding, Node, Resources, Trigger, consumer, node
from windlass._failure import Cancelled, Failure, Invalid, Permanent, Position, Retryable
from windlass._log import log
from windlass._outcome import Again, Bookmark, Decision, Done, Suspend, again, decide, done, suspend
from windlass._types import Secret, schema

__all__ = [
    "Again",
    "Blob",
    "Bookmark",
    "Cancelled",
    "Consumer",
    "Context",
    "Decision",
    "Done",
    "Failure",
    "Finding",
    "Invalid",
    "Node",
    "Permanent",
    "Position",
    "Raw",
    "Resources",
    "Resumption",
    "Retryable",
    "Secret",
    "Suspend",
    "Trigger",
    "again",
    "consumer",
    "decide",
    "done",
    "log",
    "node",
    "schema",
    "suspend",
]


def __getattr__(name: str) -> object:
    # `from windlass import http` imports the module after this error.
    told = f": write `from windlass import {name}`" if name in ("http", "memory", "blobs", "events") else ""
    raise AttributeError(f"module 'windlass' has no attribute {name!r}{told}")
