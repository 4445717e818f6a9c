#!/usr/bin/env python3
"""Times requests to a host with few and with many stored runs. docs/testing.md describes it.

    stored.py BINARY                 10,000 and then 1,000,000 runs in SQLite
    stored.py BINARY --postgres      the same in PostgreSQL
"""

import argparse
import json
import multiprocessing
import shutil
import socket
import sys
import tempfile
import time
import uuid

# No folder of compiled modules is left in the source.
sys.dont_write_bytecode = True

from host import Client, Host, free_port
from postgres import PostgreSql
from soak import in_process
from tally import Histogram

# One run in a hundred fails, one customer has ten runs for each million.
CUSTOMERS = 100_000
SENDERS, CONNECTIONS = 2, 24

CHARGE = {
    "workflow": "charge",
    "tags": {"customer": "{{ input.customer }}", "team": "billing"},
    "nodes": {"check": {"set": {"seen": True}}, "refuse": {"fail": "the card of {{ input.customer }} is refused"}},
    "edges": [{"from": "check", "to": "refuse", "when": "input.refused"}],
}
RARE = {"workflow": "rare", "nodes": {"keep": {"set": {"seen": True}}}}
PARENT = {"workflow": "parent", "nodes": {"child": {"workflow": "rare"}}}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the program `windlass`")
    parser.add_argument("--postgres", action="store_true", help="in a PostgreSQL of its own (default: in SQLite)")
    parser.add_argument("--runs", default="10000,1000000", help="the numbers of stored runs (default: 10000,1000000)")
    parser.add_argument("--times", type=int, default=25, help="how often each request is made (default: 25)")
    parser.add_argument("--bulk", type=int, default=10_000, help="the failed runs of one batch (default: 10000)")
    chosen = parser.parse_args()
    chosen.runs = [int(number) for number in chosen.runs.split(",")]
    return chosen


class Sender:
    """Starts runs one after another on a connection of its own, with as little work as possible."""

    def __init__(self, port, numbers, workflow, refused, tally):
        self.port, self.numbers, self.workflow, self.refused, self.tally = port, numbers, workflow, refused, tally

    def loop(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for number in self.numbers:
                while not self.start(connection, number):
                    self.tally.count("waited")
                    time.sleep(0.2)

    def start(self, connection, number):
        """Whether the run is stored. The host may ask for patience."""
        body = json.dumps({
            "workflow": self.workflow,
            "input": {"customer": f"c-{number % CUSTOMERS}", "refused": self.refused(number)},
            "correlation": f"order-{number}",
        })
        head = f"POST /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall((head + body).encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.more(connection)
        top, rest = answer.split(b"\r\n\r\n", 1)
        length = int(top.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        while len(rest) < length:
            rest += self.more(connection)
        status = int(top[9:12])
        if status not in (201, 429, 503):
            raise SystemExit(f"a start is refused: {status} {rest[:500]}")
        return status == 201

    @staticmethod
    def more(connection):
        read = connection.recv(65536)
        if not read:
            raise SystemExit("the host closed a connection")
        return read


class Stored:
    def __init__(self, chosen):
        self.chosen, self.place = chosen, tempfile.mkdtemp(prefix="windlass-stored-")
        self.database = PostgreSql() if chosen.postgres else None
        self.stored = 0
        self.begin()
        for definition in (CHARGE, RARE, PARENT):
            self.asked("PUT", f"/api/v1/definitions/{definition['workflow']}", definition)
        broken = {**CHARGE, "workflow": "broken"}
        self.asked("PUT", "/api/v1/definitions/broken", broken)
        # The oldest runs of all: each search for them has to pass all others, unless an index knows them.
        self.first = [self.asked("POST", "/api/v1/runs", {"workflow": "rare"})["id"] for _ in range(20)]
        self.parent = self.asked("POST", "/api/v1/runs", {"workflow": "parent"})["id"]
        self.began = self.asked("GET", f"/api/v1/runs/{self.first[0]}")["run"]["created"]

    def begin(self):
        """Starts the host. The seconds until it is ready."""
        began = time.monotonic()
        self.host = Host(self.chosen.binary, self.place, {}, 0, free_port(), self.database and self.database.url)
        self.client = Client(self.host.port)
        return time.monotonic() - began

    def asked(self, method, path, body=None):
        status, content, _ = self.client.call(method, path, body)
        if status not in (200, 201, 202):
            raise SystemExit(f"{method} {path}: {status} {content}")
        return content

    def fill(self, workflow, count, refused):
        """Starts so many runs, and waits until all have ended. The seconds that took."""
        queue, began, port = multiprocessing.get_context("fork").Queue(), time.monotonic(), self.host.port
        numbers = range(self.stored, self.stored + count)
        parts = SENDERS * CONNECTIONS

        def make(process):
            mine = range(process * CONNECTIONS, (process + 1) * CONNECTIONS)
            return lambda tally: [Sender(port, numbers[part::parts], workflow, refused, tally).loop for part in mine]

        processes = [in_process(make(process), queue, 0) for process in range(SENDERS)]
        while any(process.is_alive() for process in processes):
            while not queue.empty():
                queue.get()
            time.sleep(0.2)
        self.stored += count
        while self.is_busy() or self.is_busy():
            time.sleep(0.5)
        return time.monotonic() - began

    def is_busy(self):
        """Whether triggers are due or claimed."""
        text = self.client.call("GET", "/metrics", raw=True)[1].decode()
        states = (f'windlass_triggers{{state="{state}"}} ' for state in ("due", "claimed"))
        return any(f"{state}0\n" not in text for state in states)

    def requests(self):
        """The requests by name. Each makes one request, but for the start, which waits for its result."""
        one = self.stored // 2
        runs = "/api/v1/runs?limit=50"
        get = lambda path: lambda: self.asked("GET", path)
        never = uuid.uuid4().hex

        def start():
            run = self.asked("POST", "/api/v1/runs", {"workflow": "rare"})["id"]
            self.asked("GET", f"/api/v1/runs/{run}/result?wait=10s")

        return {
            "newest runs": get(runs),
            "with their number": get(f"{runs}&count=true"),
            "`status=faulted`": get(f"{runs}&status=faulted"),
            "`status=faulted`, with their number": get(f"{runs}&status=faulted&count=true"),
            "`status=suspended`: none": get(f"{runs}&status=suspended"),
            "`workflow=charge`": get(f"{runs}&workflow=charge"),
            "`workflow=rare`: the 20 oldest": get(f"{runs}&workflow=rare"),
            "`workflow=rare&status=faulted`: none": get(f"{runs}&workflow=rare&status=faulted"),
            "`tag=customer=…`": get(f"{runs}&tag=customer=c-{one % CUSTOMERS}"),
            "`tag=customer=…`: none": get(f"{runs}&tag=customer={never}"),
            "`tag=team=billing`: nearly all": get(f"{runs}&tag=team=billing"),
            "`tag=team=billing&status=suspended`: none": get(f"{runs}&tag=team=billing&status=suspended"),
            "`correlation=…`": get(f"{runs}&correlation=order-{one}"),
            "`failure=WL-R001`": get(f"{runs}&failure=WL-R001"),
            "`failure=WL-P006`: none": get(f"{runs}&failure=WL-P006"),
            "`parent=…`": get(f"{runs}&parent={self.parent}"),
            "`until=…`: the oldest": get(f"{runs}&until={self.began[:19]}.999Z"),
            "`id=…`: a prefix of 12 digits": get(f"{runs}&id={self.first[0][:12]}"),
            "the oldest run": get(f"/api/v1/runs/{self.first[0]}"),
            "its executions": get(f"/api/v1/runs/{self.first[0]}/executions"),
            "a start and its result": start,
        }

    def measure(self):
        """p50 and the maximum of each request in milliseconds, and the seconds of the others."""
        found = {}
        for name, request in self.requests().items():
            times = Histogram()
            for _ in range(self.chosen.times):
                began = time.monotonic()
                request()
                times.add(time.monotonic() - began)
            found[name] = f"{times.quantile(0.5) * 1000:.1f} / {times.max * 1000:.1f} ms"
        found[f"`batches/retry` of {self.chosen.bulk:,} failed runs"] = f"{self.batch():.1f} s"
        self.host.stop(60)
        found["`serve`, until it is ready"] = f"{self.begin():.2f} s"
        return found

    def batch(self):
        """Retries failed runs, which fail once more. The seconds until the batch is done."""
        self.fill("broken", self.chosen.bulk, lambda _: True)
        began = time.monotonic()
        batch = self.asked("POST", "/api/v1/batches/retry", {"where": {"workflow": "broken", "status": ["faulted"]}})
        while batch["standing"] == "working":
            time.sleep(0.05)
            batch = self.asked("GET", f"/api/v1/batches/{batch['batch']}")
        took = time.monotonic() - began
        if (batch["standing"], batch["done"]) != ("done", self.chosen.bulk):
            raise SystemExit(f"the batch has not done its work: {batch}")
        # The next size begins without failed runs of this workflow.
        batch = self.asked("POST", "/api/v1/batches/delete", {"where": {"workflow": "broken"}})
        while self.asked("GET", f"/api/v1/batches/{batch['batch']}")["standing"] == "working":
            time.sleep(0.2)
        self.stored -= self.chosen.bulk
        return took

    def table(self):
        columns = {}
        for size in self.chosen.runs:
            count = size - self.stored
            took = self.fill("charge", count, lambda number: number % 100 == 0)
            print(f"{count:,} runs in {took:.0f} s", file=sys.stderr, flush=True)
            columns[size] = self.measure()
        print("| | " + " | ".join(f"{size:,} runs" for size in columns) + " |")
        print("|---|" + "---|" * len(columns))
        for name in columns[self.chosen.runs[0]]:
            print(f"| {name} | " + " | ".join(column[name] for column in columns.values()) + " |", flush=True)


if __name__ == "__main__":
    stored = Stored(options())
    try:
        stored.table()
    finally:
        stored.host.stop(30)
        if stored.database:
            stored.database.remove()
        shutil.rmtree(stored.place, ignore_errors=True)
