"""Every method x every guarantee. A new line in METHODS is included automatically."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kinrank
import kinrank.testing
from kinrank.methods import Method
from kinrank.testing import CHECKS, RTOL, Check
from reference.input_checks import INPUT_CHECKS

pytestmark = pytest.mark.slow

CANNOT = {  # (method, guarantee): reason; each of these must fail, or the line has to be removed
    (
        "super-global",
        "rotation_is_irrelevant",
    ): "the elementwise maximum belongs to the axes of the descriptor",
    (
        "gss",
        "rotation_is_irrelevant",
    ): "ELU bends each axis of the descriptor on its own",
    **{
        (name, promise): "its network reads descriptors of one dimension, each axis with weights of its own"
        for name in ("lattqe", "lattdba+lattqe")
        for promise in ("rotation_is_irrelevant", "works_in_one_dimension")
    },
}


def name_of(value: Any) -> str:
    return str(getattr(value, "__name__", value))


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("name", list(kinrank.METHODS))
def test_method_keeps_promise(name: str, check: Check, ready: Callable[..., Method]) -> None:
    method = ready(name)
    if (name, check.__name__) in CANNOT:
        with pytest.raises((AssertionError, ValueError)):
            check(method, RTOL)
    else:
        check(method, RTOL)


@pytest.mark.parametrize("check", INPUT_CHECKS, ids=name_of)
def test_rerank_keeps_promise_about_input(check: Check) -> None:
    check(kinrank.methods.NoReranking(), RTOL)
