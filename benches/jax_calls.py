"""Calls of functions compiled by JAX, as in benches/calls.rs: trees in and out, per-example gradients, a Hessian.

Usage: python jax_calls.py [B F]; needs the packages of benches/comparison/requirements.txt. Prints the lines that
`cargo bench --bench calls` prints.
"""

import sys

import jax
import jax.numpy as jnp
import optax

import measure
from measure import labels, linear, microseconds, samples, uniform


def report(section, workload, operation, unit, value):
    measure.report(section, workload, operation, "jax", unit, value)


def median_us(call):
    times = microseconds(call, samples(21))
    return times[len(times) // 2]


leaf = lambda: jnp.full((1,), 0.5, jnp.float32)
lin = lambda: {"w": leaf(), "b": leaf()}
block = lambda: {"ln1": lin(), "attn": {"qkv": lin(), "proj": lin()}, "ln2": lin(), "mlp": {"fc": lin(), "proj": lin()}}
TREES = {
    "A1": {"l0": lin(), "l1": lin(), "l2": lin()},
    "A2": {"wte": leaf(), "wpe": leaf(), "h": [block() for _ in range(12)], "lnf": lin()},
    "A3": {"layers": [lin() for _ in range(1000)]},
}


def trees():
    zero = jnp.float32(0)
    for name, tree in TREES.items():
        scalar = jax.jit(lambda tree, s: s + 1)
        identity = jax.jit(lambda tree, s: (tree, s + 1))
        update = jax.jit(lambda tree, s: (jax.tree.map(lambda leaf: leaf + 1, tree), s + 1))
        report("B", name, "scalar", "us", median_us(lambda: scalar(tree, zero).block_until_ready()))
        report("B", name, "identity", "us", median_us(lambda: identity(tree, zero)[1].block_until_ready()))
        report("B", name, "update", "us", median_us(lambda: update(tree, zero)[1].block_until_ready()))


def logits(parameters, x):
    for weight, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = parameters[-1]
    return x @ weight + bias


def loss(parameters, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits(parameters, x), y)


def valley(v):
    a, b, c = v
    return (1 - a) ** 2 + 100 * (b - a * a) ** 2 + 100 * (c - b * b) ** 2 + jnp.sin(a * b * c)


def derivatives():
    sizes = (64, 128, 128, 10)
    parameters = [tuple(map(jnp.asarray, linear(k, sizes[k], sizes[k + 1]))) for k in range(3)]
    x, y = jnp.asarray(uniform(10, (64, 64), 1.0)), jnp.asarray(labels(20, 64, 10))
    per_example = jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))
    second = jax.jit(jax.hessian(valley))
    point = jnp.array([0.5, 0.7, -0.3])
    gradients, name = per_example(parameters, x, y), "per-example grads C1 b64"
    report("F", name, "sum of squares", "", float(sum((g**2).sum() for g in jax.tree.leaves(gradients))))
    report("F", "hessian, 3 parameters", "entry [0][0]", "", float(second(point)[0, 0]))
    report("F", name, "us_per_call", "us", median_us(lambda: jax.block_until_ready(per_example(parameters, x, y))))
    report("F", "hessian, 3 parameters", "us_per_call", "us", median_us(lambda: jax.block_until_ready(second(point))))
    sizes = (4, 16, 2)
    small = [tuple(map(jnp.asarray, linear(k, sizes[k], sizes[k + 1]))) for k in range(2)]
    x, forward, name = jnp.asarray(uniform(10, (4,), 1.0)), jax.jit(logits), "MLP 4-16-2, one example"
    report("F", name, "entry [0]", "", float(forward(small, x)[0]))
    report("F", name, "us_per_call", "us", median_us(lambda: forward(small, x).block_until_ready()))


if __name__ == "__main__":
    sections = sys.argv[1:] or ["B", "F"]
    if "B" in sections:
        trees()
    if "F" in sections:
        derivatives()
