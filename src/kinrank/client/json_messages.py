"""JSON of requests and responses: encoding of what users give, and results or errors from what the service returns."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from kinrank.errors import InputError
from kinrank.methods import Method
from kinrank.ranking import Ranking
from kinrank.stores.base import QueryHits, ranking_from_lists, to_id_array
from kinrank.vector_input import Vectors

ImageSource = str | os.PathLike[str] | bytes | bytearray | memoryview  # a picture: path or bytes

RETRY_STATUSES = (429, 503)  # temporarily unavailable
FORBIDDEN_STATUSES = (401, 403)
TOO_LARGE_STATUS = 413
OUTCOME_UNKNOWN = (
    "; it is unknown whether the change was made: check with client.get or len(client) before you send it again"
)


def encode_body(**fields: Any) -> bytes:
    """Return a JSON object of the fields that are not None; float32 arrays as rows of numbers, or as one row.

    Example:
        >>> encode_body(vectors=np.float32([[0.1, 2.0]]), k=10, depth=None)
        b'{"vectors":[[0.100000001,2]],"k":10}'
    """
    texts = [f'"{name}":{_encode_value(name, value)}' for name, value in fields.items() if value is not None]
    return ("{" + ",".join(texts) + "}").encode()


def _encode_value(name: str, value: Any) -> str:
    """Return the JSON of a field."""
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return _encode_rows(value) if value.ndim == 2 else _encode_rows(value[None, :])[1:-1]
    try:
        return json.dumps(value, default=_to_json_value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"cannot be sent as JSON: {error}", parameter=name) from None


def _encode_rows(rows: Vectors) -> str:
    """Encode rows with nine digits, which distinguish all float32.

    This takes two thirds of the bytes and a third of the time of `json.dumps`.
    """
    template = "[" + ",".join(["%.9g"] * rows.shape[1]) + "]"
    return "[" + ",".join([template % tuple(row) for row in rows.tolist()]) + "]"


def _to_json_value(value: Any) -> Any:
    """Convert numpy values and UUIDs to JSON values."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{value!r:.80} is a {type(value).__name__}; give texts, numbers, and lists of these")


def check_texts(texts: Sequence[str]) -> list[str]:
    """Return a list of texts; refuse a single text, which would be a list of letters."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError(parameter="texts", given=texts, allowed="a list of texts, such as ['a dog on a beach']")
    return list(texts)


def encode_images(images: Sequence[ImageSource]) -> list[str]:
    """Return pictures, given as paths or bytes, in base64."""
    if isinstance(images, (str, bytes, bytearray, memoryview, os.PathLike)):
        raise InputError("is not a list", parameter="images", allowed="a list of paths or bytes, also for one picture")
    return [base64.b64encode(_read_image(image)).decode("ascii") for image in images]


def _read_image(image: ImageSource) -> bytes:
    """Return the bytes of a picture."""
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if not isinstance(image, (str, os.PathLike)):
        raise InputError(
            f"contains a {type(image).__name__}", parameter="images", allowed="paths of files, or their bytes"
        )
    return Path(image).read_bytes()


def encode_filter(where: Any) -> Any:
    """Return a filter that can be sent: ids or a mapping. A mask would need the order of the items."""
    if where is None or isinstance(where, Mapping):
        return where
    entries = where.tolist() if isinstance(where, np.ndarray) else list(where)
    if any(isinstance(entry, (bool, np.bool_)) for entry in entries):
        raise InputError(
            "is a mask, but only the service knows the order of its items", parameter="where", allowed="a list of ids"
        )
    return entries


def encode_method(method: Method | str | None, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return method and parameters in the form of the service; a Method has its own parameters."""
    if not isinstance(method, Method):
        return {"method": method, "parameters": None if parameters is None else dict(parameters)}
    if parameters is not None:
        raise InputError(
            f"requires the name of a method, but {method!r:.80} has its own",
            parameter="parameters",
            remedy="leave it out",
        )
    return {"method": method.name, "parameters": asdict(method)}


def parse_ranking(answer: dict[str, Any], width: int) -> Ranking:
    """Convert the response of `POST /v1/search` to a ranking, padded to `width`."""
    nothing = np.empty((0, 0), np.float32)
    rows = zip(answer["ids"], answer["distances"], strict=True)
    lists = [QueryHits(to_id_array(ids), np.array(distances, np.float32), nothing) for ids, distances in rows]
    meta = {name: value for name, value in answer.items() if name not in ("ids", "distances", "query_ids")}
    query_ids = answer.get("query_ids")
    # an item can be a query twice: rows then have numbers
    different = query_ids is not None and len(set(query_ids)) == len(query_ids)
    return ranking_from_lists(lists, meta, width).with_ids(query_ids=query_ids if different else None)


class ServiceBusyError(ConnectionError):
    """The service was overloaded or unavailable at every attempt."""


class Response(NamedTuple):
    """A response of the service.

    Attributes:
        status: HTTP status.
        after: seconds to wait before the next attempt; None if not given.
        kind: content type, such as application/json.
        content: the body.
    """

    status: int
    after: float | None
    kind: str
    content: bytes


class Receipt(NamedTuple):
    """A change that the service acknowledged; it survives the death of the process.

    Attributes:
        version: version of the gallery that includes the change.
        added, replaced, removed: numbers of items.
        items: number of items afterwards.
        ids: ids of the added or replaced items; None for other changes.
        observed: number of queries accepted for observation; near-copies among them are left out later.
    """

    version: int
    added: int
    replaced: int
    removed: int
    items: int
    ids: list[Any] | None = None
    observed: int = 0


class ScoredVector(NamedTuple):
    """A re-ranked vector: its position among those sent, and its score; larger is better."""

    place: int
    score: float


def parse_response(answer: Response, address: str, again: bool) -> dict[str, Any]:
    """Return the JSON of a successful response.

    Raises a PermissionError, InputError, ServiceBusyError or ConnectionError for other responses.

    Args:
        answer: the response.
        address: URL of the service, for messages.
        again: True if repeating the request is harmless; the outcome of others may be unknown.
    """
    status, result = answer.status, _parse_object(answer.content)
    if result is not None and status < 300:
        return result
    words, doubt = _read_detail(answer, result, address), "" if again else OUTCOME_UNKNOWN
    if 300 <= status < 400:
        raise ConnectionError(f"{address} redirects to another URL (status {status}); give that URL")
    if status in FORBIDDEN_STATUSES:
        raise PermissionError(words)
    if status in RETRY_STATUSES:
        raise ServiceBusyError(words if answer.after is not None else words + doubt)
    if 400 <= status < 500 and (result is not None or status == TOO_LARGE_STATUS):
        raise InputError(words)
    if result is None and status not in (502, 504):
        raise ConnectionError(
            f"the server at {address} is not a kinrank service: status {status}, {answer.kind}; check the URL"
        )
    raise ConnectionError(f"{address} failed (status {status}): {words}{doubt}")


def _parse_object(content: bytes) -> dict[str, Any] | None:
    """Return the JSON object in the content; None if it is not one."""
    try:
        result = json.loads(content)
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _read_detail(answer: Response, result: dict[str, Any] | None, address: str) -> str:
    """Return the message of the service; without one, say that a server in between answered instead."""
    if result is None:
        return f"a server between here and {address} responded with status {answer.status} and without a reason"
    detail = result.get("detail")
    return (
        detail if isinstance(detail, str) else f"the service refused this with status {answer.status}: {detail!r:.500}"
    )
