"""elementwise.json: functions element by element, activations, and their edges.

`cases` are as in ops.json. `edges` hold, for each function, its values and (for floats) its gradients
at zeros, ties, infinities, NaN, the greatest and the least numbers, and on tensors without axes and
without elements; `gradients` are those of the sum of the result. XLA takes subnormal numbers for 0.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from golden_cases import *  # noqa: F403 (the samplers and writers)

SHAPE = (3,)
INTEGERS = (np.int32, np.int64, np.uint32)


def above_one(rng, shape, dtype):
    return (1 + rng.integers(8, 257, shape) / 64).astype(dtype)


def halves(rng, shape, dtype):
    """Multiples of a quarter, ties among them."""
    return (rng.integers(-10, 11, shape) / 4).astype(dtype)


def exponent(rng, shape, dtype):
    return (rng.integers(-12, 13, shape) / 4).astype(dtype)


def small_integers(low, high):
    def sample(rng, shape, dtype):
        least = max(low, 0) if np.dtype(dtype).kind == "u" else low
        return rng.integers(least, high, shape).astype(dtype)

    return sample


# Functions of one tensor of floats: name, function, sampler.
UNARY = [
    ("neg", lax.neg, any_float),
    ("abs", jnp.abs, any_float),
    ("sign", jnp.sign, grid),
    ("floor", jnp.floor, halves),
    ("ceil", jnp.ceil, halves),
    ("round", jnp.round, halves),
    ("round_half_away", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), halves),
    ("trunc", jnp.trunc, halves),
    ("exp", jnp.exp, any_float),
    ("exp2", jnp.exp2, any_float),
    ("expm1", jnp.expm1, any_float),
    ("log", jnp.log, positive),
    ("log2", jnp.log2, positive),
    ("log10", jnp.log10, positive),
    ("log1p", jnp.log1p, positive),
    ("sqrt", jnp.sqrt, positive),
    ("rsqrt", lax.rsqrt, positive),
    ("cbrt", jnp.cbrt, nonzero),
    ("square", jnp.square, any_float),
    ("reciprocal", jnp.reciprocal, nonzero),
    ("sin", jnp.sin, any_float),
    ("cos", jnp.cos, any_float),
    ("tan", jnp.tan, unit),
    ("asin", jnp.arcsin, unit),
    ("acos", jnp.arccos, unit),
    ("atan", jnp.arctan, any_float),
    ("sinh", jnp.sinh, any_float),
    ("cosh", jnp.cosh, any_float),
    ("tanh", jnp.tanh, any_float),
    ("asinh", jnp.arcsinh, any_float),
    ("acosh", jnp.arccosh, above_one),
    ("atanh", jnp.arctanh, unit),
    ("logistic", jax.nn.sigmoid, any_float),
    ("erf", lax.erf, any_float),
    ("erfc", lax.erfc, any_float),
    ("erf_inv", lax.erf_inv, unit),
    ("deg2rad", jnp.deg2rad, any_float),
    ("rad2deg", jnp.rad2deg, any_float),
    ("nan_to_num", jnp.nan_to_num, any_float),
    ("isnan", jnp.isnan, any_float),
    ("isinf", jnp.isinf, any_float),
    ("isfinite", jnp.isfinite, any_float),
    ("powi", lambda x: lax.integer_pow(x, 3), any_float),
    ("clip", lambda x: jnp.clip(x, -1.0, 1.0), grid),
    ("clamp", lambda x: lax.clamp(x.dtype.type(-1), x, x.dtype.type(1)), grid),
    ("relu", jax.nn.relu, with_zero),
    ("relu6", jax.nn.relu6, with_zero),
    ("leaky_relu", lambda x: jax.nn.leaky_relu(x, 0.125), with_zero),
    ("elu", lambda x: jax.nn.elu(x, 1.5), with_zero),
    ("celu", lambda x: jax.nn.celu(x, 1.5), any_float),
    ("selu", jax.nn.selu, any_float),
    ("gelu", lambda x: jax.nn.gelu(x, approximate=True), any_float),
    ("gelu_exact", lambda x: jax.nn.gelu(x, approximate=False), any_float),
    ("silu", jax.nn.silu, any_float),
    ("softplus", jax.nn.softplus, any_float),
    ("sigmoid", jax.nn.sigmoid, any_float),
    ("log_sigmoid", jax.nn.log_sigmoid, any_float),
    ("hard_sigmoid", jax.nn.hard_sigmoid, any_float),
    ("hard_silu", jax.nn.hard_silu, any_float),
    ("hard_tanh", jax.nn.hard_tanh, any_float),
    ("soft_sign", jax.nn.soft_sign, any_float),
    ("mish", jax.nn.mish, any_float),
    ("squareplus", lambda x: jax.nn.squareplus(x, 2.0), any_float),
]

# Functions of two tensors of floats.
BINARY = [
    ("add", lax.add, any_float, any_float),
    ("sub", lax.sub, any_float, any_float),
    ("mul", lax.mul, any_float, any_float),
    ("div", lax.div, any_float, nonzero),
    ("rem", lax.rem, any_float, nonzero),
    ("remainder", jnp.remainder, any_float, nonzero),
    ("floor_divide", jnp.floor_divide, any_float, nonzero),
    ("pow", lax.pow, positive, exponent),
    ("atan2", jnp.arctan2, nonzero, nonzero),
    ("maximum", lax.max, grid, grid),
    ("minimum", lax.min, grid, grid),
    ("logaddexp", jnp.logaddexp, any_float, any_float),
    ("hypot", jnp.hypot, nonzero, nonzero),
    ("heaviside", jnp.heaviside, grid, any_float),
    ("eq", lax.eq, grid, grid),
    ("ne", lax.ne, grid, grid),
    ("lt", lax.lt, grid, grid),
    ("le", lax.le, grid, grid),
    ("gt", lax.gt, grid, grid),
    ("ge", lax.ge, grid, grid),
]

TERNARY = [
    ("clamp_tensors", lambda x, low, high: lax.clamp(low, x, high), (grid, grid, grid)),
    ("clip_tensors", lambda x, low, high: jnp.clip(x, low, high), (grid, grid, grid)),
]

# Functions of integers.
INTEGER_UNARY = [
    ("neg", lax.neg),
    ("abs", jnp.abs),
    ("sign", jnp.sign),
    ("not", lax.bitwise_not),
    ("population_count", lax.population_count),
    ("powi", lambda x: lax.integer_pow(x, 3)),
    ("relu", jax.nn.relu),
    ("isnan", jnp.isnan),
    ("isinf", jnp.isinf),
    ("isfinite", jnp.isfinite),
    ("nan_to_num", jnp.nan_to_num),
]
INTEGER_BINARY = [
    ("add", lax.add),
    ("sub", lax.sub),
    ("mul", lax.mul),
    ("div", lax.div),
    ("rem", lax.rem),
    ("remainder", jnp.remainder),
    ("floor_divide", jnp.floor_divide),
    ("maximum", lax.max),
    ("minimum", lax.min),
    ("and", lax.bitwise_and),
    ("or", lax.bitwise_or),
    ("xor", lax.bitwise_xor),
    ("shift_left", lax.shift_left),
    ("shift_right_logical", lax.shift_right_logical),
    ("shift_right_arithmetic", lax.shift_right_arithmetic),
    ("lt", lax.lt),
]


def integer_power(bases, exponents):
    """Powers of Python's integers, which do not overflow, with the bits of the dtype kept, as in NumPy. `jnp.power` reads
    only 6 bits of the exponent. Negative powers are rounded toward zero, where NumPy raises an error; JAX returns 0 for
    the base 0."""
    dtype = bases.dtype
    bits = np.iinfo(dtype).bits

    def power(base, exponent):
        if exponent >= 0:
            return pow(base, exponent, 1 << bits)
        return base ** (exponent % 2) % (1 << bits) if abs(base) == 1 else 0

    pairs = zip(np.ravel(bases).tolist(), np.ravel(exponents).tolist())
    powers = np.array([power(*pair) for pair in pairs], f"uint{bits}")
    return powers.astype(dtype).reshape(bases.shape)


def axis_functions():
    """Functions along an axis."""
    f = jax.nn
    for axis in (0, -1):
        yield "softmax", lambda x, a=axis: f.softmax(x, axis=a), {"axis": axis}
        yield "log_softmax", lambda x, a=axis: f.log_softmax(x, axis=a), {"axis": axis}
        yield "logsumexp", lambda x, a=axis: f.logsumexp(x, axis=a), {"axis": axis}
        yield (
            "standardize",
            lambda x, a=axis: f.standardize(x, axis=a, algorithm="stable"),
            {"axis": axis},
        )
        yield "glu", lambda x, a=axis: f.glu(x, axis=a), {"axis": axis}
    for axes in ((0,), (1,), (0, 1)):
        for ddof in (0, 1):
            params = {"axes": axes, "correction": ddof}
            yield "var", lambda x, a=axes, d=ddof: jnp.var(x, axis=a, correction=d), params
            yield "std", lambda x, a=axes, d=ddof: jnp.std(x, axis=a, correction=d), params


def cases():
    for name, function, sampler in UNARY:
        yield op(name, function, [(SHAPE, sampler)])
    for name, function, left, right in BINARY:
        yield op(name, function, [(SHAPE, left), (SHAPE, right)])
    for name, function, samplers in TERNARY:
        yield op(name, function, [(SHAPE, sampler) for sampler in samplers])
    for name, function in INTEGER_UNARY[:6]:
        yield op(name, function, [(SHAPE, small_integers(-9, 10))], INTEGERS)
    for name, function in INTEGER_BINARY[:-1]:
        right = small_integers(0, 9) if name.startswith("shift") else small_integers(-9, 10)
        yield op(name, function, [(SHAPE, small_integers(-99, 100)), (SHAPE, right)], INTEGERS)
    for name, function, params in axis_functions():
        yield op(name, function, [((4, 2), any_float)], **params)


# ---------------------------------------------------------------------------
# Edges
# ---------------------------------------------------------------------------


def float_edges(dtype):
    """Zeros, ties, bounds of domains, and the ends of the type."""
    info = np.finfo(dtype)
    positive = [0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.0, 6.0, 9.0, 20.0, 80.0, 1e10, np.inf]
    positive += [info.tiny, info.eps, info.max]
    return np.array([sign * x for x in positive for sign in (1, -1)] + [np.nan], dtype)


def pairs(values):
    left, right = zip(*itertools.product(values, values))
    return [np.array(left, values.dtype), np.array(right, values.dtype)]


def float_pairs(dtype):
    return pairs(np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.5, np.inf, -np.inf, np.nan], dtype))


def integer_edges(dtype):
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 7, 31, 32, 63, 64, info.max, info.max - 1]
    if info.min < 0:
        values += [-1, -2, -7, -32, info.min, info.min + 1]
    return np.array(values, dtype)


def integer_pairs(dtype):
    info = np.iinfo(dtype)
    values = [0, 1, 2, 7, 31, 32, 64, info.max]
    if info.min < 0:
        values += [-1, -7, info.min]
    return pairs(np.array(values, dtype))


# Values or gradients that are small differences of numbers near 1: right to their absolute error only.
CANCELLING = {"gelu", "tanh", "soft_sign", "squareplus"}


def edge(name, function, inputs, params=None, only_values=False):
    inputs = [jnp.asarray(x) for x in inputs]
    output = np.asarray(function(*inputs))
    case = {
        "name": name,
        "dtype": DTYPE_NAMES[np.dtype(inputs[0].dtype).name],
        "params": params or {},
        "cancels": name in CANCELLING,
        "inputs": arrays(inputs),
        "output": array(output),
    }
    if is_float(output) and not only_values:
        total = lambda xs: jnp.sum(function(*xs))
        case["gradients"] = arrays(jax.grad(total)(inputs))
    return case


def edges_of(name, function, inputs):
    """The function at the edges, of a tensor without axes, and of one without elements."""
    yield edge(name, function, inputs)
    yield edge(name, function, [x[3] for x in inputs], only_values=True)
    yield edge(name, function, [np.zeros((2, 0), x.dtype) for x in inputs], only_values=True)


def edges():
    minus_infinity = -np.inf
    for dtype in FLOATS:
        with precision(dtype):
            for name, function, _ in UNARY:
                yield from edges_of(name, function, [float_edges(dtype)])
            for name, function, _, _ in BINARY:
                yield from edges_of(name, function, float_pairs(dtype))
            triples = list(itertools.product([0.0, 1.0, 2.0, np.nan], repeat=3))
            triples = [np.array(column, dtype) for column in zip(*triples)]
            for name, function, _ in TERNARY:
                yield from edges_of(name, function, triples)
            # Powers of tensors at the bounds of the domain.
            bases = np.array([0.0, 0.0, 0.0, -8.0, -8.0, 1.0, 1e10], dtype)
            exponents = np.array([0.0, 0.5, 2.0, 2.0, 3.0, 1e10, -3.0], dtype)
            yield edge("pow", lax.pow, [bases, exponents])
            rows = np.array(
                [[minus_infinity, minus_infinity], [minus_infinity, 0.0], [1e4, 1e4], [np.inf, 0.0]], dtype
            )
            for name, function, params in axis_functions():
                if params.get("axis") == -1 and name in ("softmax", "log_softmax", "logsumexp"):
                    yield edge(name, function, [rows], params)
                if params.get("axes") == (1,):
                    # One element a row: no deviation, and with the correction nothing to divide by.
                    yield edge(name, function, [np.ones((2, 1), dtype)], params, only_values=True)
    for dtype in INTEGERS:
        with jax.enable_x64(True):
            for name, function in INTEGER_UNARY:
                yield from edges_of(name, function, [integer_edges(dtype)])
            for name, function in INTEGER_BINARY:
                yield from edges_of(name, function, integer_pairs(dtype))
            yield from edges_of("pow", integer_power, integer_pairs(dtype))


def make_elementwise():
    write("elementwise", {"cases": operation_cases(cases()), "edges": list(edges())})
