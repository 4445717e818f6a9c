"""Whether a call is under way. The module of a plugin is executed once, when the component is
built, and there is no host then."""

_active = False


def begin() -> None:
    """Begins a call."""
    global _active
    _active = True


def end() -> None:
    """Ends it."""
    global _active
    _active = False


def is_active() -> bool:
    """Whether there is a host to ask."""
    return _active


def need(what: str) -> None:
    """Refuses a function of the host where there is no host."""
    if not _active:
        raise RuntimeError(
            f"{what} needs the host, and there is none outside of a call: "
            "use it inside of a node, a consumer or a check"
        )
