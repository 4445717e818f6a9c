"""The description of a plugin, read from its modules before there is a component."""

import ast
import contextlib
import importlib
import importlib.util
import json
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from windlass._define import Consumer, Node, definitions, node_name
from windlass._trace import headline
from windlass_build.errors import BuildError, at
from windlass_build.places import Places
from windlass_build.project import Project
from windlass_build.schemas import Schemas

CAPABILITIES = ("http", "secrets", "events")
# The modules of the SDK that are functions of the host.
INTERFACES = ("http", "memory", "blobs", "events")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# The most modules whose imports are read.
_MAX_MODULES = 4000


@dataclass(frozen=True)
class Loaded:
    """A plugin that was loaded."""

    document: dict[str, Any]
    """The description."""
    exports: list[str]
    """The interfaces that it exports: `node`, `consumer`, `check`."""
    imports: list[str]
    """Those that it imports."""
    late: list[str]
    """Modules that functions of it import, which a component has to have before."""


def load(project: Project, packages: Path | None) -> Loaded:
    """Executes the modules of a plugin as the toolchain will, and describes them."""
    folders = [str(project.source)] + ([str(packages)] if packages else [])
    # Packages of this interpreter are not in the component.
    own = [it for it in sys.path if not it.endswith(("site-packages", "dist-packages"))]
    before, sys.path[:] = sys.path[:], folders + own
    sys.dont_write_bytecode = True
    # What a module prints is no result of the build.
    with contextlib.redirect_stdout(sys.stderr):
        module = _import(project)
        late = _late(folders)
    sys.path[:] = before
    found = _nodes(module)
    consumers = definitions(module, Consumer)
    places = Places(project.directory)
    schemas = Schemas(places)
    nodes = [_node(name, it, schemas) for name, it in found]
    consumer = next(iter(consumers.values()), None)
    document = {
        "windlass": 1,
        "package": project.package,
        "version": project.version,
        "title": project.title,
        "description": project.description,
        "nodes": nodes or None,
        "consumer": consumer and consumer.about,
    }
    document = {name: it for name, it in document.items() if it is not None}
    mistakes = schemas.mistakes + faults(document, len(consumers))
    if mistakes:
        raise BuildError(mistakes)
    checks = any(it.checks for _, it in found)
    exports = [name for name, has in (("node", nodes), ("consumer", consumer), ("check", checks)) if has]
    imports = ["context", "log", *(it for it in INTERFACES if f"windlass.{it}" in sys.modules)]
    return Loaded(document, exports, imports, late)


def _import(project: Project) -> ModuleType:
    try:
        return importlib.import_module("plugin")
    except SyntaxError as error:
        file = Places(project.directory).file(error.filename or "")
        raise BuildError(at(file, error.lineno or 1, error.offset or 1, f"SyntaxError: {error.msg}")) from None
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        text = f"the plugin cannot be loaded: {headline(error)}"
        if isinstance(error, ModuleNotFoundError):
            text += "; a package belongs into requirements.txt"
        frames = traceback.extract_tb(error.__traceback__)
        own = [it for it in frames if Path(it.filename).is_relative_to(project.source)]
        if own:
            places = Places(project.directory)
            text = at(places.file(own[-1].filename), own[-1].lineno or 1, (own[-1].colno or 0) + 1, text)
        raise BuildError(text) from None


def _late(folders: list[str]) -> list[str]:
    """The modules that functions of the author and of his packages import. A component has no files,
    so they have to be there before the first call. Those that cannot be had are left out."""
    found: list[str] = []
    read: set[str] = set()
    while len(read) < _MAX_MODULES:
        names = [
            name
            for name, it in list(sys.modules.items())
            if name not in read
            and (getattr(it, "__file__", None) or "").startswith(tuple(f"{one}/" for one in folders))
        ]
        if not names:
            break
        for name in names:
            read.add(name)
            for wanted in _inner(sys.modules[name]):
                if wanted not in found and _is_there(wanted):
                    found.append(wanted)
    return found


def _is_there(name: str) -> bool:
    try:
        importlib.import_module(name)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return False
    return True


def _inner(module: ModuleType) -> list[str]:
    """The modules that functions of a module import."""
    try:
        source = Path(module.__file__ or "").read_text("utf-8")
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError):
        return []
    # The standard library imports this one in the first call.
    found = ["_strptime"] if "strptime" in source else []
    functions = [it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)]
    for it in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(it, ast.Import):
            found += [one.name for one in it.names]
        elif isinstance(it, ast.ImportFrom):
            name = "." * it.level + (it.module or "")
            with contextlib.suppress(ImportError, ValueError):
                base = importlib.util.resolve_name(name, module.__package__)
                found.append(base)
                found += [f"{base}.{one.name}" for one in it.names if one.name != "*"]
    return found


def _nodes(module: ModuleType) -> list[tuple[str, Node]]:
    return [(it.about["name"] or node_name(name), it) for name, it in definitions(module, Node).items()]


def _node(name: str, node: Node, schemas: Schemas) -> dict[str, Any]:
    derived = schemas.of(node)
    about = {**node.about, "name": name}
    for role in ("config", "input", "output"):
        if about[role] is None:
            about[role] = derived.get(role)
    if about["description"] is None and node.__doc__:
        about["description"] = " ".join(node.__doc__.split())
    resources = about["resources"]
    if resources is not None:
        hints = {
            "memory-bytes": resources.memory_bytes,
            "deadline-ms": resources.deadline_ms,
            "instance": resources.instance,
        }
        about["resources"] = {key: it for key, it in hints.items() if it is not None}
    return {key: it for key, it in about.items() if it is not None}


def faults(document: dict[str, Any], consumers: int) -> list[str]:
    """Every rule that a description breaks."""
    found = []
    if not _NAME.fullmatch(document["package"]):
        found.append(
            f"pyproject.toml: the package is {json.dumps(document['package'])}: it has to be [a-z][a-z0-9-]*, "
            'at most 64 characters; set package = "…" in [tool.windlass]'
        )
    if not _VERSION.match(document["version"]):
        found.append(
            f'pyproject.toml: version {json.dumps(document["version"])} is no semantic version such as "1.0.0"'
        )
    nodes = document.get("nodes", [])
    if not nodes and not consumers:
        found.append("src/plugin.py: there is neither a node nor a consumer: write @node before a function")
    if consumers > 1:
        found.append(f"src/plugin.py: there are {consumers} consumers, and a plugin has one at most")
    seen = set()
    for it in nodes:
        name = it["name"]
        told = f"src/plugin.py: node {name}: "
        if not _NAME.fullmatch(name):
            found.append(f"{told}its name has to be [a-z][a-z0-9-]*, at most 64 characters")
        if name in seen:
            found.append(f"{told}there are two nodes of this name")
        seen.add(name)
        if "ports" in it and (not it["ports"] or "error" in it["ports"]):
            found.append(f"{told}it needs a port, and `error` is the host's")
        for capability in it.get("capabilities", ()):
            if capability not in CAPABILITIES:
                found.append(f"{told}there is no capability {capability}; there are {', '.join(CAPABILITIES)}")
    return found


def warnings(document: dict[str, Any], imports: list[str]) -> list[str]:
    """Parts of a description that are probably a mistake."""
    nodes = document.get("nodes", [])
    asked = {capability for it in nodes for capability in it.get("capabilities", ())}
    found = []
    for capability in ("http", "events"):
        uses = capability in imports
        if capability in asked and not uses:
            found.append(
                f"a node asks for the capability {capability}, and the plugin never imports windlass.{capability}"
            )
        if uses and nodes and capability not in asked:
            found.append(
                f"the plugin imports windlass.{capability}, and no node asks for it: add "
                f'capabilities=["{capability}"], so that operators see what to grant'
            )
    if "secrets" in asked and "http" not in imports:
        found.append("a node asks for the capability secrets, and the plugin never imports windlass.http")
    return found
