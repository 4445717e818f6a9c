"""The contract outside of a component: the records of the bindings, with the same names, and
functions that ask the world of the test."""

from dataclasses import make_dataclass


class Err(Exception):
    """An error that the contract knows."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value


def record(name: str, *members: str) -> type:
    """A record."""
    return make_dataclass(name, members)


def case(name: str) -> type:
    """A case of a variant that has a value."""
    return make_dataclass(name, ["value"])


def refuse(error: type, *value: object) -> None:
    """Raises an error of the host."""
    raise Err(error(*value))
