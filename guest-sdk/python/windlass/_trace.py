"""Stacks with the author's files and lines.

A component has no files, so nothing here reads a source.
"""

import sys
from types import CodeType, TracebackType

# This package, whose frames no author looks for.
_OWN = __file__.rpartition("/")[0] + "/"
# Folders of packages and of the standard library, of an ordinary interpreter in tests.
_FOREIGN = ("/packages/", "/site-packages/", "/lib/python3")
# The build gives a component these folders in place of those of the author.
_MOUNTED = {"/0/": "src/", "/1/": "packages/", "/python/": "/lib/python3/", "/world/": "/lib/python3/"}


def source(code: CodeType) -> str:
    """The file of a code, as the author knows it."""
    name = code.co_filename
    if sys.platform == "wasi":
        for mounted, folder in _MOUNTED.items():
            if name.startswith(mounted):
                return folder + name[len(mounted) :]
    return name


def frames(error: BaseException) -> list[tuple[str, str, int, int]]:
    """The frames of an exception: name, file, line, column; innermost first."""
    found = []
    at: TracebackType | None = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith(_OWN):
            found.append((code.co_qualname, source(code), at.tb_lineno, _column(code, at.tb_lasti)))
        at = at.tb_next
    found.reverse()
    return found


def _column(code: CodeType, instruction: int) -> int:
    for index, (_, _, column, _) in enumerate(code.co_positions()):
        if index == instruction // 2:
            return 1 if column is None else column + 1
    return 1


def stack(error: BaseException) -> str:
    """The stack as text."""
    shown, last, times = [], "", 0
    for name, file, line, _ in frames(error):
        entry = f'  File "{file}", line {line}, in {name}'
        times = times + 1 if entry == last else 0
        if times < 3:
            shown.append(entry)
        elif times == 3:
            shown.append("  [the same frame again]")
        last = entry
    return "\n".join(shown)


def author(error: BaseException) -> tuple[str, str, int, int] | None:
    """The innermost frame in a file of the author, rather than in a package."""
    all_frames = frames(error)
    own = (frame for frame in all_frames if not any(it in f"/{frame[1]}" for it in _FOREIGN))
    return next(own, all_frames[0] if all_frames else None)


def headline(error: BaseException) -> str:
    """The type and the message of an exception, and those of its cause."""
    said = str(error)
    head = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return head + because(error)


def because(error: BaseException) -> str:
    """The cause of an exception, to be put behind its message."""
    cause = error.__cause__
    return f", caused by {type(cause).__name__}: {cause}" if cause is not None else ""


def readable(error: BaseException) -> str:
    """An exception with its stack, for a log."""
    where = stack(error)
    return headline(error) + (f"\n{where}" if where else "")
