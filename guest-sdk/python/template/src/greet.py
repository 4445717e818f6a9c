"""The node `__NAME__/greet`."""

from dataclasses import dataclass

from windlass import Invalid, node


@dataclass
class Person:
    name: str
    """The name of the person."""


@dataclass
class Greeting:
    greeting: str


@node(title="Greet")
def greet(person: Person) -> Greeting:
    if person.name == "":
        raise Invalid("`name` is empty")
    return Greeting(f"Hello, {person.name}!")
