"""The host under test: its process, its memory, and requests to it."""

import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

MIB = 1024 * 1024
SECRET = "soak-secret-8b1f4c"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Group:
    """A control group with a limit of memory, version 2 or 1. None of it is left after `remove`."""

    def __init__(self, limit):
        name = f"windlass-soak-{os.getpid()}"
        root = Path("/sys/fs/cgroup")
        kinds = [
            (root, "cgroup.controllers", "memory.max", "memory.swap.max"),
            (root / "memory", "memory.stat", "memory.limit_in_bytes", None),
        ]
        for mount, has, limit_file, swap in kinds:
            self.path = mount / name
            try:
                if has == "cgroup.controllers" and "memory" not in (mount / has).read_text():
                    continue
                self.path.mkdir()
                (self.path / limit_file).write_text(str(limit))
                if swap and (self.path / swap).exists():
                    (self.path / swap).write_text("0")
                self.what = f"control group {self.path}, {limit // MIB} MiB"
                return
            except OSError:
                self.remove()
        raise OSError("no control group for memory can be made")

    def enter(self):
        (self.path / "cgroup.procs").write_text("0")

    def remove(self):
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)


class Memory(threading.Thread):
    """Reads the anonymous memory of a process and of its children, until the process ends.

    With a limit that no control group enforces, it kills the process at the limit.
    """

    def __init__(self, pid, every, kill_at):
        super().__init__(daemon=True, name="memory")
        self.pid, self.every, self.kill_at = pid, every, kill_at
        self.now = self.peak = self.children_peak = self.sum_peak = 0
        self.killed = False

    @staticmethod
    def of(pid):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return 0
        found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.M)
        return int(found[1]) * 1024 if found else 0

    def children(self):
        children = []
        for task in Path(f"/proc/{self.pid}/task").glob("*/children"):
            try:
                children += task.read_text().split()
            except OSError:
                continue
        return children

    def run(self):
        while Path(f"/proc/{self.pid}").exists():
            self.now = self.of(self.pid)
            children = sum(map(self.of, self.children()))
            self.peak = max(self.peak, self.now)
            self.children_peak = max(self.children_peak, children)
            self.sum_peak = max(self.sum_peak, self.now + children)
            if self.kill_at and self.now + children > self.kill_at:
                self.killed = True
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(self.every)


class Host:
    """`windlass serve` in a folder of its own, with default settings but for `settings`."""

    def __init__(self, binary, place, settings, limit, echo_port, store=None):
        self.store = store or str(Path(place) / "windlass.db")
        self.binary, self.place, self.port = str(binary), Path(place), free_port()
        self.plugins = self.place / "plugins"
        self.log = self.place / "log"
        for folder in ("home/.config/windlass", "plugins", "workflows"):
            (self.place / folder).mkdir(parents=True, exist_ok=True)
        echo = f"http://127.0.0.1:{echo_port}"
        # The user's own file: a project's file would have to be trusted first.
        (self.place / "home/.config/windlass/config.toml").write_text(
            f'[plugins.grants.http]\nhttp = ["{echo}"]\nsecrets = ["k"]\n'
            f'[secrets]\nk = {{ env = "SOAK_SECRET", to = ["{echo}"] }}\nhook = {{ env = "SOAK_SECRET", workflows = ["signed"] }}\n'
        )
        self.settings = {
            "server.listen": f"127.0.0.1:{self.port}",
            "plugins.directory": self.plugins,
            "plugins.cache": self.place / "cache",
            "definitions.directory": self.place / "workflows",
            **settings,
        }
        self.group, self.limited_by = None, "no limit"
        if limit:
            try:
                self.group = Group(limit)
                self.limited_by = self.group.what
            except OSError:
                self.limited_by = f"RssAnon of the process tree, {limit // MIB} MiB, read each 100 ms"
        self.environment = {
            "HOME": str(self.place / "home"),
            "PATH": os.environ.get("PATH", ""),
            "SOAK_SECRET": SECRET,
        }
        kill_at = limit if limit and not self.group else 0
        self.process = subprocess.Popen(
            self.command("serve"),
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(self.log, "wb"),
            preexec_fn=self.group.enter if self.group else None,
        )
        self.memory = Memory(self.process.pid, 0.1, kill_at)
        self.memory.start()
        self.wait_until_ready()

    def command(self, *words):
        flags = [f"--set={key}={value}" for key, value in self.settings.items()]
        return [self.binary, *words, *flags, "--store", self.store]

    def wait_until_ready(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise SystemExit(f"the host ended: {self.log.read_text()[-2000:]}")
            try:
                if Client(self.port, timeout=2).call("GET", "/readyz")[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        raise SystemExit(f"the host is not ready after a minute: {self.log.read_text()[-2000:]}")

    def lives(self):
        return self.process.poll() is None

    def metrics(self):
        """The gauges and counters without labels, by name."""
        try:
            text = Client(self.port, timeout=5).call("GET", "/metrics", raw=True)[1].decode()
        except (OSError, http.client.HTTPException):
            return {}
        lines = (line.split() for line in text.splitlines() if line.startswith("windlass_"))
        return {line[0]: float(line[1]) for line in lines if len(line) == 2}

    def stop(self, bound):
        """Sends SIGTERM. Returns the seconds until the process has ended, or None after `bound`."""
        began = time.monotonic()
        if self.lives():
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(bound)
            took = time.monotonic() - began
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            took = None
        if self.group:
            self.group.remove()
        return took

    def check(self):
        """The exit code of `windlass store check`, and the end of what it says."""
        done = subprocess.run(
            self.command("store", "check"),
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout.decode(errors="replace")[-1500:]


class Client:
    """Requests of JSON to the host, one after another on one connection."""

    def __init__(self, port, timeout=90):
        self.port, self.timeout, self.connection = port, timeout, None

    def call(self, method, path, body=None, headers=None, raw=False):
        """The status, the body and the headers of the answer."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        # The host may have closed an idle connection: then a new one is tried.
        for again in [self.connection is not None, False]:
            if self.connection is None:
                self.connect()
            try:
                return self.once(method, path, body, headers, raw)
            except (http.client.HTTPException, OSError) as error:
                self.close()
                broken = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
                if not again or not isinstance(error, broken):
                    raise

    def once(self, method, path, body, headers, raw):
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        found = {name.lower(): value for name, value in answer.getheaders()}
        if not raw:
            try:
                content = json.loads(content) if content else None
            except ValueError:
                content = content.decode(errors="replace")
        return answer.status, content, found

    def connect(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


def code_of(content):
    """The code of a problem or of a failure."""
    return content.get("code", "-") if isinstance(content, dict) else "-"


def bomb(size):
    """A body of JSON that inflates to so many bytes."""
    return gzip.compress(b'{"workflow":"ordinary","input":"' + b"a" * size + b'"}', 6)
