"""`print` and `logging` write to the log of the run."""

import io
import sys
from typing import Any

from windlass._call import is_active
from windlass._data import text
from windlass._host import contract
from windlass._trace import readable

_host = contract("imports.log")
_LEVELS = {level.name.lower(): level for level in _host.Level}
_INFO, _WARN = _LEVELS["info"], _LEVELS["warn"]

# A line without an end becomes one after this many characters.
_MAX_LINE = 64 * 1024


def log(level: str, message: str, **fields: object) -> None:
    """Writes a line with named values, which the log keeps beside the message.

    The level is `trace`, `debug`, `info`, `warn` or `error`.
    """
    found = _LEVELS.get(level)
    if found is None:
        raise ValueError(f"there is no level {level!r}: it is one of {', '.join(_LEVELS)}")
    write(found, message, fields)


def write(level: Any, message: str, fields: dict[str, object]) -> None:
    """Writes a line. The build, which executes the module of a plugin, has no log."""
    if is_active():
        _host.write(level, text(message), [(text(name), text(value)) for name, value in fields.items()])


class Lines(io.TextIOBase):
    """A stream whose lines are in the log."""

    def __init__(self, level: Any) -> None:
        self._level = level
        self._rest = ""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, value: str) -> int:
        if not isinstance(value, str):
            raise TypeError(f"write() argument must be str, not {type(value).__name__}")
        if "\n" in value:
            *lines, self._rest = (self._rest + value).split("\n")
            for line in lines:
                write(self._level, line, {})
        else:
            self._rest += value
        if len(self._rest) > _MAX_LINE:
            self.end()
        return len(value)

    def end(self) -> None:
        """Writes the rest, which has no end of a line."""
        if self._rest:
            write(self._level, self._rest, {})
            self._rest = ""


stdout = Lines(_INFO)
stderr = Lines(_WARN)


def end() -> None:
    """Writes what is left of both streams."""
    if stdout._rest or stderr._rest:
        stdout.end()
        stderr.end()


def install() -> None:
    """Lets `logging` write to the log, if the plugin uses it. All levels go there, unless the
    author has set the level of the root logger."""
    logging = sys.modules.get("logging")
    if logging is None or any(getattr(it, "is_windlass", False) for it in logging.root.handlers):
        return

    own = set(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}

    class Handler(logging.Handler):
        is_windlass = True

        def emit(self, record: Any) -> None:
            fields = {name: value for name, value in vars(record).items() if name not in own}
            if record.name != "root":
                fields["logger"] = record.name
            try:
                message = record.getMessage()
            except Exception as error:
                message = f"{record.msg} (the arguments do not fit: {error})"
            if record.exc_info and record.exc_info[1]:
                message += f"\n{readable(record.exc_info[1])}"
            write(_level(record.levelno), message, fields)

    root = logging.root
    # `logging.basicConfig` of the author wrote to the streams.
    for handler in [it for it in root.handlers if type(it) is logging.StreamHandler]:
        root.removeHandler(handler)
    root.addHandler(Handler())
    if root.level == logging.WARNING:
        root.setLevel(1)
    logging.raiseExceptions = False


def _level(number: int) -> Any:
    for name, least in (("error", 40), ("warn", 30), ("info", 20), ("debug", 10)):
        if number >= least:
            return _LEVELS[name]
    return _LEVELS["trace"]
