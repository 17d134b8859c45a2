"""draws.json: numbers of jax.random that `random.json` does not have, and initializers with all axes.

`make_functions` writes functions.json: lgamma, digamma and polygamma of scipy; `sinc`, `pad`, `take`, segments and `dot` of JAX.

Computed with x64 off, save those of f64 and i64, and those of `uint64`, whose bits are written as i64.
"""

from golden_cases import *

import contextlib

from jax import random

SEEDS = [0, 42, 123456789]
WIDE = {np.float64, np.int64, np.uint64}


def bits_of(value):
    value = np.asarray(value)
    return value.view(np.int64) if value.dtype == np.uint64 else value


def draw(seed, name, params, function, dtype=np.float32, inputs=()):
    with precision(dtype) if dtype in WIDE else contextlib.nullcontext():
        key = random.key(seed)
        value = function(key, *[jnp.asarray(x) for x in inputs])
        return {
            "seed": seed,
            "name": name,
            "dtype": DTYPE_NAMES[np.dtype(dtype if dtype != np.uint64 else np.int64).name],
            "params": params,
            "inputs": arrays(inputs),
            "numbers": array(bits_of(value)),
        }


BOUNDS = [(0, 10), (-3, 100), (0, 1 << 40), (-(1 << 62), (1 << 62) + 12345)]


def draw_cases():
    cases = []
    for seed in SEEDS:
        for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
            cases.append(draw(seed, "bits", {}, lambda k: random.bits(k, (2, 5), dtype), dtype))
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32):
            info = np.iinfo(dtype)
            bounds = [(lo, hi) for lo, hi in BOUNDS if info.min <= lo and hi <= info.max]
            bounds += [(int(info.min), int(info.max))]
            # One more than the greatest number, where a wider dtype holds it.
            if info.bits < 32:
                bounds += [(int(info.min), int(info.max) + 1)]
            for low, high in bounds:
                number = np.uint32 if dtype == np.uint32 else int
                function = lambda k: random.randint(k, (6,), number(low), number(high), dtype)
                cases.append(draw(seed, "randint", {"low": low, "high": high}, function, dtype))
        for dtype in (np.float32, np.float64):
            for name in ("exponential", "gumbel", "laplace", "logistic"):
                cases.append(draw(seed, name, {}, lambda k: getattr(random, name)(k, (3, 4), dtype), dtype))
            alpha = np.array([0.05, 0.5, 1.0, 2.5, 30.0, 1e4], dtype)
            cases.append(draw(seed, "gamma", {"shape": [4, 6]}, lambda k, a: random.gamma(k, a, (4, 6), dtype), dtype, [alpha]))
            cases.append(draw(seed, "loggamma", {"shape": [4, 6]}, lambda k, a: random.loggamma(k, a, (4, 6), dtype), dtype, [alpha]))
            beta = np.array([0.2, 3.0, 0.7, 2.5, 1.0, 50.0], dtype)
            cases.append(draw(seed, "beta", {"shape": [4, 6]}, lambda k, a, b: random.beta(k, a, b, (4, 6), dtype), dtype, [alpha, beta]))
            mean = np.array([1.0, -2.0, 0.5], dtype)
            root = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.25, 0.75, 0.5]], dtype)
            cases.append(
                draw(
                    seed,
                    "multivariate_normal",
                    {"shape": [2, 4]},
                    lambda k, m, c: random.multivariate_normal(k, m, c, (2, 4), dtype),
                    dtype,
                    [mean, root @ root.T],
                )
            )
            for rows, columns in ((4, 4), (6, 3), (3, 5)):
                cases.append(
                    draw(
                        seed,
                        "orthogonal",
                        {"rows": rows, "columns": columns},
                        lambda k: random.orthogonal(k, rows, (), dtype, columns),
                        dtype,
                    )
                )
        for dtype in (np.int32, np.float32):
            cases.append(draw(seed, "rademacher", {}, lambda k: random.rademacher(k, (12,), dtype), dtype))
        rate = np.array([0.0, 0.3, 4.0, 9.99, 10.0, 55.5, 1e4], np.float32)
        cases.append(draw(seed, "poisson", {"shape": [5, 7]}, lambda k, r: random.poisson(k, r, (5, 7)), np.float32, [rate]))
        logits = np.array([[0.0, 1.0, -np.inf, 2.0], [3.0, 0.0, 0.0, -1.0]], np.float32)
        cases.append(draw(seed, "categorical", {"prefix": []}, lambda k, x: random.categorical(k, x), np.float32, [logits]))
        cases.append(
            draw(seed, "categorical", {"prefix": [5]}, lambda k, x: random.categorical(k, x, shape=(5, 2)), np.float32, [logits])
        )
        weights = np.array([0.1, 0.0, 2.0, 0.5, 1.0, 0.25], np.float32)
        for replace in (True, False):
            cases.append(draw(seed, "choice", {"replace": replace}, lambda k: random.choice(k, 6, (2, 2), replace)))
            function = lambda k, p: random.choice(k, 6, (2, 2), replace, p)
            cases.append(draw(seed, "choice", {"replace": replace}, function, np.float32, [weights]))
    return cases


def initializer_cases():
    init = jax.nn.initializers
    cases = []
    for dtype in (np.float32, np.float64):
        made = []
        for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
            for distribution in ("truncated_normal", "normal", "uniform"):
                for shape, axes in (
                    ((3, 4, 6), {}),
                    ((3, 4, 6), {"in_axis": [0, 1], "out_axis": [2]}),
                    ((3, 4, 6), {"in_axis": [1], "out_axis": [2], "batch_axis": [0]}),
                    ((5,), {"in_axis": [0], "out_axis": [0]}),
                ):
                    params = {"scale": 1.5, "mode": mode, "distribution": distribution, **axes}
                    made.append(("variance_scaling", params, shape, init.variance_scaling(**params)))
        for name in ("glorot", "xavier", "lecun", "he", "kaiming"):
            for distribution in ("normal", "uniform"):
                made.append((f"{name}_{distribution}", {}, (3, 5), getattr(init, f"{name}_{distribution}")()))
        made.append(("constant", {"value": 2.5}, (3,), init.constant(2.5)))
        made.append(("truncated_normal", {"stddev": 0.5, "lower": -1.0, "upper": 3.0}, (3, 4), init.truncated_normal(0.5, dtype, -1.0, 3.0)))
        for shape, axis in (((4, 4), -1), ((3, 2, 4), -1), ((2, 3), 0), ((3, 2, 4), 1)):
            made.append(("orthogonal", {"scale": 1.5, "column_axis": axis}, shape, init.orthogonal(1.5, axis)))
        for shape in ((3, 2, 4), (3, 4, 2, 2), (1, 2, 3, 2, 5)):
            made.append(("delta_orthogonal", {"scale": 1.5, "column_axis": -1}, shape, init.delta_orthogonal(1.5)))
        for name, params, shape, function in made:
            with precision(dtype):
                value = function(random.key(7), shape, dtype)
            cases.append({"name": name, "params": params, "seed": 7, "output": array(value)})
    return cases


def special_cases():
    """lgamma, digamma and polygamma by mpmath-free means: scipy in f64, and JAX where scipy has no function."""
    from scipy import special

    x = np.array([-10.3, -3.7, -2.0001, -1.5, -0.5, -1e-3, 1e-8, 1e-3, 0.25, 0.5, 1.0, 1.4616, 2.0, 3.7, 10.0, 33.3, 170.5, 1e4, 1e8])
    edges = np.array([-np.inf, -2.0, 0.0, np.inf, np.nan])
    positive_x = x[x > 0]
    cases = [
        {"name": "lgamma", "x": array(x), "y": array(special.gammaln(x)), "slope": array(special.digamma(x))},
        {"name": "digamma", "x": array(x), "y": array(special.digamma(x)), "slope": array(special.polygamma(1, x))},
    ]
    for order in (1, 2, 3):
        cases.append(
            {
                "name": "polygamma",
                "order": order,
                "x": array(positive_x),
                "y": array(special.polygamma(order, positive_x)),
                "slope": array(special.polygamma(order + 1, positive_x)),
            }
        )
    with x64():
        at = np.array([-2.5, -1.0, -0.03, -1e-9, 0.0, 1e-9, 0.02, 0.0318, 0.032, 0.5, 1.0, 7.25])
        y = jnp.sinc(jnp.asarray(at))
        slope = jax.vmap(jax.grad(jnp.sinc))(jnp.asarray(at))
        edge_values = {
            "lgamma": array(jax.lax.lgamma(jnp.asarray(edges))),
            "digamma": array(jax.lax.digamma(jnp.asarray(edges))),
        }
    # Near 0, JAX's quotient rule loses digits; there the slope is -pi^2 x / 3 up to x^3.
    slope = np.where(np.abs(at) < 1e-6, -(np.pi**2) * at / 3, np.asarray(slope))
    cases.append({"name": "sinc", "x": array(at), "y": array(y), "slope": array(slope)})
    return cases, {"x": array(edges), **edge_values}


def padding_cases():
    cases = []
    modes = ["edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean", "median"]
    for shape, widths in (((5,), [(2, 3)]), ((3,), [(7, 8)]), ((1,), [(2, 1)]), ((3, 4), [(2, 1), (0, 3)]), ((2, 3), [(0, 0), (5, 4)])):
        for mode in modes:
            options = {"end_values": 2.5} if mode == "linear_ramp" else {}
            with x64():
                rng = generator("pad", shape, mode)
                x, weights = any_float(rng, shape, np.float64), None
                function = lambda x: jnp.pad(x, widths, mode=mode, **options)
                y = function(jnp.asarray(x))
                np.testing.assert_allclose(y, np.pad(x, widths, mode=mode, **options))
                weights = any_float(rng, y.shape, np.float64)
                gradient = jax.grad(lambda x: jnp.sum(weights * function(x)))(jnp.asarray(x))
            cases.append(
                {
                    "mode": mode,
                    "widths": widths,
                    "x": array(x),
                    "y": array(y),
                    "weights": array(weights),
                    "gradient": array(gradient),
                }
            )
    return cases


def taking_cases():
    cases = []
    indices = np.array([[0, -1, 2], [3, -4, 9]], np.int32)
    for mode in ("clip", "wrap", "fill"):
        for axis in (0, 1):
            with x64():
                rng = generator("take", mode, axis)
                x = any_float(rng, (3, 4), np.float64)
                options = {"fill_value": 7.5} if mode == "fill" else {}
                function = lambda x: jnp.take(x, indices, axis=axis, mode=mode, **options)
                y = function(jnp.asarray(x))
                weights = any_float(rng, y.shape, np.float64)
                gradient = jax.grad(lambda x: jnp.sum(weights * function(x)))(jnp.asarray(x))
            cases.append(
                {
                    "mode": mode,
                    "axis": axis,
                    "indices": array(indices),
                    "x": array(x),
                    "y": array(y),
                    "weights": array(weights),
                    "gradient": array(gradient),
                }
            )
    return cases


def segment_cases():
    cases = []
    indices = np.array([2, 0, -1, 2, 5, 0, 4], np.int32)
    for name in ("segment_sum", "segment_prod", "segment_max", "segment_min"):
        for shape in ((7,), (7, 2)):
            with x64():
                rng = generator(name, shape)
                x = nonzero(rng, shape, np.float64)
                function = lambda x: getattr(jax.ops, name)(x, indices, num_segments=5)
                y = function(jnp.asarray(x))
                weights = any_float(rng, y.shape, np.float64)
                finite = lambda x: jnp.sum(jnp.where(jnp.isfinite(function(x)), weights * function(x), 0))
                case = {"name": name, "x": array(x), "indices": array(indices), "y": array(y)}
                # JAX differentiates a product at repeated indices only by its own rule for unique indices.
                if name != "segment_prod":
                    case["weights"] = array(weights)
                    case["gradient"] = array(jax.grad(finite)(jnp.asarray(x)))
            cases.append(case)
    return cases


def dot_cases():
    cases = []
    for left, right in (((), (3,)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (4, 3, 2))):
        with x64():
            rng = generator("dot", left, right)
            x, y = any_float(rng, left, np.float64), any_float(rng, right, np.float64)
            cases.append({"x": array(x), "y": array(y), "dot": array(jnp.dot(x, y))})
    return cases


def make_draws():
    write("draws", {"draws": draw_cases(), "initializers": initializer_cases()})


def make_functions():
    special, edges = special_cases()
    import scipy

    write(
        "functions",
        {
            "scipy": scipy.__version__,
            "special": special,
            "special_edges": edges,
            "padding": padding_cases(),
            "taking": taking_cases(),
            "segments": segment_cases(),
            "dots": dot_cases(),
        },
    )
