"""The program that builds components, on projects in a temporary folder."""

import ast
import dataclasses
import hashlib
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from windlass_build.componentize import _PROGRAM
from windlass_build.document import warnings
from windlass_build.project import contract
from windlass_build.sections import smaller

SDK = Path(__file__).resolve().parent.parent
MANIFEST = '[project]\nname = "tools"\nversion = "1.0.0"\n'
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"}
DESCRIBE = """
import json, sys
from pathlib import Path
from windlass_build.document import load
from windlass_build.errors import BuildError
from windlass_build.project import project
try:
    print(json.dumps(vars(load(project(Path(sys.argv[1])), None))))
except BuildError as error:
    sys.exit("\\n".join(error.messages))
"""


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False)


def make(folder, source, **files):
    (folder / "src").mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(MANIFEST)
    (folder / "src/plugin.py").write_text(source)
    for name, text in files.items():
        (folder / f"src/{name}.py").write_text(text)


def load(folder, source, **files):
    """What the build knows of a plugin, without its component."""
    make(folder, source, **files)
    done = run("-c", DESCRIBE, str(folder))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def mistakes(folder, source, **files):
    make(folder, source, **files)
    done = run("-c", DESCRIBE, str(folder))
    assert done.returncode == 1, done.stdout
    return done.stderr.strip().splitlines()


SUM = "from windlass import node\n\n@node\ndef sum_all(it):\n    return it['a'] + 1\n"


def test_a_component_is_written_and_equal_inputs_give_equal_bytes(tmp_path):
    make(tmp_path, SUM)
    first = run("-m", "windlass_build", str(tmp_path), "--json")
    assert (first.returncode, first.stderr) == (0, "")
    result = json.loads(first.stdout)
    assert (result["package"], result["nodes"], result["pure"]) == ("tools", ["tools/sum-all"], True)
    assert result["imports"] == ["context", "log"]
    component = Path(result["file"]).read_bytes()
    assert component[:4] == b"\0asm"
    assert (len(component), hashlib.sha256(component).hexdigest()) == (result["bytes"], result["sha256"])
    # Nothing is left that no host reads.
    assert smaller(component) == component

    Path(result["file"]).unlink()
    other = tmp_path / "other.wasm"
    again = run("-m", "windlass_build", str(tmp_path), "--out", str(other))
    assert "tools/sum-all" in again.stdout
    assert other.read_bytes() == component


def test_what_fails_inside_of_a_component_alone_has_its_place(tmp_path):
    make(tmp_path, f"import deep\n{SUM}", deep="import sys\n\nif sys.platform == 'wasi':\n    import tkinter\n")
    done = run("-m", "windlass_build", str(tmp_path))
    assert done.returncode == 1
    found = "error: src/deep.py:4:1: the plugin cannot be loaded inside of the component: ModuleNotFoundError: "
    assert done.stderr.startswith(found), done.stderr


TYPED = '''
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict
from windlass import Again, Blob, Context, Done, Secret, again, done, node, schema

Id = NewType("Id", int)

class Size(Enum):
    SMALL = "s"
    LARGE = "l"

@dataclass
class Order:
    """An order."""
    total: Annotated[Id, schema(minimum=1)]
    """In cents."""
    tags: list[str] = field(default_factory=list)
    parts: "list[Order] | None" = None

class Pair(TypedDict):
    pair: tuple[int, str]
    size: NotRequired[Size | Literal[7]]
    rates: dict[str, float]

@dataclass
class Config:
    filter: Annotated[str, schema(raw=True)]
    limit: int = 3
    key: Secret | None = None

@node(ports=["done", "large"], suspends=True)
def sum(orders: list[Order], ctx: Context[Config]) -> Order | Done[Order] | Again:
    """Adds up
    all orders."""

@node
def pair(it: Pair) -> None:
    pass

@node(input={"type": "string"})
def free(it, ctx: Context[Any]):
    pass

@node
def blob(it: Blob) -> str | int | None:
    pass
'''


def test_types_become_schemas(tmp_path):
    document = load(tmp_path, TYPED)["document"]
    order, pair, free, blob = document["nodes"]
    assert (order["name"], order["description"]) == ("sum", "Adds up all orders.")
    secret = {"type": "object", "properties": {"secret": {"type": "string"}}, "required": ["secret"]}
    assert order["config"] == {
        "type": "object",
        "properties": {
            "filter": {"type": "string", "x-raw": True},
            "limit": {"type": "integer", "default": 3},
            "key": {"anyOf": [{"$ref": "#/$defs/Secret"}, {"type": "null"}]},
        },
        "required": ["filter"],
        "additionalProperties": False,
        "$defs": {"Secret": {**secret, "additionalProperties": False}},
    }
    total = {"type": "integer", "minimum": 1, "description": "In cents."}
    parts = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Order"}}, {"type": "null"}]}
    tags = {"type": "array", "items": {"type": "string"}}
    made = {
        "description": "An order.",
        "type": "object",
        "properties": {"total": total, "tags": {**tags, "default": []}, "parts": parts},
        "required": ["total"],
    }
    assert order["input"] == {"type": "array", "items": {"$ref": "#/$defs/Order"}, "$defs": {"Order": made}}
    given = {
        **made,
        "properties": {"total": total, "tags": tags, "parts": parts},
        "required": ["total", "tags", "parts"],
    }
    assert order["output"] == {**given, "$defs": {"Order": given}}
    assert pair["input"] == {
        "type": "object",
        "properties": {
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
            "size": {"anyOf": [{"enum": ["s", "l"]}, {"enum": [7]}]},
            "rates": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["pair", "rates"],
    }
    assert pair["output"] == {"type": "null"}
    assert free == {"name": "free", "input": {"type": "string"}}
    assert blob == {"name": "blob", "output": {"type": ["string", "integer", "null"]}}


UNTYPED = """
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from windlass import Context, node

T = TypeVar("T")

class Plain:
    pass

@dataclass
class In:
    when: datetime
    run: Callable[[int], int]
    some: list[set[int]]
    own: Plain | None
    names: dict[int, str]

@node
def a(it: In, ctx: Context[list[int]]) -> bytes:
    pass

@node
def b(it: "Missing") -> T:
    pass

@node
def c(it: T) -> complex: pass
"""


def test_types_without_json_are_refused_with_their_line(tmp_path):
    assert mistakes(tmp_path, UNTYPED) == [
        "src/plugin.py:22:20: config: a configuration is an object; use a dataclass or a TypedDict",
        "src/plugin.py:15:5: input.when: datetime has no JSON; use str, such as that of isoformat()",
        "src/plugin.py:16:5: input.run: a function has no JSON",
        "src/plugin.py:17:5: input.some[]: set has no JSON; use list",
        "src/plugin.py:18:5: input.own: Plain has no schema; use a dataclass or a TypedDict",
        "src/plugin.py:19:5: input.names: the names of an object are texts: use dict[str, …]",
        "src/plugin.py:22:43: output: bytes has no JSON; use Raw, for bytes",
        "src/plugin.py:26:25: a type is not known: name 'Missing' is not defined",
        "src/plugin.py:30:11: input: a type parameter has no schema; name a type",
        "src/plugin.py:30:17: output: complex has no JSON; use two numbers",
    ]


def test_code_beside_the_nodes_that_fails_has_its_place(tmp_path):
    source = "from windlass import memory\nimport deep\n"
    deep = "from windlass import memory\n\nA = memory.get('vars.a')\n"
    (found,) = mistakes(tmp_path, source, deep=deep)
    assert found.startswith("src/deep.py:3:5: the plugin cannot be loaded: RuntimeError: memory.get('vars.a') needs")
    (found,) = mistakes(tmp_path, "import deep\n", deep="def a(:\n    pass\n")
    assert found == "src/deep.py:1:7: SyntaxError: invalid syntax"
    # It is installed here, and no package of the plugin.
    (found,) = mistakes(tmp_path, "import pytest\n")
    assert found.startswith(
        "src/plugin.py:1:1: the plugin cannot be loaded: ModuleNotFoundError: No module named 'pytest'"
    )
    assert found.endswith("a package belongs into requirements.txt")


def test_descriptions_that_a_host_would_refuse_are_mistakes(tmp_path):
    source = """
from windlass import consumer, node
@node
def Über(): pass
@node(ports=["error"], capabilities=["files"], name="b")
def a(): pass
@node
def b(): pass
gate = consumer(lambda it: it)
office = consumer(lambda it: it)
"""
    found = "\n".join(mistakes(tmp_path, source))
    for part in ("its name has to be", "`error` is the host's", "no capability files", "two nodes", "are 2 consumers"):
        assert part in found, found
    assert "neither a node nor a consumer" in mistakes(tmp_path, "a = 1\n")[0]


def test_what_functions_import_is_there_before_the_first_call(tmp_path):
    source = """
import datetime
from windlass import node
@node
def a(it):
    import csv, not_there
    from xml.dom import minidom
    from deep import inner
    return datetime.datetime.strptime(it, "%Y")
"""
    late = load(tmp_path, source, deep="def inner():\n    from windlass import http\n")
    assert set(late["late"]) == {"_strptime", "csv", "xml.dom", "xml.dom.minidom", "deep", "windlass", "windlass.http"}
    assert late["imports"] == ["context", "log", "http"]


def test_exit_codes_tell_wrong_calls_and_folders(tmp_path):
    assert run("-m", "windlass_build", "--wrong").returncode == 2
    done = run("-m", "windlass_build", str(tmp_path))
    assert (done.returncode, "pyproject.toml: there is no such file" in done.stderr) == (1, True)


def test_capabilities_that_are_not_used_and_the_reverse_are_warnings():
    asks = {"nodes": [{"capabilities": ["http", "events", "secrets"]}]}
    found = "\n".join(warnings(asks, ["log"]))
    for part in ("never imports windlass.http", "never imports windlass.events", "capability secrets"):
        assert part in found
    assert "no node asks for it" in warnings({"nodes": [{}]}, ["http"])[0]
    assert warnings({"nodes": [{"capabilities": ["http"]}]}, ["http"]) == []


@pytest.mark.parametrize("kind", ["exports", "imports"])
def test_the_contract_of_the_test_kit_is_that_of_components(tmp_path, kind):
    """The records of the test kit have the names and the members of the generated ones."""
    for file in contract():
        (tmp_path / "wit/deps" / file.stem).mkdir(parents=True)
        (tmp_path / "wit/deps" / file.stem / file.name).write_bytes(file.read_bytes())
    includes = "".join(f"include windlass:plugin/{it}@0.1.0; " for it in ("full", "consumer", "checking"))
    (tmp_path / "wit/world.wit").write_text(f"package author:plugin;\nworld everything {{ {includes} }}\n")
    made = tmp_path / "made"
    done = run("-c", _PROGRAM, "-d", str(tmp_path / "wit"), "-w", "everything", "bindings", str(made))
    assert done.returncode == 0, done.stderr
    seen = 0
    for file in sorted((made / "wit_world" / kind).glob("*.py")):
        if file.stem in ("__init__", "clock", "random"):
            continue
        fake = importlib.import_module(f"windlass._fake.{file.stem}")

        for it in ast.parse(file.read_text()).body:
            if isinstance(it, ast.ClassDef) and not it.bases:
                members = [one.target.id for one in it.body if isinstance(one, ast.AnnAssign)]
                own = getattr(fake, it.name)
                assert [one.name for one in dataclasses.fields(own)] == members, it.name
                seen += 1
            elif isinstance(it, ast.FunctionDef):
                assert callable(getattr(fake, it.name))
    assert seen > 10
