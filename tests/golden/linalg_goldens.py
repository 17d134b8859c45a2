"""linalg.json: factorizations, determinants and systems of linear equations.

`cases` are as in ops.json, `host_cases` are those of decompositions that StableHLO cannot express, and `edges` have singular,
indefinite, empty and NaN matrices.
"""

import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax

from golden_cases import *  # noqa: F403 (the samplers and writers)


def regular(x, turned=False):
    """Well conditioned matrices. With `turned`, the rows must be exchanged."""
    x = x + 6 * jnp.eye(x.shape[-1], dtype=x.dtype)
    return jnp.flip(x, -2) if turned else x


def definite(x):
    return x @ x.mT + 3 * jnp.eye(x.shape[-2], dtype=x.dtype)


def matrix_cases():
    for n in (1, 2, 3):
        yield op("cholesky", lambda x: jnp.linalg.cholesky(definite(x)), [((n, n), any_float)])
    yield op("cholesky", lambda x: jnp.linalg.cholesky(definite(x)), [((2, 3, 3), any_float)])
    # A matrix that is not symmetric: half of the sum with its transpose counts.
    yield op("cholesky_of_any", lambda x: jnp.linalg.cholesky(regular(x)), [((3, 3), any_float)])
    yield op("log_determinant", lambda x: 2 * jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(definite(x))))), [((4, 4), any_float)])
    for shape in ((1, 1), (3, 3), (2, 2, 2)):
        for turned in (False, True):
            yield op("inv", lambda x, t=turned: jnp.linalg.inv(regular(x, t)), [(shape, any_float)], turned=turned)
            yield op("det", lambda x, t=turned: jnp.linalg.det(regular(x, t)), [(shape, any_float)], turned=turned)
            yield op("slogdet", lambda x, t=turned: jnp.linalg.slogdet(regular(x, t))[1], [(shape, any_float)], turned=turned)
            yield op("sign", lambda x, t=turned: jnp.linalg.slogdet(regular(x, t))[0], [(shape, any_float)], turned=turned)
    # The second derivatives are differences of numbers near 100, of which f32 keeps too few digits.
    yield op("det", lambda x: jnp.linalg.det(regular(x)), [((4, 4), any_float)], (np.float64,), turned=False)
    for shape in ((1, 1), (3, 3), (4, 2), (2, 4), (2, 3, 2)):
        yield op("qr_q", lambda x: jnp.linalg.qr(well_apart(x))[0], [(shape, any_float)])
        yield op("qr_r", lambda x: jnp.linalg.qr(well_apart(x))[1], [(shape, any_float)])


def well_apart(x):
    """Matrices whose singular values are far from zero and from each other."""
    m, n = x.shape[-2:]
    return x / 4 + jnp.eye(m, n, dtype=x.dtype) * jnp.arange(2, 2 + 2 * n, 2, dtype=x.dtype)


def solving_cases():
    for a, b in (((3, 3), (3,)), ((3, 3), (3, 2)), ((1, 1), (1, 4)), ((2, 3, 3), (2, 3, 2)), ((3, 3), (2, 3, 1)), ((2, 2, 2), (2,)), ((2, 1, 2, 2), (3, 2, 1))):
        for turned in (False, True):
            yield op("solve", lambda a, b, t=turned: jnp.linalg.solve(regular(a, t), b), [(a, any_float), (b, any_float)], turned=turned)
    yield op("cho_solve", lambda a, b: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(definite(a)), True), b), [((3, 3), any_float), ((3, 2), any_float)])
    for lower in (False, True):
        for transposed in (False, True):
            for unit in (False, True):
                options = {"lower": lower, "transposed": transposed, "unit": unit}
                for left, b in ((True, (3, 2)), (False, (2, 3))):
                    yield op(
                        "triangular_solve",
                        lambda a, b, left=left, o=options: lax.linalg.triangular_solve(
                            regular(a), b, left_side=left, lower=o["lower"], transpose_a=o["transposed"], unit_diagonal=o["unit"]
                        ),
                        [((3, 3), any_float), (b, any_float)],
                        left=left,
                        **options,
                    )
                yield op(
                    "triangular_solve",
                    lambda a, b, o=options: jax.scipy.linalg.solve_triangular(
                        regular(a), b, trans=int(o["transposed"]), lower=o["lower"], unit_diagonal=o["unit"]
                    ),
                    [((3, 3), any_float), ((3,), any_float)],
                    left=True,
                    **options,
                )


def symmetric(x):
    return well_apart(x) + well_apart(x).mT


def host_cases():
    """Decompositions that StableHLO has no operations for. The signs of vectors are arbitrary, so the figures do not
    depend on them."""
    doubles = (np.float64,)
    for n in (1, 3):
        yield op("eigenvalues", lambda x: jnp.linalg.eigh(symmetric(x))[0], [((n, n), any_float)])
        yield op("sine_of_symmetric", lambda x: sine(symmetric(x)), [((n, n), any_float)], doubles)
    yield op("eigenvalues", lambda x: jnp.linalg.eigh(symmetric(x))[0], [((2, 2, 2), any_float)])
    for shape in ((1, 1), (3, 3), (4, 2), (2, 4)):
        yield op("singular_values", lambda x: jnp.linalg.svd(well_apart(x), full_matrices=False)[1], [(shape, any_float)])
        yield op("sine_of_singular_values", lambda x: svd_sine(well_apart(x)), [(shape, any_float)], doubles)
    for b in ((4,), (4, 3)):
        yield op("lstsq", lambda a, b: jnp.linalg.lstsq(well_apart(a), b)[0], [((4, 2), any_float), (b, any_float)], doubles)
        yield op("lstsq_residuals", lambda a, b: jnp.linalg.lstsq(well_apart(a), b)[1], [((4, 2), any_float), (b, any_float)], doubles)
    yield op("lstsq", lambda a, b: jnp.linalg.lstsq(well_apart(a), b)[0], [((2, 4), any_float), ((2,), any_float)], doubles)


def sine(a):
    w, v = jnp.linalg.eigh(a)
    return v * jnp.sin(w)[..., None, :] @ v.mT


def svd_sine(a):
    u, s, v_t = jnp.linalg.svd(a, full_matrices=False)
    return u * jnp.sin(s)[..., None, :] @ v_t


def edges():
    """Values at singular, indefinite, empty and NaN matrices, and the gradients of determinants there."""
    nan = float("nan")
    matrices = {
        "none": np.zeros((0, 0)),
        "none_of_batch": np.zeros((2, 0, 0)),
        "zero": np.zeros((1, 1)),
        "zeros": np.zeros((3, 3)),
        "rank_one": np.array([[1.0, 2.0], [2.0, 4.0]]),
        "rank_one_of_three": np.outer([1.0, 2.0, 4.0], [1.0, -1.0, 2.0]),
        "rank_two_of_three": np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 1.0], [4.0, 8.0, 2.0]]),
        "rank_three_of_four": np.array([[2.0, 1.0, 0.0, 1.0], [4.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], [6.0, 1.0, 1.0, 2.0]]),
        "indefinite": np.array([[1.0, 2.0], [2.0, 1.0]]),
        "all_nan": np.full((3, 3), nan),
        "negative": np.array([[-4.0]]),
    }
    functions = {
        "cholesky": jnp.linalg.cholesky,
        "det": jnp.linalg.det,
        "gradient_of_det": lambda x: jax.grad(lambda x: jnp.sum(jnp.linalg.det(x)))(x),
        "sign": lambda x: jnp.linalg.slogdet(x)[0],
        "slogdet": lambda x: jnp.linalg.slogdet(x)[1],
    }
    out = []
    for dtype in FLOATS:
        with precision(dtype):
            for matrix, value in matrices.items():
                value = jnp.asarray(value.astype(dtype))
                for name, function in functions.items():
                    if value.size == 0 and name == "gradient_of_det":
                        continue  # JAX raises an IndexError.
                    if matrix == "all_nan" and name == "sign":
                        continue  # JAX returns 1 for three rows, and NaN for two.
                    if matrix == "rank_three_of_four" and name in ("sign", "slogdet"):
                        continue  # Rounding decides whether the last pivot is zero.
                    out.append({"name": name, "matrix": matrix, "input": array(value), "output": array(function(value))})
    return out


def make_linalg():
    cases = operation_cases([*matrix_cases(), *solving_cases()])
    write("linalg", {"cases": cases, "host_cases": operation_cases(host_cases()), "edges": edges()})
