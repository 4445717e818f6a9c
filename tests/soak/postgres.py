"""A PostgreSQL server of its own, with the programs of Debian."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from host import free_port


class PostgreSql:
    """A server in a temporary folder with one empty database. It flushes as it does by default."""

    def __init__(self):
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        if not versions:
            raise SystemExit("PostgreSQL is missing: apt-get install postgresql")
        self.programs, self.port = versions[-1], free_port()
        self.place = tempfile.mkdtemp(prefix="windlass-postgres-")
        # The server refuses to run for root.
        self.prefix = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self.prefix:
            shutil.chown(self.place, "postgres")
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "windlass", "--no-instructions")
        self.start()
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "windlass", "windlass")
        self.url = f"postgres://windlass@127.0.0.1:{self.port}/windlass"

    @property
    def data(self):
        return f"{self.place}/data"

    def run(self, program, *words):
        command = [*self.prefix, str(self.programs / program), *words]
        subprocess.run(command, cwd="/", check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def start(self):
        settings = f"-p {self.port} -k {self.place} -c listen_addresses=127.0.0.1 -c max_connections=200"
        self.run("pg_ctl", "-D", self.data, "-l", f"{self.place}/log", "-w", "-o", settings, "start")

    def stop(self, mode="fast"):
        self.run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def remove(self):
        self.stop("immediate")
        shutil.rmtree(self.place, ignore_errors=True)
