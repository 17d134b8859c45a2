"""What the golden scripts share: writing files, drawing inputs, and the cases of an operation."""

import collections
import pathlib
import json
import os
import zlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import optax

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20240607
DTYPE_NAMES = {
    "float32": "f32",
    "float64": "f64",
    "int32": "i32",
    "int64": "i64",
    "uint32": "u32",
    "bool": "bool",
    "int8": "i8",
    "int16": "i16",
    "uint8": "u8",
    "uint16": "u16",
    "bfloat16": "bf16",
    "float16": "f16",
}


# ---------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------


def versions():
    return {
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "flax": flax.__version__,
        "optax": optax.__version__,
        "numpy": np.__version__,
    }


def scalar(value):
    """A JSON value for one array element."""
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def array(value):
    """The JSON object of an array, or null for None."""
    if value is None:
        return None
    value = np.asarray(value)
    name = value.dtype.name
    if name in ("bfloat16", "float16"):
        value = value.astype(np.float64)
    return {
        "dtype": DTYPE_NAMES[name],
        "shape": list(value.shape),
        "data": [scalar(v) for v in value.ravel().tolist()],
    }


def arrays(values):
    return [array(v) for v in values]


def write(name, body):
    """Writes one file: one line per member, and one per element of a list of objects."""
    compact = lambda v: json.dumps(v, separators=(",", ":"), allow_nan=False)
    members = []
    for key, value in {"versions": versions(), **body}.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join(compact(v) for v in value) + "\n]"
        else:
            text = compact(value)
        members.append(json.dumps(key) + ":" + text)
    path = HERE / f"{name}.json"
    path.write_text("{\n" + ",\n".join(members) + "\n}\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


def generator(*labels):
    """A numpy generator whose stream depends only on the labels."""
    return np.random.default_rng([SEED, zlib.crc32(repr(labels).encode())])


def x64():
    return jax.enable_x64(True)


def precision(dtype):
    """The context in which figures of this dtype are computed."""
    return jax.enable_x64(np.dtype(dtype).itemsize == 8)


# ---------------------------------------------------------------------------
# Cases of operations
# ---------------------------------------------------------------------------



def any_float(rng, shape, dtype):
    return (rng.integers(-128, 129, shape) / 64).astype(dtype)


def positive(rng, shape, dtype):
    return (rng.integers(8, 257, shape) / 64).astype(dtype)


def nonzero(rng, shape, dtype):
    sign = rng.choice([-1.0, 1.0], shape)
    return (sign * rng.integers(32, 129, shape) / 64).astype(dtype)


def unit(rng, shape, dtype):
    return (rng.integers(-57, 58, shape) / 64).astype(dtype)


def grid(rng, shape, dtype):
    """Few distinct values, so that equal elements are common."""
    return (rng.integers(-2, 3, shape) / 2).astype(dtype)


def with_zero(rng, shape, dtype):
    """The first element is exactly zero."""
    out = any_float(rng, shape, dtype)
    out.flat[0] = 0
    return out


def distinct(rng, shape, dtype):
    """No two elements are equal."""
    size = int(np.prod(shape))
    return ((rng.permutation(size) - size // 2) / 16).astype(dtype).reshape(shape)


def boolean(rng, shape, dtype):
    return rng.integers(0, 2, shape).astype(bool)


def int32(rng, shape, dtype):
    return rng.integers(-9, 10, shape).astype(np.int32)


def uint32(rng, shape, dtype):
    return rng.integers(0, 2**32, shape, dtype=np.uint32)


def shift(rng, shape, dtype):
    return rng.integers(0, 32, shape).astype(np.uint32)


def index(low, high):
    """Integers in [low, high)."""
    return lambda rng, shape, dtype: rng.integers(low, high, shape).astype(np.int32)


def of_dtype(sampler, fixed):
    """The sampler with a dtype of its own, whatever the dtype of the case."""
    return lambda rng, shape, dtype: sampler(rng, shape, fixed)


FLOATS = (np.float32, np.float64)

# One operation: `function` gets the input arrays; `inputs` are (shape,
# sampler) pairs; the case is made once for each of `dtypes`.
Op = collections.namedtuple("Op", "name params function inputs dtypes")


def op(name, function, inputs, dtypes=FLOATS, **params):
    return Op(name, params, function, inputs, dtypes)


def is_float(value):
    return jnp.issubdtype(np.asarray(value).dtype, jnp.floating)


def derivatives(function, inputs, output, rng):
    """First and second derivatives of an operation with a float output.

    With `loss(x) = sum(weights * f(x))`: `gradients` is its gradient for each float input, `jvp` the tangent of `f` along
    `direction`, `second` the gradient of `sum_i sum(direction_i * gradients_i)`. Other inputs have null; an integer or
    boolean output has none of these. Tied maxima share the gradient equally.
    """
    where = [i for i, x in enumerate(inputs) if is_float(x)]
    floats = [jnp.asarray(inputs[i]) for i in where]
    weights = any_float(rng, output.shape, output.dtype)
    direction = [any_float(rng, x.shape, x.dtype) for x in floats]

    def f(*xs):
        full = [jnp.asarray(x) for x in inputs]
        for i, x in zip(where, xs):
            full[i] = x
        return function(*full)

    def loss(xs):
        return jnp.sum(weights * f(*xs))

    def directional(xs):
        products = [jnp.sum(d * g) for d, g in zip(direction, jax.grad(loss)(xs))]
        return sum(products[1:], products[0])

    if floats:
        gradients = jax.grad(loss)(floats)
        tangent = jax.jvp(f, floats, [jnp.asarray(d) for d in direction])[1]
        second = jax.grad(directional)(floats)
    else:
        gradients, tangent, second = [], np.zeros_like(output), []

    def per_input(values):
        out = [None] * len(inputs)
        for i, value in zip(where, values):
            assert np.asarray(value).dtype == np.asarray(inputs[i]).dtype
            out[i] = array(value)
        return out

    return {
        "weights": array(weights),
        "gradients": per_input(gradients),
        "direction": per_input(direction),
        "jvp": array(tangent),
        "second": per_input(second),
    }


def batched(function, inputs, dtype, rng):
    """The operation under vmap (batch 3): all on axis 0, then mixed axes."""
    count = len(inputs)
    patterns = [(0,) * count]
    if count == 1:
        if inputs[0][0]:
            patterns.append((1,))
    else:
        # Input i is mapped on axis 1 (or 0, if the input is a scalar), the rest on none.
        for i in range(min(count, 2)):
            patterns.append(tuple((1 if inputs[i][0] else 0) if j == i else None for j in range(count)))
        if count > 2:
            patterns.append((None,) + tuple(1 if shape else 0 for shape, _ in inputs[1:]))
    out = []
    for axes in patterns:
        values = []
        for (shape, sampler), axis in zip(inputs, axes):
            if axis is not None:
                shape = shape[:axis] + (3,) + shape[axis:]
            values.append(sampler(rng, shape, dtype))
        result = jax.vmap(function, in_axes=axes)(*[jnp.asarray(v) for v in values])
        out.append({"inputs": arrays(values), "in_axes": list(axes), "output": array(result)})
    return out


def operation_cases(table):
    """The cases of a table of operations, for each element type: what `tests/goldens/cases.rs` reads."""
    cases = []
    for name, params, function, inputs, dtypes in table:
        for dtype in dtypes:
            with precision(dtype):
                rng = generator("ops", name, sorted(params.items()), [s for s, _ in inputs])
                values = [sampler(rng, shape, dtype) for shape, sampler in inputs]
                output = np.asarray(function(*[jnp.asarray(v) for v in values]))
                case = {
                    "name": name,
                    "dtype": DTYPE_NAMES[np.dtype(dtype).name],
                    "params": params,
                    "inputs": arrays(values),
                    "output": array(output),
                }
                if is_float(output):
                    case.update(derivatives(function, values, output, rng))
                case["vmap"] = batched(function, inputs, dtype, rng)
                cases.append(case)
    return cases
