#!/usr/bin/env python3
"""Attacks a host with all that it has to contain, beside ordinary load. docs/testing.md describes it.

    soak.py BINARY SECONDS          all attacks at once, for so long
    soak.py BINARY SECONDS --each   each attack on a host of its own, for so long each
"""

import argparse
import http.server
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

# No folder of compiled modules is left in the source.
sys.dont_write_bytecode = True

import attacks
from host import MIB, Client, Host, code_of
from tally import Tally

GIVE_UP = 60
DRAIN = 30

ORDINARY = {
    "workflow": "ordinary",
    "nodes": {
        "double": {"use": "data/jq@1", "with": {"filter": ".n * 2"}, "input": "{{ input }}"},
        "say": {"use": "text/template@1", "with": {"template": "n is {{ n }}"},
                "input": {"n": "{{ nodes.double.output }}"}},
        "keep": {"set": {"said": "{{ nodes.say.output.text }}"}},
    },
    "edges": ["double -> say", "say -> keep"],
    "output": "{{ vars.said }}",
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the program `windlass`")
    parser.add_argument("seconds", type=int, help="how long, in seconds")
    parser.add_argument("--each", action="store_true", help="one attack after the other, each on a new host")
    parser.add_argument("--only", default=",".join(attacks.KINDS), help="the kinds of attacks, with commas")
    parser.add_argument("--limit", type=int, default=0, help="limit of memory in MiB (default: none)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the host")
    parser.add_argument("--every", type=int, default=10, help="seconds between two lines (default: 10)")
    parser.add_argument("--clients", type=int, default=4, help="clients with ordinary load (default: 4)")
    parser.add_argument("--hold", type=float, default=5, help="seconds before an attack's run is cancelled (default: 5)")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    chosen = parser.parse_args()
    chosen.only = [kind for kind in chosen.only.split(",") if kind]
    for kind in chosen.only:
        if kind not in attacks.KINDS and kind != "none":
            parser.error(f"there is no attack {kind}; there are {', '.join(attacks.KINDS)}")
    chosen.settings = dict(pair.split("=", 1) for pair in chosen.set)
    return chosen


class Ordinary:
    """A client that starts runs and waits for each; a start is tried again after its Retry-After."""

    def __init__(self, port, tally, end):
        self.client, self.tally, self.end = Client(port), tally, end
        self.number = 0

    def loop(self):
        while time.monotonic() < self.end:
            try:
                self.one()
            except Exception as error:
                # Connections that break are failures, whatever the reason.
                self.tally.count("ordinary", f"broke: {type(error).__name__}")
                time.sleep(0.5)
            time.sleep(0.02)

    def one(self):
        self.number += 1
        began = time.monotonic()
        body = {"workflow": "ordinary", "input": {"n": self.number}}
        started = self.until("start", began, ("POST", "/api/v1/runs", body))
        if started is None:
            return
        self.tally.time("start", time.monotonic() - began)
        path = f"/api/v1/runs/{started['id']}/result?wait=10s"
        outcome = self.until("result", began, ("GET", path))
        if outcome is None:
            return
        self.tally.time("result", time.monotonic() - began)
        right = outcome["status"] == "completed" and outcome["output"] == f"n is {self.number * 2}"
        self.tally.count("ordinary", "ended" if right else "failed")
        if not right:
            failure = outcome.get("failure") or {}
            self.tally.count("failed", outcome["status"], failure.get("code", "-"), str(outcome.get("output"))[:60])

    def until(self, what, began, request):
        """Repeats a request until it has its answer. None: it was refused, or took too long."""
        while True:
            status, content, headers = self.client.call(*request)
            if status in (200, 201):
                return content
            if time.monotonic() - began > GIVE_UP:
                self.tally.count("ordinary", f"gave up ({what})")
                return None
            if status != 202:
                detail = content.get("detail", "") if isinstance(content, dict) else ""
                self.tally.count("refused", what, status, code_of(content), detail[:60])
            if status in (429, 503):
                time.sleep(float(headers.get("retry-after", 1)))
            elif status != 202:
                self.tally.count("ordinary", f"failed ({what})")
                return None


def echo():
    """A server that repeats the header `x-key` as a value, and in capitals in a name. Its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            key = self.headers.get("x-key", "none")
            self.send_response(200)
            self.send_header(f"x-{key.upper()}", "name")
            self.send_header("x-value", key)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def in_process(make, queue, niceness):
    """Begins a process of threads, one for each loop that `make` gives, which sends its counts."""

    def work():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(niceness)
        tally = Tally()
        threads = [threading.Thread(target=loop, daemon=True) for loop in make(tally)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and os.getppid() != 1:
            time.sleep(0.5)
            queue.put(tally.take())
        queue.put(tally.take())

    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    return process


class Soak:
    """One host under these attacks."""

    def __init__(self, chosen, kinds):
        self.chosen, self.kinds = chosen, kinds
        self.place = tempfile.mkdtemp(prefix="windlass-soak-")
        self.echo_port = echo()
        self.host = Host(chosen.binary, self.place, chosen.settings, chosen.limit * MIB, self.echo_port)
        self.total, self.part, self.queue = Tally(), Tally(), multiprocessing.get_context("fork").Queue()
        self.processes = []

    def begin(self, seconds):
        """Publishes the ordinary workflow, and begins all load."""
        host, end = self.host, time.monotonic() + seconds
        status, content, _ = Client(host.port).call("PUT", "/api/v1/definitions/ordinary", ORDINARY)
        if status not in (200, 201):
            raise SystemExit(f"the ordinary workflow is refused: {content}")
        for _ in range(5):
            # Plugins are compiled before the first measurement.
            Ordinary(host.port, Tally(), end).one()

        def ordinary(tally):
            return [Ordinary(host.port, tally, end).loop for _ in range(self.chosen.clients)]

        def attacking(tally):
            common = (host.port, host.plugins, self.echo_port, tally, end, self.chosen.hold)
            return [attacks.Attacker(kind, *common).loop for kind in self.kinds]

        # The attackers' own computing is not what is measured.
        self.processes = [in_process(ordinary, self.queue, 0), in_process(attacking, self.queue, 10)]
        return end

    def gather(self):
        while not self.queue.empty():
            taken = self.queue.get()
            self.total.merge(taken)
            self.part.merge(taken)

    def watch(self, end):
        """Prints a line now and then until the time is over. Whether the host lives."""
        began = last = time.monotonic()
        while time.monotonic() < end and self.host.lives():
            time.sleep(0.25)
            self.gather()
            if time.monotonic() - last >= self.chosen.every:
                last = time.monotonic()
                self.line(last - began)
        return self.host.lives()

    def line(self, elapsed):
        memory, part = self.host.memory, self.part
        self.part = Tally()
        size = sum(entry.stat().st_size for entry in os.scandir(self.place) if entry.is_file()) // MIB
        found = self.host.metrics()
        budgets = sorted(name[9:-12] for name in found if name.endswith("_limit_bytes"))
        gauges = " ".join(
            f"{name}={found.get(f'windlass_{name}_bytes', 0) / MIB:.0f}/{found[f'windlass_{name}_limit_bytes'] / MIB:.0f}"
            for name in budgets
        )
        ended = sum(n for key, n in part.of("ordinary") if key == ("ended",))
        others = {key[0]: n for key, n in part.of("ordinary") if key != ("ended",)}
        print(
            f"{elapsed:5.0f} s  anon {memory.now // MIB} MiB (peak {memory.peak // MIB},"
            f" with compilers {memory.sum_peak // MIB})  ended {ended} {others or ''}"
            f"  start {part.histogram('start').text()}  result {part.histogram('result').text()}"
            f"  store {size} MiB  {gauges}",
            flush=True,
        )

    def end_load(self, bound):
        """Waits until all load has ended, and kills what has not after so many seconds."""
        until = time.monotonic() + bound
        while any(process.is_alive() for process in self.processes) and time.monotonic() < until:
            self.gather()
            time.sleep(0.1)
        for process in self.processes:
            process.kill()
            process.join()
        self.gather()

    def remove(self):
        if self.host.lives():
            self.host.stop(1)
        if self.chosen.keep:
            print(f"the folder is {self.place}")
        else:
            shutil.rmtree(self.place, ignore_errors=True)


def controls_in(path):
    """Lines of a log with characters that control a terminal."""
    with open(path, "rb") as log:
        return sum(1 for line in log if any(byte < 32 for byte in line.rstrip(b"\n")))


def panics_in(path):
    with open(path, "rb") as log:
        return sum(1 for line in log if b"panicked" in line)


def together(chosen):
    """All attacks at once. True: the host has kept all its promises."""
    soak = Soak(chosen, chosen.only)
    host, total = soak.host, soak.total
    print(f"{chosen.seconds} s, limited by {host.limited_by}; {len(chosen.only)} attacks: {', '.join(chosen.only)}")
    try:
        lives = soak.watch(soak.begin(chosen.seconds))
        soak.end_load(20 + GIVE_UP if lives else 1)
        lives = host.lives()
        took = host.stop(DRAIN + 30)
        code = host.process.returncode
        memory = host.memory
        print("\nsummary")
        print(f"  host: {'lived' if lives else f'DIED, exit code {code}'}{', killed at the limit' if memory.killed else ''};"
              f" ended {'not' if took is None else f'{took:.1f} s'} after SIGTERM, exit code {code}")
        print(f"  peak anonymous memory: host {memory.peak // MIB} MiB, compilers {memory.children_peak // MIB} MiB,"
              f" together {memory.sum_peak // MIB} MiB")
        print(f"  ordinary runs: {', '.join(f'{n} {key[0]}' for key, n in total.of('ordinary'))}")
        for key, n in total.of("failed"):
            print(f"    failed: {n} {' '.join(map(str, key))}")
        for name in ("start", "result", "cancel"):
            print(f"  {name}, p50 / p99 / max: {total.histogram(name).text()}, {total.histogram(name).count()} times")
        print("  refusals of ordinary requests: "
              + (", ".join(f"{n} {' '.join(map(str, key))}" for key, n in total.of("refused")) or "none"))
        for kind in chosen.only:
            answers = ", ".join(f"{n} {' '.join(map(str, key))}" for key, n in total.of("attack", kind)[:14])
            print(f"  attack {kind}: {answers}; cancel {total.histogram(f'cancel {kind}').text()}")
        broken = total.of("broken")
        for key, n in broken:
            print(f"  BROKEN: {n} {key[0]}")
        controls, panics = controls_in(host.log), panics_in(host.log)
        print(f"  log: {os.path.getsize(host.log) // 1024} KiB, {controls} lines with control characters, {panics} panics")
        checked, said = host.check()
        print(f"  store check: exit code {checked}" + (f"\n{said}" if checked else ""), flush=True)
        ended = sum(n for key, n in total.of("ordinary") if key == ("ended",))
        return lives and took is not None and not (broken or controls or panics or checked) and ended > 0
    finally:
        soak.remove()


def each(chosen):
    """One attack after the other, as a table. True: each has reached all goals."""
    print(f"{chosen.seconds} s each, without a limit. The goals: peak 600 MiB, start p99 100 ms, cancel 1 s,"
          f" exit {DRAIN + 2} s after SIGTERM.")
    print("| attack | peak of the host (with compilers) | ordinary: ended, other"
          " | start p50 / p99 / max | result p50 / p99 / max | cancel p50 / p99 / max | exit | store check |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    good = True
    for kind in chosen.only:
        soak = Soak(chosen, [kind] if kind != "none" else [])
        host, total = soak.host, soak.total
        try:
            # The attack goes on while the host drains.
            soak.begin(chosen.seconds + DRAIN)
            end = time.monotonic() + chosen.seconds
            while time.monotonic() < end and host.lives():
                time.sleep(0.25)
            soak.gather()
            taken = total.take()
            lives = host.lives()
            took = host.stop(DRAIN + 30)
            soak.end_load(1)
            total = Tally()
            total.merge(taken)
            memory, checked = host.memory, host.check()[0]
            ended = sum(n for key, n in total.of("ordinary") if key == ("ended",))
            others = ", ".join(f"{n} {key[0]}" for key, n in total.of("ordinary") if key != ("ended",))
            exit = f"{took:.1f} s" if took is not None else "NOT"
            print(f"| {kind} | {memory.peak // MIB} MiB ({memory.sum_peak // MIB}) | {ended}{', ' + others if others else ''}"
                  f" | {total.histogram('start').text()} | {total.histogram('result').text()}"
                  f" | {total.histogram('cancel').text()} | {exit if lives else 'DIED'} | {checked} |", flush=True)
            answers = ", ".join(f"{n} {' '.join(map(str, key))}" for key, n in total.of("attack", kind)[:10])
            refused = ", ".join(f"{n} {' '.join(map(str, key))}" for key, n in total.of("refused"))
            print(f"  {kind}: {answers}; refused ordinary requests: {refused or 'none'}", file=sys.stderr, flush=True)
            start, cancel = (total.histogram(name).quantile(0.99) for name in ("start", "cancel"))
            good = good and lives and memory.peak <= 600 * MIB and not checked
            good = good and (start or 9) <= 0.1 and (cancel or 0) <= 1 and (took or 99) <= DRAIN + 2
        finally:
            soak.remove()
    return good


if __name__ == "__main__":
    arguments = options()
    sys.exit(0 if (each if arguments.each else together)(arguments) else 1)
