"""Tree operations of JAX and optree on the trees of `benches/trees.rs`: run in turn with it.

    python benches/peer_trees.py

Prints the lines that `cargo bench --bench trees` prints: nanoseconds a leaf, medians of 41 samples of at least 4 ms. Needs the
packages of `benches/comparison/requirements.txt`.
"""

import jax
import optree

from measure import microseconds, report, samples

LEAF = object()


def lin():
    return {"w": LEAF, "b": LEAF}


def block():
    return {
        "ln1": lin(),
        "attn": {"qkv": lin(), "proj": lin()},
        "ln2": lin(),
        "mlp": {"fc": lin(), "proj": lin()},
    }


TREES = {
    "A1": {"l0": lin(), "l1": lin(), "l2": lin()},
    "A2": {"wte": LEAF, "wpe": LEAF, "h": [block() for _ in range(12)], "lnf": lin()},
    "A3": {"layers": [lin() for _ in range(1000)]},
    "A4": {
        f"d{d}": [{f"k{k}": [LEAF] * 10 for k in range(10)} for _ in range(100)] for d in range(10)
    },
}


def identity(leaf):
    return leaf


for name, tree in TREES.items():
    for peer, flatten, unflatten, map_ in [
        ("jax", jax.tree.flatten, jax.tree.unflatten, jax.tree.map),
        ("optree", optree.tree_flatten, optree.tree_unflatten, optree.tree_map),
    ]:
        leaves, treedef = flatten(tree)
        other = flatten(tree)[1]
        structure = {"jax": jax.tree.structure, "optree": optree.tree_structure}[peer]
        with_path = {"jax": jax.tree.flatten_with_path, "optree": optree.tree_flatten_with_path}[peer]
        report("A", name, "leaves", peer, "", len(leaves))
        timed = {
            "flatten to handles": lambda: flatten(tree),
            "unflatten": lambda: unflatten(treedef, leaves),
            "map identity": lambda: map_(identity, tree),
            "map first of two trees": lambda: map_(lambda left, _: left, tree, tree),
            "flatten with path": lambda: with_path(tree),
            "structure equality": lambda: treedef == other,
            "structure and its hash": lambda: hash(structure(tree)),
        }
        for operation, function in timed.items():
            times = microseconds(function, samples(41))
            report("A", name, operation, peer, "ns a leaf", times[len(times) // 2] * 1e3 / len(leaves))
