"""A folder, a zip, a list of paths, a table or values in memory -> a Source of pictures or of texts."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kinrank.encoders.base import PICTURES, TEXTS
from kinrank.encoders.sources import Box, PictureFiles, Pictures, Source, TextFiles, Texts
from kinrank.files import closed_pickle
from kinrank.files.columns import ENDINGS as TABLES
from kinrank.files.columns import texts_of
from kinrank.files.names import read_lines, read_names
from kinrank.files.opening import regular
from kinrank.parameters import whole_number
from kinrank.pictures.archives import Archive, opened
from kinrank.pictures.images import ENDINGS as PICTURE_ENDINGS
from kinrank.pictures.listed import Listed

TEXT_ENDINGS = (".txt", ".md")
POSSIBLE = "a folder, a zip, a picture, a list of paths (.txt), or texts (.txt .csv .tsv .json .jsonl .parquet)"
Given = str | os.PathLike[str] | Sequence[Any]
Boxes = str | os.PathLike[str] | Mapping[str, Sequence[float]]


def source_of(
    given: Given,
    content: str | None = None,
    able: Sequence[str] = (PICTURES, TEXTS),
    *,
    names: str | os.PathLike[str] | Sequence[str] | None = None,
    boxes: Boxes | None = None,
    boxes_size: int | None = None,
    column: str | None = None,
    id_column: str | None = None,
) -> Source:
    """The items of whatever was given.

    Args:
        given: a path, or a sequence of paths, of pictures of Pillow, or of texts.
        content: "pictures" or "texts"; where both are possible and nothing is said, pictures if there are some.
        able: what the encoder can encode.
        names: which items and in which order: a sequence, a text file, or the `imlist` of a revisited ground truth.
        boxes: parts of pictures: name -> (left, top, right, bottom), a .csv of name,left,top,right,bottom, or the
            queries of a revisited ground truth; only these are encoded, in that order, unless names are given.
        boxes_size: the longest side of the pictures that the boxes were drawn on, where these are copies of another
            size.
        column, id_column: of a table of texts.
    """
    possible = [kind for kind in (PICTURES, TEXTS) if kind in able and content in (None, kind)]
    if content not in (None, PICTURES, TEXTS):
        raise ValueError(f"content={content!r} is not known; give pictures or texts")
    if not possible:
        raise ValueError(f"the encoder encodes {' and '.join(able)}, not {content}; choose another encoder=")
    wanted = None if names is None else _names(names)
    parts = None if boxes is None else _boxes(boxes)
    if boxes_size is not None and (parts is None or whole_number(boxes_size, "boxes_size") < 1):
        raise ValueError("boxes_size= says what boxes= were drawn on; give both, or none")
    cut = Cut(wanted, parts, boxes_size)
    if parts is not None:
        possible = [kind for kind in possible if kind == PICTURES]
        cut = Cut(list(parts) if wanted is None else wanted, parts, boxes_size)
    if (column is not None or id_column is not None) and TEXTS not in possible:
        raise ValueError("column= and id_column= are for tables of texts; leave them out for pictures")
    if isinstance(given, (str, os.PathLike)):
        return _of_path(Path(given), possible, cut, (column, id_column))
    return _of_values(list(given), possible, cut)


class Cut(NamedTuple):
    """Which pictures, which parts of them, and the size of the pictures that these were drawn on."""

    names: list[str] | None
    boxes: dict[str, Box] | None
    drawn_on: int | None


def _of_path(path: Path, possible: list[str], cut: Cut, columns: tuple[Any, Any]) -> Source:
    ending = path.suffix.lower()
    if path.is_dir() or ending == ".zip":
        return _of_archive(path, possible, cut, columns)
    if ending in PICTURE_ENDINGS and PICTURES in possible:
        return PictureFiles(Listed([regular(path).name], path.parent), *cut)
    if ending not in TABLES:
        regular(path)
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; give {POSSIBLE}")
    if ending == ".txt" and PICTURES in possible and (TEXTS not in possible or names_pictures(path)):
        return PictureFiles(Listed([line for line in read_lines(path) if line.strip()], path.parent), *cut)
    if TEXTS not in possible:
        raise ValueError(f"{path} is a file of texts; for pictures give a folder, a zip, a picture or a list of paths")
    if cut.names is not None:
        raise ValueError(f"names= choose among files, and {path} is a table; leave them out")
    found = texts_of(regular(path), *columns)
    return Texts(found.values, found.ids)


def _of_archive(path: Path, possible: list[str], cut: Cut, columns: tuple[Any, Any]) -> Source:
    archive: Archive | None = None
    if PICTURES in possible:
        try:
            archive = opened(path)
        except FileNotFoundError:
            raise
        except ValueError:
            if TEXTS not in possible:
                raise
    if archive is not None:
        if any(columns):
            raise ValueError("column= and id_column= are for tables of texts, and these are pictures; leave them out")
        return PictureFiles(archive, *cut)
    try:
        return TextFiles(opened(path, TEXT_ENDINGS), cut.names)
    except FileNotFoundError:
        raise
    except ValueError as error:
        if "holds no" not in str(error):
            raise
        wanted = [f"pictures ({', '.join(PICTURE_ENDINGS)})"] if PICTURES in possible else []
        wanted.append(f"texts ({', '.join(TEXT_ENDINGS)})")
        raise ValueError(
            f"{path} holds no {' and no '.join(wanted)}; give another source, or another encoder="
        ) from None


def _of_values(given: list[Any], possible: list[str], cut: Cut) -> Source:
    """Values in memory: paths or pictures, or texts, by what the encoder can do."""
    if all(hasattr(one, "convert") for one in given) and given:
        if cut.boxes is not None:
            raise ValueError("boxes= are for files; cut pictures that are in memory with image.crop(box)")
        return Pictures(given, cut.names)
    if not all(isinstance(one, (str, os.PathLike)) for one in given):
        raise ValueError("give paths, pictures of Pillow, or texts, all of one kind")
    words = [os.fspath(one) for one in given]
    paths = any(isinstance(one, os.PathLike) for one in given)
    if PICTURES in possible and (TEXTS not in possible or paths or all(map(_is_picture, words))):
        return PictureFiles(Listed(words, Path()), *cut)
    return Texts(words, cut.names)


def names_pictures(path: Path) -> bool:
    """Whether the first line of a text file that is not blank could be the path of a picture."""
    with regular(path).open("rb") as file:
        for line in file:
            if line.strip():
                return _is_picture(line[:4096].decode("utf-8-sig", "replace").strip())
    return False


def _is_picture(word: str) -> bool:
    return word.lower().endswith(PICTURE_ENDINGS)


def _names(names: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    if not isinstance(names, (str, os.PathLike)):
        return [str(name) for name in names]
    path = Path(names)
    if path.suffix.lower() not in (".pkl", ".pickle"):
        return read_names(path)
    return [str(name) for name in _revisited(path)["imlist"]]


def _boxes(boxes: Boxes) -> dict[str, Box]:
    if isinstance(boxes, Mapping):
        return {str(name): _box(name, sides) for name, sides in boxes.items()}
    path = Path(boxes)
    if path.suffix.lower() in (".pkl", ".pickle"):
        truth = _revisited(path)
        pairs = zip(truth["qimlist"], truth["gnd"], strict=False)
        return {str(name): _box(name, entry.get("bbx", ())) for name, entry in pairs}
    try:
        text = regular(path).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8; write lines of name,left,top,right,bottom") from None
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except csv.Error as error:
        raise ValueError(f"{path} is no table ({error}); write lines of name,left,top,right,bottom") from None
    if rows and [cell.strip().lower() for cell in rows[0]][1:2] in (["left"], ["x1"], ["x"]):
        rows = rows[1:]
    found = {row[0].strip(): _box(row[0], row[1:]) for row in rows}
    if len(found) < len(rows):
        raise ValueError(f"{path} names a picture twice; give one box for each")
    return found


def _box(name: Any, sides: Any) -> Box:
    try:
        left, top, right, bottom = (float(side) for side in sides)
    except (TypeError, ValueError):
        raise ValueError(f"the box {sides!r:.80} of {name!r:.80} is no left, top, right, bottom in pixels") from None
    return left, top, right, bottom


def _revisited(path: Path) -> dict[str, Any]:
    """A revisited ground truth, read by a reader that executes nothing."""
    truth = closed_pickle.load(path)
    lists = (
        all(isinstance(truth.get(key), list) for key in ("imlist", "qimlist", "gnd")) if isinstance(truth, dict) else 0
    )
    if not lists or not all(isinstance(entry, dict) for entry in truth["gnd"]):
        raise ValueError(f"{path} is no revisited ground truth; it must hold imlist, qimlist and gnd")
    return dict(truth)
