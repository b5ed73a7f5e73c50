"""A Method -> does it keep the promises every re-ranking method makes; for authors of methods.

In a test of your own method one line is enough, with any test runner or none:

    import kinrank.testing
    kinrank.testing.check_method(MyMethod(k=5))

and with pytest one test per promise:

    @pytest.mark.parametrize("check", kinrank.testing.CHECKS, ids=lambda check: check.__name__)
    def test_promise(check):
        check(MyMethod(k=5), kinrank.testing.RTOL)

`toy(kind)` gives small sets with known answers, `realistic_gallery(kind)` rows shaped like real data (tight clusters,
copies, long tails, outliers), `made_up(name, path)` a learned method with small made-up weights.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kinrank.methods.base import Method
from kinrank.testing import declaration, edges, inputs, invariance, realistic
from kinrank.testing.galleries import GALLERY_KINDS, RealisticGallery, realistic_gallery
from kinrank.testing.made_up import made_up
from kinrank.testing.toys import KINDS, Toy, toy

__all__ = [
    "CHECKS",
    "GALLERY_KINDS",
    "INPUT_CHECKS",
    "KINDS",
    "RTOL",
    "Check",
    "RealisticGallery",
    "Toy",
    "check_method",
    "made_up",
    "realistic_gallery",
    "toy",
]

Check = Callable[[Method, float], None]
RTOL = 1e-3  # of the extent of a query's distances: what rounding in float32 may do to an answer

CHECKS: tuple[Check, ...] = (
    declaration.is_a_frozen_value,
    declaration.prints_as_code,
    declaration.parameters_are_guarded,
    edges.rankings_are_complete,
    edges.works_on_what_there_is,
    edges.works_in_one_dimension,
    edges.large_k_is_cut,
    edges.duplicates_are_items,
    edges.self_is_left_out_by_identity,
    edges.islands_are_ranked,
    edges.depth_cuts,
    edges.candidates_come_first,
    edges.too_little_memory_is_refused,
    invariance.gallery_order_is_irrelevant,
    invariance.query_order_is_irrelevant,
    invariance.rotation_is_irrelevant,
    invariance.length_is_irrelevant,
    invariance.inputs_stay_untouched,
    invariance.same_bits_every_time,
    invariance.blocks_are_irrelevant,
    realistic.realistic_galleries_are_ranked,
    realistic.prepared_galleries_survive,
)
INPUT_CHECKS: tuple[Check, ...] = (  # kept by rerank for every method
    inputs.types_are_converted,
    inputs.layouts_are_converted,
    inputs.bad_rows_are_named,
    inputs.bad_shapes_are_named,
    inputs.bad_options_are_named,
)


def check_method(method: Method | type[Method], *, rtol: float = RTOL, skip: Collection[str] = ()) -> None:
    """Nothing, or one AssertionError that lists every promise the method breaks, and how.

    Args:
        method: a Method; of a class the defaults are checked.
        rtol: how far a distance may move, relative to the extent of its row, where only rounding differs.
        skip: names of checks that are left out, for a method that says why it cannot keep a promise.

    Each check is a function `check(method, rtol)` of CHECKS or INPUT_CHECKS whose docstring is the promise.

    Example:
        >>> check_method(kinrank.AQE(k=3))
    """
    value = method() if isinstance(method, type) else method
    checks = CHECKS + INPUT_CHECKS
    unknown = set(skip) - {check.__name__ for check in checks}
    if unknown:
        names = ", ".join(check.__name__ for check in checks)
        raise ValueError(f"skip={sorted(unknown)} are not checks; give some of: {names}")
    broken = []
    for check in checks:
        if check.__name__ in skip:
            continue
        try:
            check(value, rtol)
        except Exception as error:  # a method may fail in any way; the list of failures is the point
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            broken.append(f"  {check.__name__}: {kind}{error}")
    if broken:
        raise AssertionError("\n".join([f"{value!r} breaks {len(broken)} of {len(checks)} promises:", *broken]))
