"""What can go wrong, and the exit code that says so."""

USAGE = 2
"""The program was called wrongly."""
MISTAKES = 1
"""The plugin has mistakes, which are printed."""
MISSING = 3
"""A tool is missing; the message has the line that installs it."""


class BuildError(Exception):
    """An error for people: one mistake a line, each with its place in front."""

    def __init__(self, messages: str | list[str], code: int = MISTAKES) -> None:
        self.messages = [messages] if isinstance(messages, str) else messages
        self.code = code
        super().__init__("\n".join(self.messages))


def at(file: str, line: int, column: int, text: str) -> str:
    """A mistake with its place, as editors and terminals link it."""
    return f"{file}:{line}:{column}: {text}"
