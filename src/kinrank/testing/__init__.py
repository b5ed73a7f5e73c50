"""Checks of the properties that every re-ranking method must have, for authors of methods.

A test of your own method needs one line, with any test runner or none:

    import kinrank.testing
    kinrank.testing.check_method(MyMethod(k=5))

or, with pytest, one test per property:

    @pytest.mark.parametrize("check", kinrank.testing.CHECKS, ids=lambda check: check.__name__)
    def test_property(check):
        check(MyMethod(k=5), kinrank.testing.RTOL)

`toy(kind)` returns small sets with known answers, `realistic_gallery(kind)` rows that resemble real data (tight
clusters, copies, long tails, outliers).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kinrank.errors import InputError
from kinrank.methods.base import Method
from kinrank.testing import declaration_checks, edge_cases, invariance_checks, realistic_checks
from kinrank.testing.sample_data import GALLERY_KINDS, TOY_KINDS, RealisticGallery, Toy, realistic_gallery, toy

__all__ = [
    "CHECKS",
    "GALLERY_KINDS",
    "RTOL",
    "TOY_KINDS",
    "Check",
    "RealisticGallery",
    "Toy",
    "check_method",
    "realistic_gallery",
    "toy",
]

Check = Callable[[Method, float], None]
RTOL = 1e-3  # tolerance for float32 rounding, relative to the range of the distances of a query

CHECKS: tuple[Check, ...] = (
    declaration_checks.is_a_frozen_value,
    declaration_checks.prints_as_code,
    declaration_checks.parameters_are_guarded,
    edge_cases.rankings_are_complete,
    edge_cases.works_on_what_there_is,
    edge_cases.works_in_one_dimension,
    edge_cases.large_k_is_cut,
    edge_cases.duplicates_are_items,
    edge_cases.self_is_left_out_by_identity,
    edge_cases.islands_are_ranked,
    edge_cases.depth_cuts,
    edge_cases.candidates_come_first,
    edge_cases.too_little_memory_is_refused,
    invariance_checks.gallery_order_is_irrelevant,
    invariance_checks.query_order_is_irrelevant,
    invariance_checks.rotation_is_irrelevant,
    invariance_checks.length_is_irrelevant,
    invariance_checks.inputs_stay_untouched,
    invariance_checks.same_bits_every_time,
    invariance_checks.blocks_are_irrelevant,
    realistic_checks.realistic_galleries_are_ranked,
    realistic_checks.prepared_galleries_survive,
)


def check_method(method: Method | type[Method], *, rtol: float = RTOL, skip: Collection[str] = ()) -> None:
    """Run all checks, and raise one AssertionError that lists every property the method violates, and how.

    Args:
        method: a Method; a class is checked with its default parameters.
        rtol: tolerance of a distance, relative to the range of its row, if only rounding differs.
        skip: names of checks to leave out, for a method with a documented exception.

    Each check is a function `check(method, rtol)` of CHECKS whose docstring states the property.

    Example:
        >>> check_method(kinrank.methods.AQE(k=3))
    """
    value = method() if isinstance(method, type) else method
    unknown = set(skip) - {check.__name__ for check in CHECKS}
    if unknown:
        names = ", ".join(check.__name__ for check in CHECKS)
        raise InputError(
            "has names that are not checks", parameter="skip", given=sorted(unknown), allowed=f"some of: {names}"
        )
    broken = []
    for check in CHECKS:
        if check.__name__ in skip:
            continue
        try:
            check(value, rtol)
        except Exception as error:  # collect failures of any kind
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            broken.append(f"  {check.__name__}: {kind}{error}")
    if broken:
        raise AssertionError("\n".join([f"{value!r} breaks {len(broken)} of {len(CHECKS)} promises:", *broken]))
