"""Values of the author's types, from JSON. The host has checked them against the schema."""

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from windlass._data import Blob, Raw

Decoder = Callable[[Any], Any]

LISTS = (list, Sequence, Iterable, Collection)
DICTS = (dict, Mapping)
# Python 3.13 has the last one.
_MARKS = {Annotated, typing.Required, typing.NotRequired, getattr(typing, "ReadOnly", Annotated)}


@dataclasses.dataclass(frozen=True)
class Secret:
    """A reference to a secret, as the `with` of a node has it: the host inserts its value into a
    header, and the plugin never sees it."""

    secret: str
    """The name in a workflow; in a call a handle that is valid in this call alone."""


class schema:
    """Keywords of JSON Schema for a type: `Annotated[int, schema(minimum=1)]`.

    `raw=True` marks a text of the configuration in which the host renders no expressions.
    """

    def __init__(self, *, raw: bool = False, **keywords: Any) -> None:
        self.keywords = {**keywords, "x-raw": True} if raw else keywords


def bare(hint: Any) -> Any:
    """A type without annotations, names and marks of members."""
    while True:
        origin = get_origin(hint)
        if origin in _MARKS:
            hint = get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        else:
            return hint


def is_record(hint: Any) -> bool:
    """Whether a type is a dataclass of the author."""
    return isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in (Blob, Raw)


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union; a type alone is its only one."""
    hint = bare(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(inner for it in get_args(hint) for inner in members(it))
    return (hint,)


def decoder(hint: Any, known: dict[Any, Decoder] | None = None) -> Decoder | None:
    """Makes values of a type from JSON. None: they are as they arrive."""
    known = {} if known is None else known
    hint = bare(hint)
    if hint is int:
        return _integer
    if is_record(hint):
        return _record(hint, known)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if typing.is_typeddict(hint):
        return _typed_dict(hint, known)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(members(hint), known)
    if origin in LISTS or origin is tuple and arguments[-1:] == (...,):
        item = decoder(arguments[0], known)
        make = tuple if origin is tuple else list
        if item is None:
            return None if make is list else tuple
        return lambda value: make(map(item, value))
    if origin is tuple:
        items = [decoder(it, known) or _same for it in arguments]
        return lambda value: tuple(item(part) for item, part in zip(items, value, strict=True))
    if hint is tuple:
        return tuple
    if origin in DICTS:
        item = decoder(arguments[1], known)
        return item and (lambda value: {name: item(part) for name, part in value.items()})
    return None


def _same(value: Any) -> Any:
    return value


def _integer(value: Any) -> Any:
    # In JSON, 3.0 is an integer.
    return int(value) if type(value) is float and value.is_integer() else value


def _record(hint: type, known: dict[Any, Decoder]) -> Decoder:
    if hint in known:
        return known[hint]
    table: list[tuple[str, Decoder | None]] = []

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"{hint.__name__} has to be an object, and it is {value!r:.100}")
        given = {}
        for name, inner in table:
            if name in value:
                part = value[name]
                given[name] = part if inner is None else inner(part)
        return hint(**given)

    # A type that refers to itself finds this one.
    known[hint] = decode
    hints = get_type_hints(hint, include_extras=True)
    table += [(it.name, decoder(hints[it.name], known)) for it in dataclasses.fields(hint) if it.init]
    return decode


def _typed_dict(hint: Any, known: dict[Any, Decoder]) -> Decoder | None:
    if hint in known:
        return known[hint]
    table: dict[str, Decoder] = {}

    def decode(value: Any) -> Any:
        for name, inner in table.items():
            if name in value:
                value[name] = inner(value[name])
        return value

    known[hint] = decode
    for name, inner in get_type_hints(hint, include_extras=True).items():
        found = decoder(inner, known)
        if found is not None:
            table[name] = found
    return decode


def _union(parts: tuple[Any, ...], known: dict[Any, Decoder]) -> Decoder | None:
    """Of several types, the first that a value fits."""
    pairs = [(part, decoder(part, known)) for part in parts]
    if all(inner is None or inner is _integer for _, inner in pairs):
        return None

    def decode(value: Any) -> Any:
        for part, inner in pairs:
            if fits(part, value):
                return value if inner is None else inner(value)
        names = ", ".join(getattr(part, "__name__", str(part)) for part, _ in pairs)
        raise TypeError(f"{value!r:.100} is none of {names}")

    return decode


def fits(hint: Any, value: Any) -> bool:
    """Whether a value of JSON can be of a type, by its kind, its members and its literals."""
    hint = bare(hint)
    origin = get_origin(hint)
    if hint is None or hint is type(None):
        return value is None
    if origin is Literal:
        return value in get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return value in [it.value for it in hint]
    if is_record(hint) or typing.is_typeddict(hint):
        return isinstance(value, dict) and _members_fit(hint, value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (str, bool):
        return isinstance(value, hint)
    if {hint, origin} & {*LISTS, tuple}:
        return isinstance(value, list)
    if {hint, origin} & set(DICTS):
        return isinstance(value, dict)
    return True


def _members_fit(hint: Any, value: dict[str, Any]) -> bool:
    hints = get_type_hints(hint, include_extras=True)
    literals = all(
        fits(inner, value[name])
        for name, inner in hints.items()
        if get_origin(bare(inner)) is Literal and name in value
    )
    return literals and required(hint) <= value.keys()


def required(hint: Any) -> frozenset[str]:
    """The members that a dataclass or a TypedDict cannot do without."""
    if typing.is_typeddict(hint):
        return hint.__required_keys__
    none = dataclasses.MISSING
    return frozenset(it.name for it in dataclasses.fields(hint) if it.default is none and it.default_factory is none)
