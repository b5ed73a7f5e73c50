"""The URL of a store -> its parts, with the password kept out of everything that is printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

HIDDEN = ("password", "secret", "token", "key")  # options whose names end so are never printed, but for `key` itself


@dataclass(frozen=True)
class Address:
    """Where a store is.

    Attributes:
        scheme: the engine, such as "qdrant".
        host, port, user, password: of a server; None where there is none.
        path: what stands behind the server, without its first slash for a server and as it is for a file or folder.
        fragment: what stands behind #: a table or collection in a folder.
        options: what stands behind ?, name by name.
    """

    scheme: str
    host: str | None
    port: int | None
    user: str | None
    password: str | None = field(repr=False)
    path: str
    fragment: str
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Address:
        """The parts of a URL such as postgresql://me@host:5432/db?table=items, lancedb:///folder#table or faiss:file.

        Three slashes and a path are that path from the root; `scheme:path` is a path from here.
        """
        if not isinstance(url, str) or ":" not in url:
            raise ValueError(f"a store is given by a URL, such as qdrant://localhost:6333/collection; got {url!r:.80}")
        scheme, rest = url.split(":", 1)
        try:
            parts = urlsplit(f"store:{rest}")  # the same rules for all schemes
            port = parts.port
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:  # what it says may hold a part of the password
            raise ValueError(
                f"the URL of the store, {scheme}:..., cannot be read; write signs such as @ : / and % in a password by "
                "their codes (%40 for @), a port as a number, and options as name=value"
            ) from None
        options = dict(pairs)
        if len(options) < len(pairs):
            raise ValueError(f"the URL of the store, {scheme}:..., gives an option twice; give each once")
        server = parts.netloc != ""
        path = unquote(parts.path)
        return cls(
            scheme, parts.hostname if server else None, port, _plain(parts.username), _plain(parts.password),
            path.removeprefix("/") if server else path, unquote(parts.fragment), options,
        )  # fmt: skip

    def __str__(self) -> str:
        """The address as it may be printed: without password and other secrets."""
        port = f":{self.port}" if self.port else ""
        server = "" if self.host is None else f"//{self.host}{port}/"
        open_ones = {name: value for name, value in self.options.items() if not _secret(name)}
        shown = "&".join(f"{name}={quote(value, safe='/')}" for name, value in open_ones.items())
        options, fragment = f"?{shown}" if shown else "", f"#{self.fragment}" if self.fragment else ""
        return f"{self.scheme}:{server}{self.path}{options}{fragment}"

    def only(self, *allowed: str) -> dict[str, str]:
        """The options, if all of them are among those allowed."""
        unknown = [name for name in self.options if name not in allowed]
        if unknown:
            raise ValueError(f"{self.scheme}: has no option {unknown[0]!r}; it has {', '.join(allowed)}")
        return dict(self.options)

    def needed(self, name: str, where: str) -> str:
        """The path, the fragment or an option that cannot be left out; `where` shows how it is written."""
        value = {"path": self.path, "fragment": self.fragment}.get(name) or self.options.get(name)
        if not value:
            raise ValueError(f"{self.scheme}: needs {where}")
        return value


def seconds(options: Mapping[str, str], default: float | None) -> float | None:
    """The option `timeout` as a number."""
    return default if "timeout" not in options else number(options["timeout"], "timeout")


def number(text: Any, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise ValueError(f"{name}={text!r} is not allowed; give a number of seconds above 0")
    return value


def _plain(text: str | None) -> str | None:
    return None if text is None else unquote(text)


def _secret(option: str) -> bool:
    return option != "key" and option.endswith(HIDDEN)
