"""Equinox on the trees A1 to A3 of benches/trees.rs, as modules: `python benches/equinox_trees.py`.

Prints the lines that `cargo bench --bench trees` prints: nanoseconds a leaf. A filter by type cannot find the leaves `b`, so the
partition takes a tree of booleans.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from measure import microseconds, report, samples


def leaf():
    return jnp.full((1,), 0.5)


class Lin(eqx.Module):
    w: jax.Array = eqx.field(default_factory=leaf)
    b: jax.Array = eqx.field(default_factory=leaf)


class A1(eqx.Module):
    l0: Lin = eqx.field(default_factory=Lin)
    l1: Lin = eqx.field(default_factory=Lin)
    l2: Lin = eqx.field(default_factory=Lin)


class Attention(eqx.Module):
    qkv: Lin = eqx.field(default_factory=Lin)
    proj: Lin = eqx.field(default_factory=Lin)


class Feed(eqx.Module):
    fc: Lin = eqx.field(default_factory=Lin)
    proj: Lin = eqx.field(default_factory=Lin)


class Block(eqx.Module):
    ln1: Lin = eqx.field(default_factory=Lin)
    attn: Attention = eqx.field(default_factory=Attention)
    ln2: Lin = eqx.field(default_factory=Lin)
    mlp: Feed = eqx.field(default_factory=Feed)


class A2(eqx.Module):
    wte: jax.Array = eqx.field(default_factory=leaf)
    wpe: jax.Array = eqx.field(default_factory=leaf)
    h: list = eqx.field(default_factory=lambda: [Block() for _ in range(12)])
    lnf: Lin = eqx.field(default_factory=Lin)


class A3(eqx.Module):
    layers: list = eqx.field(default_factory=lambda: [Lin() for _ in range(1000)])


for model in (A1(), A2(), A3()):
    name = type(model).__name__
    leaves, treedef = jax.tree.flatten(model)
    paths, _ = jax.tree.flatten_with_path(model)
    is_parameter = treedef.unflatten([not jax.tree_util.keystr(path).endswith(".b") for path, _ in paths])
    params, states = eqx.partition(model, is_parameter)
    report("A", name, "leaves", "equinox", "", len(leaves))
    timed = {
        "flatten to handles": lambda: jax.tree.flatten(model),
        "unflatten": lambda: treedef.unflatten(leaves),
        "map identity": lambda: jax.tree.map(lambda leaf: leaf, model),
        "partition by kind": lambda: eqx.partition(model, is_parameter),
        "merge": lambda: eqx.combine(params, states),
    }
    for operation, function in timed.items():
        times = microseconds(function, samples(41))
        report("A", name, operation, "equinox", "ns a leaf", times[len(times) // 2] * 1e3 / len(leaves))
