"""The text of jaxprs, as jax.make_jaxpr prints them.

Parameters that this library does not have are left out (shardings, weak types,
accuracies, preferred types), and element types are written as in the types of
variables: f32 for float32. Names, order, literals and layout are JAX's own.

Where the library differs by design, no program is here: a number beside a
tensor with axes is a `full` of its own and not a literal, `select` takes its
operands in the order of `if`, `take` and `argsort` are primitives, and calls of
closures are named <closure>.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import core

# The parameters that are printed, by primitive; those not named here have none.
PARAMETERS = {
    "reduce_sum": ["axes"],
    "reduce_max": ["axes"],
    "argmax": ["axes", "index_dtype"],
    "reshape": ["new_sizes"],
    "transpose": ["permutation"],
    "broadcast_in_dim": ["broadcast_dimensions", "shape"],
    "convert_element_type": ["new_dtype"],
    "slice": ["limit_indices", "start_indices", "strides"],
    "dot_general": ["dimension_numbers"],
    "iota": ["dimension", "dtype", "shape"],
    "concatenate": ["dimension"],
    "rev": ["dimensions"],
    "integer_pow": ["y"],
}


class Short:
    """An element type as in the types of variables."""

    def __init__(self, dtype):
        self.text = core.dtypes.short_dtype_name(dtype)

    def __str__(self):
        return self.text


def rule(equation, context, settings):
    wanted = PARAMETERS.get(equation.primitive.name, [])
    parameters = {}
    for name in wanted:
        value = equation.params[name]
        if value is None:
            continue
        if isinstance(value, np.dtype):
            value = Short(value)
        if name == "dimension_numbers":
            # JAX's own rule for products writes lists.
            value = tuple(tuple(list(axes) for axes in pair) for pair in value)
        parameters[name] = value
    return core._pp_eqn(equation.replace(params=parameters), context, settings)


def use_rule_everywhere(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive.name != "jit":
            core.pp_eqn_rules[equation.primitive] = rule
        for inner in core.jaxprs_in_params(equation.params):
            use_rule_everywhere(inner)


def sine(x):
    return lax.sin(x)


def scaled(x):
    return lax.sin(x) * x


def twice(x):
    return jax.jit(sine)(x) * x


def long(x):
    for _ in range(11):
        x = lax.sin(x)
    return x


def count(x):
    for _ in range(30):
        x = lax.sin(x)
    return x


def shared(x):
    inner = jax.jit(sine)
    return inner(inner(x))


scalar = np.float32(1.5)
vector = np.ones(3, np.float32)
matrix = np.ones((2, 3), np.float32)
integers = np.ones(3, np.int32)
bits = np.ones(3, np.uint32)
flags = np.ones(3, bool)

PROGRAMS = [
    ("one equation", sine, [vector]),
    ("two on a line", lambda x: lax.logistic(lax.sqrt(x)), [vector]),
    ("three on lines", lambda x: lax.sin(x) * x + x, [vector]),
    ("quotients", lambda x: lax.exp(x) / lax.tanh(x) - lax.log(x), [vector]),
    ("unary", lambda x: lax.erf_inv(lax.sign(lax.abs(-lax.cos(x)))), [vector]),
    ("extrema", lambda x, y: lax.max(lax.min(x, y), y), [vector, vector]),
    ("powers", lambda x: lax.integer_pow(x, 3) * lax.integer_pow(x, -1), [vector]),
    ("sum of all", lambda x: lax.reduce_sum_p.bind(x, axes=(0, 1), out_sharding=None), [matrix]),
    (
        "reductions",
        lambda x: lax.reduce_max_p.bind(lax.reduce_sum_p.bind(x, axes=(0,), out_sharding=None), axes=(0,), out_sharding=None),
        [matrix],
    ),
    ("position", lambda x: lax.argmax(x, 1, jnp.int32), [matrix]),
    ("other axes", lambda x: lax.reshape(lax.transpose(x, (1, 0)), (6,)), [matrix]),
    ("broadcast", lambda x, y: x + lax.broadcast_in_dim(y, (2, 3), (1,)), [matrix, vector]),
    ("product", lambda x, y: x @ y, [matrix, vector]),
    ("conditions", lambda x, y: ((x < y) & ~(x >= y)) | (x == y), [vector, vector]),
    ("conversion", lambda x: lax.convert_element_type(x, jnp.int32), [vector]),
    ("from bool", lambda x: lax.convert_element_type(x, jnp.float32), [flags]),
    ("positions", lambda x: x + lax.iota(jnp.float32, 3), [vector]),
    ("slice", lambda x: lax.slice(x, (0, 1), (2, 3)), [matrix]),
    ("every second", lambda x: lax.slice(x, (0, 0), (2, 3), (1, 2)), [matrix]),
    ("one behind the other", lambda x: lax.concatenate([x, x], 1), [matrix]),
    ("backwards", lambda x: lax.rev(x, (0, 1)), [matrix]),
    ("shifts", lambda x, y: lax.shift_left(x, y) ^ lax.shift_right_logical(x, y), [bits, bits]),
    ("integers", lambda x, y: x * y - x, [integers, integers]),
    ("no derivative", lambda x: lax.stop_gradient(x), [vector]),
    ("literals", lambda x: 1.0 - x * 2.5, [scalar]),
    ("literal of integers", lambda x: x * 2 + -3, [np.int32(1)]),
    ("outputs", lambda x: (lax.sin(x), x), [vector]),
    ("no equation", lambda x: x, [vector]),
    ("unused", lambda x: (lax.sin(x), lax.cos(x))[1], [vector]),
    ("unused input", lambda x, y: lax.sin(y), [vector, matrix]),
    ("many names", count, [scalar]),
    ("call", lambda x: jax.jit(scaled)(x) + x, [vector]),
    ("two calls", lambda x: jax.jit(sine)(x) + jax.jit(scaled)(x), [vector]),
    ("call in a call", lambda x: jax.jit(twice)(x), [vector]),
    ("the same call twice", shared, [vector]),
    ("a long call", lambda x: jax.jit(long)(x), [vector]),
    ("many operands", lambda *x: lax.concatenate(x, 0), [vector] * 28),
]


def jaxprs():
    cases = []
    for name, function, inputs in PROGRAMS:
        jaxpr = jax.make_jaxpr(function)(*inputs)
        use_rule_everywhere(jaxpr.jaxpr)
        infos = [{"dtype": core.dtypes.short_dtype_name(x.dtype), "shape": list(x.shape)} for x in inputs]
        cases.append({"name": name, "inputs": infos, "text": str(jaxpr)})
    return {"cases": cases}
