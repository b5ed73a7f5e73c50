"""Sources of items to encode: images of a folder, zip or list, text files, rows of a table, or values in memory."""

from __future__ import annotations

import csv
import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kinrank.encoders.base import PICTURES, TEXTS, Encoder
from kinrank.errors import InputError
from kinrank.files import safe_pickle
from kinrank.files.path_checks import check_regular_file
from kinrank.files.split_lists import is_split, read_split
from kinrank.files.text_columns import TEXT_FILE_ENDINGS as TABLES
from kinrank.files.text_columns import read_lines, read_names, read_texts
from kinrank.ids import CONTROL_CHARACTERS
from kinrank.parameters import check_whole_number
from kinrank.pictures.archives import Archive, PathListArchive, index_short_names, open_archive
from kinrank.pictures.images import PICTURE_ENDINGS, decode_picture

Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels of the upright image
NOT_UTF8 = "it is not UTF-8 text; save it in this encoding"
TEXT_ENDINGS = (".txt", ".md")
EMPTY = re.compile("contains no readable|holds no")  # message of an archive without suitable files
SOURCE_HINT = "a folder, a zip, a picture, a list of paths (.txt), or texts (.txt .csv .tsv .json .jsonl .parquet)"
SourceInput = str | os.PathLike[str] | Sequence[Any]
Boxes = str | os.PathLike[str] | Mapping[str, Sequence[float]]


class Source:
    """Items to encode, accessed by name.

    Attributes:
        content: PICTURES or TEXTS.
        names: unique names of the items.
        skipped: reason why files are not items -> number of files.
        identity: a text that distinguishes this source from others.
        unread: folders that could not be read, so that their items may still exist.
    """

    content: str
    names: list[str]
    skipped: Counter[str]
    identity: str
    unread: list[str]

    def stamp(self, name: str) -> str:
        """Return a text that changes with the item. Raise an error if the item is missing or cannot be read."""
        raise NotImplementedError

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        """Load an image for the encoder, or a text. Raise InputError with the reason if this fails."""
        raise NotImplementedError


class _Files(Source):
    """Files of an archive: all, or those selected by names, also by shorter ones (see `find_files`)."""

    def __init__(self, archive: Archive, names: Sequence[str] | None = None) -> None:
        self._archive = archive
        self.skipped, self.identity, self.unread = archive.skipped, archive.identity, archive.unread
        self.names = list(archive.names if names is None else names)
        self._entries = {name: name for name in self.names} if names is None else find_files(archive.names, self.names)

    def stamp(self, name: str) -> str:
        return self._archive.stamp(self._entries[name])


class PictureFiles(_Files):
    """Images of an archive, whole or cropped to boxes.

    Args:
        archive: the files.
        selected: names and order of the images, their boxes, and the size of the images to which the boxes refer.
    """

    content = PICTURES

    def __init__(self, archive: Archive, selected: Selection) -> None:
        super().__init__(archive, selected.names)
        self._boxes, self._drawn_on = dict(selected.boxes or {}), selected.drawn_on
        for name, box in self._boxes.items():
            if not (box[0] < box[2] and box[1] < box[3]) or min(box) < 0:
                raise InputError(
                    f"the box {box} of {name!r:.80} is empty", allowed="0 <= left < right and 0 <= top < bottom"
                )

    def stamp(self, name: str) -> str:
        box = f" {self._boxes[name]} of {self._drawn_on}" if name in self._boxes else ""
        return f"{super().stamp(name)}{box}"

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        content, box = self._archive.read(self._entries[name]), self._boxes.get(name)
        image = decode_picture(content, encoder.reads if box is None and encoder is not None else None)
        if box is None:
            return image
        if self._drawn_on is not None:
            factor = max(image.size) / self._drawn_on
            box = (box[0] * factor, box[1] * factor, box[2] * factor, box[3] * factor)
        if box[0] >= image.width or box[1] >= image.height:
            raise InputError(f"its box {box} lies outside the image of {image.width} x {image.height} pixels")
        inside = (box[0], box[1], min(box[2], image.width), min(box[3], image.height))
        return (encoder or Encoder()).crop(image, inside)


class TextFiles(_Files):
    """Text files, each of which is one item."""

    content = TEXTS

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        try:
            return _check_not_blank(self._archive.read(self._entries[name]).decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise InputError(NOT_UTF8) from None


class Values(Source):
    """Pillow images or texts in memory, named by their numbers by default."""

    def __init__(self, content: str, values: Sequence[Any], names: Sequence[str] | None = None) -> None:
        self.content, self.names = content, _assign_names(len(values), names)
        self._values = dict(zip(self.names, values, strict=True))
        self.skipped, self.identity, self.unread = Counter(), f"{content} in memory", []

    def stamp(self, name: str) -> str:
        value = self._values[name]
        if self.content == TEXTS:
            content = str(value).encode("utf-8", "surrogatepass")
        else:
            content = f"{value.mode} {value.size}".encode() + bytes(value.tobytes())
        return hashlib.sha256(content).hexdigest()[:32]

    def load(self, name: str, encoder: Encoder | None = None) -> Any:
        value = self._values[name]
        return _check_not_blank(value) if self.content == TEXTS else value.convert("RGB")


def _assign_names(count: int, names: Sequence[str] | None) -> list[str]:
    """Return the names of `count` items, by default their numbers. Names must be unique, single-line and not blank."""
    if names is None:
        return [str(number) for number in range(count)]
    if len(names) != count:
        raise InputError(f"there are {len(names)} names for {count} items", remedy="give one for each")
    check_names(names)
    return list(names)


def check_names(names: Sequence[str]) -> None:
    """Raise InputError for names that are repeated, blank, or not a single line of text."""
    if len(set(names)) < len(names):
        repeated = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(f"the id {repeated!r:.100} occurs more than once", remedy="give each item its own id")
    for name in names:
        if not name.strip() or CONTROL_CHARACTERS.search(name):
            raise InputError(f"{name!r:.100} cannot be an id", allowed="a line of text for every item")


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise InputError("it is empty")
    return text


def find_files(entries: list[str], names: Sequence[str]) -> dict[str, str]:
    """Map names to files. Raise InputError for a name without a file and for a repeated name.

    If no name has a file, all names lose as many leading folders as it takes: published lists start with the folder
    of their set, such as 101_ObjectCategories/, which may be the source itself.
    """
    known, short = set(entries), index_short_names(entries)
    files = {name: name if name in known else short.get(name) for name in names}
    inner = {name: name for name in files}
    while inner and not any(files.values()) and all("/" in rest for rest in inner.values()):
        inner = {name: rest.partition("/")[2] for name, rest in inner.items()}
        files = {name: rest if rest in known else None for name, rest in inner.items()}
    if len(files) < len(names):
        repeated = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(f"contains {repeated!r:.100} more than once", parameter="names", remedy="name every item once")
    missing = [name for name, entry in files.items() if entry is None]
    if missing:
        raise InputError(
            f"there is no file for {len(missing)} of {len(names)} names, such as {missing[0]!r:.100}",
            allowed="the names of files, with or without folders and suffixes",
        )
    return {name: str(entry) for name, entry in files.items()}


@dataclass(frozen=True)
class ItemChoice:
    """Selection of the items of a source to encode.

    Attributes:
        content: "pictures" or "texts". By default pictures, if the source has some and the encoder supports them.
        names: selection and order of the items: a sequence, a text file with one per line, a split list, or the
            `imlist` of a revisited ground truth.
        boxes: parts of images: name -> (left, top, right, bottom), a .csv with name,left,top,right,bottom, or the
            queries of a revisited ground truth. Unless `names` is given, only these images are encoded, in this order.
        boxes_size: longest side in pixels of the images to which the boxes refer, if the source has copies of another
            size.
        column, id_column: columns of a table of texts.
    """

    content: str | None = None
    names: str | os.PathLike[str] | Sequence[str] | None = None
    boxes: Boxes | None = None
    boxes_size: int | None = None
    column: str | None = None
    id_column: str | None = None


def open_source(
    given: SourceInput, choice: ItemChoice = ItemChoice(), able: Sequence[str] = (PICTURES, TEXTS)
) -> Source:
    """Open a source of items: a path, or a sequence of paths, of Pillow images, or of texts.

    `able` is the content that the encoder supports.
    """
    content, boxes_size, columns = choice.content, choice.boxes_size, (choice.column, choice.id_column)
    possible = [kind for kind in (PICTURES, TEXTS) if kind in able and content in (None, kind)]
    if content not in (None, PICTURES, TEXTS):
        raise InputError(parameter="content", given=content, allowed="pictures or texts")
    if not possible:
        raise InputError(f"the encoder encodes {' and '.join(able)}, not {content}", remedy="choose another `encoder`")
    wanted = None if choice.names is None else _read_name_list(choice.names)
    parts = None if choice.boxes is None else _read_boxes(choice.boxes)
    if boxes_size is not None and (parts is None or check_whole_number(boxes_size, "boxes_size") < 1):
        raise InputError("needs `boxes`", parameter="boxes_size", remedy="give both, or none")
    cut = Selection(wanted, parts, boxes_size)
    if parts is not None:
        possible = [kind for kind in possible if kind == PICTURES]
        cut = Selection(list(parts) if wanted is None else wanted, parts, boxes_size)
    if columns != (None, None) and TEXTS not in possible:
        raise InputError("`column` and `id_column` are for tables of texts", remedy="leave them out for pictures")
    if isinstance(given, (str, os.PathLike)):
        return _open_path(Path(given), possible, cut, columns)
    return _open_values(list(given), possible, cut)


class Selection(NamedTuple):
    """Selected images, their boxes, and the size of the images to which the boxes refer."""

    names: list[str] | None
    boxes: dict[str, Box] | None
    drawn_on: int | None


def _open_path(path: Path, possible: list[str], cut: Selection, columns: tuple[Any, Any]) -> Source:
    ending = path.suffix.lower()
    if path.is_dir() or ending == ".zip":
        return _open_archive(path, possible, cut, columns)
    if ending in PICTURE_ENDINGS and PICTURES in possible:
        return PictureFiles(PathListArchive([check_regular_file(path).name], path.parent), cut)
    if ending not in TABLES:
        check_regular_file(path)
        raise InputError(f"{path} has the unknown suffix {path.suffix!r}", allowed=SOURCE_HINT)
    if ending == ".txt" and PICTURES in possible and (TEXTS not in possible or lists_pictures(path)):
        return PictureFiles(PathListArchive([line for line in read_lines(path) if line.strip()], path.parent), cut)
    if TEXTS not in possible:
        raise InputError(
            f"{path} is a file of texts", remedy="for pictures give a folder, a zip, a picture or a list of paths"
        )
    if cut.names is not None:
        raise InputError(f"selects among files, but {path} is a table", parameter="names", remedy="leave it out")
    found = read_texts(check_regular_file(path), *columns)
    return Values(TEXTS, found.values, found.ids)


def _open_archive(path: Path, possible: list[str], cut: Selection, columns: tuple[Any, Any]) -> Source:
    archive: Archive | None = None
    if PICTURES in possible:
        try:
            archive = open_archive(path)
        except InputError:
            if TEXTS not in possible:
                raise
    if archive is not None:
        if any(columns):
            raise InputError(
                "`column` and `id_column` are for tables of texts, but these are pictures", remedy="leave them out"
            )
        return PictureFiles(archive, cut)
    try:
        return TextFiles(open_archive(path, TEXT_ENDINGS), cut.names)
    except InputError as error:
        if not EMPTY.search(error.problem):
            raise
        wanted = [f"pictures ({', '.join(PICTURE_ENDINGS)})"] if PICTURES in possible else []
        wanted.append(f"texts ({', '.join(TEXT_ENDINGS)})")
        raise InputError(
            f"{path} contains no {' and no '.join(wanted)}", remedy="give another source, or another `encoder`"
        ) from None


def _open_values(given: list[Any], possible: list[str], cut: Selection) -> Source:
    """Open values in memory: paths, images or texts, depending on what the encoder supports."""
    if all(hasattr(value, "convert") for value in given) and given:
        if cut.boxes is not None:
            raise InputError("is for files", parameter="boxes", remedy="crop images in memory with image.crop(box)")
        return Values(PICTURES, given, cut.names)
    if not all(isinstance(value, (str, os.PathLike)) for value in given):
        raise InputError("the source has values of several or unknown kinds", allowed="only paths, images or texts")
    words = [os.fspath(value) for value in given]
    paths = any(isinstance(value, os.PathLike) for value in given)
    if PICTURES in possible and (TEXTS not in possible or paths or all(map(_is_picture_name, words))):
        return PictureFiles(PathListArchive(words, Path()), cut)
    return Values(TEXTS, words, cut.names)


def lists_pictures(path: Path) -> bool:
    """Return True if the first non-blank line of a text file could be the path of an image."""
    with check_regular_file(path).open("rb") as file:
        for line in file:
            if line.strip():
                return _is_picture_name(line[:4096].decode("utf-8-sig", "replace").strip())
    return False


def _is_picture_name(word: str) -> bool:
    return word.lower().endswith(PICTURE_ENDINGS)


def _read_name_list(names: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    if not isinstance(names, (str, os.PathLike)):
        return [str(name) for name in names]
    path = Path(names)
    if path.suffix.lower() in (".pkl", ".pickle"):
        return [str(name) for name in _read_revisited(path)["imlist"]]
    if is_split(path) and _is_picture_name(next(filter(str.strip, read_lines(path))).strip().rpartition(" ")[0]):
        return [str(name) for name in read_split(path).paths.tolist()]
    return read_names(path)  # also of files such as "folder/photo 1", without their suffixes


def _read_boxes(boxes: Boxes) -> dict[str, Box]:
    if isinstance(boxes, Mapping):
        return {str(name): _check_box(name, sides) for name, sides in boxes.items()}
    path = Path(boxes)
    if path.suffix.lower() in (".pkl", ".pickle"):
        truth = _read_revisited(path)
        pairs = zip(truth["qimlist"], truth["gnd"], strict=False)
        return {str(name): _check_box(name, entry.get("bbx", ())) for name, entry in pairs}
    try:
        text = check_regular_file(path).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text", remedy="write lines of name,left,top,right,bottom") from None
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except csv.Error as error:
        raise InputError(
            f"{path} is not a table ({error})", remedy="write lines of name,left,top,right,bottom"
        ) from None
    if rows and [cell.strip().lower() for cell in rows[0]][1:2] in (["left"], ["x1"], ["x"]):
        rows = rows[1:]
    found = {row[0].strip(): _check_box(row[0], row[1:]) for row in rows}
    if len(found) < len(rows):
        raise InputError(f"{path} contains an image twice", remedy="give one box for each")
    return found


def _check_box(name: Any, sides: Any) -> Box:
    try:
        left, top, right, bottom = (float(side) for side in sides)
    except (TypeError, ValueError):
        raise InputError(
            f"the box {sides!r:.80} of {name!r:.80} is not valid", allowed="left, top, right, bottom in pixels"
        ) from None
    return left, top, right, bottom


def _read_revisited(path: Path) -> dict[str, Any]:
    """Read a revisited ground truth without executing code in the pickle."""
    truth = safe_pickle.load(path)
    lists = (
        all(isinstance(truth.get(key), list) for key in ("imlist", "qimlist", "gnd")) if isinstance(truth, dict) else 0
    )
    if not lists or not all(isinstance(entry, dict) for entry in truth["gnd"]):
        raise InputError(f"{path} is not a revisited ground truth: it must contain imlist, qimlist and gnd")
    return dict(truth)
