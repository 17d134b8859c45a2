"""The programs of benches/growth.rs in JAX: times against the size of a program.

Usage: python jax_growth.py [leaves depth static batch width equations iterations]; needs the packages of benches/comparison/requirements.txt.
Prints the lines that `cargo bench --bench growth` prints. Calls with 10⁵ leaves and functions with 10⁵ equations are left out, because JAX
compiles them for minutes.
"""

import dataclasses
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

import measure
from jax_training import mlp_logits
from measure import LEARNING_RATE, labels, linear, microseconds, samples, uniform


def report_all(workload, unit, units, timed):
    """Reports each operation in nanoseconds per unit."""
    for operation, function in timed.items():
        times = microseconds(function, samples(21))
        measure.report("I", workload, operation, "jax", unit, times[len(times) // 2] * 1e3 / units)


def tree_operations(workload, tree, calls):
    leaves, treedef = jax.tree.flatten(tree)
    other = jax.tree.structure(tree)
    timed = {
        "flatten": lambda: jax.tree.flatten(tree),
        "unflatten": lambda: jax.tree.unflatten(treedef, leaves),
        "map": lambda: jax.tree.map(lambda leaf: leaf, tree),
        "structure equality": lambda: treedef == other,
    }
    if calls:
        call = jax.jit(lambda tree: tree)
        timed["call"] = lambda: jax.block_until_ready(call(tree))
    report_all(workload, "ns a leaf", len(leaves), timed)


def leaf():
    return jnp.full((1,), 0.5, jnp.float32)


def leaves():
    """Pairs of leaves in a list."""
    for count in (100, 1_000, 10_000, 100_000, 1_000_000):
        layer = {"w": leaf(), "b": leaf()}
        tree_operations(f"leaves {count}", {"layers": [dict(layer) for _ in range(count // 2)]}, count <= 10_000)


def depth():
    for levels in (1, 10, 100):
        chain = [leaf()]
        for _ in range(levels - 1):
            chain = [chain]
        tree_operations(f"depth {levels}", [chain for _ in range(1000)], True)


def static():
    for count in (0, 4, 16):
        names = [f"field{k}" for k in range(count)]
        module = dataclasses.make_dataclass("Configured", ["weight", *names])
        jax.tree_util.register_dataclass(module, data_fields=["weight"], meta_fields=names)
        tree_operations(f"static {count}", [module(leaf(), *[7] * count) for _ in range(1000)], True)


def step(workload, unit, units, sizes, rows):
    """A training step of Adam."""
    params = [tuple(map(jnp.asarray, linear(k, sizes[k], sizes[k + 1]))) for k in range(3)]
    optimizer = optax.adam(LEARNING_RATE)
    state = optimizer.init(params)
    x, y = jnp.asarray(uniform(10, (rows, sizes[0]), 1.0)), jnp.asarray(labels(20, rows, 10))

    def loss(params):
        return optax.softmax_cross_entropy_with_integer_labels(mlp_logits(params, x), y).mean()

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state):
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    def advance():
        nonlocal params, state
        params, state, value = step(params, state)
        float(value)

    report_all(workload, unit, units, {"step": advance})


def batch():
    for rows in (1, 8, 64, 512, 4096):
        step(f"batch {rows}", "ns an example", rows, (784, 512, 512, 10), rows)


def width():
    for units in (16, 64, 256, 1024, 4096):
        parameters = 64 * units + units * units + 10 * units
        step(f"width {units}", "ns a parameter", parameters, (64, units, units, 10), 64)


def equations():
    x = jnp.asarray(uniform(10, (16,), 1.0))
    # The first computation also starts JAX, which is not measured.
    jax.block_until_ready(x + 1)
    for count in (10, 100, 1_000, 10_000):

        @jax.jit
        def function(x):
            for _ in range(count // 2):
                x = jnp.sin(x * 1.01)
            return x

        start = time.perf_counter()
        np.asarray(function(x))
        first = (time.perf_counter() - start) * 1e9 / count
        measure.report("I", f"equations {count}", "first call", "jax", "ns an equation", first)
        report_all(f"equations {count}", "ns an equation", count, {"later call": lambda: np.asarray(function(x))})


ITERATIONS = 1000


def iterations():
    """An iteration of each loop, in a compiled function."""

    def timed(name, function, argument):
        call = jax.jit(function)
        report_all(f"loop {name}", "ns an iteration", ITERATIONS, {"iteration": lambda: jax.block_until_ready(call(argument))})

    def recurrence(x):
        return x * 0.99 + 0.01

    def step(carry, x):
        carry = carry * 0.9 + x
        return carry, carry

    def fori(body):
        return lambda carry: jax.lax.fori_loop(0, ITERATIONS, lambda _, carry: body(carry), carry)

    x, scalar = jnp.asarray(uniform(10, (16,), 1.0)), jnp.float32(0.3)
    timed("fori", fori(recurrence), x)
    condition, body = lambda carry: carry[0] < ITERATIONS, lambda carry: (carry[0] + 1, recurrence(carry[1]))
    timed("while", lambda x: jax.lax.while_loop(condition, body, (0, x)), x)
    timed("scan", lambda both: jax.lax.scan(step, *both), (x, jnp.asarray(uniform(11, (ITERATIONS, 16), 1.0))))
    timed("logistic", fori(lambda x: x * 3.9 * (1.0 - x)), scalar)
    timed("lorenz", fori(runge_kutta), tuple(map(jnp.float32, (0.3, 1.0, 20.0))))
    timed("metropolis", fori(metropolis), (jax.random.key(0), scalar))


def runge_kutta(point, step=0.01):
    """A step of the classical method of Runge and Kutta for the Lorenz system."""

    def slope(point):
        x, y, z = point
        return (y - x) * 10.0, x * (28.0 - z) - y, x * y - z * (8.0 / 3.0)

    def after(slopes, time):
        return tuple(x + slope * time for x, slope in zip(point, slopes))

    first = slope(point)
    second = slope(after(first, step / 2.0))
    third = slope(after(second, step / 2.0))
    fourth = slope(after(third, step))
    slopes = zip(point, first, second, third, fourth)
    return tuple(x + (a + (b + c) * 2.0 + d) * (step / 6.0) for x, a, b, c, d in slopes)


def metropolis(carry):
    """A step of a Metropolis sampler of the standard normal distribution."""
    key, x = carry
    keys = jax.random.split(key, 3)
    proposed = x + jax.random.uniform(keys[1], (), minval=-1.0, maxval=1.0)
    ratio = (x**2 - proposed**2) * 0.5
    accepted = jnp.log(jax.random.uniform(keys[2], ())) < ratio
    return keys[0], jnp.where(accepted, proposed, x)


CASES = {
    "leaves": leaves,
    "depth": depth,
    "static": static,
    "batch": batch,
    "width": width,
    "equations": equations,
    "iterations": iterations,
}

if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        CASES[case]()
