"""StoreUrl: the URL of a vector database, written in the same way for every engine; `open_store`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from kinrank.errors import InputError, MissingExtraError
from kinrank.stores.base import Store

if TYPE_CHECKING:
    from kinrank.stores.engine import EngineStore


class EngineEntry(NamedTuple):
    """Module and class of the store of an engine. The class holds examples of its URL."""

    module: str
    name: str

    def load(self) -> type[EngineStore]:
        """Import the class. The package of the engine is imported when a store is opened."""
        kind: type[EngineStore] = getattr(importlib.import_module(f"kinrank.stores.{self.module}"), self.name)
        return kind

    def examples(self) -> str:
        """Return complete URLs of the engine, for messages."""
        return " or ".join(self.load().url_examples)


ENGINES = {
    "postgresql": EngineEntry("pgvector", "PgvectorStore"),
    "qdrant": EngineEntry("qdrant", "QdrantStore"),
    "lancedb": EngineEntry("lancedb", "LanceDBStore"),
    "chroma": EngineEntry("chroma", "ChromaStore"),
    "duckdb": EngineEntry("duckdb", "DuckDBStore"),
    "sqlite": EngineEntry("sqlite_vec", "SqliteVecStore"),
    "faiss": EngineEntry("faiss", "FaissIndexStore"),
    "usearch": EngineEntry("usearch", "UsearchStore"),
}
SCHEME_ALIASES = {"postgres": "postgresql"}
OPTION_ALIASES = {"collection": "table", "embedding": "vector", "id": "key"}  # of every engine
# Options whose names end like this are never printed, except `key`
SECRET_SUFFIXES = ("password", "secret", "token", "key")


@dataclass(frozen=True)
class StoreUrl:
    """The parts of a store URL.

    Attributes:
        scheme: name of the engine, such as "qdrant".
        host, port, user, password: of a server; None for a file or folder.
        path: the part after the server, without its first slash; the path itself for a file or folder.
        options: the parameters after "?", by name. `table` is the table or collection, `vector` and `key` are the
            columns of vectors and ids. "#name" and the other names of OPTION_ALIASES mean the same.
    """

    scheme: str
    host: str | None
    port: int | None
    user: str | None
    password: str | None = field(repr=False)
    path: str
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> StoreUrl:
        """Parse a URL such as postgresql://me@host:5432/db?table=items, lancedb:///folder?table=items or faiss:file.

        Three slashes start an absolute path; `scheme:path` is a relative path.
        """
        if not isinstance(url, str) or ":" not in url:
            raise InputError(f"{url!r:.80} is not a store URL", allowed=f"one such as {_list_examples()}")
        scheme, rest = url.split(":", 1)
        try:
            parts = urlsplit(f"store:{rest}")  # the same rules for all schemes
            port = parts.port
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:  # its message may contain a part of the password
            raise InputError(
                f"the store URL {scheme}:... cannot be parsed",
                remedy="write characters such as @ : / and % in a password as percent codes (%40 for @), the port as a "
                "number, and options as name=value",
            ) from None
        if len(dict(pairs)) < len(pairs):
            raise InputError(f"the store URL {scheme}:... contains an option twice", remedy="give each option once")
        server = parts.netloc != ""
        path = unquote(parts.path)
        parsed = cls(
            scheme,
            parts.hostname if server else None,
            port,
            parts.username and unquote(parts.username),
            parts.password and unquote(parts.password),
            path.removeprefix("/") if server else path,
            {},
        )
        for name, value in pairs:
            parsed = parsed.add_option(name, value, f"{name}=")
        return parsed.add_option("table", unquote(parts.fragment), "#") if parts.fragment else parsed

    def __str__(self) -> str:
        """Return the URL without password and other secrets, for messages."""
        port = f":{self.port}" if self.port else ""
        server = "" if self.host is None else f"//{self.host}{port}/"
        printable = {name: value for name, value in self.options.items() if not _is_secret(name)}
        shown = "&".join(f"{name}={quote(value, safe='/')}" for name, value in printable.items())
        return f"{self.scheme}:{server}{self.path}{f'?{shown}' if shown else ''}"

    def add_option(self, name: str, value: str, spelling: str) -> StoreUrl:
        """Return the URL with an option under its usual name. Raise InputError if it contradicts another option."""
        usual = OPTION_ALIASES.get(name, name)
        if self.options.get(usual, value) != value:
            other = f"`{usual}={self.options[usual]}`"
            raise InputError(f"the store URL {self.scheme}:... has {other} and {spelling}{value}", remedy="give one")
        return replace(self, options={**self.options, usual: value})

    def take_table_from_path(self) -> StoreUrl:
        """Return scheme://host/name as scheme://host?table=name, for servers without databases."""
        if self.host is None or not self.path:
            return self
        return replace(self.add_option("table", self.path, "/"), path="")

    def check_options(self, *allowed: str, fixed: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the options. Raise InputError if one is not among those allowed.

        `fixed`: options that an engine accepts with one value only, because it gives no choice; they are left out.
        """
        fixed = fixed or {}
        unknown = [name for name in self.options if name not in (*allowed, *fixed)]
        if unknown:
            raise InputError(f"{self.scheme}: has no option {unknown[0]!r}", allowed=", ".join(allowed))
        for name, value in fixed.items():
            if self.options.get(name, value) != value:
                raise InputError(
                    f"is not possible: with {self.scheme}: it is always {value!r}",
                    parameter=name,
                    given=self.options[name],
                    remedy="leave it out",
                )
        return {name: value for name, value in self.options.items() if name not in fixed}

    def require(self, name: str, where: str) -> str:
        """Return the path or an option. Raise InputError if it is missing; `where` describes it."""
        value = self.path if name == "path" else self.options.get(name)
        if not value:
            raise InputError(f"{self.scheme}: needs {where}")
        return value

    def require_table(self) -> str:
        """Return the name of the table or collection."""
        return self.require("table", "the name of a table or collection, as in ?table=items")


def parse_timeout(given: Any) -> float | None:
    """Return the parameter `timeout` in seconds, from a number or a text; None for no limit."""
    if given is None:
        return None
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise InputError(parameter="timeout", given=given, allowed="a number of seconds > 0")
    return value


def _is_secret(option: str) -> bool:
    return option != "key" and option.endswith(SECRET_SUFFIXES)


def _list_examples() -> str:
    return ", ".join(engine.load().url_examples[0] for engine in ENGINES.values())


def open_store(url: str) -> Store:
    """Open the store at a URL. Close a database store after use, or use it in a `with` block.

    Args:
        url: the scheme selects the engine; `table`, `vector` and `key` name the table or collection and its columns of
            vectors and ids. A password can be part of the URL or set in the environment variable that the tools of
            the engine read, such as PGPASSWORD. It is never printed.

    Example:
        >>> with kinrank.open_store("postgresql://me@localhost/shop?table=items&vector=embedding&key=id") as store:
        ...     ranking = kinrank.rerank(queries, store)
    """
    scheme = url.split(":", 1)[0] if isinstance(url, str) else ""
    engine = ENGINES.get(SCHEME_ALIASES.get(scheme, scheme))
    if engine is None:
        StoreUrl.parse(url)
        raise InputError(f"{scheme!r} is not a supported engine", allowed=f"a URL such as {_list_examples()}")
    try:
        return engine.load().from_url(StoreUrl.parse(url))
    except InputError as error:
        raise error.advise(f"a complete URL: {engine.examples()}") from error
    except (MissingExtraError, ConnectionError, TimeoutError) as error:
        raise type(error)(f"{error}; a complete URL: {engine.examples()}") from error
