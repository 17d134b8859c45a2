"""trees.json: pytrees as JAX and optree treat them; `make_goldens.py trees` writes it.

A tree is `{"list": [..]}`, `{"tuple": [..]}`, `{"dict": [[key, value], ..]}` in insertion order, `{"odict": ..}` likewise,
`{"namedtuple": {"name", "fields"}}`, `{"none": null}` or `{"leaf": integer}`. Keys are strings or integers. `keystr` and `path`
are as `keystr` writes them. A `message` is the text of the exception. The members:

- `cases`: each tree flattened by JAX: leaves, treedef text, paths, counts.
- `none_is_leaf`: the same with None as a leaf (null in `leaves`). JAX with `is_leaf` and optree with `none_is_leaf=True` agree. The
  treedef text is JAX's.
- `is_leaf`: flattened with a node kind (`predicate`, or `any`) taken as a leaf; `leaves` are trees. `tuple` is not a named tuple,
  `dict` not an `odict`.
- `equality`: whether two treedefs are equal in JAX.
- `prefix_order`: optree's `is_prefix`, `<`, `<=` and `==` of two treedefs, and whether `flatten_up_to` takes the pair in JAX. In
  optree a dict and an odict, or odicts of other orders, can be prefixes of each other: then `<=` both ways, neither `<` nor `==`.
  In JAX they never are.
- `prefix_errors`: all errors of `prefix_errors(prefix, full)`, under the name `tree`; none if it fits. Differing keys, in hash
  order in JAX, are sorted here. Below a named tuple JAX names the first field whichever it was: `path` has the right one, and
  `path_in_jax`, where it differs, the one in `message`.
- `broadcast`: `jax.tree.broadcast(prefix, full)`.
- `common_suffix`: optree's `broadcast_to_common_suffix` (`suffix`, its leaves 0), `tree_broadcast_common` (`results`) and
  `broadcast_common` (`leaves`; `leaves_with_none` with `none_is_leaf=True`, null where a root is None), or `error`. `jax_has_it` is
  false where optree takes dictionaries of other kinds or orders for each other: then the results have no structure in common in JAX.
- `broadcast_map`: `tree_broadcast_map` of any number of trees: what the function is given at each leaf (`rows`) and the tree of the
  sums, or `error`.
- `flatten_up_to`: the subtrees of `tree` at the leaves of `prefix`, or `error`.
- `compose`: the treedef of `outer` with `inner` at each leaf.
- `transpose`: `jax.tree.transpose`; `inner` is null where it is inferred. With `error`, JAX refuses, or (`scrambled_by_jax`) only
  counts the leaves and returns `jax_result` though the structures do not fit; with `structures_fit` it refuses a tree that fits,
  because it has no leaves to fill `inner`.
- `one_level`: the children of the root and the key of each.
- `accessors`: the code by which optree reaches each leaf of `tree`.
- `walk`: the calls of `treedef.walk`: `["leaf", value]`, `["node", children]`.
- `insertion_order`: a dict flattened in sorted order and unflattened: optree gives the keys back in insertion order, JAX sorted.
  `result` is optree's.
- `mixed_keys`: dicts with integer and string keys: the order in optree; JAX raises an error.
"""

import collections

import jax
import optree
from jax.tree_util import default_registry, keystr, tree_flatten_with_path

Point = collections.namedtuple("Point", ["x", "y"])
Pair = collections.namedtuple("Pair", ["x", "y"])
Swapped = collections.namedtuple("Swapped", ["y", "x"])
Single = collections.namedtuple("Single", ["value"])
Empty = collections.namedtuple("Empty", [])
Layer = collections.namedtuple("Layer", ["weight", "bias", "activation"])
od = collections.OrderedDict


# ---------------------------------------------------------------------------
# Encoding
# ---------------------------------------------------------------------------


def encode_tree(tree):
    """The tagged JSON of a structure, dict entries in insertion order."""
    if tree is None:
        return {"none": None}
    if isinstance(tree, od):
        return {"odict": [[k, encode_tree(v)] for k, v in tree.items()]}
    if isinstance(tree, dict):
        return {"dict": [[k, encode_tree(v)] for k, v in tree.items()]}
    if is_namedtuple(tree):
        fields = [[k, encode_tree(v)] for k, v in zip(tree._fields, tree)]
        return {"namedtuple": {"name": type(tree).__name__, "fields": fields}}
    if isinstance(tree, tuple):
        return {"tuple": [encode_tree(v) for v in tree]}
    if isinstance(tree, list):
        return {"list": [encode_tree(v) for v in tree]}
    assert type(tree) is int, tree
    return {"leaf": tree}


def is_namedtuple(tree):
    return isinstance(tree, tuple) and hasattr(tree, "_fields")


def is_none(tree):
    return tree is None


def structure(tree):
    return jax.tree.structure(tree)


# ---------------------------------------------------------------------------
# Trees
# ---------------------------------------------------------------------------


def sample_trees():
    yield from [3, None, [], (), {}, od(), Empty()]
    yield from [[1], (1,), {"a": 1}, od(a=1), Single(1)]
    yield from [[1, 2], (1, 2), {"a": 1, "b": 2}, od(a=1, b=2), Point(1, 2)]
    # Dict keys are sorted; the order of an OrderedDict stays.
    yield from [{"b": 1, "a": 2}, od(b=1, a=2), {"b": 1, "a": 2, "c": 3}, {"B": 1, "a": 2, "A": 3}]
    yield from [{10: 1, 9: 2, -1: 3}, {"10": 1, "9": 2}, od([(10, 1), (9, 2)])]
    yield from [{"z_1": 1, "z1": 2, "z 1": 3}, {"": 1, "é": 2, "e": 3}]
    yield from [{"it's": 1, 'quo"ted': 2, "back\\slash": 3, "new\nline": 4}]
    # None is a node without leaves.
    yield from [[None], (None, 1), {"a": None, "b": 1}, [None, None], Point(None, 2), od(b=None, a=1)]
    yield from [[[]], [(), [], {}], {"a": {}, "b": [], "c": ()}, ((),), [[[]], []], Single(Empty())]
    yield from [[[[1]]], (((1,),),), {"a": {"b": {"c": 1}}}, Single(Single(Single(1)))]
    yield from [[1, [2, [3, [4]]]], ((1, 2), (3, 4)), [(1, 2), {"a": 3}, [4, 5]]]
    yield from [{"x": [1, 2], "y": (3, {"z": 4})}, {"b": {"d": 1, "c": 2}, "a": {"f": 3, "e": 4}}]
    yield from [od(b={"d": 1, "c": 2}, a=od(f=3, e=4)), [od(y=1, x=2), {"y": 3, "x": 4}]]
    yield from [Point([1, 2], {"a": 3}), Point(Point(1, 2), Point(3, 4)), [Point(1, 2), (3, 4)]]
    yield from [{"p": Point(1, 2), "o": None}, Layer(1, None, {"k": 2}), (Layer(1, 2, 3), Single([4]))]
    yield [{"kernel": 1, "bias": 2}, {"kernel": 3, "bias": 4}, {"kernel": 5, "bias": None}]
    yield {"params": {"dense_10": {"w": 1}, "dense_2": {"w": 2}}, "step": 3, "opt": (4, [5, None])}
    yield (1, [2, {"c": 3, "b": (4, 5), "a": None}], od(z=Point(6, [7]), y=8))
    yield [0, -1, 2**31, [10**12]]
    yield {1: [{2: ({3: 4},)}]}
    # Deep.
    yield [[[[[[[[1, 2]]]]]]]]
    yield ((((((((None,),),),),),),),)
    yield {"a": {"a": {"a": {"a": {"a": {"b": 1, "a": 2}}}}}}
    yield [({"k": od(o=Single([({"k": Point(1, (2,))},)]))},)]
    yield (1, (2, (3, (4, (5, (6, ()))))))
    yield ((((((), 1), 2), 3), 4), 5)
    # Empty containers first, in the middle and last.
    yield from [[[], 1, 2], [1, [], 2], [1, 2, []], ((), 1), (1, ()), ((), (), ())]
    yield from [{"a": {}, "b": 1}, {"a": 1, "b": {}}, {"b": [], "a": 1, "c": od()}, {"": {}}]
    yield from [od(a=od(), b=1), od(a=1, b=()), Point([], 1), Point(1, Empty()), Point({}, ())]
    yield [Empty(), od(), {}, (), [], None]
    # Tuples of one element, at each depth.
    yield from [((1,), (2,)), {"a": (1,), "b": ((2,),)}, [(None,)], (([1],),), Single((1,))]
    # Keys: negative, wide, and hard to write.
    yield {-10: 1, -9: 2, 0: 3, 9: 4, 10: 5}
    yield {-1: {-2: [1]}, -(2**40): 2, 2**40: 3}
    yield od([(3, 1), (-3, 2), (0, (3,))])
    yield {"'": 1, '"': 2, "'\"": 3, "\\": 4, "\\'": 5}
    yield {"[0]": 1, "['a']": 2, ".x": 3, "a.b": 4, "a/b": 5, "/": 6}
    yield {" ": 1, "  ": 2, "a b": 3, " a": 4, "b ": 5}
    yield {"\t": 1, "\r\n": 2, "\0": 3, "\x7f": 4, "\x1b[0m": 5}
    yield {"ß": 1, "Ω": 2, "日本": 3, "🌲": 4, "z": 5, "e\u0301": 6}
    yield {"\xa0": 1, "\xad": 2, "\u200b": 3, "\ufeff": 4, "\U0010ffff": 5}
    yield {"{}": 1, "*": 2, "None": 3, "()": 4, ",": 5, ": ": 6}
    yield od([("b'", [1]), ('a"', (2,)), ("", None), ("[", 3)])
    yield {"0": [1], "00": [2], "1": [3], "01": [4], "-1": [5], "+1": [6]}
    # Wide, inserted in another order than sorted.
    yield {k: i for i, k in enumerate("qwertyuiopasdfghjklzxcvbnm")}
    yield {k: i for i, k in enumerate([7, 3, 11, -4, 100, 20, 0, 5, -40, 2])}
    yield {f"layer_{i}": {"w": 2 * i, "b": 2 * i + 1} for i in (11, 2, 1, 10, 0)}
    yield od((k, i) for i, k in enumerate("zyxabc"))
    yield list(range(20))
    # Named tuples in everything, everything in named tuples.
    yield Layer(Point(1, Single(2)), Empty(), [Point(3, None)])
    yield {"b": Layer(1, 2, 3), "a": Point(4, 5)}
    yield od(second=Single(1), first=Single(od(z=2, y=3)))
    yield (Single(None), Single([]), Single({}), Single(()))
    yield [Point(1, 2), Pair(3, 4), Swapped(5, 6)]
    yield Point({"y": 1, "x": 2}, od(y=3, x=4))
    # None everywhere.
    yield from [(None, None, None), {"a": None, "b": None}, od(z=None), Single(None), [[None], None]]
    yield {"a": [None, 1, None], "b": (None, {"c": None}), "c": Point(None, None)}
    yield [None, (None, [None, {"n": None}])]


# A smaller set, for the members that would otherwise repeat themselves.
def few_trees():
    yield from [3, [1, 2], (1,), {"b": 1, "a": 2}, od(b=1, a=2), Point(1, 2), Empty(), []]
    yield [1, (2, {"b": 3, "a": [4, 5]}), Point(6, od(z=7, y=8))]
    yield {"w": {"b": [1], "a": (2, 3)}, "v": Single({"k": 4}), "u": ()}
    yield Point((1, 2), [Point(3, 4), Pair(5, {"x": 6})])
    yield od(q=[1, {"k": (2,)}], p={2: 3, -1: 4, 10: od(r=5)})
    yield ((((1,),),), [[[2]]], {"a": {"a": {"a": 3}}})
    yield {"it's": [1], 'quo"ted': 2, "back\\slash": (3,), "[é]": {"": 4}}


def cases():
    out = []
    for tree in sample_trees():
        leaves, treedef = jax.tree_util.tree_flatten(tree)
        paths = [path for path, _ in tree_flatten_with_path(tree)[0]]
        out.append(
            {
                "tree": encode_tree(tree),
                "leaves": leaves,
                "treedef": str(treedef),
                "keystr": [keystr(path) for path in paths],
                "keystr_simple": [keystr(path, simple=True, separator="/") for path in paths],
                "num_nodes": treedef.num_nodes,
                "num_leaves": treedef.num_leaves,
            }
        )
    return out


# ---------------------------------------------------------------------------
# Flattening with other leaves
# ---------------------------------------------------------------------------


def none_is_leaf():
    trees = [tree for tree in sample_trees() if None in jax.tree.leaves(tree, is_leaf=is_none)]
    trees += [3, [], {"b": 1, "a": (2, [])}]
    out = []
    for tree in trees:
        accessors, leaves, spec = optree.tree_flatten_with_accessor(tree, none_is_leaf=True)
        with_path, treedef = tree_flatten_with_path(tree, is_leaf=is_none)
        paths = [keystr(path) for path, _ in with_path]
        assert leaves == [leaf for _, leaf in with_path]
        assert paths == [accessor.codify("") for accessor in accessors]
        assert (spec.num_leaves, spec.num_nodes) == (treedef.num_leaves, treedef.num_nodes)
        out.append(
            {
                "tree": encode_tree(tree),
                "leaves": leaves,
                "treedef": str(treedef),
                "keystr": paths,
                "num_nodes": spec.num_nodes,
                "num_leaves": spec.num_leaves,
            }
        )
    return out


PREDICATES = {
    "list": lambda tree: isinstance(tree, list),
    "tuple": lambda tree: isinstance(tree, tuple) and not is_namedtuple(tree),
    "namedtuple": is_namedtuple,
    "dict": lambda tree: type(tree) is dict,
    "odict": lambda tree: isinstance(tree, od),
    "none": is_none,
    "any": lambda tree: True,
}


def is_leaf():
    trees = [
        [1, (2, 3), {"b": [4], "a": None}, od(z=5, y=(6,)), Point(7, [8])],
        {"t": (1, [2, (3,)]), "l": [[4], None], "n": Single({"k": None})},
        od(p=Point(od(a=1), {"a": 2}), o={"b": (3, None), "a": []}, e=()),
        ((), [[], {}], {"d": od()}, Empty(), None),
        None,
    ]
    out = []
    for tree in trees:
        for name, predicate in PREDICATES.items():
            if tree is None and name not in ("none", "any", "list"):
                continue
            leaves, treedef = tree_flatten_with_path(tree, is_leaf=predicate)
            out.append(
                {
                    "tree": encode_tree(tree),
                    "predicate": name,
                    "leaves": [encode_tree(leaf) for _, leaf in leaves],
                    "treedef": str(treedef),
                    "keystr": [keystr(path) for path, _ in leaves],
                }
            )
    return out


# ---------------------------------------------------------------------------
# Comparing structures
# ---------------------------------------------------------------------------


def structure_pairs():
    # Equal.
    yield from [(1, 2), (None, None), ([], []), ((), ()), ({}, {}), (od(), od()), (Empty(), Empty())]
    yield from [([1, 2], [3, 4]), ((1,), (2,)), (Point(1, 2), Point(3, 4)), ([None, 1], [None, 2])]
    yield {"a": 1, "b": 2}, {"b": 1, "a": 2}
    yield {1: 1, -1: 2, 10: 3}, {10: 1, 1: 2, -1: 3}
    yield {"x": {"b": 1, "a": [2]}, "y": 3}, {"y": 1, "x": {"a": [2], "b": 3}}
    yield od(b=1, a={"d": 2, "c": 3}), od(b=1, a={"c": 2, "d": 3})
    yield [Point(1, {"k": (2,)}), None], [Point(3, {"k": (4,)}), None]
    # Another kind of node.
    yield from [([1, 2], (1, 2)), ([1], (1,)), ([], ()), ((), {}), ({}, od()), ([], {}), ((), Empty())]
    yield {"a": 1, "b": 2}, od(a=1, b=2)
    yield from [(Point(1, 2), (1, 2)), (Point(1, 2), [1, 2]), (Point(1, 2), {"x": 1, "y": 2})]
    yield from [(Point(1, 2), Pair(1, 2)), (Point(1, 2), Swapped(1, 2)), (Single(1), (1,))]
    # Another order.
    yield od(a=1, b=2), od(b=1, a=2)
    yield od([(1, 1), (2, 2)]), od([(2, 1), (1, 2)])
    yield [od(a=1, b=2)], [od(b=1, a=2)]
    # None, leaves and empty nodes.
    yield from [(None, 1), ([None], [1]), ([None, 1], [1, None]), (None, ())]
    yield from [(None, []), (1, []), (1, [1])]
    yield from [({"a": None}, {"a": 1}), ({"a": None}, {}), (Point(None, 1), Point(1, 1))]
    # Arity.
    yield from [([1], [1, 2]), ((1, 2), (1, 2, 3)), ([], [1]), ([[]], []), ([1, [2]], [1, 2])]
    yield from [({"a": 1}, {"a": 1, "b": 2}), (od(a=1), od(a=1, b=2)), ({}, {"a": 1})]
    # Keys.
    yield from [({"a": 1}, {"b": 1}), ({1: 1}, {"1": 1}), ({1: 1}, {-1: 1}), ({"a": 1}, {"A": 1})]
    yield from [(od(a=1), od(b=1)), (od([(1, 1)]), od([("1", 1)])), ({"": 1}, {" ": 1})]
    # At depth, same leaves.
    yield [[1, 2], [3]], [[1], [2, 3]]
    yield {"a": (1, 2), "b": 3}, {"a": 1, "b": (2, 3)}
    yield [1, (2, {"a": [3]})], [1, (2, {"a": (3,)})]
    yield ((1, 2), (3, 4)), [(1, 2), (3, 4)]
    yield {"a": {"b": {"c": 1}}}, {"a": {"b": {"d": 1}}}
    yield Point(Point(1, 2), 3), Point(1, Point(2, 3))
    yield [[[[]]]], [[[()]]]


def equality():
    out = []
    for left, right in structure_pairs():
        equal = structure(left) == structure(right)
        assert equal == (structure(right) == structure(left))
        out.append({"left": encode_tree(left), "right": encode_tree(right), "equal": equal})
    return out


def prefix_order():
    pairs = [
        *[(1, 1), (1, []), (1, [1, 2]), (1, None), (None, 1), (None, None), (None, []), ([], None)],
        *[([], []), ([], [1]), ([1], []), ([1, 2], [1, 2]), ([1, 2], [1, [2]]), ([1, [2]], [1, 2])],
        *[([1, 2], [[1], (2, 3)]), ([[1], 2], [1, [2]]), ([1, 2], (1, 2)), ((1,), [1])],
        *[({"a": 1}, {"a": [1]}), ({"a": 1}, {"b": 1}), ({"a": 1}, {"a": 1, "b": 2})],
        *[({"a": 1, "b": 2}, {"b": (1,), "a": 2}), ({1: 1}, {"1": 1}), ({}, {"a": 1})],
        *[(od(a=1, b=2), od(a=1, b=2)), (od(a=1, b=2), od(b=1, a=2)), (od(a=1), od(a=[1]))],
        *[({"a": 1, "b": 2}, od(a=1, b=2)), (od(a=1, b=2), {"a": 1, "b": 2})],
        *[({"a": 1, "b": 2}, od(b=[1], a=2)), (od(b=1, a=2), {"b": 1, "a": (2, 3)})],
        *[(Point(1, 2), Point(1, 2)), (Point(1, 2), Point([1], 2)), (Point(1, 2), (1, 2))],
        *[(Point(1, 2), Pair(1, 2)), ((1, 2), Point(1, 2)), (Point([1], 2), Point(1, 2))],
        *[([None, 1], [None, 1]), ([None, 1], [1, 1]), ([1, 1], [None, [1]]), ([None], [[]])],
        ({"w": 1, "b": [2]}, {"b": [{"k": 1}], "w": (2, 3)}),
        ([(1, 2), {"a": 3}], [(1, [2]), {"a": Point(3, 4)}]),
        ([(1, [2]), {"a": 3}], [(1, 2), {"a": [3]}]),
        ((((1,),),), ((([1, 2],),),)),
        ((((1,),),), (((1,), 2),)),
    ]
    out = []
    for left, right in pairs:
        a, b = optree.tree_structure(left), optree.tree_structure(right)
        assert (a < b) == a.is_prefix(b, strict=True) == (b > a) == b.is_suffix(a, strict=True)
        assert (a <= b) == (b >= a) == b.is_suffix(a)
        out.append(
            {
                "left": encode_tree(left),
                "right": encode_tree(right),
                "is_prefix": a.is_prefix(b),
                "less": a < b,
                "less_equal": a <= b,
                "equal": a == b,
                "is_prefix_in_jax": flattens_up_to(left, right),
            }
        )
    return out


# ---------------------------------------------------------------------------
# Prefixes
# ---------------------------------------------------------------------------


def flattens_up_to(prefix, full):
    try:
        structure(prefix).flatten_up_to(full)
        return True
    except ValueError:
        return False


def fitting_prefixes():
    """(prefix, full), the prefix with leaves 1, 2, 3 ... so that results tell them apart."""
    yield from [(1, 5), (1, [5, 6]), (1, None), (1, []), (None, None), ([], []), ((), ()), ({}, {})]
    yield from [(od(), od()), (Empty(), Empty()), ([1, 2], [5, 6]), ([1, 2], [[5, 6], (7,)])]
    yield from [([1, None], [[5], None]), ([1, 2], [None, 5]), (Point(1, 2), Point([5, 6], None))]
    yield (1, 2, 3), (5, {"a": 6, "b": 7}, (8, 9))
    yield {"b": 1, "a": 2}, {"a": [5, 6], "b": 7}
    yield {"b": 1, "a": {"d": 2, "c": 3}}, {"a": {"c": (5, 6), "d": 7}, "b": {"z": 8, "y": 9}}
    yield od(b=1, a=2), od(b=[5], a=od(d=6, c=7))
    yield [(1, 2), {"k": 3}], [(5, [6, 7]), {"k": Point(8, 9)}]
    yield {-1: 1, 10: 2, 9: 3}, {9: [5, 6], 10: 7, -1: (8,)}
    yield Layer(1, None, {"k": 2}), Layer([5, 6], None, {"k": {"b": 7, "a": 8}})
    yield Single(Single(1)), Single(Single(Point(5, [6])))
    yield {"params": 1, "state": [2, 3]}, {"params": {"w": 5, "b": 6}, "state": [7, (8, [9])]}


def misfits():
    """(prefix, full) where the prefix does not fit."""
    # Another type.
    yield from [([1], (5,)), ((1,), [5]), ([1, 2], 5), ({"a": 1}, 5), ({"a": 1}, [5]), ([], ()), ([], 5)]
    yield from [({"a": 1}, od(a=5)), (od(a=1), {"a": 5}), ({}, od()), ((), Empty()), ({}, [])]
    yield from [(Point(1, 2), (5, 6)), ((1, 2), Point(5, 6))]
    yield from [(Point(1, 2), Pair(5, 6)), (Point(1, 2), [5, 6])]
    # None.
    yield from [(None, 5), (None, [5]), (None, []), ([None], [5]), ([1], None), ([], None), ({}, None)]
    # Another length.
    yield from [([1], [5, 6]), ([1, 2], [5]), ((1, 2), (5, 6, 7)), ([], [5]), ([1], []), ((), (5,))]
    # Other keys.
    yield from [({"a": 1}, {"b": 5}), ({"a": 1, "b": 2}, {"a": 5}), ({"a": 1}, {"a": 5, "b": 6})]
    yield from [({"a": 1, "b": 2}, {"a": 5, "c": 6}), ({}, {"a": 5}), ({"a": 1}, {}), ({1: 1}, {"1": 5})]
    yield from [({2: 1, -1: 2}, {2: 5, 1: 6}), ({2: 1, -1: 2, 3: 3}, {4: 5})]
    yield from [(od(a=1, b=2), od(b=5, a=6)), (od(a=1), od(b=5)), (od(a=1), od(a=5, b=6))]
    yield {"d": 1, "c": 2, "a": 3}, {"b": 5, "a": 6}
    yield {"it's": 1}, {'quo"ted': 5}
    # At depth.
    yield [1, (2, {"a": [3]})], [5, (6, {"a": (7,)})]
    yield {"a": {"b": [1, 2]}}, {"a": {"b": [5, 6, 7]}}
    yield Point(1, Single([2])), Point(5, Single((6,)))
    yield od(z=od(y={"x": 1})), od(z=od(y={"w": 5}))
    yield [[[None]]], [[[5]]]
    yield {"x y": [{-1: (1,)}]}, {"x y": [{-1: [5]}]}
    # Several at once; below a misfit none is looked for.
    yield [[1], (2,), {"a": 3}], [(5,), [6], {"b": 7}]
    yield {"a": [1], "b": (2, 3), "c": None}, {"a": [5, 6], "b": (7,), "c": 8}
    yield [[1, [2]], [3], (4,)], [(5, (6,)), [7], (8, 9)]
    yield Point([1], {"k": (2,)}), Point([5, 6], {"k": [7]})
    yield ({"a": 1}, {"a": 2}, {"a": [3]}), ({"b": 5}, {"a": 6}, {"a": (7,)})
    yield [{"w": 1, "b": 2}, {"w": 3}], [{"w": 5}, {"w": 6, "b": 7}]
    yield [[1], [2]], [[5], 6, 7]


def one_level_with_keys(tree):
    """The (key, child) pairs of the root, by the paths of a flattening that stops below it."""
    below = tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)[0]
    return [(path[0], child) for path, child in below]


def prefix_errors():
    module = jax._src.tree_util
    named_by_jax = module._child_keys
    out = []
    for prefix, full in [*fitting_prefixes(), *misfits()]:
        messages = [str(error("tree")) for error in module.prefix_errors(prefix, full)]
        assert (not messages) == flattens_up_to(prefix, full), (prefix, full)
        # JAX 0.10.2 gives every child of a named tuple the key of its first
        # field here (not so in tree_flatten_with_path): `path` has the right one.
        module._child_keys = lambda tree: tuple(key for key, _ in one_level_with_keys(tree))
        try:
            mended = [str(error("tree")) for error in module.prefix_errors(prefix, full)]
        finally:
            module._child_keys = named_by_jax
        errors = []
        for message, right in zip(messages, mended, strict=True):
            path, path_in_jax = error_path(right), error_path(message)
            error = {"path": path, "message": sorted_difference(message)}
            errors.append(error if path == path_in_jax else {**error, "path_in_jax": path_in_jax})
        out.append({"prefix": encode_tree(prefix), "full": encode_tree(full), "errors": errors})
    return out


def error_path(message):
    """The key path in the text of a prefix error of "tree"."""
    what, path = message.split("\n")[:2]
    assert what.startswith("pytree structure error: ") and what.endswith(" at key path")
    return path.removeprefix("    tree")


def sorted_difference(message):
    """The message with its set of differing keys sorted: JAX gives them in hash order."""
    head, separator, keys = message.partition("so the symmetric difference on key sets is\n    ")
    return head + separator + " ".join(sorted(keys.split(" ")))


def broadcast():
    out = []
    for prefix, full in fitting_prefixes():
        result = jax.tree.broadcast(prefix, full)
        assert structure(result) == structure(full)
        out.append(
            {
                "prefix": encode_tree(prefix),
                "full": encode_tree(full),
                "leaves": jax.tree.leaves(result),
                "result": encode_tree(result),
            }
        )
    return out


def flatten_up_to():
    out = []
    for prefix, tree in [*fitting_prefixes(), *misfits()]:
        case = {"prefix": encode_tree(prefix), "tree": encode_tree(tree)}
        try:
            subtrees = structure(prefix).flatten_up_to(tree)
            out.append({**case, "subtrees": [encode_tree(subtree) for subtree in subtrees]})
        except ValueError as error:
            out.append({**case, "error": True, "message": str(error)})
    return out


# ---------------------------------------------------------------------------
# Common suffixes
# ---------------------------------------------------------------------------


def pairs_of_trees():
    """(left, right), their leaves all different."""
    yield from [(1, 5), (1, None), (None, 5), (None, None), (1, []), ((), 5), ({}, {}), (Empty(), Empty())]
    yield from [(1, [5, 6, 7]), ([1, 2, 3], 5), ([1, 2], [5, 6]), ([1, None], [None, 5]), ([None], [5])]
    yield [1, 2, 3], [4, 5, (6, 7)]
    yield [1, (2, 3), 4], [5, 6, (7, 8)]
    yield [1, (2, 3), 4], [5, 6, {"a": 7, "b": 8, "c": (None, 9)}]
    yield [1, {"z": 2, "y": 3}, 4], [5, 6, od(z=7, y=8)]
    yield ((1, 2, None), (3, (4, [5]), 6)), (([7], None, None), ({"k": 8}, 9, [10, 11]))
    yield {"b": 1, "a": [2, 3]}, {"a": 5, "b": (6, {"d": 7, "c": None})}
    yield od(b=1, a=[2, 3]), od(b=(5, 6), a=7)
    yield Point(1, [2, None]), Point({"k": 5}, 6)
    yield Layer(1, (2, 3), None), Layer([5], 6, 7)
    yield {"params": {"w": 1, "b": 2}, "step": 3}, {"params": 5, "step": (6, 7)}
    yield [[[1], 2], 3], [5, [6, [7, [8]]]]
    yield ((((1,),),), 2), (5, ((((6,),),),))
    # Dictionaries that optree takes for each other.
    yield {"a": 1, "b": 2}, od(a=5, b=(6, 7))
    yield od(b=4, c=5, a=(2, 3)), {"c": (None, 0), "a": 8, "b": 9}
    yield od(a=1, b=[2]), od(b=5, a=(6, 7))
    yield [od(x=1)], [{"x": [5, 6]}]
    # Conflicts.
    yield from [([1], (5,)), ([1], [5, 6]), ((), (5,)), ({"a": 1}, {"b": 5}), ({"a": 1}, [5]), (None, [])]
    yield from [(Point(1, 2), (5, 6)), (Point(1, 2), Pair(5, 6)), ([None], [[]]), ({"a": 1}, {"a": 5, "b": 6})]
    yield [1, [2, (3,)]], [(5, 6), [7, [8]]]
    yield {"a": {"b": [1, 2]}, "c": 3}, {"a": {"b": [5, 6, 7]}, "c": [8]}
    yield [[1], (2,), {"a": 3}, 4], [(5,), [6], {"b": 7}, None]


def common_suffix():
    out = []
    for left, right in pairs_of_trees():
        case = {"left": encode_tree(left), "right": encode_tree(right)}
        try:
            results = optree.tree_broadcast_common(left, right)
        except ValueError as error:
            out.append({**case, "error": True, "message": str(error)})
            continue
        specs = [optree.tree_structure(tree) for tree in (left, right)]
        suffix = specs[0].broadcast_to_common_suffix(specs[1])
        with_none = optree.broadcast_common(left, right, none_is_leaf=True) if None not in (left, right) else None
        out.append(
            {
                **case,
                "suffix": encode_tree(suffix.unflatten([0] * suffix.num_leaves)),
                "results": [encode_tree(result) for result in results],
                "leaves": list(optree.broadcast_common(left, right)),
                "leaves_with_none": with_none,
                "jax_has_it": structure(results[0]) == structure(results[1]),
            }
        )
    return out


def broadcast_map():
    out = []
    for trees in [
        [[1, (2, 3)]],
        [[1, 2], [[3, 4], 5], 6],
        [[(1, 2, 3), 4, 5], [8, [9, 10, 11], 12], 15, [16, 17, {"b": 19, "a": 18, "c": None}]],
        [1, {"b": 2, "a": [3, None]}, {"b": (4, 5), "a": 6}],
        [Point(1, 2), Point([3], 4), 5, Point(6, od(z=7, y=8))],
        [None, 1, None],
        [[1], [(2, 3)], [[4, 5]]],
        [[1, [2]], [(3,), 4], [[5], (6,)]],
        [{"a": 1}, {"b": 2}, 3, {"a": 4, "c": 5}],
    ]:
        case = {"trees": [encode_tree(tree) for tree in trees]}
        try:
            result = optree.tree_broadcast_map(lambda *row: sum(row), *trees)
        except ValueError as error:
            out.append({**case, "error": True, "message": str(error)})
            continue
        rows = []
        optree.tree_broadcast_map(lambda *row: rows.append(list(row)), *trees)
        out.append({**case, "rows": rows, "result": encode_tree(result)})
    return out


# ---------------------------------------------------------------------------
# Composing and transposing
# ---------------------------------------------------------------------------


def compose():
    trees = [
        *[1, None, [], [1, 2], (1,), {"b": 1, "a": 2}, od(b=1, a=2), Point(1, 2)],
        *[[1, None, ()], {"x": [1, (2,)], "w": None}],
    ]
    larger = [
        ([1, (2, 3)], {"b": 1, "a": [2]}),
        (Point(1, {"k": 2}), [None, Single(1)]),
        ({"p": {"w": 1, "b": 2}}, od(mu=1, nu=(2, 3))),
        (Layer(1, None, [2]), Layer(1, 2, None)),
    ]
    chosen = [(trees[i], trees[j]) for i in range(10) for j in range(10) if (3 * i + j) % 4 == 0]
    out = []
    for outer, inner in [*chosen, *larger]:
        composed = structure(outer).compose(structure(inner))
        filled = jax.tree.map(lambda _: inner, outer)
        assert composed == structure(filled)
        out.append(
            {
                "outer": encode_tree(outer),
                "inner": encode_tree(inner),
                "result_treedef": str(composed),
                "num_leaves": composed.num_leaves,
                "num_nodes": composed.num_nodes,
            }
        )
    return out


INFERRED = object()


def transpositions():
    """(outer, inner, tree): those that fit, then those that do not."""
    yield [0, 0], (0, 0, 0), [(1, 2, 3), (4, 5, 6)]
    yield (0, 0), {"b": 0, "a": 0}, ({"a": 1, "b": 2}, {"b": 3, "a": 4})
    yield {"b": 0, "a": 0}, [0, 0], {"b": [1, 2], "a": [3, 4]}
    yield {"w": 0, "b": 0}, od(nu=0, mu=0), {"w": od(nu=1, mu=2), "b": od(nu=3, mu=4)}
    yield od(b=0, a=0), Point(0, 0), od(b=Point(1, 2), a=Point(3, 4))
    yield Point(0, 0), [0], Point([1], [2])
    yield [0], (0, 0), [(1, 2)]
    yield 0, [0, 0], [1, 2]
    yield [0, 0], 0, [1, 2]
    yield 0, 0, 7
    yield [0, [0, {"a": 0}]], (0, [0]), [(1, [2]), [(3, [4]), {"a": (5, [6])}]]
    yield {"x": (0, None), "y": [0]}, [0, 0], {"x": ([1, 2], None), "y": [[3, 4]]}
    yield [0, 0], {"k": 0, "n": None}, [{"k": 1, "n": None}, {"k": 2, "n": None}]
    rows = [{"p": Single(1), "q": 2}, {"p": Single(3), "q": 4}]
    yield Layer(0, None, 0), {"p": Single(0), "q": 0}, Layer(rows[0], None, rows[1])
    yield {-1: 0, 10: 0}, {3: 0, 2: 0}, {10: {2: 1, 3: 2}, -1: {3: 3, 2: 4}}
    yield [0, 0], [], [[], []]
    yield [0, 0], None, [None, None]
    yield [0, 0], INFERRED, [(1, 2, 3), (4, 5, 6)]
    yield {"b": 0, "a": 0}, INFERRED, {"b": Point(1, [2]), "a": Point(3, [4])}
    yield (0, [0]), INFERRED, ({"k": 1, "j": 2}, [{"j": 3, "k": 4}])
    yield [0, 0], INFERRED, [1, 2]
    yield od(z=0, y=0), INFERRED, od(z=[1, None], y=[2, None])
    # No leaf in the outer structure.
    yield [], [0, 0], []
    yield [], INFERRED, []
    yield [], [], []
    # Another number of leaves.
    yield [0, 0], (0, 0), [(1, 2), (3, 4, 5)]
    yield [0, 0], (0, 0), [(1, 2)]
    yield [0, 0], (0, 0), [1, 2]
    yield [0, 0], [0], [[1], []]
    yield {"a": 0}, [0, 0], {"a": [1, None]}
    yield [0, 0], INFERRED, [(1, 2), 3]
    yield [0, 0], INFERRED, [(1, 2), (3, 4), (5, 6)]
    yield [0, 0], INFERRED, ((1, 2), (3, 4))
    yield {"a": 0}, INFERRED, {"b": [1]}
    # As many leaves, in another structure.
    yield [0, 0, 0], (0, 0), ((1, 2, 3), (4, 5, 6))
    yield [0, 0], (0, 0), [[1, 2], [3, 4]]
    yield [0, 0], (0, 0), ((1, 2), (3, 4))
    yield [0, 0], (0, 0), [1, 2, 3, 4]
    yield [0, 0], (0, 0), [(1,), (2, 3, 4)]
    yield {"a": 0, "b": 0}, [0, 0], {"a": [1, 2], "c": [3, 4]}
    yield od(a=0, b=0), [0, 0], od(b=[1, 2], a=[3, 4])
    yield [0, 0], Point(0, 0), [Pair(1, 2), Pair(3, 4)]
    yield [0, 0], [0, None], [[1], [2]]
    yield [0, 0], {"a": 0, "b": 0}, [od(a=1, b=2), od(a=3, b=4)]
    yield [0, 0], INFERRED, [(1, 2), [3, 4]]
    yield (0, 0), INFERRED, ({"a": 1, "b": 2}, {"a": 3, "c": 4})


def transpose():
    out = []
    for outer, inner, tree in transpositions():
        inferred = inner is INFERRED
        case = {
            "outer": encode_tree(outer),
            "inner": None if inferred else encode_tree(inner),
            "tree": encode_tree(tree),
        }
        outer_def = structure(outer)
        try:
            result = jax.tree.transpose(outer_def, None if inferred else structure(inner), tree)
        except (TypeError, ValueError, IndexError) as error:
            fits = not inferred and outer_def.compose(structure(inner)) == structure(tree)
            case.update(error=True, message=str(error))
            out.append({**case, "structures_fit": True} if fits else case)
            continue
        inner_def = structure(outer_def.flatten_up_to(tree)[0] if inferred else inner)
        if outer_def.compose(inner_def) == structure(tree):
            assert structure(result) == inner_def.compose(outer_def) or not inner_def.num_leaves
            out.append({**case, "result": encode_tree(result)})
        else:
            scrambled = {"error": True, "scrambled_by_jax": True, "jax_result": encode_tree(result)}
            out.append({**case, **scrambled})
    return out


# ---------------------------------------------------------------------------
# Nodes and paths
# ---------------------------------------------------------------------------


def one_level():
    trees = [tree for tree in few_trees() if type(tree) is not int]
    trees += [None, (), {}, od(), (1, None), [[], [1, [2]]], {10: 1, 9: [2], -1: None}]
    trees += [od([(3, (1,)), (-3, None)]), Layer(1, None, {"k": 2}), {"a b": {"x": 1}, "": {}}]
    out = []
    for tree in trees:
        pairs = one_level_with_keys(tree)
        children = [(keystr((key,)), child) for key, child in pairs]
        # See `prefix_errors` for the keys of a named tuple.
        with_keys, _ = default_registry.flatten_one_level_with_keys(tree)
        assert is_namedtuple(tree) or list(with_keys) == pairs
        assert [child for _, child in with_keys] == [child for _, child in pairs]
        out.append(
            {
                "tree": encode_tree(tree),
                "children": [encode_tree(child) for _, child in children],
                "keys": [key for key, _ in children],
            }
        )
    return out


def accessors():
    trees = [*few_trees(), None, [None, 1], Layer(1, None, [2]), {"a b": {"x.y": 1}}, {-1: {"-1": 1}}]
    out = []
    for tree in trees:
        codes = [accessor.codify("tree") for accessor in optree.tree_accessors(tree)]
        paths = [keystr(path) for path, _ in tree_flatten_with_path(tree)[0]]
        assert codes == ["tree" + path for path in paths]
        out.append({"tree": encode_tree(tree), "codes": codes})
    return out


def walk():
    trees = [*few_trees(), None, (1, None, [2, ()]), [None, None], {"b": {}, "a": (1, None)}]
    out = []
    for tree in trees:
        leaves, treedef = jax.tree.flatten(tree)
        events = []
        treedef.walk(
            lambda children, data, events=events: events.append(["node", len(children)]),
            lambda leaf, events=events: events.append(["leaf", leaf]),
            leaves,
        )
        assert len(events) == treedef.num_nodes
        out.append({"tree": encode_tree(tree), "events": events})
    return out


# ---------------------------------------------------------------------------
# Dict keys
# ---------------------------------------------------------------------------


def insertion_order():
    trees = [
        *[{}, {"a": 1}, {"a": 1, "b": 2}, {"b": 1, "a": 2}, {10: 1, 9: 2, -1: 3}],
        {"c": 1, "a": 2, "d": 3, "b": 4},
        {"b": {"d": 1, "c": 2}, "a": {"f": 3, "e": 4}},
        {"b": [{"z": 1, "y": 2}], "a": ({"x": 3, "w": 4}, None)},
        {"o": od(b=1, a=2), "d": {"b": 3, "a": 4}},
        {"z": Point({"b": 1, "a": 2}, 3), "y": {}},
        {"B": 1, "a": 2, "A": 3, "b": 4},
        {k: i for i, k in enumerate([7, 3, 11, -4, 100, 20, 0])},
    ]
    out = []
    for tree in trees:
        leaves, spec = optree.tree_flatten(tree)
        assert leaves == jax.tree.leaves(tree)
        result = optree.tree_unflatten(spec, leaves)
        in_jax = jax.tree.unflatten(structure(tree), leaves)
        out.append(
            {
                "tree": encode_tree(tree),
                "leaves": leaves,
                "keys_after_unflatten": list(result),
                "result": encode_tree(result),
                "keys_after_unflatten_in_jax": list(in_jax),
            }
        )
    return out


def mixed_keys():
    trees = [
        *[{1: 1, "a": 2}, {"a": 1, 1: 2}, {"b": 1, 2: 2, "a": 3, 1: 4}, {"1": 1, 1: 2}],
        {-1: 1, "-1": 2, 10: 3, "10": 4, 9: 5, "9": 6},
        {"": 1, 0: 2},
        {"z": [1, 2], -5: (3,), "a": None, 7: {"k": 4}},
        {"x": {2: 1, "b": 2, 1: 3, "a": 4}, "w": 5},
    ]
    out = []
    for tree in trees:
        leaves, spec = optree.tree_flatten(tree)
        try:
            jax.tree.flatten(tree)
            raised = False
        except ValueError:
            raised = True
        out.append(
            {
                "tree": encode_tree(tree),
                "sorted_keys": spec.entries(),
                "leaves": leaves,
                "codes": [accessor.codify("tree") for accessor in spec.accessors()],
                "jax_error": raised,
            }
        )
    return out


def members():
    """The members of the file, by name."""
    made = [cases, none_is_leaf, is_leaf, equality, prefix_order, prefix_errors, broadcast]
    made += [common_suffix, broadcast_map]
    made += [flatten_up_to, compose, transpose, one_level, accessors, walk, insertion_order, mixed_keys]
    return {member.__name__: member() for member in made}
