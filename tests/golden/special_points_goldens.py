"""special_points.json: first and second derivatives at the edges of domains, in forward and reverse mode.

`elements` are functions element by element; a function of two tensors is differentiated with respect to
each alone. `rows` map the last axis, and `matrices` one matrix; their second derivatives are those of
`gradient @ direction`. Figures that depend on arbitrary signs or on rounding are left out.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from elementwise_goldens import BINARY, UNARY
from golden_cases import *  # noqa: F403 (the samplers and writers)
from rows_goldens import FUNCTIONS as ROW_FUNCTIONS

# Functions whose results are no floats have no derivatives.
WITHOUT = {"isnan", "isinf", "isfinite", "eq", "ne", "lt", "le", "gt", "ge"}


def points(dtype):
    """Ends of domains with their neighbours, branch points of activations, ties, and the ends of the type."""
    one, info = dtype(1), np.finfo(dtype)
    positive = [0, 0.5, 1, 1.5, 2, 2.5, 3, 6, 20, 80, np.inf, np.nextafter(one, dtype(0)), np.nextafter(one, dtype(2))]
    positive += [info.eps, np.sqrt(info.tiny)]
    return np.array([sign * x for x in positive for sign in (1, -1)] + [np.nan], dtype)


def pairs(dtype):
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.5, np.inf, -np.inf, np.nan]
    return [np.array(column, dtype) for column in zip(*itertools.product(values, values))]


def of_elements(name, f, x, inputs, position):
    """The derivatives of a function element by element with respect to one of its inputs."""
    ones = jnp.ones_like(x)
    forward = lambda f: lambda x: jax.jvp(f, (x,), (ones,))[1]
    reverse = lambda f: jax.grad(lambda x: jnp.sum(f(x)))
    return {
        "name": name,
        "dtype": DTYPE_NAMES[np.dtype(x.dtype).name],
        "inputs": arrays(inputs),
        "position": position,
        "forward": arrays([forward(f)(x), forward(forward(f))(x)]),
        "reverse": arrays([reverse(f)(x), reverse(reverse(f))(x)]),
    }


def elements():
    for dtype in FLOATS:
        with precision(dtype):
            x = jnp.asarray(points(dtype))
            for name, f, _ in UNARY:
                if name not in WITHOUT:
                    yield of_elements(name, f, x, [x], 0)
            left, right = map(jnp.asarray, pairs(dtype))
            for name, f, _, _ in BINARY:
                if name not in WITHOUT:
                    yield of_elements(name, lambda x, f=f: f(x, right), left, [left, right], 0)
                    yield of_elements(name, lambda y, f=f: f(left, y), right, [left, right], 1)


def of_tensor(name, f, label, x):
    """The derivatives of weights @ f(x): the gradient, and the gradient of gradient @ direction."""
    output = jnp.asarray(f(x))
    weights = jnp.asarray(1 + np.arange(output.size).reshape(output.shape) % 4, output.dtype)
    direction = jnp.asarray(1 + np.arange(x.size).reshape(x.shape) % 3, x.dtype)
    loss = lambda x: jnp.sum(weights * f(x))
    slope = lambda x: jnp.sum(direction * jax.grad(loss)(x))
    tangent = lambda x: jax.jvp(f, (x,), (direction,))[1]
    return {
        "name": name,
        "at": label,
        "dtype": DTYPE_NAMES[np.dtype(x.dtype).name],
        "input": array(x),
        "weights": array(weights),
        "direction": array(direction),
        "forward": arrays([tangent(x), jax.jvp(tangent, (x,), (direction,))[1]]),
        "reverse": arrays([jax.grad(loss)(x), jax.grad(slope)(x)]),
    }


INF, NAN = np.inf, np.nan
ROWS = [
    [0, 0, 0, 0],
    [1, 1, 1, 1],
    [0, 2, 0, 3],
    [0, 2, 3, 4],
    [3, 3, 1, -1],
    [-INF, 1, 2, 0],
    [-INF, -INF, -INF, -INF],
    [INF, 1, 2, 0],
    [NAN, 1, 2, 0],
]
MASK = np.array([True, False, True, False])
MORE_ROWS = [
    ("masked_sqrt", lambda x: jnp.sum(jnp.where(MASK, jnp.sqrt(x), 0), -1)),
    ("sqrt_of_masked", lambda x: jnp.sum(jnp.where(MASK, jnp.sqrt(jnp.where(MASK, x, 1)), 0), -1)),
]


def rows():
    for dtype in FLOATS:
        with precision(dtype):
            for name, f in [*ROW_FUNCTIONS, *MORE_ROWS]:
                for row in ROWS:
                    # JAX has no derivatives of these functions at NaN that are worth being compared.
                    if row[0] != row[0] and name in ("max_pool", "min_pool", "cummax", "cummin", "sort", "top_k"):
                        continue
                    yield of_tensor(name, f, str(row), jnp.asarray(np.array([row], dtype)))


MATRICES = {
    "zeros": np.zeros((3, 3)),
    "ones": np.ones((2, 2)),
    "identity": np.eye(3),
    "twice": np.diag([2.0, 2.0, 5.0]),
    "rank_one": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "rank_two": np.diag([0.0, 1.0, 3.0]),
    "regular": np.array([[2.0, 1.0], [1.0, 4.0]]),
    "indefinite": np.array([[1.0, 2.0], [2.0, 1.0]]),
}
SQUARE_FUNCTIONS = [
    ("det", jnp.linalg.det),
    ("slogdet", lambda x: jnp.linalg.slogdet(x)[1]),
    ("inv", jnp.linalg.inv),
    ("solve", lambda x: jnp.linalg.solve(x, jnp.arange(1.0, 1 + x.shape[-1], dtype=x.dtype))),
    ("cholesky", jnp.linalg.cholesky),
    ("eigenvalues", lambda x: jnp.linalg.eigh(x)[0]),
    ("sum_of_eigenvalues", lambda x: jnp.sum(jnp.linalg.eigh(x)[0] ** 2)),
    ("singular_values", lambda x: jnp.linalg.svd(x)[1]),
    ("sum_of_singular_values", lambda x: jnp.sum(jnp.linalg.svd(x)[1])),
    ("norm", jnp.linalg.norm),
    ("triangular_solve", lambda x: jax.scipy.linalg.solve_triangular(x, jnp.arange(1.0, 1 + x.shape[-1], dtype=x.dtype), lower=True)),
    ("qr_r", lambda x: jnp.linalg.qr(x)[1]),
    ("lstsq", lambda x: jnp.linalg.lstsq(x, jnp.arange(1.0, 1 + x.shape[-1], dtype=x.dtype))[0]),
]


def matrices():
    with precision(np.float64):
        for name, f in SQUARE_FUNCTIONS:
            for label, value in MATRICES.items():
                yield of_tensor(name, f, label, jnp.asarray(value))


def make_special_points():
    write("special_points", {"elements": list(elements()), "rows": list(rows()), "matrices": list(matrices())})


if __name__ == "__main__":
    make_special_points()
