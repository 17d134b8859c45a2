"""accuracy.json: functions at places where a careless formula loses digits, computed with 60 digits by mpmath.

Needs mpmath alone: `python accuracy_goldens.py` writes the file, too. Numbers are the bits of an f64 in hexadecimal,
since not every reader of JSON keeps the last bit of a decimal number. `exact` is the nearest number of the type.
"""

import json
import math
import pathlib
import struct

import mpmath
from mpmath import mp, mpf

mp.dps = 60
NEAR_ZERO = [0.3, 1e-2, 1e-4, 1e-7, 1e-9, 1e-12, 1e-16, 1e-20, 1e-30]
SIGNED = [sign * x for x in NEAR_ZERO for sign in (1, -1)]
MIDDLE = [0.5, 0.7, 0.9, 1.1, 1.5, 2.0, 3.0, 5.0, 9.0, 20.0]
ABOVE_ONE = [1 + x for x in NEAR_ZERO[:6]] + [1 + 2.0**-52, 1 + 2.0**-23, 1.5, 2.0, 10.0, 1e5, 1e10, 1e20, 1e30]
FAR = {"f64": [1e100, 1e200, 1.7e308], "f32": [1e35, 3.4e38]}


def both_signs(numbers):
    return [sign * x for x in numbers for sign in (1, -1)]


def large(end):
    """Near the end of a function that overflows, of f64 and of f32."""
    return lambda dtype: both_signs(MIDDLE) + both_signs([0.9 * end[dtype], end[dtype]])


def softplus(x):
    return mpmath.log1p(mpmath.exp(x))


ARCS = SIGNED + both_signs([0.5, 0.6, 0.7, 0.85, 0.9, 0.99, 0.9999, 1 - 2.0**-20, 1.0])

UNARY = {
    "asin": (mpmath.asin, lambda _: ARCS),
    "acos": (mpmath.acos, lambda _: ARCS),
    "acosh": (mpmath.acosh, lambda dtype: ABOVE_ONE + FAR[dtype]),
    "asinh": (mpmath.asinh, lambda dtype: SIGNED + both_signs(MIDDLE + FAR[dtype] + [1e8, 1e10, 1e12])),
    "atanh": (mpmath.atanh, lambda _: SIGNED + both_signs([0.5, 0.9, 0.99, 0.9999, 1 - 1e-6])),
    "log1p": (mpmath.log1p, lambda dtype: SIGNED + [-0.5, -0.9, -0.9999] + MIDDLE + FAR[dtype]),
    "expm1": (mpmath.expm1, lambda _: SIGNED + both_signs(MIDDLE) + [-40.0, 80.0]),
    "exp": (mpmath.exp, large({"f64": 700.0, "f32": 86.0})),
    "exp2": (lambda x: mpf(2) ** x, large({"f64": 1000.0, "f32": 125.0})),
    "sinh": (mpmath.sinh, lambda dtype: SIGNED + large({"f64": 710.0, "f32": 89.0})(dtype)),
    "cosh": (mpmath.cosh, lambda dtype: SIGNED + large({"f64": 710.0, "f32": 89.0})(dtype)),
    "tanh": (mpmath.tanh, lambda _: SIGNED + both_signs(MIDDLE)),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), large({"f64": 700.0, "f32": 86.0})),
    "log": (mpmath.log, lambda dtype: NEAR_ZERO + MIDDLE + ABOVE_ONE + FAR[dtype]),
    "log2": (lambda x: mpmath.log(x) / mpmath.log(2), lambda dtype: NEAR_ZERO + MIDDLE + FAR[dtype]),
    "log10": (lambda x: mpmath.log(x) / mpmath.log(10), lambda dtype: NEAR_ZERO + MIDDLE + FAR[dtype]),
    "cbrt": (mpmath.cbrt, lambda dtype: NEAR_ZERO + MIDDLE + FAR[dtype]),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), lambda dtype: NEAR_ZERO + MIDDLE + FAR[dtype]),
    "erf": (mpmath.erf, lambda _: SIGNED + both_signs(MIDDLE)),
    "erfc": (mpmath.erfc, lambda dtype: SIGNED + both_signs(MIDDLE[:8]) + ([20.0, 26.0] if dtype == "f64" else [9.0])),
    "erf_inv": (mpmath.erfinv, lambda _: SIGNED + both_signs([0.5, 0.9, 0.99, 0.9999, 1 - 2.0**-20])),
    "softplus": (softplus, lambda _: SIGNED + both_signs(MIDDLE) + [-80.0, 80.0]),
    "log_sigmoid": (lambda x: -softplus(-x), lambda _: SIGNED + both_signs(MIDDLE) + [-80.0, 80.0]),
    "gelu_exact": (lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2, lambda _: SIGNED + both_signs(MIDDLE[:9])),
    "silu": (lambda x: x / (1 + mpmath.exp(-x)), lambda _: SIGNED + both_signs(MIDDLE) + [-80.0]),
}
PAIRS = {
    "hypot": (mpmath.hypot, lambda dtype: [(3.0, 4.0), (1e-30, 1e-30), (1e-30, 1.0), (5.0, -1e-3)]
              + ([(1e200, 1e200), (1e-200, 3e-200), (1.2e308, 1.2e308)] if dtype == "f64" else [(2e38, 2e38), (1e-37, 3e-37)])),
    "logaddexp": (lambda x, y: max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y))),
                  lambda _: [(0.0, 0.0), (700.0, 699.0), (-700.0, -699.0), (1.0, -30.0), (2.0, -7.0), (1e30, 0.0)]),
    "pow": (
        lambda x, y: x**y,
        lambda dtype: [(1.0000001, 1e6), (0.5, 30.5), (2.0, -20.0), (10.0, 30.0), (1e-3, 7.25), (9.0, 0.5), (1.375, 270.5)]
        + [(0.8125, -400.0), (1e-30, 1.25)],
    ),
    "atan2": (mpmath.atan2, lambda _: [(1.0, 1.0), (1e-20, 1.0), (1.0, -1e-20), (-1.0, -3.0), (1e30, 1e-30)]),
}


def rounded(dtype, x):
    return x if dtype == "f64" else struct.unpack("f", struct.pack("f", x))[0]


def nearest(dtype, exact):
    """The nearest number of the type; of the f32 between two, by way of a double that is far from a tie."""
    return rounded(dtype, float(exact))


def bits(x):
    return struct.pack(">d", x).hex()


def case(name, dtype, function, arguments):
    arguments = [rounded(dtype, x) for x in arguments]
    exact = nearest(dtype, function(*map(mpf, arguments)))
    assert math.isfinite(exact), (name, arguments)
    return {"name": name, "dtype": dtype, "arguments": [bits(x) for x in arguments], "exact": bits(exact)}


def cases():
    for dtype in ("f64", "f32"):
        for name, (function, points) in UNARY.items():
            in_domain = {rounded(dtype, x) for x in points(dtype)}
            if name in ("atanh", "erf_inv"):
                in_domain = {x for x in in_domain if abs(x) < 1}
            for x in sorted(in_domain):
                yield case(name, dtype, function, [x])
        for name, (function, points) in PAIRS.items():
            for pair in points(dtype):
                yield case(name, dtype, function, pair)


def make_accuracy():
    path = pathlib.Path(__file__).parent / "accuracy.json"
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in cases())
    versions = json.dumps({"mpmath": mpmath.__version__}, separators=(",", ":"))
    path.write_text('{\n"versions":' + versions + ',\n"cases":[\n' + lines + "\n]\n}\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    make_accuracy()
