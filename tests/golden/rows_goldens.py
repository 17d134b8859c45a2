"""rows.json: functions of a row at NaN, infinities and zeros.

Each function maps the last axis of `rows`. `gradient` is that of sum(weights * f(rows)); rows do not
depend on each other.
"""

import flax.linen
import flax.linen.pooling
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from golden_cases import *  # noqa: F403 (the samplers and writers)

NAN, INF = np.nan, np.inf
ROWS = [
    [1, NAN, 2, 0],
    [NAN, 3, NAN, 1],
    [2, 1, 0, NAN],
    [NAN, NAN, NAN, NAN],
    [INF, 1, INF, -INF],
    [-INF, -INF, -INF, -INF],
    [INF, INF, INF, INF],
    [INF, NAN, 1, 2],
    [-INF, INF, NAN, 0],
    [1, 2, -INF, 0],
    [0.5, INF, 2, -0.0],
    [0.0, -0.0, 0.0, -0.0],
    [-0.0, 0.0, -1, 1],
    [0, 0, 0, 0],
    [1, 1, 0.5, 1],
    [0, 2, 0, NAN],
]


def window(f):
    return lambda x: f(x[..., None], (2,), (1,), "VALID")[..., 0]


def updated(name):
    """A row whose first three elements meet the last one at position 1."""
    return lambda x: getattr(x[..., :3].at[..., 1], name)(x[..., 3])


FUNCTIONS = [
    ("sum", lambda x: jnp.sum(x, -1)),
    ("mean", lambda x: jnp.mean(x, -1)),
    ("max", lambda x: jnp.max(x, -1)),
    ("min", lambda x: jnp.min(x, -1)),
    ("prod", lambda x: jnp.prod(x, -1)),
    ("var", lambda x: jnp.var(x, -1)),
    ("std", lambda x: jnp.std(x, -1)),
    ("norm", lambda x: jnp.linalg.norm(x, axis=-1)),
    ("logsumexp", lambda x: jax.nn.logsumexp(x, -1)),
    ("softmax", lambda x: jax.nn.softmax(x, -1)),
    ("log_softmax", lambda x: jax.nn.log_softmax(x, -1)),
    ("standardize", lambda x: jax.nn.standardize(x, -1, algorithm="stable")),
    ("glu", lambda x: jax.nn.glu(x, -1)),
    ("sort", lambda x: jnp.sort(x, -1)),
    ("top_k", lambda x: lax.top_k(x, 2)[0]),
    ("cumsum", lambda x: lax.cumsum(x, 1)),
    ("cumprod", lambda x: lax.cumprod(x, 1)),
    ("cummax", lambda x: lax.cummax(x, 1)),
    ("cummin", lambda x: lax.cummin(x, 1)),
    ("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1)),
    ("max_pool", window(flax.linen.max_pool)),
    ("min_pool", window(flax.linen.pooling.min_pool)),
    ("average_pool", window(flax.linen.avg_pool)),
    ("at_min", updated("min")),
    ("at_max", updated("max")),
    ("at_multiply", updated("multiply")),
    ("dot", lambda x: jnp.einsum("ni,ni->n", x, x)),
    ("where_positive", lambda x: jnp.where(x > 0, x, 0)),
]


def case(name, function, rows):
    output = function(rows)
    weights = jnp.asarray(1 + np.arange(output.size).reshape(output.shape) % 4, output.dtype)
    gradient = jax.grad(lambda x: jnp.sum(weights * function(x)))(rows)
    return {
        "name": name,
        "dtype": DTYPE_NAMES[rows.dtype.name],
        "rows": array(rows),
        "output": array(output),
        "weights": array(weights),
        "gradient": array(gradient),
    }


def make_rows():
    def cases():
        for dtype in FLOATS:
            with precision(dtype):
                rows = jnp.asarray(np.array(ROWS, dtype))
                for name, function in FUNCTIONS:
                    yield case(name, function, rows)

    write("rows", {"rows": list(cases())})
