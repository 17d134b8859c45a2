"""collectives.json: operations over named batch axes, and normalisation by statistics of the batch.

Each operation is a `vmap` with the names `i`, or `i` outside and `j` inside, of a function of an example. With
`inside="jit"` that function is compiled, with `"grad"` and `"grad of grad"` its derivatives are mapped.
"""

from golden_cases import *

from jax import lax


def grad_of(f):
    return jax.grad(lambda *x: jnp.sum(f(*x)))


INSIDE = {
    "nothing": lambda f: f,
    "jit": jax.jit,
    "grad": grad_of,
    "grad of grad": lambda f: grad_of(grad_of(f)),
    "jit of grad": lambda f: jax.jit(grad_of(f)),
    "grad of jit": lambda f: grad_of(jax.jit(f)),
}


def over_i(f, inside="nothing", in_axes=0):
    return jax.vmap(INSIDE[inside](f), axis_name="i", in_axes=in_axes)


def over_ij(f, inside="nothing"):
    return jax.vmap(jax.vmap(INSIDE[inside](f), axis_name="j"), axis_name="i")


def names(value):
    return value if isinstance(value, str) else tuple(value)


def body(name, **p):
    """The function of an example."""
    axis = names(p.get("axis", "i"))
    hidden = lax.stop_gradient
    return {
        "psum": lambda x: lax.psum(jnp.sin(x), axis) * x,
        "psum of what is the same": lambda x: lax.psum(1.0, axis) * jnp.sin(x),
        "pmean": lambda x: lax.pmean(jnp.sin(x), axis) * x,
        # Derivatives of the extremes are not defined in JAX.
        "pmax": lambda x: lax.pmax(hidden(x), axis) * jnp.sin(x),
        "pmin": lambda x: lax.pmin(hidden(x), axis) * jnp.sin(x),
        "all_gather": lambda x: lax.all_gather(jnp.sin(x), axis, axis=p["at"], tiled=p["tiled"]),
        "axis_index": lambda x: (1 + lax.axis_index(axis)).astype(x.dtype) * jnp.sin(x),
        "ppermute": lambda x: lax.ppermute(jnp.sin(x), axis, [tuple(pair) for pair in p["perm"]]) * x,
        "pshuffle": lambda x: lax.pshuffle(jnp.sin(x), axis, p["perm"]) * x,
        "psum_scatter": lambda x: lax.psum_scatter(jnp.sin(x), axis, scatter_dimension=p["at"], tiled=p["tiled"]),
        "all_to_all": lambda x: lax.all_to_all(jnp.sin(x), axis, p["split"], p["concat"], tiled=p["tiled"]),
        "normalize": lambda x: (x - lax.pmean(x, axis)) / jnp.sqrt(lax.pmean(x**2, axis) - lax.pmean(x, axis) ** 2 + 1e-2),
    }[name]


def batch_norm(x, scale, bias):
    mean = lax.pmean(x, "i")
    variance = lax.pmean(jnp.square(x - mean), "i")
    return (x - mean) / jnp.sqrt(variance + 1e-3) * scale + bias


F64 = (np.float64,)


def table():
    one = [((3, 2), any_float)]
    two = [((2, 3, 2), any_float)]
    for inside in INSIDE:
        for name in ("psum", "normalize"):
            yield op(name, over_i(body(name), inside), one, F64, inside=inside)
    for name in ("psum of what is the same", "pmean", "pmax", "pmin", "axis_index"):
        yield op(name, over_i(body(name)), one, F64, inside="nothing")
    for inside, axis in (
        ("nothing", "i"),
        ("nothing", "j"),
        ("nothing", ["i", "j"]),
        ("nothing", ["j", "i"]),
        ("grad of jit", "i"),
        ("grad", ["i", "j"]),
    ):
        for name in ("psum", "pmax", "axis_index"):
            yield op(name, over_ij(body(name, axis=axis), inside), two, F64, inside=inside, axis=axis)
    for at, tiled in ((0, False), (1, False), (-1, False), (0, True), (-1, True)):
        p = {"at": at, "tiled": tiled}
        f = over_i(body("all_gather", **p))
        yield op("all_gather", f, [((2, 2, 3), any_float)], F64, inside="nothing", **p)
    for name, perm in (("ppermute", [[0, 2], [1, 0], [2, 1]]), ("pshuffle", [2, 0, 1])):
        yield op(name, over_i(body(name, perm=perm)), one, F64, inside="nothing", perm=perm)
    for split, concat, tiled, shape in (
        (0, 0, False, (2, 2, 3)),
        (0, 1, False, (2, 2, 3)),
        (0, 1, True, (2, 4, 3)),
        (1, 0, True, (2, 3, 4)),
    ):
        p = {"split": split, "concat": concat, "tiled": tiled}
        f = over_i(body("all_to_all", **p))
        yield op("all_to_all", f, [(shape, any_float)], F64, inside="nothing", **p)
    norm = [((4, 3), any_float), ((3,), any_float), ((3,), any_float)]
    yield op("batch_norm", over_i(batch_norm, "nothing", (0, None, None)), norm, inside="nothing")
    for inside in ("jit", "grad", "grad of grad"):
        yield op("batch_norm", over_i(batch_norm, inside, (0, None, None)), norm, F64, inside=inside)
    # Integers, bools, ties, special values.
    yield op("plain psum", over_i(lambda x: lax.psum(x, "i")), [((3, 2), int32)], (np.float32,))
    yield op("plain psum", over_i(lambda x: lax.psum(x, "i")), [((3,), boolean)], (np.float32,))
    yield op("plain pmax", over_i(lambda x: lax.pmax(x, "i")), [((3, 2), int32)], (np.float32,))
    yield op("plain pmin", over_i(lambda x: lax.pmin(x, "i")), [((3, 2), int32)], (np.float32,))
    yield op("plain pmin", over_i(lambda x: lax.pmin(x, "i")), [((3, 2), uint32)], (np.float32,))
    yield op("plain psum", over_i(lambda x: lax.psum(x, "i")), [((0, 2), any_float)], F64)
    yield op("plain psum", over_i(lambda x: lax.psum(x, "i")), [((1, 2), any_float)], F64)
    yield op("plain pmean", over_i(lambda x: lax.pmean(x, "i")), [((1,), any_float)], F64)
    for at, tiled, shape in ((0, False, (2, 2, 3)), (1, False, (3, 2, 3)), (0, True, (2, 4, 3)), (1, True, (3, 2, 6))):
        p = {"at": at, "tiled": tiled}
        f = over_i(body("psum_scatter", **p))
        yield op("psum_scatter", f, [(shape, any_float)], F64, inside="nothing", **p)


def special():
    """Values alone, of elements that are not ordinary."""
    x = np.array([[np.nan, np.inf, -np.inf, -0.0], [1.0, -np.inf, -np.inf, 0.0]], np.float32)
    mapped = lambda f: array(over_i(f)(jnp.asarray(x)))
    return {
        "x": array(x),
        "psum": mapped(lambda x: lax.psum(x, "i")),
        "pmean": mapped(lambda x: lax.pmean(x, "i")),
        "pmax": mapped(lambda x: lax.pmax(x, "i")),
        "pmin": mapped(lambda x: lax.pmin(x, "i")),
    }


def shadowed():
    """Of two batch axes of one name the inner one is meant."""
    x = jnp.arange(6.0, dtype=np.float32).reshape(2, 3)
    return {
        "x": array(x),
        "output": array(jax.vmap(jax.vmap(lambda x: lax.psum(x, "i"), axis_name="i"), axis_name="i")(x)),
    }


def make_collectives():
    write("collectives", {"cases": operation_cases(table()), "special": special(), "shadowed": shadowed()})
