"""What a service answered -> the JSON of a good answer, or the error that it means, with its sentence."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

LATER = (429, 503)  # answers that mean: not now
FORBIDDEN = (401, 403)
TOO_LARGE = 413
UNKNOWN = "; whether the change was made is not known: look with client.get or len(client) before you send it again"


class Busy(ConnectionError):
    """The service has too much to do, or cannot do this now, and said so each time it was asked."""


class Answer(NamedTuple):
    """What came back.

    Attributes:
        status: of HTTP.
        after: seconds to wait before asking again; None where that was not said.
        kind: of the content, such as application/json.
        content: the body.
    """

    status: int
    after: float | None
    kind: str
    content: bytes


class Receipt(NamedTuple):
    """A change that the service has acknowledged: it survives whatever happens to the process.

    Attributes:
        version: the state of the gallery that has it.
        added, replaced, removed: how many items.
        items: how many there are now.
        ids: the names of what was added or replaced; None after others.
        observed: how many queries were taken in to be remembered; near-copies among them are left out later.
    """

    version: int
    added: int
    replaced: int
    removed: int
    items: int
    ids: list[Any] | None = None
    observed: int = 0


class Scored(NamedTuple):
    """One of the vectors that were re-ranked: its place among those sent, and a score, larger for better ones."""

    place: int
    score: float


def judged(answer: Answer, address: str, again: bool) -> dict[str, Any]:
    """The JSON of a good answer; PermissionError, ValueError, Busy or ConnectionError for the others.

    Args:
        address: of the service, for the sentence.
        again: whether the request does no harm twice; of others the outcome may be unknown.
    """
    status, found = answer.status, _object(answer.content)
    if found is not None and status < 300:
        return found
    words, doubt = _words(answer, found, address), "" if again else UNKNOWN
    if 300 <= status < 400:
        raise ConnectionError(f"{address} leads elsewhere (status {status}); give the url it leads to")
    if status in FORBIDDEN:
        raise PermissionError(words)
    if status in LATER:
        raise Busy(words if answer.after is not None else words + doubt)
    if 400 <= status < 500 and (found is not None or status == TOO_LARGE):
        raise ValueError(words)
    if found is None and status not in (502, 504):
        raise ConnectionError(
            f"what answers at {address} is no kinrank service: status {status}, {answer.kind}; check the url"
        )
    raise ConnectionError(f"{address} failed (status {status}): {words}{doubt}")


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _words(answer: Answer, found: dict[str, Any] | None, address: str) -> str:
    """The sentence of the service; or that there is none, because a server in between answered instead."""
    if found is None:
        return f"a server between here and {address} answered, with status {answer.status} and no reason"
    said = found.get("detail")
    return said if isinstance(said, str) else f"the service refused this with status {answer.status}: {said!r:.500}"
