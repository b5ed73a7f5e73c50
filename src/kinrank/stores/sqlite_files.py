"""A database of SQLite -> a connection that has sqlite-vec.

There are two libraries: the sqlite3 of Python, which cannot load extensions everywhere, and apsw, which brings its own
SQLite. An extension remembers the SQLite that loaded it last, so one that both load ends the process, and copies of its
file do so, too. Therefore a process keeps to one of the two.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

from kinrank.deferred import needed

NEEDS = "SqliteVecStore", "sqlite-vec"
OLDEST = (0, 1, 7)  # before, one zero or NaN vector hid a thousand others
VERSION = "SELECT vec_version()"
loaded: set[str] = set()  # the library that has sqlite-vec, as far as stores know


def connections() -> tuple[type[Any], ...]:
    """The classes of connections that this process knows."""
    apsw = sys.modules.get("apsw")
    return (sqlite3.Connection, apsw.Connection) if apsw else (sqlite3.Connection,)


def errors() -> tuple[type[Exception], ...]:
    """The classes of their errors."""
    apsw = sys.modules.get("apsw")
    return (sqlite3.Error, apsw.Error) if apsw else (sqlite3.Error,)


def opened(path: str) -> Any:
    """A connection that cannot write, of sqlite3 if this Python's can load extensions, else of apsw."""
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}")
    able = hasattr(sqlite3.Connection, "enable_load_extension")
    if able and not loaded and "apsw" in sys.modules:
        raise ValueError("this program uses apsw and has a sqlite3 that can load extensions, and only one of them may "
                         "load sqlite-vec; give a connection instead of a path")  # fmt: skip
    if able and "apsw" not in loaded:
        connection: Any = sqlite3.connect(
            f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
        )
    else:
        apsw = needed("apsw", *NEEDS)
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(5000)
    try:
        cursor_of(connection).execute("PRAGMA cache_size = -64000")  # vec0 keeps 1024 vectors together
        extended(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def extended(connection: Any) -> None:
    """Let a connection have sqlite-vec, in a version that finds all that is there."""
    library = "sqlite3" if isinstance(connection, sqlite3.Connection) else "apsw"
    if loaded - {library}:
        raise ValueError(f"sqlite-vec is in use with {' '.join(loaded)}, and would end the process with {library}; "
                         "give a connection of the same kind, or a path")  # fmt: skip
    try:
        found = list(cursor_of(connection).execute(VERSION))
    except errors() as error:
        if "no such function" not in str(error):
            raise
        if not hasattr(connection, "enable_load_extension"):
            raise ValueError("the sqlite3 of this Python cannot load extensions; give the path of the database, or a "
                             "connection of apsw") from None  # fmt: skip
        connection.enable_load_extension(True)
        try:
            connection.load_extension(needed("sqlite_vec", *NEEDS).loadable_path())
        finally:
            connection.enable_load_extension(False)
        found = list(cursor_of(connection).execute(VERSION))
    if tuple(map(int, re.findall(r"\d+", str(found[0][0]))[:3])) < OLDEST:
        raise ValueError(f"sqlite-vec {found[0][0]} is too old; install 0.1.7 or newer")
    loaded.add(library)


def cursor_of(connection: Any) -> Any:
    """A cursor that gives rows as tuples, whatever else users let their connection give."""
    cursor = connection.cursor()
    if isinstance(cursor, sqlite3.Cursor):
        cursor.row_factory = None
    return cursor
