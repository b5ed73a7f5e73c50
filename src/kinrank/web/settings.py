"""What one service serves, to whom, and within which limits: plain values that every worker is given as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Limits:
    """What a request may ask for; anything beyond is refused with a sentence.

    Attributes:
        body: bytes of a request.
        k: results per query.
        queries: vectors of one search.
        items: items that one request adds or removes.
        candidates: vectors that one request re-ranks, also where a method other than the prepared one is asked for.
        seconds: time per request, waiting included. A re-ranking whose estimated time on one core is more than a third
            of it is refused.
        waiting: requests that are computed or wait, per worker; more are answered 503.
        threads: searches of the prepared gallery that are computed at the same time, per worker.
        rerank_waiting: the same as `waiting` for requests with a method, parameters or candidates of their own.
        rerank_threads: the same as `threads` for those requests.
        grace: seconds that requests get to finish when the service ends.
        header_bytes: of a request's head.
        header_seconds: until the head of a request is complete.
        connections: open at the same time, per worker.
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
        """The most seconds that one core may need for the re-ranking of one request, as far as can be estimated."""
        return self.seconds / 3

    def check(self, k: int, depth: int | None = None, candidates: int | None = None) -> None:
        """A ValueError if a search asks for more than is allowed, or for less than one."""
        asked = (("k", k, self.k), ("depth", depth, self.k), ("candidates", candidates, self.candidates))
        for name, value, most in asked:
            if value is not None and not 1 <= value <= most:
                raise ValueError(f"{name}={value} is not allowed; give a whole number from 1 to {most}")


@dataclass(frozen=True)
class Files:
    """What is shown beside the vectors: paths of files in plain formats, see `collection`.

    Attributes:
        images: a folder or a zip of pictures.
        texts: one line per item.
        labels: one per item.
        truth: what is right for each of the queries.
        queries: vectors of queries that can be picked on the page.
        query_names: one name per query, one per line; its picture is the one of that name.
        query_labels: one label per query.
        ids: a JSON list of the ids that texts, labels and truth were written for, in their order; without, they are
            those that the gallery has when the service starts.
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
    """Everything a worker must know.

    Attributes:
        manifold: the folder of the prepared gallery.
        writable: whether items can be added and removed; not where the gallery was built for this run only.
        title: what the page is headed with.
        store: the URL of the vector database that is searched; None for the vectors in the folder.
        encoder: what makes vectors of pictures or texts, as `kinrank.encoders.registry.Recipe.to_dict` writes it down,
            or its name alone; None where there is none.
        follows: whether it was made of a folder of pictures or texts, of which a ledger keeps account.
        files: what is shown beside the vectors.
        read_tokens, write_tokens: who may read, and who may also write; empty: everybody on this machine.
        host, port: where it listens.
        workers: how many processes answer.
        scratch: a folder for counters and the socket of the writer; gone when the service ends.
        cache: a folder for thumbnails, which stays; in `scratch` unless given.
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
        given: dict[str, Any] = json.loads(text)
        for name, kind in (("files", Files), ("limits", Limits)):
            given[name] = kind(**given[name])
        for name in ("read_tokens", "write_tokens"):
            given[name] = tuple(given[name])
        return cls(**{one.name: given[one.name] for one in fields(cls)})
