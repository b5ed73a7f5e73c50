"""Capabilities of a method beyond `rerank`, and the error for a capability that is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kinrank.errors import InputError

Capability = Literal["prepared_search", "filters", "changes", "feedback", "explain", "observe"]


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Capabilities that a method class declares. `Method.can` also considers the hyper-parameters of an instance.

    Attributes:
        prepared_search: a Manifold can prepare a gallery and search it for new queries; the method extends
            `PreparedMethod` and implements `prepare_gallery`, `neighbors_needed` and `search_gallery`.
        filters: `search_gallery` returns only items that the `masks` of the request allow.
        changes: `change` updates a prepared gallery after items were added or removed.
        feedback: items can be marked right or wrong: `search_gallery` uses the `marks` of the request, and the method
            implements `distances_with_marks`.
        explain: results have chains; the method implements `explain_result`, and `prepare` returns states and steps.
        observe: queries that a Manifold has observed improve later searches.
    """

    prepared_search: bool = False
    filters: bool = False
    changes: bool = False
    feedback: bool = False
    explain: bool = False
    observe: bool = False


@dataclass(frozen=True, kw_only=True)
class Limitation:
    """A capability that a method has only with one value of a hyper-parameter.

    Attributes:
        capability: the declared capability.
        parameter, needed: the hyper-parameter, and the value that it needs.
        problem, remedy: the error with any other value.
    """

    capability: Capability
    parameter: str
    needed: object
    problem: str
    remedy: str

    def applies(self, method: object, capability: Capability) -> bool:
        """True if the hyper-parameters of the method rule out the capability."""
        return capability == self.capability and getattr(method, self.parameter) != self.needed

    def error(self, method: object) -> InputError:
        """Return the error for a method to which this applies."""
        value = getattr(method, self.parameter)
        return InputError(f"{type(method).__name__}({self.parameter}={value!r}) {self.problem}", remedy=self.remedy)


MISSING: dict[Capability, tuple[str, str]] = {  # problem and remedy if the class does not declare the capability
    "prepared_search": (
        "{method} cannot prepare a gallery without the queries, so a Manifold cannot use it",
        "use one of: {alternatives}, or rerank(queries, store, method, candidates=...)",
    ),
    "filters": (
        "{method} cannot exclude items from its results",
        "use the `masks` of the request in its search_gallery and declare `filters` in its capabilities",
    ),
    "changes": ("a manifold of {method} cannot {action}", "change the vectors and build it again"),
    "feedback": ("{method} cannot use `positives` and `negatives`, which need chains", "use LPMT, or leave them out"),
    "explain": ("{method} ranks without chains, so there is nothing to explain", "use LPMT"),
    "observe": (
        "observed queries become links of chains, and {method} ranks without chains",
        "build the manifold with LPMT",
    ),
}


def missing_capability(capability: Capability, **words: str) -> InputError:
    """Return the error for a capability that the class of a method does not declare.

    `words`: `method`, the name of the class; `action`, the requested change, such as "add items"; `alternatives`,
    names of methods that support a prepared search.
    """
    problem, remedy = MISSING[capability]
    return InputError(problem.format(**words), remedy=remedy.format(**words))
