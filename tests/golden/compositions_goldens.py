"""compositions.json: every chain of up to three of jit, vmap, grad and jvp, on functions of different character.

Each function is of three numbers. "grad" is the gradient of the sum of the results. "jvp" is the tangent along a
fixed direction: of `directions`, the one of the rank of the argument. A chain with n of vmap has the argument with n
batch axes: of a function's `inputs` the one at n. Chains are written outermost first; each function's `outputs` are
in the order of the chains.
"""

import itertools

from golden_cases import *

from jax import lax

LENGTH = 3
BATCH = 2
DEPTH = 3


def shape_at(axes):
    """The shape of an argument with that many batch axes."""
    return (BATCH,) * axes + (LENGTH,)


def functions(w, square):
    """Of each function its name, itself, and what its points are drawn by."""
    labels = np.array([0, 3, 2])
    places = np.array([2, 0, 0, 1])

    def tanh_product(x):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    def cross_entropy(x):
        return optax.softmax_cross_entropy_with_integer_labels(x[:, None] * w, labels)

    def selection(x):
        chosen = jnp.where(x > 0.25, x**3, jnp.sin(x))
        return chosen * jnp.max(x) + jnp.maximum(x**2, x[::-1])

    def positions(x):
        taken = jnp.take(jnp.exp(x), places, mode="clip")
        return jnp.concatenate([taken, x**2])[::3] * x[0]

    def reductions(x):
        spread = jnp.broadcast_to(x[:, None, None], (3, 2, 2)) * w.reshape(3, 2, 2)
        turned = jnp.sin(jnp.transpose(spread, (2, 0, 1)))
        return jnp.sum(turned, axis=(0, 2)) * jnp.mean(turned.reshape(4, 3) ** 2, axis=0)

    def elementwise(x):
        return jnp.sin(x) * jnp.exp(-x) * jnp.cos(2 * x)

    def normalization(x):
        centered = x - jnp.mean(x)
        return centered * lax.rsqrt(jnp.var(x) + 0.125) * x**2

    def powers(x):
        y = x
        for power in (2, 3):
            y = x**power / (1 + y**2) + (2 + y**2) ** -2
        return y

    def outer_product(x):
        matrix = jnp.outer(x, jnp.sin(x)) + square
        return jnp.trace(matrix @ matrix.T) * (matrix @ x)

    def loop(x):
        for _ in range(3):
            x = jnp.sin(square @ x)
        return x

    def order(x):
        return jnp.cumsum(jnp.sort(x) ** 3) * jnp.exp(x)

    return [
        ("tanh of a product", tanh_product, any_float),
        ("cross entropy", cross_entropy, any_float),
        ("selection with ties", selection, grid),
        ("positions", positions, any_float),
        ("reductions", reductions, any_float),
        ("elementwise", elementwise, any_float),
        ("normalization", normalization, any_float),
        ("powers", powers, any_float),
        ("outer product", outer_product, any_float),
        ("loop", loop, any_float),
        ("order with ties", order, grid),
    ]


def rules(directions):
    def along(f):
        def tangent(x):
            return jax.jvp(f, (x,), (jnp.asarray(directions[x.ndim - 1]),))[1]

        return tangent

    return {
        "jit": jax.jit,
        "vmap": jax.vmap,
        "grad": lambda f: jax.grad(lambda x: jnp.sum(f(x))),
        "jvp": along,
    }


def make_compositions():
    with x64():
        rng = generator("compositions of functions")
        w = any_float(rng, (LENGTH, 4), np.float64)
        square = any_float(rng, (LENGTH, LENGTH), np.float64) / 2
        directions = [any_float(rng, shape_at(axes), np.float64) for axes in range(DEPTH + 1)]
        transformations = rules(directions)
        chains = [
            chain
            for depth in range(DEPTH + 1)
            for chain in itertools.product(transformations, repeat=depth)
        ]
        cases = []
        for name, function, sampler in functions(jnp.asarray(w), jnp.asarray(square)):
            inputs = [sampler(rng, shape_at(axes), np.float64) for axes in range(DEPTH + 1)]
            outputs = []
            for chain in chains:
                f = function
                for transformation in reversed(chain):
                    f = transformations[transformation](f)
                outputs.append(array(f(jnp.asarray(inputs[chain.count("vmap")]))))
            cases.append({"name": name, "inputs": arrays(inputs), "outputs": outputs})
        write(
            "compositions",
            {
                "w": array(w),
                "square": array(square),
                "directions": arrays(directions),
                "chains": [" ".join(chain) for chain in chains],
                "functions": cases,
            },
        )
