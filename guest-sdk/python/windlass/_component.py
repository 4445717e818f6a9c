"""The exports of a component."""

import os
import sys
from types import ModuleType
from typing import Any

from windlass import _log
from windlass._answer import consumer_error, during, node_error, run_check, run_consumer, run_node
from windlass._data import Payload, Text
from windlass._define import Consumer, Node, definitions, nodes
from windlass._failure import Invalid


class Component:
    """The functions that the host calls, of a plugin's module and its description as JSON."""

    def __init__(self, module: ModuleType, document: str) -> None:
        self._document = document
        self._nodes = nodes(module)
        self._types: dict[str, Node] = {}
        self._seeded = False
        for it in self._nodes.values():
            it.decoders()
        self._consumer = next(iter(definitions(module, Consumer).values()), None)
        self._error = sys.modules["componentize_py_types"].Err
        sys.stdout, sys.stderr = _log.stdout, _log.stderr
        _log.install()

    def describe(self) -> Any:
        return Payload(None, Text(self._document))

    def execute(self, request: Any) -> Any:
        if not self._seeded:
            self._seed()
        return during(
            lambda error: self._error(node_error(error)),
            lambda: run_node(self._node(request.node_type), request.config, request.input),
        )

    def accept(self, trigger: Any) -> Any:
        if not self._seeded:
            self._seed()
        return during(
            lambda error: self._error(consumer_error(error)),
            lambda: run_consumer(self._consumer, trigger.kind, trigger.node, trigger.payload),
        )

    def check(self, request: Any) -> Any:
        return during(
            lambda error: RuntimeError(f"the check failed: {_log.readable(error)}"),
            lambda: run_check(self._node(request.node_type), request.config, request.unknown),
        )

    def _node(self, node_type: str) -> Node:
        found = self._types.get(node_type)
        if found is not None:
            return found
        found = self._nodes.get(node_type.rpartition("/")[2])
        if found is None:
            raise Invalid(f"this plugin has no node {node_type}")
        self._types[node_type] = found
        return found

    def _seed(self) -> None:
        """The state of `random` is that of the build, the same in every instance, until the first
        call of the instance."""
        self._seeded = True
        if "random" in sys.modules:
            sys.modules["random"].seed(os.urandom(16))
