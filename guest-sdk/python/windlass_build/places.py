"""Where the author wrote what: lines of parameters and members, and comments on them."""

import ast
import inspect
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

Place = tuple[str, int, int]
"""File, line, column."""


class Places:
    """Places in the files of a project."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def file(self, name: str) -> str:
        """A file, relative to the project."""
        path = Path(name)
        return str(path.relative_to(self._directory)) if path.is_relative_to(self._directory) else name

    def parameter(self, run: Callable[..., Any], name: str | None) -> Place:
        """The type of a parameter; that of the value, without a name."""
        code = run.__code__
        file, line = self.file(code.co_filename), code.co_firstlineno
        for it in ast.walk(_tree(code.co_filename)):
            if not isinstance(it, ast.FunctionDef) or it.name != run.__name__:
                continue
            if line != min([it.lineno, *(one.lineno for one in it.decorator_list)]):
                continue
            found: ast.AST | None = it.returns
            if name is not None:
                given = [*it.args.posonlyargs, *it.args.args]
                found = next((one.annotation for one in given if one.arg == name), None)
            return _place(file, found or it)
        return file, line, 1

    def member(self, of: type, name: str) -> Place | None:
        """A member of a class; None if the class is not in a file of the project."""
        found = self._member(of, name)
        return found and found[0]

    def comment(self, of: type, name: str) -> str | None:
        """The text below a member."""
        found = self._member(of, name)
        return found and found[1]

    def _member(self, of: type, name: str) -> tuple[Place, str | None] | None:
        file = getattr(sys.modules.get(of.__module__), "__file__", None)
        if file is None or not Path(file).is_relative_to(self._directory):
            return None
        found = next(
            (it for it in ast.walk(_tree(file)) if isinstance(it, ast.ClassDef) and it.name == of.__name__), None
        )
        body = found.body if found else []
        for index, it in enumerate(body):
            if isinstance(it, ast.AnnAssign) and isinstance(it.target, ast.Name) and it.target.id == name:
                after = body[index + 1] if index + 1 < len(body) else None
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                told = after.value.value if is_text else None
                place = _place(self.file(file), it)
                return place, inspect.cleandoc(told) if isinstance(told, str) else None
        return None


def _place(file: str, it: Any) -> Place:
    return file, it.lineno, it.col_offset + 1


@cache
def _tree(file: str) -> ast.Module:
    try:
        return ast.parse(Path(file).read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return ast.Module([], [])
