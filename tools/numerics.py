"""Compares elementwise functions, reductions and products with NumPy and with more digits.

`numerics.py write FOLDER` writes the inputs; `numerics.py compare FOLDER` reads the results of `numerics FOLDER` and prints,
for each function, the greatest error in units in the last place: of ours, and of NumPy's. Exact values are those of mpmath
with 80 digits for functions of one or two numbers. Sums and products of many terms are compared with exact sums; their error
is in units in the last place of the sum of the absolute terms, because terms that cancel have no other scale. A function is an
outlier if its error is more than 4 units, and more than twice NumPy's.
"""

import math
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np

mpmath.mp.dps = 80
m = mpmath
warnings.filterwarnings("ignore")
TYPES = {"f32": np.float32, "f64": np.float64}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-30, -1e-30, 1e30, -1e30]
LIMIT = 4.0
COUNT = 1500


def softplus(x):
    return np.logaddexp(x, np.zeros_like(x))


def remainder(x, y):
    """Exact, where the quotient has more digits than mpmath."""
    x, y = Fraction(float(x)), Fraction(float(y))
    exact = x - y * math.floor(x / y)
    return mpmath.mpf(exact.numerator) / exact.denominator


def arctan2(y, x):
    """mpmath has no zeros with a sign; NumPy is asked for them."""
    return m.atan2(y, x) if x and y else m.mpf("nan")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# Name: (exact function, NumPy's function or None, least and greatest input).
UNARY = {
    "exp": (m.exp, np.exp, -80, 80), "exp2": (lambda x: m.power(2, x), np.exp2, -120, 120),
    "expm1": (m.expm1, np.expm1, -40, 80), "log": (m.log, np.log, 1e-30, 1e30),
    "log2": (lambda x: m.log(x) / m.log(2), np.log2, 1e-30, 1e30), "log10": (m.log10, np.log10, 1e-30, 1e30),
    "log1p": (m.log1p, np.log1p, -0.999, 1e10), "sqrt": (m.sqrt, np.sqrt, 0, 1e30),
    "rsqrt": (lambda x: 1 / m.sqrt(x), None, 1e-30, 1e30),
    "cbrt": (lambda x: m.sign(x) * m.cbrt(abs(x)), np.cbrt, -1e30, 1e30),
    "reciprocal": (lambda x: 1 / x, np.reciprocal, -1e30, 1e30), "square": (lambda x: x * x, np.square, -1e15, 1e15),
    "sin": (m.sin, np.sin, -1e4, 1e4), "cos": (m.cos, np.cos, -1e4, 1e4), "tan": (m.tan, np.tan, -1e4, 1e4),
    "asin": (m.asin, np.arcsin, -1, 1), "acos": (m.acos, np.arccos, -1, 1), "atan": (m.atan, np.arctan, -1e10, 1e10),
    "sinh": (m.sinh, np.sinh, -80, 80), "cosh": (m.cosh, np.cosh, -80, 80), "tanh": (m.tanh, np.tanh, -20, 20),
    "asinh": (m.asinh, np.arcsinh, -1e10, 1e10), "acosh": (m.acosh, np.arccosh, 1, 1e10),
    "atanh": (m.atanh, np.arctanh, -0.9999, 0.9999), "sigmoid": (lambda x: 1 / (1 + m.exp(-x)), sigmoid, -80, 80),
    "erf": (m.erf, None, -4, 4), "erfc": (m.erfc, None, -4, 9), "erf_inv": (m.erfinv, None, -0.9999, 0.9999),
    "floor": (m.floor, np.floor, -1e5, 1e5), "ceil": (m.ceil, np.ceil, -1e5, 1e5),
    "round": (m.nint, np.round, -1e5, 1e5), "trunc": (lambda x: m.sign(x) * m.floor(abs(x)), np.trunc, -1e5, 1e5),
    "sign": (m.sign, np.sign, -1e5, 1e5), "softplus": (lambda x: m.log1p(m.exp(x)), softplus, -80, 80),
}
BINARY = {
    "add": (lambda x, y: x + y, np.add), "subtract": (lambda x, y: x - y, np.subtract),
    "multiply": (lambda x, y: x * y, np.multiply), "divide": (lambda x, y: x / y, np.divide),
    "remainder": (remainder, np.remainder),
    "power": (lambda x, y: m.power(x, y), np.power), "arctan2": (arctan2, np.arctan2),
    "hypot": (m.hypot, np.hypot), "maximum": (max, np.maximum),
    "logaddexp": (lambda x, y: m.log(m.exp(x) + m.exp(y)), np.logaddexp),
}


def grid(low, high, seed):
    """Half of the numbers are even in their values, half in their exponents."""
    random = np.random.default_rng(seed)
    even = random.uniform(low, high, COUNT // 2)
    scale = 10.0 ** random.uniform(-12, math.log10(max(abs(low), abs(high))), COUNT // 2)
    signs = random.choice([-1.0, 1.0], COUNT // 2) if low < 0 else 1.0
    return np.clip(np.concatenate([even, signs * scale]), low, high)


def write(folder):
    for dtype, kind in TYPES.items():
        for seed, (name, (_, _, low, high)) in enumerate(UNARY.items()):
            numbers = np.concatenate([grid(low, high, seed), SPECIAL])
            numbers.astype(kind).tofile(folder / f"{dtype}-{name}.in")
        x, y = np.abs(grid(-30, 30, 100)), grid(-20, 20, 101)
        pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL])
        halves = np.concatenate([x, pairs[:, 0], np.random.default_rng(1).permutation(y), pairs[:, 1]])
        halves.astype(kind).tofile(folder / f"{dtype}-binary.in")
        random = np.random.default_rng(102)
        random.normal(0.25, 1, (300, 96)).astype(kind).tofile(folder / f"{dtype}-matrix.in")


def ulps(found, exact, kind):
    """The distance of a finite result from the exact value, in units in the last place of the type."""
    least = float(np.finfo(kind).smallest_subnormal)
    unit = mpmath.mpf(float(np.spacing(kind(abs(exact)))))
    return float(abs(mpmath.mpf(float(found)) - exact) / max(unit, least))


def worst(found, inputs, exact, kind):
    greatest, place = 0.0, None
    for result, *arguments in zip(found, *inputs):
        if not all(math.isfinite(x) for x in arguments):
            continue
        try:
            value = exact(*(mpmath.mpf(float(x)) for x in arguments))
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        if isinstance(value, mpmath.mpc) or not mpmath.isfinite(value) or abs(value) > float(np.finfo(kind).max):
            continue
        error = ulps(result, value, kind) if math.isfinite(result) else math.inf
        if error > greatest:
            greatest, place = error, tuple(float(x) for x in arguments)
    return greatest, place


def special_differences(ours, theirs, inputs):
    """Places where one is NaN, infinite or a zero of a sign, and the other is not."""
    same = (np.isnan(ours) == np.isnan(theirs)) & (np.isinf(ours) == np.isinf(theirs))
    same &= ~np.isinf(ours) | (ours == theirs)
    same &= ~((ours == 0) & (theirs == 0)) | (np.signbit(ours) == np.signbit(theirs))
    return [tuple(float(x[at]) for x in inputs) for at in np.flatnonzero(~same)]


def many(x, kind):
    """Name: (exact result, scale of the error, NumPy's result) for functions of a matrix."""
    wide = x.astype(np.longdouble)
    sums = lambda rows: np.array([np.longdouble(math.fsum(map(float, row))) for row in rows])
    shrunk = (x * kind(0.01) + kind(1)).astype(np.longdouble)
    product = lambda z: wide.T @ wide if z else np.abs(wide).T @ np.abs(wide)
    exps = np.exp(wide - wide.max(1, keepdims=True))
    mean, log_sum = wide.mean(1, keepdims=True), np.log(exps.sum(1)) + wide.max(1)
    soft = np.exp(x - x.max(1, keepdims=True))
    cumulative = np.log(np.cumsum(np.exp(wide), 1))
    return {
        "sum_rows": (sums(x), sums(abs(x)), x.sum(1)), "sum_columns": (sums(x.T), sums(abs(x.T)), x.sum(0)),
        "sum_all": (sums([x.ravel()]), sums([abs(x).ravel()]), x.sum()),
        "mean": (wide.mean(0), abs(wide).mean(0), x.mean(0)),
        "variance": (((wide - mean) ** 2).mean(1), None, x.var(1)),
        "norm": (np.sqrt((wide**2).sum(1)), None, np.linalg.norm(x, axis=1)),
        "prod": (shrunk.prod(1), None, shrunk.astype(kind).prod(1)), "max": (wide.max(0), None, x.max(0)),
        "cumsum": (np.cumsum(wide, 0), np.cumsum(abs(wide), 0), np.cumsum(x, 0)),
        "cumprod": (np.cumprod(shrunk, 1), None, np.cumprod(shrunk.astype(kind), 1)),
        "cumlogsumexp": (cumulative, np.maximum(1, abs(cumulative)), np.logaddexp.accumulate(x, 1)),
        "matmul": (product(True), product(False), x.T @ x),
        "softmax": (exps / exps.sum(1, keepdims=True), None, soft / soft.sum(1, keepdims=True)),
        "logsumexp": (log_sum, np.maximum(1, abs(log_sum)), np.log(soft.sum(1)) + x.max(1)),
    }


def compare(folder):
    functions, outliers, differing = 0, [], 0
    row = lambda *cells: print("{:<14}{:>5}{:>10}{:>10}  {}".format(*cells))
    row("function", "type", "ours", "NumPy", "place of our greatest error; differences at special values")
    for dtype, kind in TYPES.items():
        read = lambda name: np.fromfile(folder / f"{dtype}-{name}.out", np.float64).astype(kind)
        cases = [(name, exact, theirs, [np.fromfile(folder / f"{dtype}-{name}.in", kind)])
                 for name, (exact, theirs, _, _) in UNARY.items()]
        halves = np.split(np.fromfile(folder / f"{dtype}-binary.in", kind), 2)
        cases += [(name, exact, theirs, halves) for name, (exact, theirs) in BINARY.items()]
        for name, exact, theirs, inputs in cases:
            found = read(name)
            error, place = worst(found, inputs, exact, kind)
            their_error, note = None, ""
            if theirs is not None:
                expected = theirs(*inputs)
                their_error = worst(expected, inputs, exact, kind)[0]
                places = special_differences(found, expected, inputs)
                differing += len(places)
                note = f"  special: {places[:4]} of {len(places)}" if places else ""
            functions += 1
            if error > LIMIT and error > 2 * (their_error or 0):
                outliers.append((name, dtype, error))
            shown = "-" if their_error is None else f"{their_error:.2f}"
            row(name, dtype, f"{error:.2f}", shown, f"{place}{note}")
        x = np.fromfile(folder / f"{dtype}-matrix.in", kind).reshape(-1, 96)
        for name, (exact, scale, theirs) in many(x, kind).items():
            unit = np.spacing(np.abs(exact if scale is None else scale).astype(kind)).astype(np.longdouble)
            error = lambda found: float(np.max(np.abs(found.astype(np.longdouble) - exact) / unit))
            ours = error(read(name).reshape(np.shape(exact)))
            expected = error(np.asarray(theirs))
            functions += 1
            if ours > LIMIT and ours > 2 * expected:
                outliers.append((name, dtype, ours))
            row(name, dtype, f"{ours:.2f}", f"{expected:.2f}", "")
    shown = ", ".join(f"{name} {dtype} {error:.1f}" for name, dtype, error in outliers) or "none"
    print(f"figures: {functions} results, {differing} differences at special values, outliers: {shown}")


if __name__ == "__main__":
    {"write": write, "compare": compare}[sys.argv[1]](Path(sys.argv[2]))
