"""What a project folder says about its plugin."""

import hashlib
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from windlass_build.errors import MISSING, BuildError

VERSION = "0.1.0"
"""The version of the interfaces that this SDK speaks."""

SDK = Path(__file__).resolve().parent.parent
"""The folder of this SDK."""

PYTHON = "3.14"
"""The Python inside of a component."""


@dataclass(frozen=True)
class Project:
    """A project."""

    directory: Path
    package: str
    version: str
    title: str | None
    description: str | None

    @property
    def source(self) -> Path:
        """The folder of the author's modules."""
        return self.directory / "src"

    @property
    def made(self) -> Path:
        """The folder of what the build keeps."""
        return self.directory / "build"


def project(directory: Path) -> Project:
    """The project in a folder."""
    file = directory / "pyproject.toml"
    try:
        settings = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise BuildError(f"{file}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise BuildError(f"{file}: {error}") from None
    about = settings.get("project", {})
    own = settings.get("tool", {}).get("windlass", {})
    if not (directory / "src/plugin.py").is_file():
        raise BuildError(f"{directory}: there is no src/plugin.py")
    return Project(
        directory,
        own.get("package") or str(about.get("name", "")),
        str(about.get("version", "")),
        own.get("title"),
        about.get("description") or None,
    )


def contract() -> list[Path]:
    """The files of the contract, beside this SDK or in it."""
    for folder in (SDK / "wit", SDK.parent.parent / "wit"):
        if folder.is_dir():
            return sorted(folder.rglob("*.wit"))
    raise BuildError(f"{SDK}: the contract is missing; it belongs into the folder wit")


def packages(of: Project) -> Path | None:
    """Installs the packages of `requirements.txt`, unless they are installed: those in pure Python.
    Returns their folder; None without packages."""
    try:
        wanted = (of.directory / "requirements.txt").read_text("utf-8")
    except FileNotFoundError:
        return None
    lines = (line.partition("#")[0].strip() for line in wanted.splitlines())
    if not any(lines):
        return None
    folder, mark = of.made / "packages", of.made / "packages/.installed"
    digest = hashlib.sha256(f"{PYTHON}\n{wanted}".encode()).hexdigest()
    if mark.is_file() and mark.read_text() == digest:
        return folder
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    # Wheels for any platform have no native code, which a component could not load.
    command += ["--platform", "any", "--python-version", PYTHON, "--only-binary", ":all:"]
    command += ["--target", str(folder), "--requirement", "requirements.txt"]
    _remove(folder)
    done = subprocess.run(command, cwd=of.directory, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode:
        raise BuildError(
            "requirements.txt: the packages cannot be installed; pip says why. "
            "A component has packages in pure Python alone: those with a wheel for any platform",
            MISSING,
        )
    mark.write_text(digest)
    return folder


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
