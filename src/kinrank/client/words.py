"""What users give -> JSON; JSON that the service answers -> a Ranking."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from kinrank.features import Vectors
from kinrank.methods import Method
from kinrank.ranking import Ranking
from kinrank.stores.ids import named, names_of
from kinrank.stores.ordered import Listed

File = str | os.PathLike[str] | bytes | bytearray | memoryview  # of a picture: where it is, or what is in it


def body(**fields: Any) -> bytes:
    """A JSON object of the fields that are not None; arrays of float32 as rows of numbers, or as one row.

    Example:
        >>> body(vectors=np.float32([[0.1, 2.0]]), k=10, depth=None)
        b'{"vectors":[[0.100000001,2]],"k":10}'
    """
    texts = [f'"{name}":{_text(name, value)}' for name, value in fields.items() if value is not None]
    return ("{" + ",".join(texts) + "}").encode()


def _text(name: str, value: Any) -> str:
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return _rows(value) if value.ndim == 2 else _rows(value[None, :])[1:-1]
    try:
        return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be sent as JSON: {error}") from None


def _rows(rows: Vectors) -> str:
    """Nine digits tell all float32 apart: two thirds of the bytes, and a third of the time, that `json.dumps` takes."""
    one = "[" + ",".join(["%.9g"] * rows.shape[1]) + "]"
    return "[" + ",".join([one % tuple(row) for row in rows.tolist()]) + "]"


def _plain(value: Any) -> Any:
    """What numpy and others hold, as JSON knows it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{value!r:.80} is a {type(value).__name__}; give texts, numbers, and lists of them")


def worded(texts: Sequence[str]) -> list[str]:
    """Texts as they can be sent; a ValueError for one text alone, which would be a list of letters."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts={texts!r:.80} is not allowed; give a list of texts, such as ['a dog on a beach']")
    return list(texts)


def pictured(images: Sequence[File]) -> list[str]:
    """Pictures, given as paths or as bytes, in base64."""
    if isinstance(images, (str, bytes, bytearray, memoryview, os.PathLike)):
        raise ValueError("images must be a list of paths or of bytes, also where it is one picture; give images=[...]")
    return [base64.b64encode(_content(image)).decode("ascii") for image in images]


def _content(image: File) -> bytes:
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if not isinstance(image, (str, os.PathLike)):
        raise ValueError(f"images holds a {type(image).__name__}; give paths of files, or their bytes")
    return Path(image).read_bytes()


def filtered(where: Any) -> Any:
    """A filter as it can be sent: ids or a mapping. The order of the items, which a mask needs, is not known here."""
    if where is None or isinstance(where, Mapping):
        return where
    entries = where.tolist() if isinstance(where, np.ndarray) else list(where)
    if any(isinstance(entry, (bool, np.bool_)) for entry in entries):
        raise ValueError("where is a mask, and only the service knows the order of its items; give a list of ids")
    return entries


def method_and_parameters(method: Method | str | None, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Both as the service takes them; a Method has parameters of its own."""
    if not isinstance(method, Method):
        return {"method": method, "parameters": None if parameters is None else dict(parameters)}
    if parameters is not None:
        raise ValueError(f"parameters= goes with the name of a method, and {method!r:.80} has its own; leave it out")
    own = {one.name: getattr(method, one.name) for one in method.parameters()}
    return {"method": method.name, "parameters": own}


def ranking_of(answer: dict[str, Any], width: int) -> Ranking:
    """What `POST /v1/search` answers, padded to `width`."""
    nothing = np.empty((0, 0), np.float32)
    rows = zip(answer["ids"], answer["distances"], strict=True)
    lists = [Listed(names_of(ids), np.array(distances, np.float32), nothing) for ids, distances in rows]
    meta = {name: value for name, value in answer.items() if name not in ("ids", "distances", "query_ids")}
    asked = answer.get("query_ids")
    different = asked is not None and len(set(asked)) == len(asked)  # an item may ask twice: rows go by number then
    return named(lists, meta, width).with_ids(query_ids=asked if different else None)
