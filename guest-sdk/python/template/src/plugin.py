"""The plugin `__NAME__`."""

from gate import gate
from greet import greet

__all__ = [
    "gate",
    "greet",
]
