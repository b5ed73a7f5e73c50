"""Parts of loops: usable inside loops only, and a plain error instead of a crash for whoever calls one from Python."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.stages.kernels.arrays import nobody, numbered
from reference.calling import callable_part


def test_a_part_works_inside_a_loop() -> None:
    assert callable_part(numbered)(3).tolist() == [0, 1, 2]
    assert callable_part(nobody)(2).tolist() == [-1, -1]
    assert callable_part(nobody)(2).dtype == np.int32


def test_calling_a_part_from_python_is_an_error_and_no_crash() -> None:
    with pytest.raises((TypeError, KeyError)):
        numbered(3)
    assert callable_part(numbered)(1).tolist() == [0]
