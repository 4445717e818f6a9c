"""The definitions of a plugin's module."""

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from windlass._context import Context
from windlass._failure import Position
from windlass._outcome import Decision
from windlass._types import Decoder, decoder, members


@dataclass(frozen=True)
class Resources:
    """Hints about the needs of a node; the limits of the operator win."""

    memory_bytes: int | None = None
    """The memory of one instance."""
    deadline_ms: int | None = None
    """How long one call may reasonably take."""
    instance: Literal["warm", "run", "call"] | None = None
    """How long memory may survive: `warm` between calls, `run` within one run, `call` never."""


@dataclass(frozen=True)
class Finding:
    """A mistake that a check of a configuration finds."""

    message: str
    """One sentence: what is wrong, and what to do."""
    pointer: str | None = None
    """A JSON pointer to the member that is wrong, such as `/headers/2/value`."""
    level: Literal["error", "warning"] = "error"
    """`error` refuses the workflow, `warning` is only shown."""
    position: Position | None = None
    """A position in that member, if it is a text."""


@dataclass(frozen=True)
class Trigger:
    """A due trigger that is claimed."""

    kind: str
    """`start`, `next`, `retry`, `loop`, `timer`, `cron`, `manual`, `event`, `resume` or `child`."""
    node: str | None = None
    """The node that it executes; None for one that starts the workflow."""
    payload: dict[str, Any] = field(default_factory=dict)
    """Its data; empty if there is none."""


class _Definition:
    """A function of the author, and what the decorator says about it."""

    kind = ""

    def __init__(self, run: Callable[..., Any], about: dict[str, Any]) -> None:
        if not callable(run):
            raise TypeError(f"@{self.kind} stands before a function")
        if inspect.iscoroutinefunction(run) or inspect.isgeneratorfunction(run):
            raise TypeError(f"{run.__name__} has to be an ordinary function: a call is synchronous")
        self.run = run
        self.about = about
        self.__doc__ = run.__doc__
        self.__name__ = run.__name__
        self.parameters = [
            it
            for it in inspect.signature(run).parameters.values()
            if it.kind in (it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD)
        ]
        if len(self.parameters) > 2:
            raise TypeError(f"{run.__name__} takes {len(self.parameters)} parameters, and it gets two at most")

    def __call__(self, *given: Any) -> Any:
        """Calls the function itself."""
        return self.run(*given)

    def call(self, first: Any, ctx: Context[Any]) -> Any:
        """Calls the function with as many arguments as it takes."""
        return self.run(*(first, ctx)[: len(self.parameters)])


class Node(_Definition):
    """A node type; `node` makes it."""

    kind = "node"
    checks: Callable[..., Any] | None = None
    _decoders: tuple[Decoder | None, Decoder | None] | None = None

    def check(self, function: Callable[..., Iterable[Finding] | None]) -> Callable[..., Any]:
        """A decorator: the function finds mistakes in a configuration before anything runs.

        It gets the configuration, a dict without the members that have expressions, and a list of
        their JSON pointers. It returns or yields findings.
        """
        self.checks = function
        return function

    def types(self) -> tuple[Any, Any, Any]:
        """The types of input, configuration and output; `Any` where there is none."""
        hints = get_type_hints(self.run, include_extras=True)
        found = [hints.get(it.name, Any) for it in self.parameters] + [Any, Any]
        context = found[1]
        config = get_args(context)[0] if get_origin(context) is Context else Any
        return found[0], config, hints.get("return", Any)

    def decoders(self) -> tuple[Decoder | None, Decoder | None]:
        """What makes the input and the configuration of JSON."""
        if self._decoders is None:
            given, config, _ = self.types()
            self._decoders = decoder(given), decoder(config)
        return self._decoders


class Consumer(_Definition):
    """A trigger consumer; `consumer` makes it."""

    kind = "consumer"


def node(
    run: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icon: str | None = None,
    config: dict[str, Any] | bool | None = None,
    input: dict[str, Any] | bool | None = None,
    output: dict[str, Any] | bool | None = None,
    ports: Iterable[str] | None = None,
    capabilities: Iterable[Literal["http", "secrets", "events"]] | None = None,
    suspends: bool = False,
    by_reference: bool = False,
    resources: Resources | None = None,
) -> Any:
    """A decorator that makes a node type of a function: `@node`, or `@node(title="…")`.

    The function gets the input, and a `Context` if it takes two arguments; what it returns is the
    output. Its name is that of the node: `to_upper` is `to-upper`. `config`, `input` and `output`
    are JSON Schemas, in place of those from the types of the function.
    """
    about = {
        "name": name,
        "title": title,
        "description": description,
        "icon": icon,
        "config": config,
        "input": input,
        "output": output,
        "ports": None if ports is None else list(ports),
        "capabilities": None if capabilities is None else list(capabilities),
        "suspends": suspends or None,
        "by-reference": by_reference or None,
        "resources": resources,
    }
    if run is not None:
        return Node(run, about)
    return lambda function: Node(function, about)


def consumer(
    accept: Callable[..., Decision] | None = None,
    /,
    *,
    types: Iterable[str] = ("*",),
    routes: Iterable[str] = (),
) -> Any:
    """A decorator that makes the trigger consumer of a function; a plugin has one at most.

    The function gets a `Trigger`, and a `Context` if it takes two arguments; it returns what
    `decide` makes. After an exception the host keeps the trigger and asks again.
    """
    about = {"types": list(types), "routes": list(routes)}
    if accept is not None:
        return Consumer(accept, about)
    return lambda function: Consumer(function, about)


def node_name(name: str) -> str:
    """The name of a node type, from that of a variable."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-").lower()


def definitions(module: Any, kind: type[_Definition]) -> dict[str, Any]:
    """The definitions of a module, by the name of the variable."""
    found = {name: it for name, it in vars(module).items() if isinstance(it, kind) and not name.startswith("_")}
    return found


def nodes(module: Any) -> dict[str, Node]:
    """The nodes of a module, by their names."""
    found: dict[str, Node] = {}
    for variable, it in definitions(module, Node).items():
        found[it.about["name"] or node_name(variable)] = it
    return found


def returned(hint: Any) -> list[Any]:
    """The types of the output, of what a function returns: those of `Done`, and no waits."""
    from windlass._outcome import Again, Done, Suspend

    found = []
    for part in members(hint):
        if get_origin(part) is Done:
            found += returned(get_args(part)[0])
        elif part is Done:
            found.append(Any)
        elif part not in (Again, Suspend):
            found.append(part)
    return found
