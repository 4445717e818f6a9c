#!/usr/bin/env python3
"""Runs a workflow of three steps in Windlass and in other systems, and prints one table of Markdown.

    compare.py BINARY [--svg FILE] [SYSTEM …]

Systems: windlass, restate, dbos, temporal, disk; all by default. `--svg` also draws a chart.

README.md beside this file says what has to be installed. Each system runs alone, with its data in a
temporary folder, on free ports, with every step flushed to the disk. Load generator, system and
database share the processors of this machine.
"""

import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = float(os.environ.get("SECONDS", "6"))
LEVELS = [int(level) for level in os.environ.get("LEVELS", "1 16 64 256").split()]
WORKFLOW = {
    "workflow": "three",
    "triggers": {"call": {"http": {"path": "/three"}}},
    "nodes": {
        "a": {"use": "data/jq@1", "with": {"filter": ".n + 1"}, "input": "{{ input.body }}"},
        "b": {"use": "data/jq@1", "with": {"filter": ". + 1"}, "input": "{{ nodes.a.output }}"},
        "c": {"use": "data/jq@1", "with": {"filter": ". + 1"}, "input": "{{ nodes.b.output }}"},
    },
    "edges": ["a -> b", "b -> c"],
    "output": "{{ nodes.c.output }}",
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(method, url, body=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def until(what, holds, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if holds():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{what} did not happen within {seconds} s")


def listens(port):
    with socket.create_connection(("127.0.0.1", port), 1):
        return True


class Resident(threading.Thread):
    """The highest resident memory of processes and their children, in MB; shared pages count once."""

    def __init__(self, processes):
        super().__init__(daemon=True)
        self.processes, self.peak, self.over = processes, 0, False

    def run(self):
        while not self.over:
            self.peak = max(self.peak, self.now())
            time.sleep(0.5)

    def now(self):
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                parents.setdefault(int(stat[1]), []).append(int(entry.name))
        found, left = set(), [process.pid for process in self.processes]
        while left:
            process = left.pop()
            if process not in found:
                found.add(process)
                left += parents.get(process, [])
        anonymous, shared = 0, {}
        for process in found:
            try:
                status = Path(f"/proc/{process}/status").read_text()
            except OSError:
                continue
            kib = {name: int(value) for name, value in re.findall(r"^(Rss\w+):\s+(\d+) kB", status, re.M)}
            name = status.split("\n", 1)[0]
            anonymous += kib.get("RssAnon", 0)
            both = kib.get("RssFile", 0) + kib.get("RssShmem", 0)
            shared[name] = max(shared.get(name, 0), both)
        return (anonymous + sum(shared.values())) // 1000


class Bench:
    """A folder and processes that end with it."""

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="windlass-compare-"))
        self.folder.chmod(0o755)
        self.processes = []
        self.resident = Resident(self.processes)
        self.resident.start()
        return self

    def start(self, *command, environment=None, **more):
        log = open(self.folder / f"log-{len(self.processes)}", "wb")
        environment = {**os.environ, **(environment or {})}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, **more)
        self.processes.append(process)
        return process

    def postgres(self):
        """The address of a new PostgreSQL server with its default durability."""
        programs = max(Path("/usr/lib/postgresql").iterdir()) / "bin"
        data, port = self.folder / "postgres", free_port()
        data.mkdir()
        user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(data, "postgres")
        initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/", **user)
        settings = ["-c", f"port={port}", "-c", f"unix_socket_directories={data}", "-c", "max_connections=300"]
        self.start(programs / "postgres", "-D", data, *settings, "-c", "shared_buffers=256MB", cwd="/", **user)
        until("PostgreSQL listens", lambda: listens(port))
        address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        ready = [programs / "pg_isready", "-q", "-d", address]
        until("PostgreSQL is ready", lambda: subprocess.run(ready).returncode == 0)
        return address

    def __exit__(self, *_):
        self.resident.over = True
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def flushes():
    """The flushes of all disks since the start of the machine."""
    stats = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    return sum(int(fields[18]) for fields in stats if len(fields) > 18)


def over_http(url, body):
    """Calls a URL with so many clients, level after level, with the program `hey`."""
    figures = []
    for clients in [16, *LEVELS]:
        command = ["hey", "-z", f"{SECONDS}s", "-c", str(clients), "-t", "30", "-o", "csv", "-m", "POST"]
        command += ["-T", "application/json", "-d", json.dumps(body), url]
        before = flushes()
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        flushed = flushes() - before
        columns = {name: place for place, name in enumerate(lines[0].split(","))}
        rows = [line.split(",") for line in lines[1:]]
        good = [row for row in rows if row[columns["status-code"]] == "200"]
        if len(good) < len(rows):
            raise SystemExit(f"{len(rows) - len(good)} of {len(rows)} answers of {url} are not 200")
        took = [float(row[columns["response-time"]]) for row in good]
        end = max(float(row[columns["offset"]]) + float(row[columns["response-time"]]) for row in good)
        figures.append((clients, len(good) / end, [seconds * 1000 for seconds in took], flushed))
    return figures[1:]


def in_process(bench, script, environment):
    """Runs a script that sweeps by itself (loop.mjs)."""
    levels = " ".join(map(str, LEVELS))
    environment = {"SECONDS": str(SECONDS), "LEVELS": levels, **environment}
    process = bench.start("node", script.name, environment=environment, cwd=script.parent)
    if process.wait() != 0:
        raise SystemExit((bench.folder / f"log-{len(bench.processes) - 1}").read_text()[-2000:])
    log = (bench.folder / f"log-{len(bench.processes) - 1}").read_text()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"in_flight"')]
    return [(line["in_flight"], len(line["ms"]) / line["seconds"], line["ms"], None) for line in lines]


def windlass(bench, binary):
    port = free_port()
    for folder in ("home", "plugins", "workflows"):
        (bench.folder / folder).mkdir()
    settings = {
        "server.listen": f"127.0.0.1:{port}",
        "plugins.directory": bench.folder / "plugins",
        "plugins.cache": bench.folder / "cache",
        "definitions.directory": bench.folder / "workflows",
    }
    flags = [f"--set={key}={value}" for key, value in settings.items()]
    store = bench.folder / "windlass.db"
    home = {"HOME": str(bench.folder / "home")}
    bench.start(binary, "serve", *flags, "--store", store, environment=home, cwd=bench.folder)
    at = f"http://127.0.0.1:{port}"
    until("Windlass is ready", lambda: ask("GET", f"{at}/readyz"))
    ask("PUT", f"{at}/api/v1/definitions/three", WORKFLOW)
    call = f"{at}/hooks/three?wait=20s"
    answer = json.loads(ask("POST", call, {"n": 5}))
    if answer["output"] != 8:
        raise SystemExit(f"a wrong result: {answer}")
    return over_http(call, {"n": 5})


def restate(bench, _):
    ingress, admin, node, service = (free_port() for _ in range(4))
    folder = HERE / "restate"
    servers = folder.glob("node_modules/@restatedev/restate-server-*/bin/restate-server")
    environment = {
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_BASE_DIR": str(bench.folder / "data"),
        "RESTATE_INGRESS__BIND_PORT": str(ingress),
        "RESTATE_ADMIN__BIND_PORT": str(admin),
    }
    where = ["--bind-ip", "127.0.0.1", "--bind-port", str(node), "--listen-mode", "tcp"]
    bench.start(next(servers), *where, "--no-logo", "--log-filter", "warn", environment=environment)
    bench.start("node", "three.mjs", cwd=folder, environment={"PORT": str(service), "NODE_ENV": "production"})
    for port in (ingress, admin, service):
        until("Restate listens", lambda: listens(port))
    uri = {"uri": f"http://127.0.0.1:{service}"}
    until("Restate takes the service", lambda: ask("POST", f"http://127.0.0.1:{admin}/deployments", uri))
    call = f"http://127.0.0.1:{ingress}/Three/run"
    if json.loads(ask("POST", call, {"n": 5})) != 8:
        raise SystemExit("a wrong result")
    return over_http(call, {"n": 5})


def dbos(bench, _):
    return in_process(bench, HERE / "dbos/three.mjs", {"DATABASE": bench.postgres()})


def temporal(bench, _):
    port, metrics = free_port(), free_port()
    pragmas = ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=full"]
    where = ["--headless", "--ip", "127.0.0.1", "--port", str(port), "--metrics-port", str(metrics)]
    file = ["--db-filename", bench.folder / "temporal.db", "--log-level", "error"]
    bench.start("temporal", "server", "start-dev", *where, *file, *pragmas)
    until("Temporal listens", lambda: listens(port))
    time.sleep(3)
    return in_process(bench, HERE / "temporal/three.mjs", {"ADDRESS": f"127.0.0.1:{port}"})


def flush_ms(bench, _):
    """The time of one write of 4 KiB and its flush, in milliseconds."""
    file = os.open(bench.folder / "flush", os.O_CREAT | os.O_WRONLY)
    took = []
    for _ in range(2_000):
        os.write(file, bytes(4096))
        begin = time.perf_counter()
        os.fdatasync(file)
        took.append((time.perf_counter() - begin) * 1000)
    return [(1, 1000 / statistics.mean(took), took, 2_000)]


SYSTEMS = {"disk": flush_ms, "windlass": windlass, "restate": restate, "dbos": dbos, "temporal": temporal}


def panel(title, bars, top):
    """Horizontal bars with their values, as lines of SVG, and the height at which they end."""
    longest = max(value for _, value in bars)
    lines = [f'<text x="10" y="{top}" font-weight="bold">{title}</text>']
    for name, value in bars:
        top += 26
        width = max(1, round(380 * value / longest))
        color = "#0b7285" if name == "windlass" else "#868e96"
        lines.append(f'<text x="90" y="{top}" text-anchor="end">{name}</text>')
        lines.append(f'<rect x="100" y="{top - 13}" width="{width}" height="17" fill="{color}"/>')
        text = f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
        lines.append(f'<text x="{106 + width}" y="{top}">{text}</text>')
    return lines, top + 34


def chart(rows):
    """Throughput and latency of all systems; `rows` are (system, in flight, runs/s, p50 in ms)."""
    many = max(LEVELS)
    rows = [row for row in rows if row[0] != "disk"]
    rate = [(name, rate) for name, in_flight, rate, _ in rows if in_flight == many]
    time_ms = [(name, p50) for name, in_flight, _, p50 in rows if in_flight == 1]
    above, end = panel(f"Runs of three steps in a second, {many} in flight", rate, 24)
    below, end = panel("Milliseconds of one run alone", time_ms, end)
    style = "text{font:13px sans-serif;fill:#343a40}@media(prefers-color-scheme:dark){text{fill:#ced4da}}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 {end - 18}" width="560">'
    return "\n".join([head, f"<style>{style}</style>", *above, *below, "</svg>", ""])


def main():
    arguments = sys.argv[1:]
    svg = None
    if "--svg" in arguments:
        place = arguments.index("--svg")
        svg, arguments = arguments[place + 1], arguments[:place] + arguments[place + 2 :]
    binary = os.path.abspath(arguments[0])
    chosen = arguments[1:] or list(SYSTEMS)
    rows = []
    print("| system | in flight | runs/s | p50 ms | p99 ms | flushes for each run | peak memory |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in chosen:
        with Bench() as bench:
            figures = SYSTEMS[name](bench, binary)
            peak = bench.resident.peak
        for in_flight, rate, ms, flushed in figures:
            ms.sort()
            p50, p99 = ms[len(ms) // 2], ms[min(len(ms) - 1, len(ms) * 99 // 100)]
            each = f"{flushed / len(ms):.2f}" if flushed is not None else ""
            rows.append((name, in_flight, rate, p50))
            print(f"| {name} | {in_flight} | {rate:,.0f} | {p50:.2f} | {p99:.2f} | {each} | {peak} MB |", flush=True)
    if svg:
        Path(svg).write_text(chart(rows))


if __name__ == "__main__":
    main()
