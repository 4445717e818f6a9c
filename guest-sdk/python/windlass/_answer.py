"""Answers of an author's function, as the contract has them."""

from collections.abc import Callable
from typing import Any

from windlass import _call, _log
from windlass._context import Context
from windlass._data import decode, decode_optional, encode, encode_optional, instant, milliseconds, optional_text, text
from windlass._define import Consumer, Finding, Node, Trigger
from windlass._failure import Cancelled, Failure, Invalid, Position, Retryable
from windlass._host import contract
from windlass._outcome import Again, Decision, Done, Suspend
from windlass._trace import author, because, headline, source, stack
from windlass._types import Decoder

_types = contract("imports.types")


def during(fail: Callable[[BaseException], Any], work: Callable[[], Any]) -> Any:
    """Does the work of a call; an exception becomes what `fail` makes of it."""
    _call.begin()
    try:
        return work()
    # Also `sys.exit` is a failure of the node, and no end of the component.
    except BaseException as error:
        raised = fail(error)
    finally:
        _log.end()
        _call.end()
    raise raised


def run_node(node: Node, config: Any, given: Any) -> Any:
    """Runs a node: payloads in, an outcome out."""
    make_input, make_config = node.decoders()
    first, second = decode(given), decode(config)
    if make_input is not None:
        first = _made(make_input, first, "input")
    if make_config is not None:
        second = _made(make_config, second, "configuration")
    value = node.call(first, Context(second))
    try:
        return outcome(value)
    except (TypeError, ValueError) as error:
        code = node.run.__code__
        place = Position(code.co_firstlineno, 1, source(code))
        raise Failure(f"what {code.co_name} returns: {error}", position=place) from None


def _made(make: Decoder, value: Any, what: str) -> Any:
    try:
        return make(value)
    except (TypeError, ValueError, AttributeError) as error:
        raise Invalid(f"the {what} does not fit its type: {error}") from None


def outcome(value: Any) -> Any:
    """The outcome of a node as the contract has it."""
    out = contract("exports.node")
    if isinstance(value, Suspend):
        bookmarks = [
            out.Bookmark(
                text(it.name),
                encode_optional(it.match),
                optional_text(it.correlation),
                bool(it.private),
                bool(it.auto_burn),
                encode_optional(it.metadata),
                None if it.expires is None else instant(it.expires, "expires"),
            )
            for it in value.bookmarks
        ]
        return out.Outcome_Suspend(out.Suspension(bookmarks, encode_optional(value.state)))
    if isinstance(value, Again):
        return out.Outcome_Again(out.Again(milliseconds(value.after, "after"), encode_optional(value.state)))
    if isinstance(value, Done):
        return out.Outcome_Done(out.Done(encode(value.output), [text(it) for it in value.ports]))
    return out.Outcome_Done(out.Done(encode(value), []))


def run_consumer(consumer: Consumer, kind: str, node: str | None, payload: Any) -> Any:
    """Offers a trigger to a consumer: a decision as the contract has it."""
    trigger = Trigger(kind, node, decode_optional(payload) or {})
    decision = consumer.call(trigger, Context(None))
    out = contract("exports.consumer")
    if isinstance(decision, Decision):
        value = decision.value
        if decision.kind == "execute":
            return out.Disposition_Execute(out.Patch(encode_optional(value)))
        if decision.kind == "handled":
            return out.Disposition_Handled()
        if decision.kind == "later":
            return out.Disposition_Later(milliseconds(value, "after"))
        return out.Disposition_Reject(_failure(value, decision.details, decision.position))
    raise TypeError(
        "a consumer has to return decide.execute(), decide.handled(), decide.later() or decide.reject(), "
        f"and it returned {type(decision).__name__}"
    )


def run_check(node: Node, config: Any, unknown: list[str]) -> list[Any]:
    """Checks a configuration: findings as the contract has them."""
    if node.checks is None:
        return []
    out = contract("exports.check")
    found = []
    for it in node.checks(decode(config), unknown) or ():
        if not isinstance(it, Finding):
            raise TypeError(f"a check has to return findings, and not {type(it).__name__}")
        finding = out.Finding(text(it.message), optional_text(it.pointer), _place(it.position))
        found.append((out.FindingLevel_Warning if it.level == "warning" else out.FindingLevel_Error)(finding))
    return found


def _place(position: Position | None) -> Any:
    if position is None:
        return None
    return _types.Position(optional_text(position.source), position.line, position.column)


def _failure(message: str, details: Any, position: Position | None, where: str | None = None) -> Any:
    return _types.Failure(text(message), encode_optional(details), optional_text(where), _place(position))


def _explained(error: BaseException) -> Any:
    """The explanation of an exception, as the contract has it."""
    where = stack(error) or None
    if isinstance(error, Failure):
        details = error.details
        if details is None and error.code is not None:
            details = {"code": error.code}
        return _failure(error.message + because(error), details, error.position, where)
    frame = author(error)
    position = None if frame is None else Position(frame[2], frame[3], frame[1])
    return _failure(headline(error), None, position, where)


def _kind(error: BaseException) -> str:
    return error.kind if isinstance(error, Failure) else "other"


def node_error(error: BaseException) -> Any:
    """An exception of a node as the contract has it."""
    out = contract("exports.node")
    if isinstance(error, Cancelled):
        return out.NodeError_Cancelled()
    explained = _explained(error)
    if isinstance(error, Retryable):
        after = None if error.after is None else milliseconds(error.after, "after")
        return out.NodeError_Retryable(out.Retryable(explained, after))
    case = {"invalid": out.NodeError_Invalid, "permanent": out.NodeError_Permanent}
    return case.get(_kind(error), out.NodeError_Other)(explained)


def consumer_error(error: BaseException) -> Any:
    """An exception of a consumer as the contract has it."""
    out = contract("exports.consumer")
    case = out.ConsumerError_Retryable if isinstance(error, Retryable) else out.ConsumerError_Other
    return case(_explained(error))
