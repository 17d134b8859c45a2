"""Convolutions and pooling in JAX, on the data of benches/convolutions.rs.

Usage: python jax_convolutions.py [depthwise conv3x3 ...]; needs the packages of benches/comparison/requirements.txt. Prints
the lines that `cargo bench --bench convolutions` prints. For one thread, run both under `taskset -c 0`.
"""

import sys

import jax
import jax.numpy as jnp
from jax import lax

import measure
from measure import uniform


def conv(strides, groups=1):
    numbers = ("NWC", "WIO", "NWC") if len(strides) == 1 else ("NHWC", "HWIO", "NHWC")
    return lambda x, k: lax.conv_general_dilated(
        x, k, strides, "SAME", dimension_numbers=numbers, feature_group_count=groups
    )


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def average_pool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9


CASES = {
    "depthwise": ([(8, 32, 32, 64), (3, 3, 1, 64)], conv((1, 1), 64)),
    "conv3x3": ([(32, 28, 28, 32), (3, 3, 32, 64)], conv((1, 1))),
    "strided": ([(32, 28, 28, 32), (3, 3, 32, 64)], conv((2, 2))),
    "first_layer": ([(64, 28, 28, 1), (3, 3, 1, 32)], conv((1, 1))),
    "conv1x1": ([(32, 28, 28, 64), (1, 1, 64, 128)], conv((1, 1))),
    "conv1d": ([(16, 1024, 64), (5, 64, 64)], conv((1,))),
    "max_pool": ([(32, 28, 28, 64)], max_pool),
    "average_pool": ([(32, 28, 28, 64)], average_pool),
}


def report(name, operation, unit, median, least=None):
    measure.report("V", name, operation, "jax", unit, median, least)


def time_calls(name, operation, call):
    # XLA runs some calls after they return, so each is waited for.
    times = measure.microseconds(lambda: jax.block_until_ready(call()), measure.samples(20), 0.03)
    report(name, operation, "us", times[len(times) // 2], times[0])


def run(name):
    shapes, apply = CASES[name]
    x = [jnp.asarray(uniform(10 + k, shape, 1.0)) for k, shape in enumerate(shapes)]
    forward = jax.jit(apply)
    gradient = jax.jit(jax.grad(lambda *x: jnp.mean(apply(*x) ** 2), argnums=tuple(range(len(x)))))
    total = float(sum(jnp.abs(part).sum() for part in gradient(*x)))
    report(name, "sum_of_gradients", "", total)
    time_calls(name, "forward", lambda: forward(*x))
    time_calls(name, "gradient", lambda: gradient(*x))


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        run(case)
