"""Registry of methods by name: those of kinrank, and those that other packages register as entry points."""

from __future__ import annotations

import warnings
from collections import UserDict
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points

from kinrank.errors import InputError
from kinrank.methods.base import Method

ENTRY_POINT_GROUP = "kinrank.methods"
DEFAULT_METHOD = "lpmt"


class MethodRegistry(UserDict[str, type[Method]]):
    """Methods by command line name: built-in ones first, then those of other packages.

    A package registers a method with an entry point of the group `kinrank.methods`, whose name is the name of the
    method and whose value is its class. It is imported when its name is used or when all methods are listed. A broken
    one raises an InputError in the first case, and is left out with a warning in the second.
    """

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        """Entry points by name. One with the name of a built-in method is ignored."""
        return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name not in self.data}

    def __missing__(self, name: str) -> type[Method]:
        kind = _load_method(self._entry_points[name])
        self.data[name] = kind
        return kind

    def __contains__(self, name: object) -> bool:
        return name in self.data or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        return iter(self.data)

    def __len__(self) -> int:
        self._load_all()
        return len(self.data)

    def _load_all(self) -> None:
        for name in [name for name in self._entry_points if name not in self.data]:
            try:
                self[name]
            except InputError as error:
                del self._entry_points[name]
                warnings.warn(f"{error}; it is left out", stacklevel=4)

    def find(self, name: str) -> type[Method]:
        """Return the class of a method by its command line name or class name, ignoring dashes, underscores and case.

        Example:
            >>> find_method("K_reciprocal")
            <class 'kinrank.methods.k_reciprocal.KReciprocal'>
        """
        key = _normalize_name(name)
        kinds = _index_by_name(self.data.values())
        if key in kinds:
            return kinds[key]
        for registered in self._entry_points:
            if _normalize_name(registered) == key:
                return self[registered]
        kinds = _index_by_name(self.values())  # the class name of a method of another package
        if key in kinds:
            return kinds[key]
        near = get_close_matches(key, kinds, 1)
        hint = f" (did you mean {kinds[near[0]].name}?)" if near else ""
        raise InputError(f"method {name!r} is not known{hint}", allowed=f"one of: {', '.join(self)}")

    def resolve(self, method: Method | str | None) -> Method:
        """Return a Method from itself or from its name; None is the default, LPMT()."""
        if isinstance(method, Method):
            return method
        if method is None or isinstance(method, str):
            return self.find(DEFAULT_METHOD if method is None else method)()
        raise InputError(
            "is not known", parameter="method", given=method, allowed=f"a Method or one of: {', '.join(self)}"
        )


def _load_method(entry: EntryPoint) -> type[Method]:
    """Import the class of an entry point, or raise an InputError that names its package."""
    package = "another package" if entry.dist is None else f"the package {entry.dist.name}"
    subject = f"method {entry.name!r} of {package}"
    try:
        kind = entry.load()
    except Exception as error:  # the package may fail in any way while it is imported
        raise InputError(f"{subject} cannot be imported from {entry.value}: {type(error).__name__}: {error}") from error
    if not isinstance(kind, type) or not issubclass(kind, Method):
        raise InputError(f"{subject} is not a class that extends kinrank.Method: {entry.value}")
    if kind.name != entry.name:
        raise InputError(f"{subject} has another name in its class, {kind.name!r}", remedy="give both the same name")
    return kind


def _index_by_name(kinds: Iterable[type[Method]]) -> dict[str, type[Method]]:
    return {_normalize_name(word): kind for kind in kinds for word in (kind.__name__, kind.name)}


def _normalize_name(name: str) -> str:
    """Remove dashes and underscores and convert to lower case."""
    return name.strip().replace("_", "").replace("-", "").lower()
