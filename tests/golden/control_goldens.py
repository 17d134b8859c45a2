"""Programs with branches, loops and rules of their own: what `tests/goldens/control.rs` repeats.

Each case is a function of some arrays to one array, as a case of an operation: value, derivatives of first and
second order, jvp, and vmap over mixed axes. A `while_loop` has forward derivatives only: its cases are in a table of
their own, without the gradients.
"""

import jax
import jax.numpy as jnp
import numpy as np
from golden_cases import *  # noqa: F403 (the samplers and writers)
from jax import lax

f32, i32 = np.float32, np.int32


def step(c, x):
    c = jnp.sin(c * x) + c
    return c, c * jnp.exp(x)


@jax.custom_jvp
def softplus(x):
    return jnp.log1p(jnp.exp(x))


@softplus.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return softplus(x), t * jax.nn.sigmoid(x)


@jax.custom_jvp
def crooked(x):
    return jnp.sin(x)


@crooked.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return jnp.sin(x), 7 * x * t


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -0.5, 0.5),))


@jax.custom_vjp
def tripled(x, y):
    return x * y


tripled.defvjp(lambda x, y: (x * y, (x, y)), lambda r, ct: (3 * r[1] * ct, jnp.sin(r[0]) * ct))


def affine(left, right):
    (a, b), (c, d) = left, right
    return a * c, b * c + d


def deep(x):
    return jnp.tanh(jnp.exp(jnp.sin(x)))


def programs():
    v, m = ((3,), any_float), ((4, 3), any_float)
    s, flag, small = ((), any_float), ((), boolean), ((), index(-1, 4))
    by = lambda name, function, *inputs: op(name, jax.jit(function), list(inputs))
    yield by("cond", lambda p, x: lax.cond(p, jnp.sin, jnp.square, x), flag, v)
    yield by("cond of a sum", lambda x: lax.cond(x.sum() > 0, lambda x: x * x.sum(), jnp.exp, x), v)
    yield by("cond pair", lambda p, x, y: sum(lax.cond(p, lambda a: (a[0] * a[1], a[1]), lambda a: (a[1], jnp.cos(a[0])), (x, y))), flag, v, v)
    yield by("cond captured", lambda p, x, y: lax.cond(p, lambda a: a * y, lambda a: a + jnp.sin(y), x), flag, v, v)
    yield by("cond constant", lambda p, x: lax.cond(p, lambda x: x, jnp.zeros_like, x), flag, v)
    yield by("cond in cond", lambda p, x: lax.cond(p, lambda x: lax.cond(x[0] > 0, jnp.exp, jnp.sin, x), jnp.square, x), flag, v)
    yield by("cond of grad", lambda p, x: lax.cond(p, jax.grad(lambda x: jnp.sum(x**3)), jax.grad(lambda x: jnp.sum(jnp.sin(x))), x), flag, v)
    yield by("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.square, jnp.exp], x), small, v)
    yield by("switch of one", lambda i, x: lax.switch(i, [jnp.sin], x), small, v)
    yield by("switch captured", lambda i, x, y: lax.switch(i, [lambda x: x * y, lambda x: x, lambda x: jnp.cos(y)], x), small, v, v)
    yield by("scan", lambda c, x: lax.scan(step, c, x)[0], v, m)
    yield by("scan outputs", lambda c, x: lax.scan(step, c, x)[1], v, m)
    yield by("scan reverse", lambda c, x: lax.scan(step, c, x, reverse=True)[1], v, m)
    yield by("scan both", lambda c, x: (lambda r: r[0] * r[1].sum(0))(lax.scan(step, c, x)), v, m)
    yield by("scan without inputs", lambda c: lax.scan(lambda c, _: (jnp.sin(c) * 2, c), c, None, length=4)[1], v)
    yield by("scan captured", lambda c, x, w: lax.scan(lambda c, x: (jnp.tanh(c * jnp.sin(w) + x), None), c, x)[0], v, m, v)
    yield by("scan of matrices", lambda c, x, w: lax.scan(lambda c, x: (jnp.tanh(w @ c + x), c), c, x)[1], v, m, ((3, 3), any_float))
    yield by("scan of none", lambda c, x: lax.scan(step, c, x)[0], v, ((0, 3), any_float))
    yield by("scan of no outputs", lambda c, x: lax.scan(step, c, x)[1], v, ((0, 3), any_float))
    yield by("scan of pairs", lambda x, y: lax.scan(lambda c, p: ((c[1], c[0] * p[0] + p[1]), c[0]), (x[0], y[0]), (x, y))[1], m, m)
    yield by("scan with a counter", lambda c, x: lax.scan(lambda c, x: ((c[0] + 1, c[1] * x + c[0].astype(x.dtype)), c[1]), (jnp.int32(0), c), x)[1], v, m)
    yield by("scan with a late tangent", lambda x: lax.scan(lambda c, x: ((c[0] + c[1], c[1] * jnp.sin(c[2]), c[2] + c[0] * x), c[0]), (jnp.ones(3, x.dtype),) * 3, x)[1], m)
    yield by("scan in scan", lambda c, x: lax.scan(lambda c, x: (lax.scan(lambda a, b: (jnp.sin(a + b) * c, None), x, jnp.stack([c, c * x]))[0], c), c, x)[1], v, m)
    yield by("cond in scan", lambda c, x: lax.scan(lambda c, x: (lax.cond(x[0] > 0, lambda c: c * x, lambda c: jnp.sin(c) - x, c), c), c, x)[0], v, m)
    yield by("switch in scan", lambda c, x: lax.scan(lambda c, p: (lax.switch(p[0], [jnp.sin, lambda c: c * p[1], jnp.square], c), None), c, (jnp.arange(4), x))[0], v, m)
    yield by("scan in cond", lambda p, c, x: lax.cond(p, lambda c: lax.scan(step, c, x)[0], lambda c: c * 2, c), flag, v, m)
    yield by("grad in scan", lambda c, x: lax.scan(lambda c, x: (jax.grad(lambda c: jnp.sum(jnp.sin(c * x)))(c), c), c, x)[0], v, m)
    yield by("vmap in scan", lambda c, x: lax.scan(lambda c, x: (jax.vmap(lambda a: a * c.sum())(x), c), c, x)[0], v, m)
    yield by("jit in scan", lambda c, x: lax.scan(lambda c, x: (jax.jit(lambda c: jnp.sin(c) * x)(c), None), c, x)[0], v, m)
    yield by("fori_loop", lambda x: lax.fori_loop(0, 4, lambda i, c: jnp.sin(c) * x, x), v)
    yield by("fori_loop of the number", lambda x: lax.fori_loop(1, 4, lambda i, c: c * x + i.astype(x.dtype), x), v)
    yield by("fori_loop of none", lambda x: lax.fori_loop(3, 1, lambda i, c: c * x, x), v)
    yield by("fori_loop in fori_loop", lambda x: lax.fori_loop(0, 2, lambda i, c: lax.fori_loop(0, 3, lambda j, d: jnp.sin(d + c), c), x), v)
    yield by("map", lambda x, y: lax.map(lambda x: jnp.sin(x) * y, x), m, v)
    yield by("map of sums", lambda x: lax.map(lambda x: x.sum() ** 2, x), m)
    yield by("associative_scan sum", lambda x: lax.associative_scan(jnp.add, x), m)
    yield by("associative_scan product", lambda x: lax.associative_scan(jnp.multiply, x), ((5,), nonzero))
    yield by("associative_scan reverse", lambda x: lax.associative_scan(jnp.multiply, x, reverse=True), ((6, 2), nonzero))
    yield by("associative_scan affine", lambda x, y: lax.associative_scan(affine, (x, y))[1], ((7, 2), any_float), ((7, 2), any_float))
    yield by("remat", lambda x: jax.checkpoint(deep)(x) * x, v)
    yield by("remat in scan", lambda c, x: lax.scan(jax.checkpoint(step), c, x)[1], v, m)
    yield by("remat twice", lambda x: jax.checkpoint(lambda x: jax.checkpoint(deep)(x).sum() * x)(x), v)
    yield by("custom_jvp", lambda x: softplus(x), v)
    yield by("custom_jvp crooked", lambda x: crooked(x) * x, v)
    yield by("custom_jvp in scan", lambda c, x: lax.scan(lambda c, x: (crooked(c + x), c), c, x)[1], v, m)
    yield by("jacfwd", lambda x: jax.jacfwd(lambda x: jnp.sin(x) * x.sum())(x), v)
    yield by("jacrev", lambda x: jax.jacrev(lambda x: jnp.sin(x) * x.sum())(x), v)
    yield by("jacfwd of a part", lambda x, y: jax.jacfwd(lambda x: x[:, None] * y)(x), v, v)
    yield by("jacrev of a part", lambda x, y: jax.jacrev(lambda x: x[:, None] * y)(x), v, v)
    yield by("hessian", lambda x: jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x[0]))(x), v)
    yield by("hessian of a pair", lambda x, y: jax.hessian(lambda x, y: jnp.sum(jnp.sin(x) * y), (0, 1))(x, y)[0][1], v, v)
    yield by("hessian of a scan", lambda x: jax.hessian(lambda x: lax.scan(step, x, jnp.stack([x, x]))[0].sum())(x), v)
    yield by("linearize", lambda x, y: jax.linearize(deep, x)[1](y), v, v)
    yield by("linear_transpose", lambda w, y: jax.linear_transpose(lambda x: w @ x, y)(y)[0], ((3, 3), any_float), v)


def reverse_programs():
    """No forward mode: a custom_vjp has gradients, and the second is a gradient of the first."""
    by = lambda name, function, inputs: op(name, jax.jit(function), inputs)
    v, m = ((3,), any_float), ((4, 3), any_float)
    yield by("custom_vjp clip", lambda x: clipped(x) ** 2, [v])
    yield by("custom_vjp crooked", lambda x, y: tripled(x, jnp.sin(y)), [v, v])
    yield by("custom_vjp in scan", lambda c, x: lax.scan(lambda c, x: (tripled(c, x), c), c, x)[1], [v, m])
    yield by("custom_vjp in cond", lambda p, x: lax.cond(p, lambda x: tripled(x, x), jnp.sin, x), [((), boolean), v])
    yield by("custom_vjp in vmap", lambda x, y: jax.vmap(tripled, (0, None))(x, y), [m, v])
    yield by("custom_vjp of remat", lambda x: jax.checkpoint(lambda x: tripled(deep(x), x))(x), [v])


def newton(a):
    """The square root by Newton's iteration; eleven steps at most."""
    not_yet = lambda s: (jnp.abs(s[1] ** 2 - a) > 1e-3) & (s[0] < 11)
    return lax.while_loop(not_yet, lambda s: (s[0] + 1, (s[1] + a / s[1]) / 2), (0, a))[1]


def forward_programs():
    """No reverse mode: the derivatives of a while_loop are those of jvp."""
    by = lambda name, function, inputs: op(name, jax.jit(function), inputs)
    s, v = ((), positive), ((3,), positive)
    yield by("while_loop", lambda x: lax.while_loop(lambda x: x.sum() < 20, lambda x: x * 1.5, x), [v])
    yield by("while_loop of none", lambda x: lax.while_loop(lambda x: x.sum() < 0, lambda x: x * 1.5, x), [v])
    yield by("while_loop newton", newton, [s])
    yield by("while_loop captured", lambda x, y: lax.while_loop(lambda c: c.sum() < y.sum() * 9, lambda c: c + jnp.exp(x * y), x), [v, v])
    yield by("while_loop in scan", lambda x: lax.scan(lambda c, x: (lax.while_loop(lambda a: a < 3, lambda a: a * 1.25 + c, x), c), x[0], x)[0], [v])
    yield by("fori_loop of a tensor", lambda n, x: lax.fori_loop(0, n, lambda i, c: jnp.sin(c) + x, x), [((), index(-1, 5)), v])


def narrow_cases(table, forward):
    """Cases with the derivatives of one mode only."""
    cases = []
    for name, params, function, inputs, dtypes in table:
        for dtype in dtypes:
            with precision(dtype):
                rng = generator("control", name)
                values = [sampler(rng, shape, dtype) for shape, sampler in inputs]
                output = np.asarray(function(*map(jnp.asarray, values)))
                where = [i for i, x in enumerate(values) if is_float(x)]
                weights = any_float(rng, output.shape, output.dtype)
                direction = [any_float(rng, values[i].shape, dtype) for i in where]

                def f(*floats):
                    full = [jnp.asarray(x) for x in values]
                    for i, x in zip(where, floats):
                        full[i] = x
                    return function(*full)

                floats = [jnp.asarray(values[i]) for i in where]
                case = {"name": name, "dtype": DTYPE_NAMES[np.dtype(dtype).name], "inputs": arrays(values), "output": array(output)}
                case.update(weights=array(weights), direction=arrays(direction))
                if forward:
                    along = lambda *floats: jax.jvp(f, floats, tuple(jnp.asarray(d) for d in direction))[1]
                    case["jvp"] = array(along(*floats))
                    case["second"] = array(jax.jvp(along, tuple(floats), tuple(jnp.asarray(d) for d in direction))[1])
                else:
                    slopes = lambda floats: jax.grad(lambda floats: jnp.sum(weights * f(*floats)))(floats)
                    case["gradients"] = arrays(slopes(floats))
                    second = jax.grad(lambda floats: sum(jnp.sum(d * g) for d, g in zip(direction, slopes(floats))))
                    case["second"] = arrays(second(floats))
                case["vmap"] = batched(function, inputs, dtype, rng)
                cases.append(case)
    return cases


def make_control():
    write(
        "control",
        {
            "forward": narrow_cases(forward_programs(), True),
            "reverse": narrow_cases(reverse_programs(), False),
            "cases": operation_cases(programs()),
        },
    )
