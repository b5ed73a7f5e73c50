"""Inner functions: usable inside kernels only; a call from Python is a plain error instead of a crash."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.stages.kernels.data_structures import new_missing_numbers, new_range
from reference.inner_kernels import make_callable


def test_an_inner_function_works_inside_a_kernel() -> None:
    assert make_callable(new_range)(3).tolist() == [0, 1, 2]
    assert make_callable(new_missing_numbers)(2).tolist() == [-1, -1]
    assert make_callable(new_missing_numbers)(2).dtype == np.int32


def test_calling_an_inner_function_from_python_is_an_error_not_a_crash() -> None:
    with pytest.raises((TypeError, KeyError)):
        new_range(3)
    assert make_callable(new_range)(1).tolist() == [0]
