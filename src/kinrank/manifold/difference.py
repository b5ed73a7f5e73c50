"""Arrays before a change and after it -> the rows that differ; and these rows -> the arrays after it, to the bit.

A change of a gallery touches few rows of what is kept. So what a change did is kept as those rows:

    items           (2,) how many there were, how many came
    gone            numbers of those that left
    NAME.rows       which rows of the array NAME are others than before, those that came included, and
    NAME.values     what they are now
    NAME.sizes      the same for sparse rows, kept as NAME_indptr, NAME_indices, NAME_data: how long these rows are
    NAME.ends       for a list that has not one entry per item: how many at its start, and at its end, are the same,
    NAME.middle     and what stands between these
    NAME.whole      any other array, where it is not as before

Before they are compared, rows of those that left are taken out, and numbers of items (int32) become those after the
change. An int32 that is no number of an item costs room in the difference, and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.turnover import Numbers, Turnover

Arrays = dict[str, NDArray[Any]]
SPARSE = ("indices", "data")  # the parts of sparse rows, beside where each begins


def difference(before: Arrays, after: Arrays, turnover: Turnover) -> Arrays | None:
    """What `patched` makes `after` from; None where an array of before is there no more."""
    if not set(before) <= set(after):
        return None
    gone = np.setdiff1d(np.arange(turnover.before), turnover.stay)
    found: Arrays = {"items": np.array([turnover.before, turnover.fresh], np.int64), "gone": gone}
    both = (before, turnover.before), (after, turnover.after)
    sparse = [stem for stem in _stems(before) if all(_is_sparse(stem, arrays, count) for arrays, count in both)]
    for stem in sparse:
        rows = _sparse_rows(stem, before, after, turnover)
        indptr = after[f"{stem}_indptr"]
        entries = _entries(indptr, rows)
        found |= {f"{stem}.rows": rows, f"{stem}.sizes": indptr[rows + 1] - indptr[rows]}
        found |= {f"{stem}.{part}": after[f"{stem}_{part}"][entries] for part in SPARSE}
    done = {f"{stem}_{part}" for stem in sparse for part in ("indptr", *SPARSE)}
    for name in sorted(set(after) - done):
        now, then = after[name], before.get(name)
        if then is not None and _one_row_each(then, now, turnover):
            rows = _rows_that_differ(then, now, turnover)
            found |= {f"{name}.rows": rows, f"{name}.values": now[rows]}
        elif then is not None and then.ndim == now.ndim == 1 and then.dtype == now.dtype:
            ends = _same_ends(_bits(then), _bits(now))
            found |= {f"{name}.ends": np.array(ends), f"{name}.middle": now[ends[0] : len(now) - ends[1]]}
        elif then is None or not _same(then, now):
            found[f"{name}.whole"] = now
    return found


def patched(before: Arrays, found: Arrays) -> Arrays:
    """The arrays after a change; a ValueError, KeyError or IndexError if the difference does not belong to them."""
    turnover = _turnover(before, found)
    after: Arrays = {}
    for stem in _stems(before):
        if f"{stem}.sizes" in found:
            after |= _sparse_after(stem, before, found, turnover)
    for name, then in before.items():
        if name in after:
            continue
        if f"{name}.rows" in found:
            after[name] = _rows_after(then, found[f"{name}.rows"], found[f"{name}.values"], turnover)
        elif f"{name}.ends" in found:
            first, last = (int(number) for number in found[f"{name}.ends"])
            if min(first, last) < 0 or first + last > len(then):
                raise ValueError(f"a change of {name} keeps more than there is")
            after[name] = np.concatenate([then[:first], found[f"{name}.middle"], then[len(then) - last :]])
        else:
            after[name] = then
    # a copy: loops are compiled for arrays that could be written
    after |= {key.removesuffix(".whole"): array.copy() for key, array in found.items() if key.endswith(".whole")}
    return after


def _turnover(before: Arrays, found: Arrays) -> Turnover:
    """Who left and who came; a ValueError if it cannot be."""
    for key, numbers in found.items():
        if key in ("items", "gone") or key.endswith((".rows", ".sizes", ".ends")):
            _check_numbers(key, numbers, 2 if key == "items" or key.endswith(".ends") else None)
    had, fresh = (int(number) for number in found["items"])
    gone = found["gone"]
    if had != len(before["vectors"]) or fresh < 0 or (np.diff(gone) <= 0).any():
        raise ValueError("a change was made to other items")
    if len(gone) and not (gone[0] >= 0 and gone[-1] < had):
        raise ValueError("a change removes items that are not there")
    for key, rows in found.items():
        if key.endswith(".rows"):
            after = had - len(gone) + fresh
            if (np.diff(rows) <= 0).any() or len(rows) < fresh or (len(rows) and not 0 <= rows[0] <= rows[-1] < after):
                raise ValueError(f"a change of {key.removesuffix('.rows')} names rows that are not there")
    return Turnover(had, np.setdiff1d(np.arange(had), gone), fresh)


def _check_numbers(key: str, numbers: NDArray[Any], count: int | None) -> None:
    """A ValueError unless these are a list of whole numbers, of just so many where they are counted."""
    if numbers.ndim != 1 or numbers.dtype.kind != "i" or count not in (None, len(numbers)):
        raise ValueError(f"{key} of a change are {numbers.dtype} of shape {numbers.shape}")


def _stems(arrays: Arrays) -> list[str]:
    return [name.removesuffix("_indptr") for name in arrays if name.endswith("_indptr")]


def _is_sparse(stem: str, arrays: Arrays, count: int) -> bool:
    """Whether these are sparse rows, one per item."""
    parts = [arrays[name] for name in (f"{stem}_{part}" for part in ("indptr", *SPARSE)) if name in arrays]
    if len(parts) < 1 + len(SPARSE) or len(parts[0]) != count + 1:
        return False
    return all(part.shape == (int(parts[0][-1]),) for part in parts[1:])


def _one_row_each(then: NDArray[Any], now: NDArray[Any], turnover: Turnover) -> bool:
    lengths = then.shape[:1] == (turnover.before,) and now.shape[:1] == (turnover.after,)
    return then.dtype == now.dtype and lengths and then.shape[1:] == now.shape[1:]


def _same_ends(then: NDArray[Any], now: NDArray[Any]) -> tuple[int, int]:
    """How many entries at the start of two lists are the same, and then how many at their ends."""
    size = min(len(then), len(now))
    other = np.flatnonzero(then[:size] != now[:size])
    first = int(other[0]) if len(other) else size
    other = np.flatnonzero(then[len(then) - size :] != now[len(now) - size :])
    return first, min(size - first, size - 1 - int(other[-1]) if len(other) else size)


def _same(then: NDArray[Any], now: NDArray[Any]) -> bool:
    return then.dtype == now.dtype and then.shape == now.shape and not bool((_bits(then) != _bits(now)).any())


def _bits(values: NDArray[Any]) -> NDArray[Any]:
    """Values that compare as their bits do: 0 is not -0 here, and NaN is itself."""
    return values.view(f"u{values.itemsize}") if values.dtype.kind == "f" else values


def _renumbered(values: NDArray[Any], turnover: Turnover) -> NDArray[Any]:
    """Numbers of items after the change; what is none stays."""
    if values.dtype != np.int32 or len(turnover.stay) == turnover.before:
        return values
    inside = (values >= 0) & (values < turnover.before)
    return np.where(inside, turnover.numbers[np.where(inside, values, -1)], values)


def _runs(rows: Numbers, turnover: Turnover) -> Iterator[tuple[int, int, int]]:
    """Rows of items that stayed, ascending, as stretches that stood side by side before: first, last + 1, first before.

    Few rows change, so stretches are few and long, and are compared and copied at the speed of memory.
    """
    if not len(rows):
        return
    sources = turnover.stay[rows]
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(sources) != 1)) + 1
    for start, stop in itertools.pairwise([0, *breaks.tolist(), len(rows)]):
        yield int(rows[start]), int(rows[stop - 1]) + 1, int(sources[start])


def _with_fresh(changed: NDArray[np.bool_], turnover: Turnover) -> Numbers:
    """The numbers of the rows that changed, and of those that came."""
    return np.concatenate([np.flatnonzero(changed), turnover.new])


def _rows_that_differ(then: NDArray[Any], now: NDArray[Any], turnover: Turnover) -> Numbers:
    changed = np.zeros(len(turnover.stay), np.bool_)
    for start, stop, source in _runs(np.arange(len(changed)), turnover):
        expected = _renumbered(then[source : source + stop - start], turnover)
        other = _bits(expected) != _bits(now[start:stop])
        changed[start:stop] = other.reshape(stop - start, -1).any(axis=1)
    return _with_fresh(changed, turnover)


def _rows_after(then: NDArray[Any], rows: Numbers, values: NDArray[Any], turnover: Turnover) -> NDArray[Any]:
    if values.shape != (len(rows), *then.shape[1:]):
        raise ValueError(f"a change has {values.shape} values for {len(rows)} rows")
    after = np.empty((turnover.after, *then.shape[1:]), values.dtype)
    for start, stop, source in _runs(np.arange(len(turnover.stay)), turnover):
        after[start:stop] = _renumbered(then[source : source + stop - start], turnover)
    after[rows] = values
    return after


def _entries(indptr: NDArray[np.int64], rows: Numbers) -> Numbers:
    """Where the entries of sparse rows stand, one row behind the other."""
    starts, sizes = indptr[rows], indptr[rows + 1] - indptr[rows]
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))


def _sparse_rows(stem: str, before: Arrays, after: Arrays, turnover: Turnover) -> Numbers:
    """The sparse rows that differ, and those that came."""
    was, new = before[f"{stem}_indptr"], after[f"{stem}_indptr"]
    changed = np.diff(new)[: len(turnover.stay)] != np.diff(was)[turnover.stay]
    for start, stop, source in _runs(np.flatnonzero(~changed), turnover):
        old_part, new_part = slice(was[source], was[source + stop - start]), slice(new[start], new[stop])
        for name in (f"{stem}_{part}" for part in SPARSE):
            other = _bits(_renumbered(before[name][old_part], turnover)) != _bits(after[name][new_part])
            changed[np.searchsorted(new, np.flatnonzero(other) + new[start], side="right") - 1] = True
    return _with_fresh(changed, turnover)


def _sparse_after(stem: str, before: Arrays, found: Arrays, turnover: Turnover) -> Arrays:
    """The three arrays of sparse rows after the change."""
    was, rows, lengths = before[f"{stem}_indptr"], found[f"{stem}.rows"], found[f"{stem}.sizes"]
    if lengths.shape != rows.shape or (lengths < 0).any():
        raise ValueError(f"a change of {stem} does not say how long its rows are")
    if any(found[f"{stem}.{part}"].shape != (int(lengths.sum()),) for part in SPARSE):
        raise ValueError(f"a change of {stem} has more or fewer entries than its rows are long")
    sizes = np.zeros(turnover.after, np.int64)
    sizes[: len(turnover.stay)] = np.diff(was)[turnover.stay]
    sizes[rows] = lengths
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    kept = np.ones(len(turnover.stay), np.bool_)
    kept[rows[rows < len(kept)]] = False
    after: Arrays = {f"{stem}_indptr": indptr}
    for part in SPARSE:
        then = before[f"{stem}_{part}"]
        array = np.empty(int(indptr[-1]), then.dtype)
        for start, stop, source in _runs(np.flatnonzero(kept), turnover):
            stretch = then[was[source] : was[source + stop - start]]
            array[indptr[start] : indptr[stop]] = _renumbered(stretch, turnover)
        array[_entries(indptr, rows)] = found[f"{stem}.{part}"]
        after[f"{stem}_{part}"] = array
    return after
