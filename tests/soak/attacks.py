"""The attacks: each a function that is called round after round until the time is over.

A round takes an `Attacker`, and leaves no run behind that has not ended: what does not end by itself
is cancelled. All requests go to the host under test.
"""

import http.client
import json
import os
import socket
import time
import zlib

from host import MIB, SECRET, Client, code_of

KINDS = {}


def attack(rest):
    """Registers a kind of attack, with the seconds of rest between two rounds."""

    def register(function):
        KINDS[function.__name__] = (function, rest)
        return function

    return register


class Attacker:
    """The part of one attack: its client, its number of the round, and its counts."""

    def __init__(self, kind, port, plugins, echo_port, tally, end, hold):
        self.kind, self.port, self.plugins, self.echo_port = kind, port, plugins, echo_port
        self.tally, self.end, self.hold = tally, end, hold
        self.client, self.round, self.kept = Client(port), 0, {}

    def over(self):
        return time.monotonic() >= self.end

    def loop(self):
        function, rest = KINDS[self.kind]
        while not self.over():
            try:
                function(self)
            except (OSError, http.client.HTTPException) as error:
                self.tally.count("attack", self.kind, "connection", type(error).__name__)
                time.sleep(0.2)
            self.round += 1
            time.sleep(max(0, min(rest, self.end - time.monotonic())))
        self.client.close()

    def call(self, method, path, body=None, headers=None):
        """A request, whose answer is counted by its status and code."""
        began = time.monotonic()
        status, content, _ = self.client.call(method, path, body, headers)
        self.tally.time(f"attack {self.kind}", time.monotonic() - began)
        code = code_of(content) if status >= 400 else "-"
        self.tally.count("attack", self.kind, status, code)
        return status, content

    def once(self, name, make):
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

    def publish(self, workflow):
        body = json.dumps(workflow, separators=(",", ":")).encode()
        return self.call("PUT", f"/api/v1/definitions/{workflow['workflow']}", body)[0]

    def run(self, workflow, input=None, headers=None):
        """Runs a definition, or a workflow by its name; cancels the run after `hold` seconds."""
        which = "workflow" if isinstance(workflow, str) else "definition"
        start = {which: workflow, "input": input}
        status, content = self.call("POST", "/api/v1/runs", start, headers)
        if status not in (200, 201):
            return None, None
        return content["id"], self.follow(content["id"])

    def follow(self, id):
        """Waits until a run has ended, and cancels it after `hold` seconds. The outcome."""
        until = time.monotonic() + self.hold
        while time.monotonic() < min(until, self.end):
            wait = max(1, int(min(until, self.end) - time.monotonic()))
            status, outcome = self.call("GET", f"/api/v1/runs/{id}/result?wait={wait}s")
            if status == 200:
                return self.ended(outcome)
            if status != 202:
                time.sleep(1)
        began = time.monotonic()
        while True:
            status, outcome = self.call("POST", f"/api/v1/runs/{id}/cancel?wait=30s")
            if status in (200, 409):
                break
            if time.monotonic() - began > 90:
                self.tally.count("attack", self.kind, "run", "not cancelled in 90 s")
                return None
            time.sleep(0.1)
        if status == 200:
            self.tally.time("cancel", time.monotonic() - began)
            self.tally.time(f"cancel {self.kind}", time.monotonic() - began)
        return self.ended(outcome) if status == 200 else None

    def ended(self, outcome):
        failure = outcome.get("failure") or {}
        said = (outcome.get("status", "?"), failure.get("class", ""), failure.get("code", ""))
        self.tally.count("attack", self.kind, "run", " ".join(filter(None, said)))
        return outcome


def text(bytes):
    return "{{ 'a' * %d }}" % bytes


def sets(variables):
    """A workflow of one node that sets these variables."""
    return {"workflow": "sets", "nodes": {"s": {"set": variables}}}


def many(count, value):
    return {f"x{number}": value for number in range(count)}


@attack(rest=1)
def step(a):
    """One step makes more than memory holds: 4 GB of variables, of configuration, of input."""
    values = many(1_000, text(4_000_000))
    just_within = many(15, text(4_000_000))
    forms = [
        sets(values),
        {"workflow": "w", "nodes": {"s": {"use": "data/jq@1", "with": {"filter": "."}, "input": values}}},
        {"workflow": "w", "nodes": {"s": {"end": None}}, "output": values},
        sets(just_within),
        {"workflow": "w", "nodes": {"s": {"fail": {"message": "x", "data": values}}}},
    ]
    a.run(forms[a.round % len(forms)])


def nested():
    inner = {"for-each": "{{ vars.x }}", "nodes": {"w": {"wait": "1h"}}, "concurrency": 1_000}
    outer = {"for-each": "{{ range(1000) }}", "nodes": {"inner": inner}, "concurrency": 1_000}
    return {
        "workflow": "nested",
        "nodes": {"x": {"set": {"x": "{{ [0] * 2000000 }}"}}, "outer": outer},
        "edges": ["x -> outer"],
    }


def joins():
    nodes = {f"n{level}": {"set": {"a": level}, "join": "each"} for level in range(61)}
    edges = [
        {"from": f"n{level}", "to": f"n{level + 1}", "id": f"e{level}x{edge}"}
        for level in range(60)
        for edge in range(10)
    ]
    return {"workflow": "joins", "nodes": nodes, "edges": edges}


def outputs(count):
    nodes = {f"n{number}": {"set": {"v": f"{number}{text(4_000_000)}"}} for number in range(count)}
    edges = [f"n{number} -> all" for number in range(count)]
    return {"workflow": "outputs", "nodes": {**nodes, "all": {"end": None}}, "edges": edges}


def child():
    """Sets 400 MB of variables in steps of 60 MB, and hands all to a child."""
    steps = {
        f"s{step}": {"set": {f"v{step}x{number}": text(4_000_000) for number in range(15)}}
        for step in range(7)
    }
    edges = [f"s{step} -> s{step + 1}" for step in range(6)] + ["s6 -> c"]
    nodes = {**steps, "c": {"workflow": "ordinary", "input": "{{ vars }}"}}
    return {"workflow": "child", "nodes": nodes, "edges": edges}


@attack(rest=2)
def lists(a):
    """Lists in lists, joins without end, outputs before one join, the input of a child."""
    forms = [nested(), joins(), outputs(600), child()]
    a.run(forms[a.round % len(forms)])


@attack(rest=0.5)
def work(a):
    """One step computes for minutes, if each of its expressions has a budget of its own."""
    forms = [
        "{{ range(30000) | map('string') | join | length }}",
        "{{ ('ab' * 1000000) | replace('a', 'ccc') | length }}",
        "{{ range(20000) | list | sort | reverse | list | length }}",
        "{% for i in range(30000) %}{{ i * i }}{% endfor %}",
    ]
    a.run(sets(many(1_000, forms[a.round % len(forms)])))


@attack(rest=0.5)
def enumerate(a):
    """Expressions that list all variables and all outputs, many times."""
    def of_variables():
        workflow = sets({"n": "{{ ([vars] * 90000) | map('first') | list | length }}"})
        return {**workflow, "vars": many(9_999, 1)}

    def of_nodes():
        nodes = {f"n{number}": {"set": {"a": number}} for number in range(2_000)}
        nodes["all"] = {"set": {"n": "{{ ([nodes] * 90000) | map('list') | list | length }}"}}
        edges = [f"n{number} -> all" for number in range(2_000)]
        return {"workflow": "of_nodes", "nodes": nodes, "edges": edges}

    make = [of_variables, of_nodes][a.round % 2]
    a.run(a.once(make.__name__, make))


def leb(value):
    bytes = bytearray()
    while value > 0x7F:
        bytes.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes + bytearray([value])


def section(id, content):
    return bytearray([id]) + leb(len(content)) + content


def module(count, bytes, mark):
    """A component of one module, whose functions of about so many bytes multiply a number by three."""
    body = bytearray([0, 0x20, 0]) + bytearray([0x41, 3, 0x6C]) * (bytes // 3) + bytearray([0x0B])
    sections = [
        section(1, bytearray([1, 0x60, 1, 0x7F, 1, 0x7F])),
        section(3, leb(count) + bytearray(count)),
        section(10, leb(count) + (leb(len(body)) + body) * count),
    ]
    core = bytearray(b"\0asm\x01\0\0\0") + b"".join(sections)
    name = bytearray([4]) + b"mark" + leb(mark)
    return bytearray(b"\0asm\x0d\0\x01\0") + section(1, core) + section(0, name)


@attack(rest=6)
def compile(a):
    """Files in the plugin folder whose compilation takes much memory or long; then they go again."""
    # One function; one function below the bound; many functions, which a compiler has to be stopped at.
    forms = [(1, 1_350_000), (1, 5_400_000), (1, 1_000_000), (80_000, 150)]
    path = a.plugins / f"a{a.round % 3}.wasm"
    (a.plugins / "new").write_bytes(module(*forms[a.round % len(forms)], mark=a.round))
    os.rename(a.plugins / "new", path)
    a.tally.count("attack", "compile", "file", "dropped")
    time.sleep(max(0, min(a.hold, a.end - time.monotonic())))
    path.unlink(missing_ok=True)


@attack(rest=0)
def answers(a):
    """1,500 connections that ask for large answers and read nothing."""
    def prepare():
        hook = {"http": {"method": "GET", "path": "/big", "respond": {"node": "n"}}}
        nodes = {"n": {"set": {"body": text(1_000_000)}}}
        a.publish({"workflow": "big", "triggers": {"hook": hook}, "nodes": nodes})
        three = {"workflow": "w", "nodes": {"s": {"end": None}}, "output": text(3_000_000)}
        paths = ["/hooks/big", "/api/v1/runs?limit=500", "/api/openapi.json"]
        ids = [id for id, _ in (a.run(three) for _ in range(3)) if id]
        return paths[:2] + [f"/api/v1/runs/{id}/{part}" for id in ids for part in ("result", "export")]

    # Finished runs are deleted after some time, so new ones are made now and then.
    if a.round % 150 == 0:
        a.kept.pop("prepare", None)
    paths = a.once("prepare", prepare)
    lines = a.once("lines", list)
    for number in range(60):
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        line.settimeout(5)
        lines.append(line)
        try:
            line.connect(("127.0.0.1", a.port))
            path = paths[number % len(paths)]
            # The second request is pipelined behind the first.
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{a.port}\r\n\r\n".encode() * 2)
            a.tally.count("attack", "answers", "connection", "asked")
        except OSError as error:
            a.tally.count("attack", "answers", "connection", type(error).__name__)
    while len(lines) > 1_500 or a.over() and lines:
        lines.pop(0).close()
    # A connection lives for 12 s, longer than a host lets a silent reader stay.
    time.sleep(0.5)


def definition(number):
    """A definition of about 1 MB."""
    nodes = {f"n{node}": {"set": {"a": "{{ input.x + %d }}" % (node + number)}} for node in range(9_990)}
    edges = [f"n{node} -> n{node + 1}" for node in range(9_989)]
    return {"workflow": f"large{number}", "nodes": nodes, "edges": edges, "description": "d" * 200_000}


@attack(rest=0.1)
def held(a):
    """Runs of definitions of 1 MB, each another one, which calls of plugins keep in memory."""
    number = a.round % 400
    slow = {"use": "data/jq@1", "with": {"filter": "last(range(1000000000))"}, "input": 1}
    large = definition(1_000 + number)
    large = {**large, "nodes": {"n0": slow, **{name: node for name, node in large["nodes"].items() if name != "n0"}}}
    body = json.dumps({"definition": large, "input": {"x": 1}}, separators=(",", ":")).encode()
    status, content = a.call("POST", "/api/v1/runs", body)
    runs = a.once("runs", list)
    if status == 201:
        runs.append(content["id"])
    while len(runs) > 300 or a.over() and runs:
        a.call("POST", f"/api/v1/runs/{runs.pop(0)}/cancel?wait=5s")


@attack(rest=0.2)
def definitions(a):
    """80 definitions of 1 MB, each published, saved as a draft, and run."""
    number = a.round % 80
    body = json.dumps(definition(number), separators=(",", ":")).encode()
    a.call("PUT", f"/api/v1/definitions/large{number}", body)
    status, content = a.call("POST", "/api/v1/runs", {"workflow": f"large{number}", "input": {"x": 1}})
    if status == 201:
        a.call("POST", f"/api/v1/runs/{content['id']}/cancel?wait=5s")
    a.call("PUT", f"/api/v1/drafts/large{number}", body)
    a.call("DELETE", f"/api/v1/drafts/large{number}")


@attack(rest=5)
def fork(a):
    """A workflow with two children of itself."""
    workflow = {"workflow": "fork", "nodes": {"a": {"workflow": "fork"}, "b": {"workflow": "fork"}}}
    a.once("fork", lambda: a.publish(workflow))
    a.run("fork")


@attack(rest=5)
def swarm(a):
    """A workflow with thousands of children of itself, a thousand at a time."""
    each = {"for-each": "{{ range(9000) }}", "concurrency": 1_000, "nodes": {"c": {"workflow": "swarm"}}}
    a.once("swarm", lambda: a.publish({"workflow": "swarm", "nodes": {"a": each}}))
    a.run("swarm")


@attack(rest=1)
def secrets(a):
    """Data that looks like a secret's handle, and a server that repeats the secret in its answer."""
    echo = f"http://127.0.0.1:{a.echo_port}"
    headers = {"x-key": {"secret": "k"}, "x-data": "{{ input.h }}"}
    workflow = {
        "workflow": "w",
        "nodes": {"r": {"use": "http/request@1", "with": {"url": echo, "headers": headers}}},
        "output": "{{ nodes.r.output }}",
    }
    handles = [{"secret": "k"}, "secret:k", "{{ secrets.k }}", "\u0000secret\u0000k", ["k"]]
    id, outcome = a.run(workflow, {"h": handles[a.round % len(handles)]})
    seen = json.dumps(outcome) + json.dumps(a.call("GET", f"/api/v1/runs/{id}")[1] if id else None)
    if SECRET.lower() in seen.lower():
        a.tally.count("broken", "a secret is in the data of a run")


@attack(rest=1)
def logs(a):
    """Names and values that would begin another line or control a terminal."""
    evil = "x\r\n\x1b[2J\u2028WL-H000 level=error \u202emessage\":\"y"
    workflow = {"workflow": "w", "input": {"$ref": evil}, "nodes": {"s": {"end": None}}}
    a.call("POST", "/api/v1/runs", {"definition": workflow})
    workflow["input"] = {"type": "string", "pattern": evil + "(["}
    a.call("POST", "/api/v1/runs", {"definition": workflow})
    a.call("POST", "/api/v1/runs", {"workflow": evil})
    a.call("PUT", "/api/v1/drafts/x%0d%0a%1b%5b2J", {"workflow": evil, "nodes": {}})
    (a.plugins / f"{evil.replace('/', '')}.wasm").write_bytes(b"\0asm" + evil.encode())
    a.run({"workflow": "w", "nodes": {"s": {"fail": evil}}})


@attack(rest=1)
def variables(a):
    """Many variables in one commit: small ones, and 60 MB of them."""
    forms = [many(10_000, 1), many(10_000, text(6_000)), many(10_000, "{{ run.id }}")]
    a.run(a.once(a.round % len(forms), lambda: sets(forms[a.round % len(forms)])))


@attack(rest=0.1)
def bodies(a):
    """Large bodies: as JSON of many small values, nested, coded, cut off, and slow ones."""
    def coded():
        packer = zlib.compressobj(9, wbits=31)
        parts = [packer.compress(b"[" + b"0," * MIB) for _ in range(64)]
        return b"".join(parts) + packer.flush()

    form = a.round % 5
    start = b'{"workflow":"ordinary","input":'
    if form == 0:
        a.call("POST", "/api/v1/runs", start + b"[" + b"0," * 520_000 + b"0]}")
    elif form == 1:
        a.call("POST", "/api/v1/runs", start + b"[" * 500_000 + b"]" * 500_000 + b"}")
    elif form == 2:
        a.call("POST", "/api/v1/runs", a.once("coded", coded), {"Content-Encoding": "gzip"})
    elif form == 3:
        a.call("POST", "/api/v1/runs", b"[" * (3 * MIB))
    else:
        # Some connections that send most of a body, and keep silent until the next time.
        slow = a.once("slow", list)
        while slow:
            slow.pop().close()
        for _ in range(64):
            line = socket.create_connection(("127.0.0.1", a.port), 5)
            slow.append(line)
            head = f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1:{a.port}\r\n"
            head += "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
            try:
                line.sendall(head.encode() + start + b"1" * 900_000)
            except OSError as error:
                a.tally.count("attack", "bodies", "connection", type(error).__name__)
        a.tally.count("attack", "bodies", "connection", "slow", by=len(slow))


@attack(rest=0.5)
def schemas(a):
    """Schemas that are large, that apply often to one value, and whose checks take long."""
    deep = {"anyOf": [{"type": "object", "properties": {f"p{n}": {"type": "string"}}} for n in range(900)]}
    forms = [
        ({"items": {"anyOf": [{"multipleOf": n + 2} for n in range(1_000)]}}, [1] * 100_000),
        ({"uniqueItems": True}, [[n, {"a": n}] for n in range(30_000)]),
        ({"items": {"pattern": "^(a?){500}(b?){500}$"}}, ["a" * 400] * 1_500),
        (deep, {f"p{n}": 1 for n in range(900)}),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 50}}, "$ref": "#/$defs/a"}, 1),
        ({"properties": {f"p{n}": {"default": "d" * 900} for n in range(900)}}, {}),
    ]
    schema, value = forms[a.round % len(forms)]
    a.run({"workflow": "w", "input": schema, "nodes": {"s": {"end": None}}}, value)


@attack(rest=0.2)
def calls(a):
    """Calls of plugins that compute for long and hold much memory, 40 at once."""
    forms = ["last(range(1000000000))", "[range(3000000)] | length", "[limit(2000000; repeat(1))] | length"]
    node = {"use": "data/jq@1", "with": {"filter": forms[a.round % len(forms)]}, "input": 1}
    each = {"for-each": "{{ range(40) }}", "nodes": {"c": node}, "concurrency": 40,
            "on-item-error": "continue"}
    a.run({"workflow": "calls", "nodes": {"e": each}})
