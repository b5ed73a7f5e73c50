"""A database of SQLite -> a connection that has sqlite-vec."""

from __future__ import annotations

import re
import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from kinrank.stores.needs import needed

NEEDS = "SqliteVecStore", "sqlite-vec"
OLDEST = (0, 1, 7)  # before, one zero or NaN vector hid a thousand others
VERSION = "SELECT vec_version()"


class Kinds(NamedTuple):
    """The classes of connections and of errors, of sqlite3 and of apsw where that is installed."""

    connections: tuple[type[Any], ...]
    errors: tuple[type[Exception], ...]

    @classmethod
    def there(cls) -> Kinds:
        if not find_spec("apsw"):
            return cls((sqlite3.Connection,), (sqlite3.Error,))
        apsw = needed("apsw", *NEEDS)
        return cls((sqlite3.Connection, apsw.Connection), (sqlite3.Error, apsw.Error))


def opened(path: str) -> Any:
    """A connection that cannot write, of sqlite3 if this Python's can load extensions, else of apsw."""
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}")
    if hasattr(sqlite3.Connection, "enable_load_extension"):
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
    try:
        found = list(cursor_of(connection).execute(VERSION))
    except Kinds.there().errors as error:
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


def cursor_of(connection: Any) -> Any:
    """A cursor that gives rows as tuples, whatever else users let their connection give."""
    cursor = connection.cursor()
    if isinstance(cursor, sqlite3.Cursor):
        cursor.row_factory = None
    return cursor
