#!/usr/bin/env python3
"""Gives a host on PostgreSQL all kinds of trouble, and keeps its log. docs/testing.md describes it.

    trouble.py BINARY COMPONENT NODE SECONDS    the node traps at each call
"""

import argparse
import http.client
import itertools
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter

# No folder of compiled modules is left in the source.
sys.dont_write_bytecode = True

from host import Client, Host, code_of, free_port
from postgres import PostgreSql


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the program `windlass`")
    parser.add_argument("component", help="a component")
    parser.add_argument("node", help="its node that traps, like crash/trap")
    parser.add_argument("seconds", type=int, help="how long, in seconds")
    parser.add_argument("--log", default="trouble.log", help="where the log is kept (default: trouble.log)")
    return parser.parse_args()


def one(workflow, name, node, **more):
    return {"workflow": workflow, "nodes": {name: node}, **more}


def workflows(node, dead):
    """The workflows by name. `dead` is a port at which no server listens."""
    request = {"use": "http/request@1", "with": {"url": f"http://127.0.0.1:{dead}/"}}
    retry = {"max-attempts": 3, "delay": "200ms", "classes": ["retryable"]}
    said = {"use": "text/template@1", "with": {"template": "n is {{ n }}"}, "input": {"n": 1}}
    found = [
        one("fine", "say", said),
        one("refused", "refuse", {"fail": "the card of {{ input.customer }} is refused"}),
        one("mistaken", "sum", {"set": {"total": "{{ input.orders[3].totl }}"}}),
        one("jq", "filter", {"use": "data/jq@1", "with": {"filter": "error(\"no stock\")"}, "input": 1}),
        one("unreachable", "ask", {**request, "retry": retry}),
        one("forgotten", "wait", {"event": "never", "wait-timeout": "1s"}),
        one("trapping", "trap", {"use": node}),
        one("caller", "call", {"workflow": "refused", "input": "{{ input }}"}),
        one("signed", "say", said, triggers={"push": {"http": {"path": "/signed", "verify": {"github": {"secret": "hook"}}}}}),
        one("called", "say", said, triggers={"push": {"http": {"path": "/called"}}}),
        one("nightly", "report", {"fail": "no report"}, triggers={"night": {"every": "20s"}}),
    ]
    return {workflow["workflow"]: workflow for workflow in found}


class Trouble:
    def __init__(self, chosen):
        self.chosen, self.place = chosen, tempfile.mkdtemp(prefix="windlass-trouble-")
        self.database = PostgreSql()
        self.dead = free_port()
        self.host = Host(chosen.binary, self.place, {}, 0, self.dead, self.database.url)
        self.say(f"metrics are at http://127.0.0.1:{self.host.port}/metrics")
        self.counts, self.lock = Counter(), threading.Lock()
        self.plugin = self.host.plugins / "trouble.wasm"
        self.end = time.monotonic() + chosen.seconds

    def say(self, text):
        print(f"{time.strftime('%H:%M:%S', time.gmtime())} {text}", flush=True)

    def publish(self):
        shutil.copy(self.chosen.component, self.plugin)
        client = Client(self.host.port)
        for name, workflow in workflows(self.chosen.node, self.dead).items():
            # The plugin is compiled meanwhile.
            for _ in range(60):
                status, content, _ = client.call("PUT", f"/api/v1/definitions/{name}", workflow)
                if status in (200, 201):
                    break
                time.sleep(1)
            else:
                raise SystemExit(f"{name} is refused: {content}")

    def each(self, seconds, act):
        """Begins a thread that acts again and again with a client of its own."""

        def loop():
            client = Client(self.host.port, timeout=30)
            for number in itertools.count():
                if time.monotonic() >= self.end:
                    return
                try:
                    act(client, number)
                except (OSError, http.client.HTTPException) as error:
                    self.count(act.__name__, type(error).__name__)
                time.sleep(max(0, min(seconds, self.end - time.monotonic())))

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        return thread

    def count(self, *key):
        with self.lock:
            self.counts[key] += 1

    def start(self, workflow, input=None):
        def starting(client, number):
            body = {"workflow": workflow, "input": input or {"customer": f"c-{number}"}}
            status, content, _ = client.call("POST", "/api/v1/runs", body)
            self.count(f"start of {workflow}", status, code_of(content) if status >= 400 else "-")

        return starting

    def called(self, client, number):
        status, content, _ = client.call("POST", "/hooks/called", {"n": number})
        self.count("call of a hook", status, code_of(content) if status >= 400 else "-")

    def retried(self, client, _number):
        """An operator retries the newest run that found no server, in vain."""
        status, content, _ = client.call("GET", "/api/v1/runs?workflow=unreachable&status=faulted&limit=1")
        for run in content["items"] if status == 200 else []:
            status, content, _ = client.call("POST", f"/api/v1/runs/{run['id']}/retry", {})
            self.count("retry", status, code_of(content) if status >= 400 else "-")

    def flood(self, client, number):
        """Requests that are refused: unknown paths, signatures, bodies that are no JSON or too large."""
        forms = [
            ("POST", "/hooks/nowhere", b"{}"),
            ("POST", "/hooks/signed", b'{"n": 1}'),
            ("POST", "/api/v1/runs", b"{"),
            ("POST", "/api/v1/runs", json.dumps({"workflow": "fine", "input": "a" * 5_000_000}).encode()),
            ("GET", "/api/v1/runs/no-such-run", None),
        ]
        for _ in range(200):
            method, path, body = forms[number % len(forms)]
            status, content, _ = client.call(method, path, body, {"x-hub-signature-256": "sha256=" + "0" * 64})
            self.count(f"flood of {path[:20]}", status, code_of(content))

    def replaced(self, _client, number):
        """A good plugin, one that is cut off, none, and text in its place."""
        kind = number % 4
        self.say(["the plugin is good", "the plugin is cut off", "the plugin is gone", "the plugin is text"][kind])
        new = self.host.plugins / "new"
        if kind == 0:
            shutil.copy(self.chosen.component, new)
        elif kind == 1:
            new.write_bytes(open(self.chosen.component, "rb").read()[:2_000])
        elif kind == 3:
            new.write_text("no component")
        if kind == 2:
            self.plugin.unlink(missing_ok=True)
        else:
            os.replace(new, self.plugin)

    def dead_database(self, _client, number):
        if number == 0:
            return
        self.say("the database is stopped")
        self.database.stop(["fast", "immediate"][number % 2])
        time.sleep(20)
        self.database.start()
        self.say("the database is back")

    def run(self):
        self.publish()
        share = self.chosen.seconds / 60
        threads = [
            self.each(0.2, self.start("fine")),
            self.each(1, self.start("refused")),
            self.each(3, self.start("caller")),
            self.each(2, self.start("mistaken", {"orders": [{"total": 1, "id": 7}] * 4})),
            self.each(1, self.start("jq")),
            self.each(1, self.start("unreachable")),
            self.each(1, self.start("forgotten")),
            self.each(2, self.start("trapping")),
            self.each(0.2, self.called),
            self.each(5, self.retried),
            self.each(share, self.flood),
            self.each(share * 3, self.replaced),
            self.each(share * 7, self.dead_database),
        ]
        for thread in threads:
            thread.join(self.chosen.seconds + 90)

    def finish(self):
        metrics = self.host.metrics()
        took = self.host.stop(60)
        shutil.copy(self.host.log, self.chosen.log)
        print(f"the host has ended {'not' if took is None else f'{took:.1f} s'} after SIGTERM,"
              f" exit code {self.host.process.returncode}; anonymous memory at most {self.host.memory.peak >> 20} MiB")
        for key, count in sorted(self.counts.items(), key=str):
            print(f"  {count:6} {' '.join(map(str, key))}")
        lines = open(self.chosen.log, errors="replace").read().splitlines()
        print(f"{len(lines)} lines of log, {os.path.getsize(self.chosen.log) >> 10} KiB: {self.chosen.log}")
        return metrics


if __name__ == "__main__":
    trouble = Trouble(options())
    try:
        trouble.run()
        trouble.finish()
    finally:
        trouble.host.stop(30)
        trouble.database.remove()
        shutil.rmtree(trouble.place, ignore_errors=True)
