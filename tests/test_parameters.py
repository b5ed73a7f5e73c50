"""Declared hyper-parameters: one declaration gives the check, the text and the type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import kinrank
from kinrank import parameters
from kinrank.methods.base import Method, full_repr
from kinrank.parameters import parameter


@dataclass(frozen=True, kw_only=True)
class Example(Method):
    name: ClassVar[str] = "example"

    k: int = parameter(4, "neighbours", low=1, high=10)
    width: float = parameter(0.5, "width of the kernel", low=0, above_low=True)
    smooth: bool = parameter(True, "whether to smooth")
    variant: str = parameter("paper", "which one", choices=("paper", "published"))
    power: float | None = parameter(None, "power of the distance", low=0, above_low=True, high=16)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"k": 0}, "Example: k=0 is not allowed; give a whole number >= 1 and <= 10 (neighbours)"),
        ({"k": 11}, "k=11"),
        ({"k": 2.5}, "a whole number"),
        ({"k": True}, "k=True"),
        ({"k": "4"}, "k='4'"),
        ({"k": None}, "k=None"),
        ({"width": 0}, "a number > 0 (width of the kernel)"),
        ({"width": float("nan")}, "width=nan"),
        ({"width": float("inf")}, "width=inf"),
        ({"smooth": 1}, "true | false"),
        ({"variant": "other"}, "paper | published"),
        ({"variant": 1}, "variant=1"),
        ({"variant": None}, "variant=None"),
        ({"width": None}, "width=None"),
        (
            {"power": 0},
            "power=0 is not allowed; give a number > 0 and <= 16, or none to measure it from the data",
        ),
        ({"power": 17}, "power=17"),
        ({"power": "none"}, "power='none'"),
        ({"power": float("nan")}, "power=nan"),
    ],
)
def test_what_is_outside_is_refused_with_what_is_allowed(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Example(**given)
    assert words in str(refusal.value)


def test_numpy_numbers_become_plain_ones_so_that_methods_print_and_compare() -> None:
    method = Example(k=np.int64(3), width=np.float32(0.25), smooth=np.bool_(False))
    assert method == Example(k=3, width=0.25, smooth=False)
    assert repr(method) == "Example(k=3, width=0.25, smooth=False)"
    assert type(method.k) is int
    assert type(Example(k=3.0).k) is int  # type: ignore[arg-type]
    assert type(Example(width=1).width) is float


def test_the_declaration_is_read_back_in_order() -> None:
    declared = Example.parameters()
    assert [entry.name for entry in declared] == ["k", "width", "smooth", "variant", "power"]
    assert [entry.kind for entry in declared] == [int, float, bool, str, float]
    assert [entry.optional for entry in declared] == [False, False, False, False, True]
    assert declared[0].default == 4
    assert declared[1].allowed == "a number > 0"


def test_an_unknown_parameter_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="radius"):
        kinrank.methods.AQE(radius=3)  # type: ignore[call-arg]


def test_what_may_be_measured_is_none_until_it_is_given() -> None:
    assert Example().power is None
    assert Example(power=None) == Example()
    assert Example(power=np.float32(2)).power == 2.0
    assert type(Example(power=2).power) is float
    allowed = Example.parameters()[-1].allowed
    assert allowed == "a number > 0 and <= 16, or none to measure it from the data"


def test_rho_gamma_share_and_direct_of_lpmt_are_measured_unless_given() -> None:
    method = kinrank.LPMT()
    assert (method.rho, method.gamma, method.share, method.direct) == (None, None, None, None)
    assert "rho=None, gamma=None, share=None" in full_repr(method)
    assert "direct=None" in full_repr(method)
    optional = {entry.name: entry.follows for entry in kinrank.LPMT.parameters() if entry.optional}
    assert {name for name, follows in optional.items() if not follows} == {"rho", "gamma", "share", "direct"}
    assert {name for name, follows in optional.items() if follows} == {"theta", "k2", "direct_k", "direct_support"}
    given = kinrank.LPMT(rho=1, gamma=2.5, share=0, direct=0)
    assert (given.rho, given.gamma, given.share) == (1.0, 2.5, 0.0)  # 0 is a share without special meaning
    assert given.direct == 0.0
    wrong = [("rho", 0), ("gamma", 0), ("share", -1), ("rho", 17), ("share", 1.1), ("direct", -0.1), ("direct", 1.5)]
    for name, value in wrong:
        with pytest.raises(ValueError, match=f"LPMT: {name}={value} is not allowed.*or none to measure it"):
            kinrank.LPMT(**{name: value})


@pytest.mark.parametrize("word", ["none", "None", "auto"])
def test_the_command_line_says_none_or_auto(word: str) -> None:
    from kinrank.cli.methods import parse_method

    assert parse_method("lpmt", ["--rho", word, "--gamma=1.5", "--share", word]) == kinrank.LPMT(gamma=1.5)
    with pytest.raises(ValueError, match="k1"):
        parse_method("lpmt", ["--k1", word])


def test_a_number_of_items_has_no_upper_end() -> None:
    assert parameters.check_whole_number(10**400, "k") == parameters.MAX_COUNT
    manifold = kinrank.Manifold.build(np.eye(5, dtype=np.float32))
    assert manifold.search(np.eye(5)[:1], k=10**30, depth=10**30, budget=10**30).depth == 5
    assert kinrank.rerank(np.eye(5)[:1], np.eye(5), candidates=10**30, k=10**30).depth == 5
