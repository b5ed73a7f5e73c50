"""Exceptions and warnings of kinrank. `InputError` marks a mistake of the caller; anything unexpected is a bug.

The HTTP service, the command line, `compare`, `tune` and `kinrank bench` turn these exceptions into a sentence
for the user. They let every other exception through, so that a bug looks like one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

MAX_SHOWN_CHARACTERS = 80  # of a value that a message repeats
NOT_GIVEN: Any = object()  # `None` is a value that a caller can give
REFERENCE = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`")  # a parameter inside a text: `depth` or `depth=5`

Error = TypeVar("Error", bound="InputError")
Spelling = Callable[[str, str | None], str]  # name and value of a parameter, as the user of one interface writes them


def spell_in_python(name: str, value: str | None) -> str:
    """Write a parameter as Python code."""
    return name if value is None else f"{name}={value}"


def replace_references(text: str, spell: Spelling) -> str:
    """Replace parameters in backticks, such as `depth` or `depth=5`, as `spell` writes them."""
    return REFERENCE.sub(lambda match: spell(match[1], match[2]), text)


class InputError(ValueError):
    """The caller gave something that kinrank cannot use. The message is composed of the parts below.

    Attributes:
        problem: what is wrong. After `parameter` it continues the sentence ("is not allowed", "has 3 rows"); without
            `parameter` it is a sentence of its own.
        parameter: name of the parameter in Python.
        given: value of the parameter, or NOT_GIVEN.
        allowed: values that the parameter accepts ("a whole number >= 1"); printed after "give".
        remedy: what to do instead ("leave it out").
        context: where the mistake is, such as the name of a method or a line of a file; printed first.

    `problem`, `allowed` and `remedy` write other parameters in backticks, as `depth` or `depth=5`, so that the command
    line can replace them by its flags.

    Example:
        >>> InputError(parameter="k1", given=0, allowed="a whole number >= 1", context="LPMT")
        InputError('LPMT: k1=0 is not allowed; give a whole number >= 1')
    """

    def __init__(
        self,
        problem: str = "is not allowed",
        *,
        parameter: str | None = None,
        given: Any = NOT_GIVEN,
        allowed: str | None = None,
        remedy: str | None = None,
        context: str | None = None,
    ) -> None:
        self.problem, self.parameter, self.given = problem, parameter, given
        self.allowed, self.remedy, self.context = allowed, remedy, context
        super().__init__(self.compose())

    def compose(self, spell: Spelling | None = None) -> str:
        """Compose the message. `spell` writes parameters for another interface than Python."""
        head = self.problem
        if self.parameter is not None:
            value = None if self.given is NOT_GIVEN else shorten(self.given)
            head = f"{(spell or spell_in_python)(self.parameter, value)} {head}"
        parts = [head, self.allowed and f"give {self.allowed}", self.remedy]
        text = "; ".join(part for part in parts if part)
        if spell is not None:
            text = replace_references(text, spell)
        return f"{self.context}: {text}" if self.context else text

    def within(self: Error, context: str) -> Error:
        """Copy the error and put `context` in front of its message."""
        return self._copy(context=f"{context}: {self.context}" if self.context else context)

    def advise(self: Error, remedy: str) -> Error:
        """Copy the error and put `remedy` at the end of its message."""
        return self._copy(remedy=f"{self.remedy}; {remedy}" if self.remedy else remedy)

    def _copy(self: Error, **changed: str) -> Error:
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__, **changed)
        ValueError.__init__(copy, copy.compose())
        return copy

    def __reduce__(self) -> Any:
        fields = {name: getattr(self, name) for name in ("problem", "parameter", "allowed", "remedy", "context")}
        if self.given is not NOT_GIVEN:
            fields["given"] = self.given
        return _restore, (type(self), fields)


def _restore(kind: type[InputError], fields: dict[str, Any]) -> InputError:
    """Rebuild an error that was pickled: pickle cannot pass keyword arguments, and NOT_GIVEN is one object."""
    error = kind.__new__(kind)
    InputError.__init__(error, **fields)
    return error


def shorten(value: Any) -> str:
    """Return repr(value), cut to MAX_SHOWN_CHARACTERS."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 3]}..."


class UnreadableFileError(InputError):
    """The file exists but cannot be read: it has the wrong format, is damaged, or is not a regular file."""


class MissingFileError(InputError, FileNotFoundError):
    """A file or folder that the caller named does not exist."""

    def __new__(cls, *_: Any, **__: Any) -> MissingFileError:
        return OSError.__new__(cls)  # an OSError has more fields than a ValueError, so that its memory must be larger

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ConcurrentSaveError(InputError):
    """Another process saved to the folder after this Manifold was loaded from it or saved to it."""


class EncoderMismatchError(InputError):
    """Another encoder made the existing vectors, so new vectors cannot be compared with them."""


class EncoderOutputError(InputError):
    """The model does not return one vector of fixed length per item."""


class ConstantVectorsError(InputError):
    """All vectors are equal, so there is no direction to learn."""


class MemoryLimitError(MemoryError):
    """An estimate exceeds `max_memory`. Raised before anything is allocated."""


class MissingExtraError(ImportError):
    """An optional package is not installed. The message names the extra to install."""


class UnloadableError(RuntimeError):
    """`load` would refuse this snapshot, which only a bug in kinrank can cause. Nothing was written."""


class BenchmarkMismatchWarning(UserWarning):
    """Counts or ground truth of a set differ from the published ones, so scores cannot be compared with papers."""


class TruncatedRankingWarning(UserWarning):
    """A measure needs more items than the ranking lists, so its value is too low."""


class LogAppliedWarning(UserWarning):
    """Changes that a killed service had acknowledged were applied to the folder before another change."""


class UnappliedChangesWarning(UserWarning):
    """A Manifold was loaded without changes that a service acknowledged but did not save before it was killed."""


class ExactSearchWarning(UserWarning):
    """A Manifold was built over an approximate store and loaded without it, so it searches exactly."""


# Errors that are not bugs: a mistake of the caller, a missing package, or something that the operating system refuses.
EXPECTED_ERRORS = (InputError, MissingExtraError, MemoryError, OSError)
