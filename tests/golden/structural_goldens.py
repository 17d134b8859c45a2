"""structural.json: reductions, running reductions, sorting, updates, products, and which lists of axes JAX accepts.

Indices of `at_indices_…` count from the end if negative, and outside change nothing. Those of `at_indices_multiply` are unique, as
JAX requires for a gradient.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from golden_cases import *  # noqa: F403 (the samplers and writers)

SHAPE = (2, 3)


def zeros_twice(rng, shape, dtype):
    """Two elements are exactly zero."""
    out = nonzero(rng, shape, dtype)
    out.flat[:: max(1, out.size - 1)] = 0
    return out


def with_nan(rng, shape, dtype):
    """NaN and both infinities among others."""
    out = distinct(rng, shape, dtype)
    out.flat[1::3] = [np.nan, np.inf, -np.inf, np.nan] * 9 if out.size > 105 else ([np.nan, np.inf, -np.inf] * 12)[: len(out.flat[1::3])]
    return out


def unique(count, bound):
    """Along the axis of this length no index twice."""

    def sampler(rng, shape, dtype):
        axis = shape.index(count)
        order = np.argsort(rng.random(shape[:axis] + (bound,) + shape[axis + 1 :]), axis=axis)
        return np.take(order, range(count), axis=axis).astype(np.int32)

    return sampler


def ascending(count):
    def sampler(rng, shape, dtype):
        return np.sort(grid(rng, shape, dtype), axis=shape.index(count))

    return sampler


def reductions():
    for sampler, values in ((distinct, "distinct"), (grid, "ties"), (with_nan, "nan")):
        for axes in ((0,), (0, 1)):
            yield op("min", lambda x, a=axes: jnp.min(x, axis=a), [((3, 4), sampler)], axes=axes, values=values)
        yield op("argmin", lambda x: lax.argmin(x, 1, np.int32), [((3, 4), sampler)], axis=1, values=values)
    for axes, sampler, values in (
        ((0,), any_float, "any"),
        ((1,), with_zero, "zero"),
        ((0, 1), zeros_twice, "zeros"),
        ((), any_float, "any"),
    ):
        yield op("prod", lambda x, a=axes: jnp.prod(x, axis=a), [((3, 3), sampler)], axes=axes, values=values)
    yield op("prod", lambda x: jnp.prod(x, axis=0), [((0, 3), any_float)], axes=(0,), values="none")
    yield op("prod", lambda x: jnp.prod(x, axis=1), [(SHAPE, int32)], [np.float32], axes=(1,), values="int")
    yield op("min_keep", lambda x: jnp.min(x, axis=1, keepdims=True), [(SHAPE, distinct)], axes=(1,))
    yield op("prod_keep", lambda x: jnp.prod(x, axis=0, keepdims=True), [(SHAPE, any_float)], axes=(0,))
    for name, function in (("all", jnp.all), ("any", jnp.any)):
        for sampler, values in ((boolean, "bool"), (grid, "float")):
            yield op(name, lambda x, f=function: f(x, axis=1), [((4, 2), sampler)], [np.float32], axes=(1,), values=values)
        yield op(name, lambda x, f=function: f(x, axis=0), [((0, 2), boolean)], [np.float32], axes=(0,), values="none")
    yield op("count_nonzero", lambda x: jnp.count_nonzero(x, axis=1).astype(np.int32), [((2, 4), grid)], axes=(1,))


def running():
    table = [
        ("cumsum", lax.cumsum, any_float),
        ("cumprod", lax.cumprod, with_zero),
        ("cummax", lax.cummax, grid),
        ("cummin", lax.cummin, grid),
        ("cumlogsumexp", lax.cumlogsumexp, any_float),
    ]
    for name, function, sampler in table:
        for shape, axis, reverse in (((5,), 0, False), ((2, 4), 1, True), ((3, 2), 0, False)):
            yield op(
                name,
                lambda x, f=function, a=axis, r=reverse: f(x, axis=a, reverse=r),
                [(shape, sampler)],
                axis=axis,
                reverse=reverse,
            )
    yield op("cumsum", lambda x: lax.cumsum(x, 1), [((2, 0), any_float)], axis=1, reverse=False)
    yield op("cumsum", lambda x: lax.cumsum(x, 0), [((4,), int32)], [np.float32], axis=0, reverse=False)
    yield op("cummax", lambda x: lax.cummax(x, 0), [((7,), with_nan)], axis=0, reverse=False)


def sorting():
    for sampler, values in ((distinct, "distinct"), (grid, "ties"), (with_nan, "nan")):
        yield op("sort", lambda x: jnp.sort(x, axis=0), [((4, 2), sampler)], axis=0, values=values)
        yield op("argsort", lambda x: jnp.argsort(x, axis=1).astype(np.int32), [((2, 4), sampler)], axis=1, values=values)
        yield op("top_k", lambda x: lax.top_k(x, 3)[0], [((2, 5), sampler)], k=3, values=values)
        yield op("top_k_indices", lambda x: lax.top_k(x, 3)[1], [((2, 5), sampler)], k=3, values=values)
    yield op("sort", lambda x: jnp.sort(x, axis=0), [((5,), int32)], [np.float32], axis=0, values="int")
    yield op(
        "searchsorted",
        lambda x, v: jnp.searchsorted(x, v).astype(np.int32),
        [((5,), ascending(5)), ((2, 2), grid)],
    )
    for shape, indices, axis in (((4, 2), (3, 2), 0), ((2, 4), (2, 1), 1), ((2, 4), (1, 3), 1), ((1, 4), (2, 3), 1)):
        yield op(
            "take_along_axis",
            lambda x, i, a=axis: jnp.take_along_axis(x, i, a, mode="clip"),
            [(shape, any_float), (indices, index(0, 4))],
            axis=axis,
        )
    yield op(
        "take_along_axis",
        lambda x, i: jnp.take_along_axis(x, i, 1),
        [((2, 4), any_float), ((2, 6), index(-4, 4))],
        axis=1,
    )


def dynamic():
    yield op(
        "dynamic_slice",
        lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 2)),
        [((3, 4), any_float), ((), index(0, 4)), ((), index(0, 4))],
        sizes=(2, 2),
    )
    yield op(
        "dynamic_slice",
        lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 4)),
        [((3, 4), any_float), ((), index(1, 9)), ((), index(0, 4))],
        sizes=(2, 4),
    )
    for shape, update in (((5,), (2,)), ((3,), (3,))):
        yield op(
            "dynamic_update_slice",
            lambda x, u, i: lax.dynamic_update_slice(x, u, (i,)),
            [(shape, any_float), (update, any_float), ((), index(0, 7))],
            rank=1,
        )
    yield op(
        "dynamic_update_slice",
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)),
        [((3, 4), any_float), ((2, 2), any_float), ((), index(0, 4))],
        rank=2,
    )


def updates():
    places = [
        ("rows", np.s_[1:], (2, 3)),
        ("column", np.s_[:, -1], (3,)),
        ("steps", np.s_[::2, 1:], (2,)),
        ("backwards", np.s_[::-1], (3, 3)),
        ("position", np.s_[0, 1], ()),
    ]
    for place, where, shape in places:
        methods = ("set", "add", "multiply", "min", "max") if place in ("rows", "steps") else ("set", "add")
        for method in methods:
            yield op(
                f"at_{method}",
                lambda x, y, w=where, m=method: getattr(x.at[w], m)(y),
                [((3, 3), any_float), (shape, any_float)],
                place=place,
            )
    for axis, shape, part in ((0, (4, 2), (3, 2)), (1, (2, 4), (2, 3))):
        def at(x, i, a=axis):
            return x.at[i] if a == 0 else x.at[:, i]

        for method in ("set", "add"):
            # From the end, twice, and outside.
            yield op(
                f"at_indices_{method}",
                lambda x, i, y, m=method, at=at: getattr(at(x, i), m)(y),
                [(shape, any_float), ((3,), index(-4, 5)), (part, any_float)],
                axis=axis,
            )
        yield op(
            "at_indices_multiply",
            lambda x, i, y, at=at: at(x, i).multiply(y, unique_indices=True),
            [(shape, any_float), ((3,), unique(3, 4)), (part, with_zero)],
            axis=axis,
        )
    # By default, JAX reads the nearest element for an index out of range, but its gradient does not reach this element.
    yield op(
        "at_indices_get",
        lambda x, i: x.at[i].get(mode="clip"),
        [((4, 2), any_float), ((3,), index(-4, 6))],
        axis=0,
    )
    yield op(
        "at_indices_add",
        lambda x, i, y: x.at[i].add(y),
        [((4,), any_float), ((2, 3), index(-4, 5)), ((2, 3), any_float)],
        axis=0,
    )
    for method in ("min", "max"):
        yield op(
            f"at_indices_{method}",
            lambda x, i, m=method: getattr(x.at[i], m)(jnp.array([3, -4, 5, 0], x.dtype)),
            [((3,), int32), ((4,), index(-3, 4))],
            [np.float32],
            axis=0,
        )


def rearrangements():
    x = [((3, 4), any_float)]
    for k in (0, 1, -2):
        yield op("tril", lambda x, k=k: jnp.tril(x, k), x, k=k)
        yield op("triu", lambda x, k=k: jnp.triu(x, k), x, k=k)
        yield op("diag", lambda x, k=k: jnp.diag(x, k), [((3,), any_float)], k=k)
    yield op("tril", lambda x: jnp.tril(x), [((2, 2, 2), any_float)], k=0)
    for k, axes in ((0, (0, 1)), (1, (1, 2)), (-1, (0, 2))):
        yield op(
            "diagonal",
            lambda x, k=k, a=axes: jnp.diagonal(x, k, *a),
            [((2, 3, 3), any_float)],
            k=k,
            axes=axes,
        )
    yield op("trace", jnp.trace, [((3, 3), any_float)])
    yield op("trace", jnp.trace, [((2, 3, 2), any_float)])
    for shift, axis in ((1, 0), (-3, 1), (4, 1)):
        yield op("roll", lambda x, s=shift, a=axis: jnp.roll(x, s, a), x, shift=shift, axis=axis)
    for repeats in ((2,), (2, 1), (2, 1, 2)):
        yield op("tile", lambda x, r=repeats: jnp.tile(x, r), [(SHAPE, any_float)], repeats=repeats)
    yield op("tile", lambda x: jnp.tile(x, (3,)), [((), any_float)], repeats=(3,))
    for axis in (0, 1):
        yield op("repeat", lambda x, a=axis: jnp.repeat(x, 2, a), [(SHAPE, any_float)], repeats=2, axis=axis)
    yield op("split", lambda x: jnp.split(x, 2, 1)[1], x, parts=2, axis=1, part=1)
    yield op("array_split", lambda x: jnp.array_split(x, 2, 0)[1], x, parts=2, axis=0, part=1)
    yield op("split_at", lambda x: jnp.split(x, [1, 3], 1)[1], x, positions=(1, 3), axis=1, part=1)
    for axes in ((0,), (0, 2), (-1, 1, 0), ()):
        yield op("expand_dims", lambda x, a=axes: jnp.expand_dims(x, a), [(SHAPE, any_float)], axes=axes)
    for axes in ((0,), (2, 0), (-1, 0, 2), ()):
        yield op("squeeze", lambda x, a=axes: jnp.squeeze(x, a), [((1, 3, 1, 1), any_float)], axes=axes)
    yield op("swap_axes", lambda x: jnp.swapaxes(x, 0, -1), [((2, 3, 2), any_float)], axes=(0, -1))
    yield op("linspace", lambda x: x * jnp.linspace(-1, 2, 5, dtype=x.dtype), [((5,), any_float)], start=-1, end=2)
    yield op(
        "meshgrid",
        lambda x, y: jnp.meshgrid(x, y, indexing="ij")[1],
        [((2,), any_float), ((3,), any_float)],
        part=1,
    )


def lists_of_axes():
    """The shape of the result for each list of up to two axes, or null where JAX refuses the list."""

    def outcome(function, shape, axes):
        try:
            return list(function(jnp.zeros(shape), axes).shape)
        except ValueError:
            return None

    axes = range(-4, 5)
    lists = [(), *((one,) for one in axes), *((one, other) for one in axes for other in axes)]
    return [
        {"name": name, "shape": list(shape), "axes": list(axes), "result": outcome(function, shape, axes)}
        for name, function, shapes in (
            ("expand_dims", jnp.expand_dims, ((), (2, 3))),
            ("squeeze", jnp.squeeze, ((), (1, 3, 1))),
            ("sum", jnp.sum, ((2, 3),)),
        )
        for shape in shapes
        for axes in lists
    ]


def products():
    table = [
        ("ij,jk->ik", (2, 3), (3, 2)),
        ("ij,jk", (2, 3), (3, 2)),
        ("ba", (2, 3)),
        ("ii", (3, 3)),
        ("ii->i", (3, 3)),
        ("iij->j", (2, 2, 3)),
        ("iji,j->i", (2, 3, 2), (3,)),
        ("ij->", (2, 3)),
        ("ij->j", (2, 3)),
        ("i,j->ij", (2,), (3,)),
        ("i,j", (2,), (3,)),
        ("ij,ij->i", (2, 3), (2, 3)),
        ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
        ("bhqd,bkhd->bhqk", (2, 1, 2, 2), (2, 3, 1, 2)),
        ("ijk,ilk->jl", (2, 2, 3), (2, 3, 3)),
        ("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
        ("...ij,jk", (2, 2, 3), (3, 2)),
        ("i...,i->...", (2, 3), (2,)),
        ("i...->...", (2, 3)),
        ("...,...", (2, 1), (3,)),
        ("ab,cd->", (2, 2), (1, 3)),
        ("ab,cd->c", (2, 2), (2, 3)),
        ("ij,ij->ij", (1, 3), (2, 3)),
        ("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)),
        ("i,ij,j", (2,), (2, 3), (3,)),
        ("ij,ik,il->jkl", (2, 2), (2, 1), (2, 3)),
        (",i->i", (), (2,)),
        ("ij,jk->ik", (2, 0), (0, 2)),
    ]
    for subscripts, *shapes in table:
        yield op(
            "einsum",
            lambda *xs, s=subscripts: jnp.einsum(s, *xs),
            [(shape, any_float) for shape in shapes],
            subscripts=subscripts,
        )
    yield op(
        "dot_general",
        lambda x, y: lax.dot_general(x, y, (((2,), (0,)), ((0,), (2,)))),
        [((2, 2, 3), any_float), ((3, 2, 2), any_float)],
    )
    yield op(
        "tensordot",
        lambda x, y: jnp.tensordot(x, y, ((1, -1), (1, 0))),
        [((2, 2, 3), any_float), ((3, 2), any_float)],
        left=(1, -1),
        right=(1, 0),
    )
    yield op("outer", jnp.outer, [((2,), any_float), ((2, 2), any_float)])
    yield op("inner", jnp.inner, [((2, 3), any_float), ((2, 3), any_float)])
    yield op("inner", jnp.inner, [((), any_float), ((2,), any_float)])
    yield op("vdot", jnp.vdot, [((2, 2), any_float), ((4,), any_float)])
    yield op("kron", jnp.kron, [((2, 2), any_float), ((3,), any_float)])
    for axes in ((0, 1), (1,)):
        yield op("norm", lambda x, a=axes: jnp.linalg.norm(x, axis=a), [(SHAPE, nonzero)], axes=axes)
    yield op("norm", lambda x: jnp.linalg.norm(0 * x, axis=0), [((2,), any_float)], axes=(0,), zero=True)


def table():
    return [
        *reductions(),
        *running(),
        *sorting(),
        *dynamic(),
        *updates(),
        *rearrangements(),
        *products(),
    ]


def make_structural():
    write("structural", {"cases": operation_cases(table()), "axes": lists_of_axes()})
