"""Builds a plugin: `python -m windlass_build`. The arguments, the output and the exit codes are in
README.md."""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from windlass._data import dumps
from windlass_build.componentize import componentize, replace
from windlass_build.document import load, warnings
from windlass_build.errors import BuildError
from windlass_build.project import packages, project


def main() -> int:
    """Runs the program and gives its exit code."""
    parser = argparse.ArgumentParser(
        prog="windlass_build", description="Builds the plugin in DIR (here by default) and writes its component."
    )
    parser.add_argument("directory", metavar="DIR", nargs="?", default=".", type=Path)
    parser.add_argument("--out", metavar="FILE", type=Path, help="the component; default: build/PACKAGE.wasm in DIR")
    parser.add_argument("--packages", action="store_true", help="install the packages of requirements.txt, and end")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    arguments = parser.parse_args()
    try:
        if arguments.packages:
            packages(project(arguments.directory.resolve()))
            return 0
        result = build(arguments.directory.resolve(), arguments.out)
    except BuildError as error:
        for message in error.messages:
            print(f"error: {message}", file=sys.stderr)
        return error.code
    for warning in result["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    print(json.dumps(result) if arguments.json else told(result))
    return 0


def build(directory: Path, out: Path | None) -> dict[str, Any]:
    """Builds a plugin and writes its component. Returns what `--json` prints."""
    begun = time.monotonic()
    plugin = project(directory)
    libraries = packages(plugin)
    loaded = load(plugin, libraries)
    component = componentize(plugin, libraries, loaded, dumps(loaded.document))
    file = out.resolve() if out else plugin.made / f"{plugin.package}.wasm"
    replace(file, component)
    return {
        "file": str(file),
        "package": plugin.package,
        "version": plugin.version,
        "nodes": [f"{plugin.package}/{it['name']}" for it in loaded.document.get("nodes", [])],
        "consumer": "consumer" in loaded.document,
        "bytes": len(component),
        "sha256": hashlib.sha256(component).hexdigest(),
        "imports": loaded.imports,
        "pure": not {"http", "events"} & set(loaded.imports),
        "milliseconds": round((time.monotonic() - begun) * 1000),
        "warnings": warnings(loaded.document, loaded.imports),
    }


def told(result: dict[str, Any]) -> str:
    """The result for people."""
    names = ", ".join([*result["nodes"], *(["a consumer"] if result["consumer"] else [])])
    file = os.path.relpath(result["file"])
    uses = f"uses {', '.join(result['imports'])}{', pure' if result['pure'] else ''}"
    return f"built {file}: {names}; {result['bytes'] / 1e6:.1f} MB, {uses}; {result['milliseconds'] / 1000:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
