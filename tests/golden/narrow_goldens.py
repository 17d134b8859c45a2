"""narrow.json: half-precision floats, and integers of 8 and 16 bits.

`cases` are the cases of the other files in bf16 and f16: values, and gradients of `sum(weights * f(x))`. `table` is the
file whose words the `params` are. Gradients are added in f32. `integers` are functions of all or many integers of 8 bits, and of
the ends of 16 bits; sums and products of many are those of `jnp`, which have 32 bits. `edges` are functions of one or two
half-precision floats at their edges and at random numbers. `conversions` are between all dtypes; XLA takes subnormal f32 and bf16
for 0, so there are none. Sums and products along an axis are those of JAX in f32, rounded once, because JAX rounds each partial
sum. The output of `BatchNorm`, which Flax promotes to f32, is rounded once, too. Not among the cases: `exp2` (JAX rounds
x · log 2), and averages without the padding (Flax returns f32).
"""

import itertools

import flax.nnx as nnx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
from jax import lax

import convolution_goldens
import elementwise_goldens
import structural_goldens
from golden_cases import *  # noqa: F403 (the samplers and writers)

BF16 = ml_dtypes.bfloat16
HALVES = (BF16, np.float16)
INTEGERS = (np.uint8, np.int8, np.uint16, np.int16)

# JAX has no wide accumulator for these.
CUMULATIVE = ("cumsum", "cumprod", "cumlogsumexp")


def tables():
    import make_goldens  # It imports this module.

    yield "elementwise", elementwise_goldens.cases()
    yield "ops", [
        *make_goldens.elementwise_ops(),
        *make_goldens.reduction_ops(),
        *make_goldens.matmul_ops(),
        *make_goldens.structural_ops(),
        *make_goldens.loss_ops(),
    ]
    yield "structural", structural_goldens.table()
    yield "convolution", [
        *convolution_goldens.convolutions(),
        *convolution_goldens.transposed(),
        *convolution_goldens.pooling(),
    ]


def gradients(function, values, output, rng):
    where = [i for i, x in enumerate(values) if is_float(x)]
    weights = any_float(rng, output.shape, output.dtype)

    def loss(floats):
        full = [jnp.asarray(x) for x in values]
        for i, x in zip(where, floats):
            full[i] = x
        return jnp.sum((weights * function(*full)).astype(jnp.float32))

    out = [None] * len(values)
    for i, value in zip(where, jax.grad(loss)([jnp.asarray(values[i]) for i in where])):
        out[i] = array(value)
    return {"weights": array(weights), "gradients": out}


def half_cases():
    for table, ops in tables():
        for name, params, function, inputs, dtypes in ops:
            # Flax returns f32 for a half-precision average that excludes the padding.
            if np.float32 not in dtypes or params.get("count_include_pad") is False:
                continue
            for dtype in HALVES:
                rng = generator("narrow", name, sorted(params.items(), key=repr), [s for s, _ in inputs])
                values = [sampler(rng, shape, dtype) for shape, sampler in inputs]
                if not any(value.dtype == dtype for value in values):
                    continue

                def run(*xs, function=function, name=name, dtype=dtype):
                    if name in CUMULATIVE:
                        xs = [x.astype(jnp.float32) for x in xs]
                        return function(*xs).astype(dtype)
                    return function(*xs)

                output = np.asarray(run(*[jnp.asarray(v) for v in values]))
                case = {
                    "table": table,
                    "name": name,
                    "dtype": DTYPE_NAMES[np.dtype(dtype).name],
                    "params": params,
                    "inputs": arrays(values),
                    "output": array(output),
                }
                if output.dtype == dtype:
                    case.update(gradients(run, values, output, rng))
                yield case


def integer_cases():
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        ends = np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1, 2, 7, 100], dtype)
        every = np.arange(info.min, info.max + 1).astype(dtype) if info.bits == 8 else ends
        left, right = (np.ravel(x) for x in np.meshgrid(ends, ends))
        for name, function in elementwise_goldens.INTEGER_UNARY[:6]:
            yield integer_case("elementwise", name, function, [every])
        for name, function in elementwise_goldens.INTEGER_BINARY:
            yield integer_case("elementwise", name, function, [left, right])
        yield integer_case("elementwise", "pow", elementwise_goldens.integer_power, [left, right])
        rng = generator("narrow integers", np.dtype(dtype).name)
        matrix = rng.integers(info.min, info.max + 1, (3, 4)).astype(dtype)
        other = rng.integers(info.min, info.max + 1, (4, 5)).astype(dtype)
        reductions = [
            ("ops", "sum", lambda x: jnp.sum(x, 1), {"axes": [1]}),
            ("ops", "sum", lambda x: jnp.sum(x, (0, 1)), {"axes": [0, 1]}),
            ("structural", "prod", lambda x: jnp.prod(x, 0), {"axes": [0]}),
            ("ops", "reduce_max", lambda x: lax.reduce_max(x, (1,)), {"axes": [1]}),
            ("structural", "min", lambda x: lax.reduce_min(x, (1,)), {"axes": [1]}),
            ("ops", "argmax", lambda x: lax.argmax(x, 1, np.int32), {"axis": 1}),
            ("structural", "argmin", lambda x: lax.argmin(x, 0, np.int32), {"axis": 0}),
            ("structural", "cumsum", lambda x: jnp.cumulative_sum(x, axis=1), {"axis": 1, "reverse": False}),
            ("structural", "cumprod", lambda x: jnp.cumulative_prod(x, axis=0), {"axis": 0, "reverse": False}),
            ("structural", "cummax", lambda x: lax.cummax(x, 0), {"axis": 0, "reverse": False}),
            ("structural", "sort", lambda x: lax.sort(x, dimension=1), {"axis": 1}),
            ("structural", "argsort", lambda x: jnp.argsort(x, 1), {"axis": 1}),
            ("ops", "transpose", lambda x: x.T, {"perm": [1, 0]}),
            ("structural", "roll", lambda x: jnp.roll(x, 1, 1), {"shift": 1, "axis": 1}),
        ]
        for table, name, function, params in reductions:
            yield integer_case(table, name, function, [matrix], **params)
        yield integer_case("ops", "matmul", jnp.matmul, [matrix, other])
        at = np.array([2, 0, 2], np.uint8)
        update = rng.integers(info.min, info.max + 1, (3, 4)).astype(dtype)
        for kind in ("set", "add"):
            where = at if kind == "add" else np.array([2, 0, 1], np.uint8)
            yield integer_case(
                "structural",
                f"at_indices_{kind}",
                lambda x, i, y, kind=kind: getattr(x.at[i], kind)(y),
                [matrix, where, update],
                axis=0,
            )


def integer_case(table, name, function, values, **params):
    output = function(*[jnp.asarray(v) for v in values])
    return {
        "table": table,
        "name": name,
        "dtype": DTYPE_NAMES[values[0].dtype.name],
        "params": params,
        "inputs": arrays(values),
        "output": array(output),
    }


def float_edges(dtype):
    info = ml_dtypes.finfo(dtype)
    tiny, most = float(info.tiny), float(info.max)
    positive = [0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.0, 6.0, 9.0, 20.0, 80.0, 250.0, 1000.0, np.inf, tiny, most]
    edges = [sign * x for x in positive for sign in (1, -1)] + [np.nan]
    rng = generator("narrow edges", np.dtype(dtype).name)
    return np.array(edges + list(rng.standard_normal(31) * 3), dtype)


def edge_cases():
    """One equation each, so one rounding. `exp2` is not here: JAX rounds its argument times log 2."""
    for dtype in HALVES:
        x = float_edges(dtype)
        for name, function, _ in elementwise_goldens.UNARY:
            if name not in (
                "neg abs sign floor ceil round round_half_away trunc exp expm1 log log1p sqrt rsqrt cbrt sin cos "
                "asin acos atan sinh cosh tanh asinh acosh atanh logistic erf erfc erf_inv isnan isinf isfinite"
            ).split():
                continue
            yield integer_case("elementwise", name, function, [x])
        left, right = (np.ravel(v) for v in np.meshgrid(x[::2], x[1::3]))
        for name, function, _, _ in elementwise_goldens.BINARY:
            if name in "add sub mul div rem maximum minimum eq ne lt le gt ge".split():
                yield integer_case("elementwise", name, function, [left, right])


def conversions():
    floats = [0.0, -0.0, 0.4, 1.5, -1.5, 2.5, 255.5, 256.5, 300.0, -129.0, 65519.0, 65520.0, 65535.0, 70000.0, 1e30, -1e30]
    floats += [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-22]
    floats += [6e-8, 3e-8, 2.98e-8, 6.1e-5, 6.09e-5, 3.39e38, 3.3961e38, np.nan, np.inf, -np.inf]
    # XLA rounds f64 to f32 and then to a half-precision float: the small terms are lost, and ties are rounded to even.
    doubles = floats + [1 + 2**-8 + 2**-40, 1 + 3 * 2**-8 - 2**-40, 1 + 2**-11 + 2**-40, 1e300, 1e-300]
    whole = [0, 1, -1, 127, 128, 255, 256, 257, 259, -128, -129, 2049, 2051, 32767, 32768, 65535, 65536, 65520, 2**24 + 1]
    # Rounded to f64 and then to bf16, this number would be a tie of two bf16.
    whole += [2**62 + 2**54 + 2**38 + 1]
    with jax.enable_x64(True):
        for source in (np.float64, np.float32, *HALVES, np.int64, np.int32, np.uint32, *INTEGERS, bool):
            if source is np.float64:
                x = np.array(doubles, source)
            elif source in (np.float32, *HALVES):
                with np.errstate(over="ignore"):
                    x = np.array(floats, source)
            else:
                x = np.array(whole, np.int64).astype(source)
            for target in (*HALVES, *INTEGERS, np.float32, np.float64, np.int32, np.int64, np.uint32, bool):
                if target == source or (source not in (*HALVES, *INTEGERS) and target not in (*HALVES, *INTEGERS)):
                    continue
                function = lambda x, target=target: lax.convert_element_type(x, target)
                yield integer_case("ops", "convert", function, [x], dtype=DTYPE_NAMES[np.dtype(target).name])


def random_numbers():
    for seed, dtype in itertools.product((0, 7), HALVES):
        key = jax.random.key(seed)
        yield {
            "seed": seed,
            "dtype": DTYPE_NAMES[np.dtype(dtype).name],
            "uniform": array(jax.random.uniform(key, (3, 5), dtype)),
            "uniform_between": array(jax.random.uniform(key, (64,), dtype, -0.3, 1.7)),
            "normal": array(jax.random.normal(key, (64,), dtype)),
            "truncated_normal": array(jax.random.truncated_normal(key, -2, 2, (64,), dtype)),
            "lecun_normal": array(jax.nn.initializers.lecun_normal()(key, (6, 4), dtype)),
        }


def layer(name, dtype, shape, **options):
    rng = generator("narrow layers", name, np.dtype(dtype).name)
    made = nnx.Rngs(0)
    instance = getattr(nnx, name)(shape[-1], param_dtype=dtype, rngs=made, **options)
    parameters = {}
    for key in ("scale", "bias"):
        value = getattr(instance, key, None)
        if value is not None:
            value.set_value(jnp.asarray(any_float(rng, (shape[-1],), dtype)))
            parameters[key] = array(value.get_value())
    x = any_float(rng, shape, np.float32) * 3 + 1
    x = x.astype(dtype)
    case = {
        "layer": name,
        "dtype": DTYPE_NAMES[np.dtype(dtype).name],
        "options": options,
        "parameters": parameters,
        "input": array(x),
        # Flax promotes the result of `BatchNorm` to the dtype of its statistics.
        "output": array(instance(jnp.asarray(x)).astype(dtype)),
    }
    if name == "BatchNorm":
        case.update(mean=array(instance.mean.get_value()), variance=array(instance.var.get_value()))
    return case


def layers():
    for dtype in HALVES:
        yield layer("LayerNorm", dtype, (4, 6))
        yield layer("RMSNorm", dtype, (4, 6))
        yield layer("GroupNorm", dtype, (3, 5, 8), num_groups=2)
        yield layer("BatchNorm", dtype, (16, 5))


def mlp(dtype):
    """A step of a small network: the loss, its gradients, and the parameters after steps of Adam."""
    rng = generator("narrow mlp", np.dtype(dtype).name)
    parameters = [any_float(rng, shape, np.float32) / 2 for shape in ((4, 8), (8,), (8, 2), (2,))]
    parameters = [jnp.asarray(p.astype(dtype)) for p in parameters]
    x, y = (jnp.asarray(any_float(rng, shape, dtype)) for shape in ((6, 4), (6, 2)))

    def loss(parameters):
        first, first_bias, second, second_bias = parameters
        hidden = jnp.tanh(x @ first + first_bias)
        return jnp.mean(jnp.square(hidden @ second + second_bias - y))

    # The moments are f32, and the parameters are rounded once after each step. With moments of f16, the epsilon of Adam is 0.
    wide = lambda tree: jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(np.float32), tree)
    optimizer = optax.adam(0.05)
    state = optimizer.init(wide(parameters))
    value, gradient = jax.value_and_grad(loss)(parameters)
    given = [any_float(rng, p.shape, dtype) for p in parameters]
    changed, steps = parameters, []
    for _ in range(4):
        updates, state = optimizer.update(wide(given), state, wide(changed))
        changed = optax.apply_updates(changed, updates)
        steps.append(arrays(changed))
    return {
        "dtype": DTYPE_NAMES[np.dtype(dtype).name],
        "parameters": arrays(parameters),
        "x": array(x),
        "y": array(y),
        "loss": array(value),
        "gradients": arrays(gradient),
        "given": arrays(given),
        "steps": steps,
    }


def displays():
    for dtype in (BF16, np.float16):
        for values in (
            0.1,
            3.0,
            1e-5,
            1 / 3,
            300.3,
            1000.0,
            -0.0,
            np.nan,
            [0.1, 1.5],
            [1e-5, 3.0],
            [3.0, -2.0],
            [np.nan, np.inf, -1.0],
            [[1.0, 2.0], [1 / 3, 1000.0]],
            [999.0, 1.0],
            [6e4, 1.0],
            [1e-7, 1e-3, 0.3],
            [],
        ):
            yield np.array(values, dtype)
        yield np.arange(60).astype(dtype).reshape(2, 30)
        yield (np.arange(1010) / 4).astype(dtype)
    for dtype in INTEGERS:
        yield np.array([1, 2, 100], dtype)
        yield np.array([-1, 7]).astype(dtype)
        yield np.array(7, dtype)


def make_narrow():
    write(
        "narrow",
        {
            "cases": list(half_cases()),
            "integers": list(integer_cases()),
            "edges": list(edge_cases()),
            "conversions": list(conversions()),
            "random": list(random_numbers()),
            "layers": list(layers()),
            "models": [mlp(dtype) for dtype in HALVES],
            "displays": [{"array": array(a), "str": str(a)} for a in displays()],
        },
    )
