"""Flax NNX on the models of `benches/graphs.rs`: run in turn with it.

    python benches/nnx_graphs.py

Prints the lines that `cargo bench --bench graphs` prints: microseconds for the whole model, medians of 15 samples of at least
20 ms. Needs the packages of `benches/comparison/requirements.txt`.
"""

import jax.numpy as jnp
from flax import nnx

from measure import microseconds, report, samples


class Lin(nnx.Module):
    def __init__(self):
        self.w = nnx.Param(jnp.full((1,), 0.5))
        self.b = nnx.BatchStat(jnp.full((1,), 0.5))


class Tree(nnx.Module):
    """1,000 layers: 2,000 leaves."""

    def __init__(self):
        self.layers = nnx.List([Lin() for _ in range(1000)])


class Tied(nnx.Module):
    """1,000 layers, each at two places: 2,000 leaves."""

    def __init__(self):
        layers = [Lin() for _ in range(1000)]
        self.layers = nnx.List(layers)
        self.again = nnx.List(layers)


for name, model in [("tree", Tree()), ("shared", Tied())]:
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)
    s = jnp.float32(0.0)
    into = nnx.jit(lambda model, s: s + 1.0)
    through = nnx.jit(lambda model, s: (model, s + 1.0))
    timed = {
        "split": lambda: nnx.split(model, nnx.Param, ...),
        "merge": lambda: nnx.merge(graphdef, params, rest),
        "update": lambda: nnx.update(model, params),
        "jitted call, model in": lambda: into(model, s).block_until_ready(),
        "jitted call, model in and out": lambda: through(model, s)[1].block_until_ready(),
    }
    for operation, function in timed.items():
        times = microseconds(function, samples(15), 20e-3)
        report("R", name, operation, "nnx", "us", times[len(times) // 2])
