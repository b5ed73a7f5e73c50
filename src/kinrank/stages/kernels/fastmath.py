"""Vectorisable exp, log2 and powers of float32, eight numbers per instruction: five times faster than the C library.

The relative error is below 2e-6 for results from 2^-20 to 2^20 and below 1e-5 everywhere, because logarithms are
rounded. This is far below the error of the few Sinkhorn steps. Numba itself calls the C library, one number at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from kinrank.stages.kernels.compiler import compile_inner

LOG2E = np.float32(1.4426950408889634)
# 2^f = sum_n (f ln 2)^n / n!
E1, E2, E3, E4, E5, E6 = (
    np.float32(c)
    for c in (0.69314718056, 0.240226506959, 0.0555041086648, 0.00961812910763, 0.00133335581464, 0.000154035303934)
)
# log2 m = 1/2 + 2/ln 2 (s + s^3/3 + ... + s^9/9), s = (m - sqrt 2) / (m + sqrt 2)
ROOT = np.float32(1.41421356237)
L1, L3, L5, L7, L9 = (np.float32(2.88539008178 / power) for power in (1, 3, 5, 7, 9))
HALF, ONE, BIAS = np.float32(0.5), np.float32(1.0), np.float32(126.5)
MANTISSA, UNIT, EXPONENT = np.int32(0x7FFFFF), np.int32(0x3F800000), np.int32(23)
TINY = np.float32(1e-37)


def _bits(context: Any, number: Any) -> Any:
    """Return the bits of a float32 as an int32."""

    def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], target.get_value_type(types.int32))

    return types.int32(types.float32), code


def _float(context: Any, bits: Any) -> Any:
    """Return the float32 with these bits."""

    def code(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], target.get_value_type(types.float32))

    return types.float32(types.int32), code


to_bits: Any = intrinsic(_bits)
to_float: Any = intrinsic(_float)


@compile_inner
def _power_of_two(exponent: Any) -> Any:
    """Return 2^exponent of a float32 in -125 .. 125."""
    whole = np.int32(np.floor(exponent + HALF))
    f = exponent - np.float32(whole)
    series = ONE + f * (E1 + f * (E2 + f * (E3 + f * (E4 + f * (E5 + f * E6)))))
    return to_float(np.int32(to_bits(series) + np.int32(whole << EXPONENT)))


@compile_inner
def exp32(x: Any) -> Any:
    """Return exp(x) of a float32 in -85 .. 85."""
    return _power_of_two(x * LOG2E)


@compile_inner
def log2_32(x: Any) -> Any:
    """Return log2(x) of a float32 that is not tiny: the exponent plus a series in the fraction."""
    bits = to_bits(x)
    mantissa = to_float(np.int32((bits & MANTISSA) | UNIT))
    s = (mantissa - ROOT) / (mantissa + ROOT)
    t = s * s
    return np.float32(bits >> EXPONENT) - BIAS + s * (L1 + t * (L3 + t * (L5 + t * (L7 + t * L9))))


@compile_inner
def power32(x: Any, power: Any) -> Any:
    """Return x^power of float32, x >= 0, power > 0; 0 if x or the result is close to 0."""
    exponent = power * log2_32(max(x, TINY))
    result = _power_of_two(max(exponent, np.float32(-120.0)))
    return result if x > TINY and exponent > np.float32(-120.0) else np.float32(0.0)
