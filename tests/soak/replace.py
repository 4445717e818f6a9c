#!/usr/bin/env python3
"""Replaces a plugin again and again while its runs go on. docs/testing.md describes it.

    replace.py BINARY COMPONENT NODE    100 versions of the component, while runs go on

The component has the text VERSION-00000000 in its data, and the node answers {"version": that text}.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

# No folder of compiled modules is left in the source.
sys.dont_write_bytecode = True

from host import MIB, Client, Host, free_port
from tally import Histogram

MARK = b"VERSION-00000000"


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the program `windlass`")
    parser.add_argument("component", type=Path, help="the first version")
    parser.add_argument("node", help="its node, like greeter/greet")
    parser.add_argument("--versions", type=int, default=100)
    parser.add_argument("--every", type=float, default=2.5, help="seconds between two versions (default: 2.5)")
    parser.add_argument("--clients", type=int, default=32, help="runs in progress (default: 32)")
    chosen = parser.parse_args()
    chosen.bytes = chosen.component.read_bytes()
    if MARK not in chosen.bytes:
        parser.error(f"{chosen.component} does not contain {MARK.decode()}")
    return chosen


def workflow(node):
    """Three calls of the node, with a wait between them, so that versions change within a run."""
    nodes = {name: {"use": node, "input": {}} for name in "abc"}
    nodes["rest"] = {"wait": "50ms"}
    output = {name: "{{ nodes.%s.output.version }}" % name for name in "abc"}
    return {"workflow": "versions", "nodes": nodes, "edges": ["a -> rest", "rest -> b", "b -> c"], "output": output}


class Replacing:
    def __init__(self, chosen):
        self.chosen, self.place = chosen, tempfile.mkdtemp(prefix="windlass-replace-")
        self.host = Host(chosen.binary, self.place, {}, 0, free_port())
        self.lock, self.over, self.wrong, self.seen = threading.Lock(), False, [], {}
        self.times = Histogram()

    def drop(self, version):
        new = self.place + "/new"
        Path(new).write_bytes(self.chosen.bytes.replace(MARK, b"VERSION-%08d" % version))
        os.rename(new, self.host.plugins / "replaced.wasm")

    def runs(self):
        client = Client(self.host.port)
        while not self.over:
            began = time.monotonic()
            status, started, _ = client.call("POST", "/api/v1/runs", {"workflow": "versions"})
            outcome = started
            if status == 201:
                path = f"/api/v1/runs/{started['id']}/result?wait=60s"
                status, outcome, _ = client.call("GET", path)
            output = outcome.get("output") if status == 200 else None
            with self.lock:
                self.times.add(time.monotonic() - began)
                if output and outcome["status"] == "completed" and len(set(output.values())) == 1:
                    version = output["a"]
                    self.seen[version] = self.seen.get(version, 0) + 1
                else:
                    self.wrong.append(str(outcome)[:300])

    def figures(self, when):
        status = Path(f"/proc/{self.host.process.pid}/status").read_text()
        maps = Path(f"/proc/{self.host.process.pid}/maps").read_text()
        anon = int(re.search(r"^RssAnon:\s+(\d+)", status, re.M)[1]) // 1024
        mapped = len(set(re.findall(r"\S+\.cwasm", maps)))
        plugins = self.host.metrics().get("windlass_plugin_memory_bytes", 0) / MIB
        print(f"{when}: anonymous memory {anon} MiB, plugins {plugins:.0f} MiB, mapped code files {mapped}", flush=True)

    def run(self):
        chosen, client = self.chosen, Client(self.host.port)
        self.drop(0)
        for _ in range(600):
            status, answer, _ = client.call("PUT", "/api/v1/definitions/versions", workflow(chosen.node))
            if status in (200, 201):
                break
            time.sleep(0.1)
        else:
            raise SystemExit(f"the workflow is refused: {answer}")
        self.figures("before")
        began = time.monotonic()
        clients = [threading.Thread(target=self.runs, daemon=True) for _ in range(chosen.clients)]
        for thread in clients:
            thread.start()
        for version in range(1, chosen.versions):
            time.sleep(chosen.every)
            self.drop(version)
        time.sleep(chosen.every)
        self.over = True
        for thread in clients:
            thread.join()
        took = time.monotonic() - began
        self.figures("after")
        time.sleep(15)
        self.figures("15 s later")
        done = sum(self.seen.values())
        print(f"{done} runs completed with one version each, {len(self.seen)} versions seen, {len(self.wrong)} others,"
              f" in {took:.0f} s; a run p50 / p99 / max {self.times.text()}")
        for wrong in self.wrong[:5]:
            print(f"  {wrong}")
        log = self.host.log.read_text(errors="replace")
        print(f"log: {len(log.splitlines())} lines, {log.count(' ERROR ')} errors, {log.count(' WARN ')} warnings")
        return not self.wrong and done > 0 and len(self.seen) > chosen.versions // 2


if __name__ == "__main__":
    replacing = Replacing(options())
    try:
        good = replacing.run()
    finally:
        replacing.host.stop(30)
        print(f"store check: {replacing.host.check()[0]}")
        shutil.rmtree(replacing.place, ignore_errors=True)
    sys.exit(0 if good else 1)
