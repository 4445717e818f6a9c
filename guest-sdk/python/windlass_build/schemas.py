"""JSON Schemas of configurations, inputs and outputs, from the types of a plugin."""

import dataclasses
import inspect
import json
import operator
import typing
from collections.abc import Callable
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from windlass import Blob, Node, Raw
from windlass._data import dumps
from windlass._define import returned
from windlass._types import DICTS, LISTS, Secret, bare, is_record, members, required, schema
from windlass_build.errors import at
from windlass_build.places import Place, Places

_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", None: "null"}

# Types that JSON does not keep, and what to write instead.
_NOT_JSON = {
    "datetime": "str, such as that of isoformat()",
    "date": "str, such as that of isoformat()",
    "time": "str, such as that of isoformat()",
    "timedelta": "float, the seconds",
    "Decimal": "str or float",
    "Fraction": "str or float",
    "complex": "two numbers",
    "bytes": "Raw, for bytes",
    "bytearray": "Raw, for bytes",
    "memoryview": "Raw, for bytes",
    "set": "list",
    "frozenset": "list",
    "deque": "list",
    "UUID": "str",
    "Path": "str",
    "PurePath": "str",
    "Pattern": "str",
}


class Schemas:
    """The schemas of a plugin's nodes. `mistakes` has the types that have none."""

    def __init__(self, places: Places) -> None:
        self.mistakes: list[str] = []
        self._places = places
        self._role = ""
        self._named: dict[Any, str] = {}
        self._defs: dict[str, Any] = {}

    def of(self, node: Node) -> dict[str, Any]:
        """The schemas of a node: `config`, `input` and `output`, each only if it says something."""
        try:
            given, config, value = node.types()
        except NameError as error:
            place = self._places.parameter(node.run, None)
            self.mistakes.append(at(*place, f"a type is not known: {error}"))
            return {}
        names = [it.name for it in node.parameters] + [None, None]
        parts = returned(value)
        output = operator.getitem(Union, tuple(parts)) if parts else Any
        found = {
            "config": self._root("config", config, self._places.parameter(node.run, names[1])),
            "input": self._root("input", given, self._places.parameter(node.run, names[0])),
            "output": self._root("output", output, self._places.parameter(node.run, None)),
        }
        return {name: it for name, it in found.items() if it is not True}

    def _root(self, role: str, hint: Any, place: Place) -> Any:
        self._role, self._named, self._defs = role, {}, {}
        plain = bare(hint)
        is_object = is_record(plain) or typing.is_typeddict(plain) or _is(plain, DICTS)
        if role == "config" and plain is not Any and not is_object:
            self._refuse(place, role, "a configuration is an object; use a dataclass or a TypedDict")
            return True
        made = self._schema(hint, role, place)
        reference = made.get("$ref") if isinstance(made, dict) else None
        if reference:
            # The root stands for itself: a host looks for its members there.
            name = reference.removeprefix("#/$defs/")
            rest = {key: it for key, it in made.items() if key != "$ref"}
            own = self._defs[name]
            if f'"{reference}"' not in json.dumps([self._defs]):
                del self._defs[name]
            made = {**own, **rest}
        return {**made, "$defs": self._defs} if self._defs and isinstance(made, dict) else made

    def _refuse(self, place: Place, where: str, why: str) -> Any:
        text = at(*place, f"{where}: {why}")
        if text not in self.mistakes:
            self.mistakes.append(text)
        return True

    def _schema(self, hint: Any, where: str, place: Place) -> Any:
        keywords: dict[str, Any] = {}
        while bare(hint) is not hint:
            if get_origin(hint) is Annotated:
                hint, *notes = get_args(hint)
                for note in notes:
                    if isinstance(note, schema):
                        keywords = {**note.keywords, **keywords}
            elif isinstance(hint, typing.NewType):
                hint = hint.__supertype__
            else:
                hint = hint.__value__ if hasattr(hint, "__value__") else get_args(hint)[0]
        made = self._plain(hint, where, place)
        if not keywords:
            return made
        return {**(made if isinstance(made, dict) else {}), **keywords}

    def _plain(self, hint: Any, where: str, place: Place) -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in (Any, object, Raw, Blob, inspect.Parameter.empty):
            return True
        if hint in _SIMPLE:
            return {"type": _SIMPLE[hint]}
        if origin in (Union, UnionType):
            return self._union(members(hint), where, place)
        if origin is Literal:
            return {"enum": list(arguments)}
        if isinstance(hint, type) and issubclass(hint, Enum):
            values = [it.value for it in hint]
            if any(type(it) not in _SIMPLE for it in values):
                return self._refuse(place, where, f"the values of {hint.__name__} have to be texts or numbers")
            return {"enum": values}
        if is_record(hint) or typing.is_typeddict(hint):
            return self._reference(hint, where, place)
        if hint in LISTS or hint is tuple:
            return {"type": "array"}
        if origin in LISTS or origin is tuple and arguments[-1:] == (...,):
            return self._array({"items": self._schema(arguments[0], f"{where}[]", place)})
        if origin is tuple:
            items = [self._schema(it, f"{where}[{index}]", place) for index, it in enumerate(arguments)]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        if hint in DICTS:
            return {"type": "object"}
        if origin in DICTS:
            return self._map(arguments, where, place)
        return self._refuse(place, where, _why(hint))

    @staticmethod
    def _array(made: dict[str, Any]) -> dict[str, Any]:
        return {"type": "array"} if made["items"] is True else {"type": "array", **made}

    def _map(self, arguments: tuple[Any, ...], where: str, place: Place) -> Any:
        key = bare(arguments[0])
        is_text = get_origin(key) is Literal and all(isinstance(it, str) for it in get_args(key))
        if not (is_text or isinstance(key, type) and issubclass(key, str)):
            return self._refuse(place, where, "the names of an object are texts: use dict[str, …]")
        values = self._schema(arguments[1], f"{where}.*", place)
        return {"type": "object"} if values is True else {"type": "object", "additionalProperties": values}

    def _union(self, parts: tuple[Any, ...], where: str, place: Place) -> Any:
        all_made: list[Any] = []
        for part in parts:
            made = self._schema(part, where, place)
            if made not in all_made:
                all_made.append(made)
        if True in all_made:
            return True
        if len(all_made) == 1:
            return all_made[0]
        if all(it.keys() == {"type"} and isinstance(it["type"], str) for it in all_made):
            return {"type": [it["type"] for it in all_made]}
        return {"anyOf": all_made}

    def _reference(self, hint: Any, where: str, place: Place) -> Any:
        if hint not in self._named:
            name, number = hint.__name__, 2
            while name in self._defs:
                name, number = f"{hint.__name__}{number}", number + 1
            self._named[hint] = name
            self._defs[name] = None
            self._defs[name] = self._object(hint, where, place)
        return {"$ref": f"#/$defs/{self._named[hint]}"}

    def _object(self, hint: Any, where: str, place: Place) -> dict[str, Any]:
        try:
            hints = get_type_hints(hint, include_extras=True)
        except NameError as error:
            self._refuse(place, where, f"a type of {hint.__name__} is not known: {error}")
            return {}
        defaults, needed = {}, required(hint)
        if is_record(hint):
            hints = {it.name: hints[it.name] for it in dataclasses.fields(hint)}
            if self._role == "output":
                needed = frozenset(hints)
            else:
                defaults = {it.name: it for it in dataclasses.fields(hint)}
        properties = {}
        for name, inner in hints.items():
            inside = self._places.member(hint, name) or place
            made = self._schema(inner, f"{where}.{name}", inside)
            about = {"description": self._places.comment(hint, name), **_default(defaults.get(name))}
            about = {key: it for key, it in about.items() if key == "default" or it is not None}
            properties[name] = {**(made if isinstance(made, dict) else {}), **about} if about else made
        made = {"description": _told(hint), "type": "object", "properties": properties}
        made["required"] = [name for name in hints if name in needed]
        if self._role == "config":
            # A misspelt key of a configuration is found when a workflow is published.
            made["additionalProperties"] = False
        return {name: it for name, it in made.items() if it not in (None, [])}


def _is(hint: Any, kinds: tuple[type, ...]) -> bool:
    return hint in kinds or get_origin(hint) in kinds


def _default(field: Any) -> dict[str, Any]:
    if field is None or not field.init:
        return {}
    value = field.default
    if value is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if value is dataclasses.MISSING or value is None:
        return {}
    try:
        return {"default": json.loads(dumps(value))}
    except (TypeError, ValueError):
        return {}


def _told(hint: Any) -> str | None:
    """The comment of a class, without the one that a dataclass makes up."""
    told = hint.__doc__ or ""
    if hint is Secret or told.startswith(f"{hint.__name__}(") or told.startswith("dict() ->"):
        return None
    return inspect.cleandoc(told) or None


def _why(hint: Any) -> str:
    plain = get_origin(hint) or hint
    name = getattr(plain, "__name__", str(plain))
    if isinstance(hint, TypeVar):
        return "a type parameter has no schema; name a type"
    if plain is Callable or name == "Callable" or inspect.isroutine(plain):
        return "a function has no JSON"
    if name in _NOT_JSON:
        return f"{name} has no JSON; use {_NOT_JSON[name]}"
    if dataclasses.is_dataclass(plain):
        return f"{name} with a type parameter has no schema; write a dataclass with these types"
    if isinstance(plain, type) and issubclass(plain, tuple):
        return f"{name} has no names in JSON; use a dataclass"
    return f"{name} has no schema; use a dataclass or a TypedDict"
