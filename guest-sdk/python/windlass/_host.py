"""The contract: the bindings of a component, or those of the test kit outside of one."""

from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def contract(name: str) -> ModuleType:
    """The module of an interface, like `imports.log`."""
    try:
        return import_module(f"wit_world.{name}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("wit_world"):
            raise
    return import_module(f"windlass._fake.{name.rpartition('.')[2]}")
