"""Settings of a service: gallery, files, tokens and limits, as plain values that each worker gets as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kinrank.errors import InputError

MIN_TOKEN_CHARACTERS = 8  # of the secret of a token


@dataclass(frozen=True)
class Limits:
    """Limits of a request; anything beyond is refused with a message.

    Attributes:
        body: bytes of a request.
        k: results per query.
        queries: vectors of one search.
        items: items that one request adds or removes.
        candidates: vectors that one request re-ranks, also with a method other than the prepared one.
        seconds: time per request, including waiting. A re-ranking whose estimated time on one core is more than a third
            of it is refused.
        waiting: requests per worker that run or wait; more are answered 503.
        threads: concurrent searches of the prepared gallery per worker.
        rerank_waiting: as `waiting`, for requests with a method, parameters or candidates of their own.
        rerank_threads: as `threads`, for those requests.
        grace: seconds for requests to finish when the service ends.
        header_bytes: bytes of a request header.
        header_seconds: time until a request header is complete.
        connections: open connections per worker.
    """

    body: int = 16 * 2**20
    k: int = 1000
    queries: int = 256
    items: int = 10_000
    candidates: int = 2_000
    seconds: float = 30.0
    waiting: int = 128
    threads: int = 2
    rerank_waiting: int = 32
    rerank_threads: int = 2
    grace: int = 10
    header_bytes: int = 16 * 2**10
    header_seconds: float = 10.0
    connections: int = 1000

    @property
    def rerank_seconds(self) -> float:
        """Largest estimated time on one core for the re-ranking of one request."""
        return self.seconds / 3

    def check(self, k: int, depth: int | None = None, candidates: int | None = None) -> None:
        """Raise an InputError if a value of a search is beyond its limit or less than one."""
        limits = (("k", k, self.k), ("depth", depth, self.k), ("candidates", candidates, self.candidates))
        for name, value, limit in limits:
            if value is not None and not 1 <= value <= limit:
                raise InputError(parameter=name, given=value, allowed=f"a whole number from 1 to {limit}")


@dataclass(frozen=True)
class Files:
    """Paths of files to show with the vectors, in plain formats, see `collection`.

    Attributes:
        images: folder or zip of pictures.
        texts: one line per item.
        labels: one per item.
        truth: right items of each query.
        queries: vectors of queries to choose from on the page.
        query_names: one name per query, one per line; its picture is the one with that name.
        query_labels: one label per query.
        ids: JSON list of the ids for which texts, labels and truth were written, in their order; by default those of
            the gallery when the service starts.
    """

    images: str | None = None
    texts: str | None = None
    labels: str | None = None
    truth: str | None = None
    queries: str | None = None
    query_names: str | None = None
    query_labels: str | None = None
    ids: str | None = None


@dataclass(frozen=True)
class Settings:
    """Everything that a worker needs to know.

    Attributes:
        manifold: folder of the prepared gallery.
        writable: True if items can be added and removed; False for a gallery built for this run only.
        title: heading of the page.
        store: URL of the vector database to search; None for the vectors in the folder.
        encoder: encoder of pictures or texts, as written by `kinrank.encoders.registry.Recipe.to_dict`, or only its
            name; None for none.
        follows: True if the gallery was made of a folder of pictures or texts, which a ledger records.
        files: files to show with the vectors.
        read_tokens, write_tokens: tokens that allow reading, and also writing; if empty, everyone on this machine may.
        host, port: address to listen at.
        workers: number of processes that answer.
        scratch: folder for counters and the socket of the writer, deleted when the service ends.
        cache: folder for thumbnails, which is kept; in `scratch` by default.
        limits: see `Limits`.
    """

    manifold: str
    writable: bool = False
    title: str = "kinrank"
    store: str | None = None
    encoder: dict[str, Any] | str | None = None
    follows: bool = False
    files: Files = field(default_factory=Files)
    read_tokens: tuple[str, ...] = ()
    write_tokens: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    scratch: str = ""
    cache: str = ""
    limits: Limits = field(default_factory=Limits)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        values: dict[str, Any] = json.loads(text)
        for name, kind in (("files", Files), ("limits", Limits)):
            values[name] = kind(**values[name])
        for name in ("read_tokens", "write_tokens"):
            values[name] = tuple(values[name])
        return cls(**{one.name: values[one.name] for one in fields(cls)})


def parse_tokens(given: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the secrets for reading and for writing, from words such as read:SECRET, or else from KINRANK_TOKENS."""
    words = given or [word for word in os.environ.get("KINRANK_TOKENS", "").split(",") if word]
    secrets: dict[str, list[str]] = {"read": [], "write": []}
    for word in words:
        role, colon, secret = word.strip().partition(":")
        if not colon or role not in secrets:
            raise InputError("must be read:SECRET or write:SECRET", parameter="token", remedy="add read: or write:")
        is_plain = secret.isascii() and secret.isprintable() and not set(" ;") & set(secret)
        if len(secret) < MIN_TOKEN_CHARACTERS or not is_plain:
            raise InputError(
                f"needs a secret of at least {MIN_TOKEN_CHARACTERS} letters and digits, without blanks",
                parameter="token",
                remedy="make one with: openssl rand -hex 16",
            )
        secrets[role].append(secret)
    return tuple(secrets["read"]), tuple(secrets["write"])
