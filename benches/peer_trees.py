"""Tree operations of JAX and optree on the trees of `benches/trees.rs`: run in turn with it.

    python benches/peer_trees.py

Times are nanoseconds a leaf: medians of 41 samples of at least 4 ms. Needs `tests/golden/requirements.txt`.
"""

import statistics
import time

import jax
import optree

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


def median(function):
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < 4e-3 or count < 3:
        function()
        count += 1
    samples = []
    for _ in range(41):
        start = time.perf_counter()
        for _ in range(count):
            function()
        samples.append((time.perf_counter() - start) / count)
    return statistics.median(samples) * 1e9


def identity(leaf):
    return leaf


for name, tree in TREES.items():
    print(f"{name}: {len(jax.tree.leaves(tree))} leaves")
    for peer, flatten, unflatten, map_ in [
        ("jax", jax.tree.flatten, jax.tree.unflatten, jax.tree.map),
        ("optree", optree.tree_flatten, optree.tree_unflatten, optree.tree_map),
    ]:
        leaves, treedef = flatten(tree)
        other = flatten(tree)[1]
        with_path = {"jax": jax.tree.flatten_with_path, "optree": optree.tree_flatten_with_path}[peer]
        timed = {
            "flatten": lambda: flatten(tree),
            "unflatten": lambda: unflatten(treedef, leaves),
            "map identity": lambda: map_(identity, tree),
            "map first of two trees": lambda: map_(lambda left, _: left, tree, tree),
            "flatten with path": lambda: with_path(tree),
            "structure equality": lambda: treedef == other,
            "structure hash": lambda: hash(treedef),
        }
        for label, function in timed.items():
            print(f"  {peer + ': ' + label:<34} {median(function) / len(leaves):>8.2f} ns a leaf")
