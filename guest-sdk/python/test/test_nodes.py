"""The library for authors, by its own test kit."""

import datetime
import logging
import sys
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypedDict

import pytest

from windlass import (
    Blob,
    Bookmark,
    Cancelled,
    Context,
    Decision,
    Done,
    Finding,
    Invalid,
    Permanent,
    Position,
    Raw,
    Resumption,
    Retryable,
    Secret,
    Trigger,
    again,
    blobs,
    consumer,
    decide,
    done,
    events,
    http,
    log,
    memory,
    node,
    suspend,
)
from windlass._data import text
from windlass._define import node_name
from windlass.testing import accept, call, check


class Color(Enum):
    RED = "red"


@dataclass
class Item:
    total: int
    color: Color | None = None
    parts: list["Item"] = field(default_factory=list)


class Pair(TypedDict):
    first: Item
    second: tuple[int, str]


@dataclass
class Circle:
    kind: Literal["circle"]
    radius: float


@dataclass
class Square:
    kind: Literal["square"]
    side: float


@dataclass
class Config:
    limit: int = 3
    key: Secret | None = None


def test_a_returned_value_is_the_output_by_the_port_done():
    @node
    def add(input):
        return {"total": input["a"] + input["b"]}

    report = call(add, {"a": 1, "b": 2})
    assert (report.outcome, report.output, report.ports) == ("done", {"total": 3}, ["done"])
    assert add({"a": 2, "b": 2}) == {"total": 4}


def test_values_arrive_as_their_types_and_leave_as_json():
    @node
    def sum(item: Item, ctx: Context[Config]) -> Item:
        assert isinstance(item.parts[0], Item) and item.color is Color.RED
        assert isinstance(ctx.config, Config) and ctx.config.key == Secret("handle")
        total = item.total + item.parts[0].total
        assert type(total) is int
        return Item(total, item.color)

    given = {"total": 1.0, "color": "red", "parts": [{"total": 2, "unknown": 1}]}
    report = call(sum, given, config={"key": {"secret": "handle"}})
    assert report.output == {"total": 3, "color": "red", "parts": []}


def test_typed_dicts_tuples_and_unions_arrive():
    @node
    def pair(it: Pair) -> Any:
        return [it["first"].total, type(it["second"]).__name__, it["second"]]

    assert call(pair, {"first": {"total": 1}, "second": [1, "a"]}).output == [1, "tuple", [1, "a"]]

    @node
    def shape(it: list[Circle | Square] | int | None) -> Any:
        return [type(one).__name__ for one in it] if isinstance(it, list) else it

    given = [{"kind": "square", "side": 1}, {"kind": "circle", "radius": 2}]
    assert call(shape, given).output == ["Square", "Circle"]
    assert [call(shape, it).output for it in (3, None)] == [3, None]


def test_a_value_of_a_wrong_kind_is_a_failure():
    @node
    def takes(item: Item) -> None:
        pass

    for wrong in ([], 1, {}, {"total": 1, "color": "green"}, {"total": 1, "parts": [3]}):
        assert call(takes, wrong).failure.kind == "invalid"


def test_done_takes_declared_ports_and_others_fail_the_test():
    @node(ports=["done", "large"])
    def sorts(port: str) -> Done[int]:
        return done(1, port)

    assert call(sorts, "large").ports == ["large"]
    with pytest.raises(AssertionError, match="port small, which it does not declare"):
        call(sorts, "small")


def test_failures_keep_class_details_position_and_delay():
    @node
    def fails(kind):
        options = {"details": {"a": 1}, "position": Position(2)}
        if kind == "retryable":
            raise Retryable("why", after=datetime.timedelta(seconds=5), **options)
        raise {"invalid": Invalid, "permanent": Permanent}[kind]("why", **options)

    for kind in ("invalid", "permanent", "retryable"):
        failure = call(fails, kind).failure
        assert (failure.kind, failure.message, failure.details) == (kind, "why", {"a": 1})
        assert failure.position == Position(2, 1)
    assert call(fails, "retryable").failure.after == 5

    @node
    def cancelled():
        raise Cancelled

    assert call(cancelled).failure.kind == "cancelled"


def test_any_other_exception_is_a_failure_with_its_file_and_line():
    @node
    def bug(input):
        try:
            return input["missing"]
        except KeyError as error:
            raise ValueError("no orders") from error

    failure = call(bug, {}).failure
    assert (failure.kind, failure.message) == ("other", "ValueError: no orders, caused by KeyError: 'missing'")
    assert failure.position.source.endswith("test_nodes.py")
    assert failure.position.line == bug.run.__code__.co_firstlineno + 5
    assert failure.position.column == 13


def test_exits_and_endless_recursions_are_failures():
    @node
    def leaves():
        sys.exit(3)

    @node
    def deep(n):
        return deep.run(n) + 1

    assert call(leaves).failure.message == "SystemExit: 3"
    assert call(deep, 1).failure.message.startswith("RecursionError: maximum recursion depth exceeded")


def test_suspend_again_and_their_state_come_back_with_the_resumption():
    @node(suspends=True)
    def waits(_, ctx: Context[Any]):
        it = ctx.resumption
        if it is None:
            return suspend(Bookmark("paid", match={"order": 7}, expires=12.5), state={"n": 1})
        if it.reason == "resumed":
            return again(0.1, state=it.input)
        return [it.reason, it.bookmark, it.phase]

    first = call(waits)
    assert (first.outcome, first.state) == ("suspend", {"n": 1})
    assert (first.bookmarks[0].match, first.bookmarks[0].expires) == ({"order": 7}, 12.5)
    second = call(waits, resumption=Resumption("resumed", 1, first.state, "paid", {"by": "ada"}))
    assert (second.outcome, second.after, second.state) == ("again", 0.1, {"by": "ada"})
    assert call(waits, resumption=Resumption("expired", 2, None, "paid")).output == ["expired", "paid", 2]
    assert call(waits, resumption=Resumption("moved", 1)).output == ["moved", None, 1]


def test_a_wait_without_saying_so_fails_the_test():
    with pytest.raises(AssertionError, match="has no suspends=True"):
        call(node(lambda: again(1)))


def test_print_and_logging_write_to_the_log_of_the_run():
    @node
    def talks():
        print("a", {"b": 1})
        print("two\nlines", file=sys.stderr)
        print("\ud800", end="")
        logger = logging.getLogger("shop")
        logger.debug("%s orders", 3, extra={"user": "ada"})
        logging.warning("bad %s %s", 1)
        try:
            raise KeyError("x")
        except KeyError:
            logger.exception("it failed")
        log("trace", "with", shop="x", n=3)

    found = call(talks).log
    shown = [(it.level, it.message, it.fields) for it in found]
    assert shown[:4] == [
        ("info", "a {'b': 1}", {}),
        ("warn", "two", {}),
        ("warn", "lines", {}),
        ("debug", "3 orders", {"user": "ada", "logger": "shop"}),
    ]
    assert shown[4][:2] == ("warn", "bad %s %s (the arguments do not fit: not enough arguments for format string)")
    assert shown[5][0] == "error"
    assert "it failed\nKeyError: 'x'\n" in shown[5][1] and "test_nodes.py" in shown[5][1]
    assert shown[6:] == [("trace", "with", {"shop": "x", "n": "3"}), ("info", "\ufffd", {})]
    assert not [it for it in logging.root.handlers if getattr(it, "is_windlass", False)]


def test_requests_send_secrets_by_name_and_read_json():
    @node(capabilities=["http"])
    def asks(url: str, ctx: Context[Config]):
        shop = http.Session(base_url=url, headers={"Authorization": ctx.config.key, "x-a": "1"}, timeout=2)
        answer = shop.post("/a?b=1", params={"c": [1, "d e"], "none": None}, json={"x": 1})
        answer.raise_for_status()
        return {"ok": answer.ok, "type": answer.headers["Content-Type"], "body": answer.json()}

    def shop(request):
        return http.Response(
            content=b'\xef\xbb\xbf{"id":9007199254740993}', headers=http.Headers({"content-type": "a"})
        )

    report = call(asks, "https://shop.example", config={"key": {"secret": "TOKEN"}}, http=shop)
    assert report.output == {"ok": True, "type": "a", "body": {"id": 9007199254740993}}
    (sent,) = report.requests
    assert (sent.method, sent.url) == ("POST", "https://shop.example/a?b=1&c=1&c=d+e")
    assert sent.headers == {"authorization": Secret("TOKEN"), "x-a": "1", "content-type": "application/json"}
    assert (sent.body, sent.timeout_ms, sent.max_redirects) == ('{"x":1}', 2000, 5)


def test_forms_bytes_and_users_are_sent():
    @node
    def asks():
        http.put("https://a.example", data={"a": "ä"}, auth=("ada", "pw"))
        http.patch("https://a.example", data=b"\xff")
        http.delete("https://a.example", data="text", max_redirects=0)
        return [http.get("https://a.example").text, http.head("https://a.example").status_code]

    report = call(asks, http=lambda _: http.Response(204, b"\xff"))
    form, raw, plain, *_ = report.requests
    assert (form.body, form.headers["authorization"]) == ("a=%C3%A4", "Basic YWRhOnB3")
    assert (raw.body, plain.body, plain.max_redirects) == (b"\xff", "text", 0)
    assert report.output == ["\ufffd", 204]


def test_statuses_raise_by_whether_a_retry_makes_sense():
    @node
    def asks(status):
        http.get("https://u:p@a.example/x?key=1").raise_for_status()
        return status

    def answer(status, **headers):
        return call(asks, status, http=lambda _: http.Response(status, headers=http.Headers(headers)))

    assert answer(200).output == 200
    missing = answer(404).failure
    assert (missing.kind, missing.message) == ("permanent", "https://a.example/x answered 404")
    assert missing.details == {"status": 404, "url": "https://a.example/x"}
    busy = answer(503, **{"Retry-After": "7"}).failure
    assert (busy.kind, busy.after) == ("retryable", 7)
    assert answer(429, **{"Retry-After": "Mon, 1 Jan"}).failure.after is None


def test_errors_of_the_host_are_failures_with_class_and_code():
    @node
    def asks():
        http.get("https://user:pw@shop.example/a?key=1#x")

    denied = call(asks).failure
    assert (denied.kind, denied.error.code, denied.details) == ("permanent", "http.denied", {"code": "http.denied"})
    assert denied.message.startswith("GET https://shop.example/a is not granted")
    assert call(asks, http=lambda _: "timeout").failure.kind == "retryable"
    assert call(asks, http=lambda _: "too-large").failure.error.code == "http.too-large"

    @node
    def reads():
        memory.get("secrets.x")

    failure = call(reads).failure
    assert (failure.kind, failure.error.code) == ("invalid", "memory.invalid-path")


def test_memory_blobs_and_events_reach_the_host():
    @node
    def everything():
        blob = blobs.write([b"\x01\x02", b"\x03"], "image/png")
        events.send("paid", match={"order": 1}, input=memory.get("vars.user"))
        at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
        events.schedule("later", at, {"a": 1})
        return [blobs.size(blob), list(blobs.read(blob, 1, 5)), memory.get("vars.none", "none")]

    report = call(everything, memory={"vars.user": "ada"})
    assert report.output == [3, [2, 3], "none"]
    sent, planned = report.sent[0], report.scheduled[0]
    assert (sent.name, sent.match, sent.input) == ("paid", {"order": 1}, "ada")
    assert (planned.node, planned.at, planned.payload) == ("later", 1767312000, {"a": 1})


def test_other_media_types_travel_as_they_are():
    assert call(node(lambda: Raw("text/csv", "a,b"))).output == Raw("text/csv", "a,b")
    assert call(node(lambda: Raw("image/png", b"\x01"))).output == Raw("image/png", b"\x01")
    assert call(node(lambda it: it), Blob("ref")).output == Blob("ref")


@pytest.mark.parametrize(
    ("value", "part"),
    [(object(), "has no JSON"), (float("nan"), "not JSON compliant"), ({1j: 1}, "keys must be str")],
)
def test_a_value_without_json_is_a_failure(value, part):
    @node
    def gives():
        return value

    failure = call(gives).failure
    assert failure.message.startswith("what gives returns: ") and part in failure.message
    assert failure.position.source.endswith("test_nodes.py")


def test_lone_surrogates_travel_in_json_and_nowhere_else():
    assert call(node(lambda: "\ud800é")).output == "\ud800é"
    assert text("a\ud800é") == "a\ufffdé"


def test_the_context_has_what_the_test_says():
    @node
    def looks(_, ctx: Context[Any]):
        ctx.progress(0.5, "half")
        return [ctx.config["a"], ctx.attempt, ctx.cancelled, len(ctx.run_id), ctx.resume_token("x"), ctx.correlation_id]

    report = call(looks, config={"a": 1}, attempt=3, cancelled=True)
    assert report.output == [1, 3, True, 36, "token-of-x", None]
    assert (report.progress[0].fraction, report.progress[0].note) == (0.5, "half")


def test_functions_of_the_host_outside_of_a_call_say_so():
    with pytest.raises(RuntimeError, match="needs the host, and there is none outside of a call"):
        memory.get("vars.a")


def test_a_consumer_decides():
    @consumer(routes=["office"])
    def office(trigger: Trigger) -> Decision:
        match trigger.payload.get("gate"):
            case "reject":
                return decide.reject("it is not signed")
            case "later":
                return decide.later(1.5)
            case "wrong":
                return {}
            case "busy":
                raise Retryable("busy")
            case "done":
                return decide.handled()
        return decide.execute({"by": trigger.kind})

    def ask(gate=None):
        return accept(office, {"gate": gate})

    assert ask().vars == {"by": "manual"}
    assert ask("reject").reason == "it is not signed"
    assert ask("later").after == 1.5
    assert ask("done").outcome == "handled"
    assert ask("busy").failure.kind == "retryable"
    assert "has to return decide.execute()" in ask("wrong").failure.message


def test_a_check_gives_findings():
    @node
    def checked():
        return 1

    @checked.check
    def _(config, unknown):
        if config.get("pattern") == "":
            yield Finding("the pattern is empty", "/pattern")

    assert check(checked, {"pattern": ""})[0].pointer == "/pattern"
    assert check(checked, {"pattern": "a"}) == []


def test_functions_that_cannot_be_nodes_are_refused():
    async def waits():
        pass

    for wrong in (waits, lambda a, b, c: a, 3):
        with pytest.raises(TypeError):
            node(wrong)


def test_names_of_functions_become_names_of_nodes():
    assert [node_name(it) for it in ("sum", "to_upper", "sha256Hash")] == ["sum", "to-upper", "sha256-hash"]
