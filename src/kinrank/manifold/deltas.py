"""The difference between the arrays before and after a change, as changed rows, and its exact application.

A change of a gallery affects few rows of the saved arrays, so a change is stored as those rows:

    items           (2,) number of items before, number of items added
    gone            numbers of the removed items
    NAME.rows       rows of the array NAME that differ, including the added ones, and
    NAME.values     their new values
    NAME.sizes      for sparse rows, stored as NAME_indptr, NAME_indices, NAME_data: lengths of these rows
    NAME.ends       for a list without one entry per item: numbers of equal entries at its start and at its end,
    NAME.middle     and the entries between them
    NAME.whole      any other array, if it changed

Before the comparison, rows of removed items are taken out, and item numbers (int32) are converted to those after the
change. An int32 that is not an item number only makes the difference larger.

Differences are written as records: a line of JSON followed by the bytes of arrays. The log of a service and the
messages to its writer have the same form.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.manifold.snapshot import Snapshot
from kinrank.stages.item_change import ItemChange, Numbers

Arrays = dict[str, NDArray[Any]]
SPARSE_PARTS = ("indices", "data")  # the arrays of sparse rows in addition to indptr
MAX_CHANGES = 16  # per folder: each costs one more pass over the arrays when the folder is loaded
SIZE_DIVISOR = 4  # changes take at most a fourth of the size of all arrays
NUMBER_PATTERN = re.compile(r"[<>|][biuf][1248]")  # numpy parses other texts as Python expressions
ALWAYS_ALLOWED_BYTES = 2**20  # total size of changes that is always allowed


def diff_arrays(before: Arrays, after: Arrays, turnover: ItemChange) -> Arrays | None:
    """Return the difference that `apply_diff` uses to turn `before` into `after`; None if an array was dropped."""
    if not set(before) <= set(after):
        return None
    gone = np.setdiff1d(np.arange(turnover.before), turnover.stay)
    diff: Arrays = {"items": np.array([turnover.before, turnover.fresh], np.int64), "gone": gone}
    both = (before, turnover.before), (after, turnover.after)
    sparse = [stem for stem in _sparse_names(before) if all(_is_sparse(stem, arrays, count) for arrays, count in both)]
    for stem in sparse:
        rows = _find_changed_sparse_rows(stem, before, after, turnover)
        indptr = after[f"{stem}_indptr"]
        entries = _find_entries(indptr, rows)
        diff |= {f"{stem}.rows": rows, f"{stem}.sizes": indptr[rows + 1] - indptr[rows]}
        diff |= {f"{stem}.{part}": after[f"{stem}_{part}"][entries] for part in SPARSE_PARTS}
    done = {f"{stem}_{part}" for stem in sparse for part in ("indptr", *SPARSE_PARTS)}
    for name in sorted(set(after) - done):
        now, then = after[name], before.get(name)
        if then is not None and _has_row_per_item(then, now, turnover):
            rows = _find_changed_rows(then, now, turnover)
            diff |= {f"{name}.rows": rows, f"{name}.values": now[rows]}
        elif then is not None and then.ndim == now.ndim == 1 and then.dtype == now.dtype:
            ends = _count_equal_ends(_view_bits(then), _view_bits(now))
            diff |= {f"{name}.ends": np.array(ends), f"{name}.middle": now[ends[0] : len(now) - ends[1]]}
        elif then is None or then.dtype != now.dtype or not np.array_equal(_view_bits(then), _view_bits(now)):
            diff[f"{name}.whole"] = now
    return diff


def apply_diff(before: Arrays, diff: Arrays) -> Arrays:
    """Return the arrays after a change.

    Raises an InputError, KeyError or IndexError if the difference does not belong to the arrays.
    """
    turnover = _parse_item_change(before, diff)
    after: Arrays = {}
    for stem in _sparse_names(before):
        if f"{stem}.sizes" in diff:
            after |= _apply_sparse_diff(stem, before, diff, turnover)
    for name, then in before.items():
        if name in after:
            continue
        if f"{name}.rows" in diff:
            after[name] = _apply_row_diff(then, diff[f"{name}.rows"], diff[f"{name}.values"], turnover)
        elif f"{name}.ends" in diff:
            first, last = (int(number) for number in diff[f"{name}.ends"])
            if min(first, last) < 0 or first + last > len(then):
                raise InputError(f"a change of {name} keeps more entries than exist")
            after[name] = np.concatenate([then[:first], diff[f"{name}.middle"], then[len(then) - last :]])
        else:
            after[name] = then
    # copy, because the kernels are compiled for writable arrays
    after |= {key.removesuffix(".whole"): array.copy() for key, array in diff.items() if key.endswith(".whole")}
    return after


def _parse_item_change(before: Arrays, diff: Arrays) -> ItemChange:
    """Return the removed and added items of a difference. Raises an InputError if they are impossible."""
    for key, numbers in diff.items():
        if key in ("items", "gone") or key.endswith((".rows", ".sizes", ".ends")):
            is_pair = key == "items" or key.endswith(".ends")
            if numbers.ndim != 1 or numbers.dtype.kind != "i" or (is_pair and len(numbers) != 2):
                raise InputError(f"{key} of a change has dtype {numbers.dtype} and shape {numbers.shape}")
    had, fresh = (int(number) for number in diff["items"])
    gone = diff["gone"]
    if had != len(before["vectors"]) or fresh < 0 or (np.diff(gone) <= 0).any():
        raise InputError("a change belongs to other items")
    if len(gone) and not (gone[0] >= 0 and gone[-1] < had):
        raise InputError("a change removes items that do not exist")
    for key, rows in diff.items():
        if key.endswith(".rows"):
            after = had - len(gone) + fresh
            if (np.diff(rows) <= 0).any() or len(rows) < fresh or (len(rows) and not 0 <= rows[0] <= rows[-1] < after):
                raise InputError(f"a change of {key.removesuffix('.rows')} names rows that do not exist")
    return ItemChange(had, np.setdiff1d(np.arange(had), gone), fresh)


def _sparse_names(arrays: Arrays) -> list[str]:
    """Return the names of arrays that may be sparse rows."""
    return [name.removesuffix("_indptr") for name in arrays if name.endswith("_indptr")]


def _is_sparse(stem: str, arrays: Arrays, count: int) -> bool:
    """True if the arrays of this name are sparse rows, one per item."""
    parts = [arrays[name] for name in (f"{stem}_{part}" for part in ("indptr", *SPARSE_PARTS)) if name in arrays]
    if len(parts) < 1 + len(SPARSE_PARTS) or len(parts[0]) != count + 1:
        return False
    return all(part.shape == (int(parts[0][-1]),) for part in parts[1:])


def _has_row_per_item(then: NDArray[Any], now: NDArray[Any], turnover: ItemChange) -> bool:
    """True if both arrays have one row per item and the same row shape and dtype."""
    lengths = then.shape[:1] == (turnover.before,) and now.shape[:1] == (turnover.after,)
    return then.dtype == now.dtype and lengths and then.shape[1:] == now.shape[1:]


def _count_equal_ends(then: NDArray[Any], now: NDArray[Any]) -> tuple[int, int]:
    """Return the numbers of equal entries at the start of two lists, and then at their ends."""
    size = min(len(then), len(now))
    other = np.flatnonzero(then[:size] != now[:size])
    first = int(other[0]) if len(other) else size
    other = np.flatnonzero(then[len(then) - size :] != now[len(now) - size :])
    return first, min(size - first, size - 1 - int(other[-1]) if len(other) else size)


def _view_bits(values: NDArray[Any]) -> NDArray[Any]:
    """Return values that compare by their bits: 0 differs from -0, and NaN equals itself."""
    return values.view(f"u{values.itemsize}") if values.dtype.kind == "f" else values


def _renumber_items(values: NDArray[Any], turnover: ItemChange) -> NDArray[Any]:
    """Convert item numbers to those after the change; other values stay."""
    if values.dtype != np.int32 or len(turnover.stay) == turnover.before:
        return values
    inside = (values >= 0) & (values < turnover.before)
    return np.where(inside, turnover.numbers[np.where(inside, values, -1)], values)


def _iterate_runs(rows: Numbers, turnover: ItemChange) -> Iterator[tuple[int, int, int]]:
    """Yield contiguous runs of remaining rows as (first, last + 1, first before the change); `rows` is ascending.

    Few rows change, so runs are few and long, and are compared and copied at the speed of memory.
    """
    if not len(rows):
        return
    sources = turnover.stay[rows]
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(sources) != 1)) + 1
    for start, stop in itertools.pairwise([0, *breaks.tolist(), len(rows)]):
        yield int(rows[start]), int(rows[stop - 1]) + 1, int(sources[start])


def _append_new_rows(changed: NDArray[np.bool_], turnover: ItemChange) -> Numbers:
    """Return the numbers of the changed rows and of the added ones."""
    return np.concatenate([np.flatnonzero(changed), turnover.new])


def _find_changed_rows(then: NDArray[Any], now: NDArray[Any], turnover: ItemChange) -> Numbers:
    """Return the rows that differ or were added."""
    changed = np.zeros(len(turnover.stay), np.bool_)
    for start, stop, source in _iterate_runs(np.arange(len(changed)), turnover):
        expected = _renumber_items(then[source : source + stop - start], turnover)
        other = _view_bits(expected) != _view_bits(now[start:stop])
        changed[start:stop] = other.reshape(stop - start, -1).any(axis=1)
    return _append_new_rows(changed, turnover)


def _apply_row_diff(then: NDArray[Any], rows: Numbers, values: NDArray[Any], turnover: ItemChange) -> NDArray[Any]:
    """Return an array with one row per item after the change."""
    if values.shape != (len(rows), *then.shape[1:]):
        raise InputError(f"a change has {values.shape} values for {len(rows)} rows")
    after = np.empty((turnover.after, *then.shape[1:]), values.dtype)
    for start, stop, source in _iterate_runs(np.arange(len(turnover.stay)), turnover):
        after[start:stop] = _renumber_items(then[source : source + stop - start], turnover)
    after[rows] = values
    return after


def _find_entries(indptr: NDArray[np.int64], rows: Numbers) -> Numbers:
    """Return the positions of the entries of sparse rows, row after row."""
    starts, sizes = indptr[rows], indptr[rows + 1] - indptr[rows]
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))


def _find_changed_sparse_rows(stem: str, before: Arrays, after: Arrays, turnover: ItemChange) -> Numbers:
    """Return the sparse rows that differ or were added."""
    was, new = before[f"{stem}_indptr"], after[f"{stem}_indptr"]
    changed = np.diff(new)[: len(turnover.stay)] != np.diff(was)[turnover.stay]
    for start, stop, source in _iterate_runs(np.flatnonzero(~changed), turnover):
        old_part, new_part = slice(was[source], was[source + stop - start]), slice(new[start], new[stop])
        for name in (f"{stem}_{part}" for part in SPARSE_PARTS):
            other = _view_bits(_renumber_items(before[name][old_part], turnover)) != _view_bits(after[name][new_part])
            changed[np.searchsorted(new, np.flatnonzero(other) + new[start], side="right") - 1] = True
    return _append_new_rows(changed, turnover)


def _apply_sparse_diff(stem: str, before: Arrays, diff: Arrays, turnover: ItemChange) -> Arrays:
    """Return the three arrays of sparse rows after the change."""
    was, rows, lengths = before[f"{stem}_indptr"], diff[f"{stem}.rows"], diff[f"{stem}.sizes"]
    if lengths.shape != rows.shape or (lengths < 0).any():
        raise InputError(f"a change of {stem} does not give the lengths of its rows")
    if any(diff[f"{stem}.{part}"].shape != (int(lengths.sum()),) for part in SPARSE_PARTS):
        raise InputError(f"a change of {stem} has more or fewer entries than the lengths of its rows")
    sizes = np.zeros(turnover.after, np.int64)
    sizes[: len(turnover.stay)] = np.diff(was)[turnover.stay]
    sizes[rows] = lengths
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    unchanged = np.ones(len(turnover.stay), np.bool_)
    unchanged[rows[rows < len(unchanged)]] = False
    after: Arrays = {f"{stem}_indptr": indptr}
    for part in SPARSE_PARTS:
        then = before[f"{stem}_{part}"]
        array = np.empty(int(indptr[-1]), then.dtype)
        for start, stop, source in _iterate_runs(np.flatnonzero(unchanged), turnover):
            stretch = then[was[source] : was[source + stop - start]]
            array[indptr[start] : indptr[stop]] = _renumber_items(stretch, turnover)
        array[_find_entries(indptr, rows)] = diff[f"{stem}.{part}"]
        after[f"{stem}_{part}"] = array
    return after


class PendingChanges:
    """Saved states that a Manifold knows, and the differences between the last of them and the current state.

    Attributes:
        manifest_checksums: folder -> checksum of the manifest that this Manifold last read or wrote there.
        home: folder whose state `pending` continues, if any.
        pending: differences since then, oldest first; None if everything has to be written.
        held: folder that is locked for this Manifold, see `Manifold.changing`.
        position: version of the last logged change in the current state, for the held folder; None without a log.
        folded: version of the last logged change in the state saved in `home`.
    """

    def __init__(self, checksums: dict[Path, str] | None = None) -> None:
        self.manifest_checksums = dict(checksums or {})
        self.home: Path | None = None
        self.pending: list[Arrays] | None = None
        self.held: Path | None = None
        self.position: int | None = None
        self.folded = 0

    def at(self, folder: Path, checksum: str, folded: int) -> None:
        """Record that the folder contains the current state, with this manifest checksum."""
        self.manifest_checksums[folder], self.home, self.pending, self.folded = checksum, folder, [], folded

    def record_change(self, before: Snapshot, after: Snapshot) -> None:
        """Record the difference of a change, as long as the differences are smaller than writing everything."""
        if self.home is None or self.pending is None or after is before:
            return
        turnover = after.turnover
        diff = None if turnover is None else diff_arrays(before.arrays, after.arrays, turnover)
        self.pending = None if diff is None else [*self.pending, diff]
        if self.pending is not None and not is_worth_appending(
            len(self.pending), count_bytes(self.pending), after.size
        ):
            self.pending = None

    @property
    def unsaved(self) -> bool:
        """True if the held folder contains another state than the current one."""
        moved = self.position not in (None, self.folded)
        return moved or self.home != self.held or self.pending is None or len(self.pending) > 0

    def holds(self, folder: Path) -> bool:
        """True if the folder contains the current state."""
        return folder == self.home and self.pending == []

    def due(self, folder: Path) -> list[Arrays]:
        """Return the differences between the folder and the current state; none if everything has to be written."""
        return list(self.pending or ()) if folder == self.home else []


def is_worth_appending(changes: int, size: int, whole: int) -> bool:
    """True if this many changes of this many bytes are better appended than merged into all arrays."""
    return changes <= MAX_CHANGES and size <= max(ALWAYS_ALLOWED_BYTES, whole // SIZE_DIVISOR)


def count_bytes(differences: list[Arrays]) -> int:
    """Return the total size of the arrays of differences."""
    return sum(array.nbytes for diff in differences for array in diff.values())


def pack_diffs(differences: list[Arrays]) -> bytes:
    """Return the content of a file of differences."""
    heads = [[[name, array.dtype.str, array.shape] for name, array in diff.items()] for diff in differences]
    return pack_record(heads, (array for diff in differences for array in diff.values()))


def unpack_diffs(content: bytes) -> list[Arrays]:
    """Read the differences of a file. Raises an InputError for anything that `pack_diffs` does not write."""
    record = RecordReader(content)
    try:
        differences = [
            {str(name): record.read_array(kind, shape) for name, kind, shape in entries}
            for entries in record.read_fields()
        ]
    except (TypeError, ValueError) as error:
        raise InputError(f"a change file has another content than kinrank writes: {error}") from error
    if not record.is_at_end:
        raise InputError("a change file is longer than it claims")
    return differences


def pack_record(fields: Any, arrays: Iterable[NDArray[Any]] = ()) -> bytes:
    """Return the bytes of a record."""
    line = json.dumps(fields, separators=(",", ":")).encode()
    return b"".join([line, b"\n", *(array.tobytes() for array in arrays)])


class RecordReader:
    """Reads records in the order in which they were packed. Raises an InputError for other bytes."""

    def __init__(self, content: bytes | bytearray) -> None:
        self._content, self._offset = content, 0

    @property
    def is_at_end(self) -> bool:
        return self._offset == len(self._content)

    def read_fields(self) -> Any:
        """Read a line of JSON."""
        end = self._content.find(b"\n", self._offset)
        if end < 0:
            raise InputError("a line is not terminated")
        line, self._offset = bytes(self._content[self._offset : end]), end + 1
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"a line is not JSON ({type(error).__name__})") from error

    def read_array(self, kind: str, shape: Any) -> NDArray[Any]:
        """Read an array of numbers of a dtype such as "<f4"."""
        sizes: Any = shape if isinstance(shape, (list, tuple)) else [None]
        if not all(type(size) is int and size >= 0 for size in sizes) or not NUMBER_PATTERN.fullmatch(str(kind)):
            raise InputError(f"an array of {str(kind)[:20]} cannot have the shape {str(shape)[:80]}")
        dtype, count = np.dtype(kind), math.prod(sizes)
        if self._offset + count * dtype.itemsize > len(self._content):
            raise InputError("a record claims more numbers than there are")
        if not count:
            return np.zeros(sizes, dtype)
        array: NDArray[Any] = np.frombuffer(self._content, dtype, count, self._offset).reshape(sizes)
        self._offset += array.nbytes
        return array
