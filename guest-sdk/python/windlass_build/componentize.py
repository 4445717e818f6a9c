"""The component, by `componentize-py`."""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from windlass_build.document import Loaded
from windlass_build.errors import MISSING, BuildError
from windlass_build.project import SDK, VERSION, Project, contract
from windlass_build.sections import smaller

TOOLCHAIN = "componentize-py"

# How many components of a project are kept.
_KEPT = 8

# What a component does not need of this SDK.
_LEFT_OUT = ("_fake", "testing.py", "__pycache__")

_PROGRAM = "import sys, componentize_py; sys.argv[0] = 'componentize-py'; sys.exit(componentize_py.script())"

_ENTRY = """\
import gc
import importlib

for name in {late!r}:
    try:
        importlib.import_module(name)
    except Exception:
        pass

import plugin
from windlass._component import Component

_component = Component(plugin, {document!r})


# What is there now lives as long as the component: no collection looks at it, so most of its memory
# stays shared between instances.
gc.collect()
gc.freeze()


class Node:
    describe = _component.describe
    execute = _component.execute


class Consumer:
    describe = _component.describe
    accept = _component.accept


class Check:
    check = _component.check
"""


def componentize(project: Project, packages: Path | None, loaded: Loaded, document: str) -> bytes:
    """Makes the component: its bytes. The toolchain puts random seeds into it, so a component is kept
    by the digest of its inputs: the same inputs give the same bytes."""
    if importlib.util.find_spec("componentize_py") is None:
        wanted = (SDK / "requirements.txt").read_text("utf-8").split()[-1]
        raise BuildError(f"{TOOLCHAIN} is not installed: {sys.executable} -m pip install {wanted}", MISSING)
    world = _world(loaded)
    with tempfile.TemporaryDirectory(prefix="windlass-") as name:
        place = Path(name)
        wit, own, app = place / "wit", place / "sdk", place / "src"
        for file in contract():
            folder = wit / "deps" / file.stem
            folder.mkdir(parents=True)
            shutil.copy(file, folder)
        (wit / "world.wit").write_text(world)
        shutil.copytree(SDK / "windlass", own / "windlass", ignore=shutil.ignore_patterns(*_LEFT_OUT))
        (own / "windlass_entry.py").write_text(_ENTRY.format(late=loaded.late, document=document))
        shutil.copytree(project.source, app, ignore=shutil.ignore_patterns("__pycache__"))
        folders = [app, packages or place / "none", own]
        folders[1].mkdir(exist_ok=True)

        kept = project.made / "components" / f"{_digest([wit, *folders])}.wasm"
        if kept.is_file():
            os.utime(kept)
            return kept.read_bytes()
        component = smaller(_run(place, wit, folders))
        _keep(kept, component)
        return component


def _world(loaded: Loaded) -> str:
    lines = [f"    import windlass:{it}/{it}@{VERSION};\n" for it in ("types", *loaded.imports)]
    lines += [f"    export windlass:{it}/{it}@{VERSION};\n" for it in loaded.exports]
    return f"package author:plugin;\n\nworld plugin {{\n{''.join(lines)}}}\n"


def _digest(folders: list[Path]) -> str:
    found = hashlib.sha256(importlib.metadata.version(TOOLCHAIN).encode())
    found.update((Path(__file__).parent / "sections.py").read_bytes())
    for folder in folders:
        for file in sorted(it for it in folder.rglob("*") if it.is_file() and it.suffix != ".pyc"):
            bytes_ = file.read_bytes()
            found.update(f"{file.relative_to(folder)}\n{len(bytes_)}\n".encode())
            found.update(bytes_)
        found.update(b"\n\n")
    return found.hexdigest()


def _run(place: Path, wit: Path, folders: list[Path]) -> bytes:
    output = place / "component.wasm"
    command = [sys.executable, "-c", _PROGRAM, "--wit-path", str(wit), "--world", "plugin", "componentize"]
    for folder in folders:
        command += ["--python-path", str(folder)]
    command += ["--output", str(output), "windlass_entry"]
    # The toolchain would take the packages of this interpreter, too.
    nothing = place / "environment/lib/python/site-packages"
    nothing.mkdir(parents=True)
    environment = {**os.environ, "VIRTUAL_ENV": str(place / "environment"), "RUST_BACKTRACE": "0"}
    done = subprocess.run(
        command, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(_mistakes(done.stderr))
    return output.read_bytes()


def _mistakes(told: str) -> list[str]:
    """What the toolchain says: the exception of the Python inside, with its place in the sources."""
    inside = told.partition("AssertionError: ")[2] or told
    inside = inside.partition("\n\nCaused by")[0].partition("Stack backtrace:")[0].strip()
    frames = re.findall(r'File "/0/([^"]+)", line (\d+)', inside)
    last = next((line for line in reversed(inside.splitlines()) if line and not line.startswith(" ")), inside)
    if not inside.startswith("Traceback"):
        return [f"{TOOLCHAIN}: {inside}"]
    if not frames:
        return [f"the plugin cannot be loaded inside of the component: {last}", *inside.splitlines()]
    file, line = frames[-1]
    return [f"src/{file}:{line}:1: the plugin cannot be loaded inside of the component: {last}"]


def _keep(file: Path, component: bytes) -> None:
    """Keeps a component, in place of the oldest."""
    replace(file, component)
    found = sorted(file.parent.glob("*.wasm"), key=lambda it: it.stat().st_mtime, reverse=True)
    for old in found[_KEPT:]:
        old.unlink(missing_ok=True)


def replace(file: Path, content: bytes) -> None:
    """Writes a file by renaming."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        fresh.write_bytes(content)
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
