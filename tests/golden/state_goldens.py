"""state.json: what Flax NNX prints of states.

Each case is a tree in words and the text that it prints as a State. A tree is `{"dict": [[key, tree], ..]}`,
`{"variable": kind, "value": value, "metadata": [[name, value], ..]}` or a value; a value is an array, or `{"tuple": [..]}`,
`{"list": [..]}`, `{"map": [[key, value], ..]}` of values. An array of zeros may have `zeros`, its shape, in the place of shape
and data.
"""

from golden_cases import *

from flax import nnx


def array_or_zeros(value):
    """As `array`, without the elements of a large array of zeros."""
    if np.size(value) > 40 and not np.any(value):
        return {"dtype": DTYPE_NAMES[np.asarray(value).dtype.name], "zeros": list(np.shape(value))}
    return array(value)


class Dict(list):
    """Entries of a nested dictionary, in order."""


KINDS = {kind.__name__: kind for kind in (nnx.Param, nnx.BatchStat, nnx.Cache, nnx.Intermediate, nnx.Perturbation)}


def variable(kind, value, **metadata):
    return ("variable", kind, value, metadata)


def build(tree):
    """The State's content, in NNX's types."""
    if isinstance(tree, Dict):
        return {key: build(child) for key, child in tree}
    if isinstance(tree, tuple) and tree[:1] == ("variable",):
        _, kind, value, metadata = tree
        return KINDS[kind](value, **metadata)
    return tree


def encode_value(value):
    if isinstance(value, tuple):
        return {"tuple": [encode_value(item) for item in value]}
    if isinstance(value, list):
        return {"list": [encode_value(item) for item in value]}
    if isinstance(value, dict):
        return {"map": [[key, encode_value(item)] for key, item in value.items()]}
    return array_or_zeros(value)


def encode_data(value):
    return {"tuple": [encode_data(item) for item in value]} if isinstance(value, tuple) else value


def encode(tree):
    if isinstance(tree, Dict):
        return {"dict": [[key, encode(child)] for key, child in tree]}
    if isinstance(tree, tuple) and tree[:1] == ("variable",):
        _, kind, value, metadata = tree
        return {
            "variable": kind,
            "value": encode_value(value),
            "metadata": [[name, encode_data(data)] for name, data in metadata.items()],
        }
    return {"leaf": array_or_zeros(tree)}


def f32(*shape, start=0.0):
    size = int(np.prod(shape))
    return jnp.asarray(np.arange(size, dtype=np.float32).reshape(shape) * np.float32(0.5) + np.float32(start))


def i32(*shape):
    return jnp.arange(int(np.prod(shape)), dtype=jnp.int32).reshape(shape)


def trees():
    block = lambda mean: Dict([("y_mean", variable("Intermediate", (jnp.float32(mean),)))])
    seed = Dict([("blocks", Dict([(i, block(mean)) for i, mean in enumerate([4.659754e-06, 0.00025933, 0.05561922])]))])
    zeros = lambda *shape: jnp.zeros(shape, jnp.float32)
    return {
        "empty": Dict(),
        "seed, popped": seed,
        "seed, perturbation": Dict([("xgrad", variable("Perturbation", zeros(1, 3)))]),
        "seed, shared": Dict([("left", Dict([("x", jnp.float32(1.0))]))]),
        "seed, object": Dict([("a", Dict([(0, jnp.int32(2)), (1, jnp.int32(4))])), ("b", jnp.int32(6))]),
        "one parameter": Dict([("weight", variable("Param", f32(3)))]),
        "a matrix": Dict([("weight", variable("Param", f32(3, 2)))]),
        "a matrix, nested": Dict([("a", Dict([("b", Dict([("c", variable("Cache", f32(2, 3)))]))]))]),
        "three axes": Dict([("weight", variable("Param", f32(2, 2, 3)))]),
        "long lines": Dict([("weight", variable("BatchStat", f32(30)))]),
        "left out elements": Dict([("a", Dict([("weight", variable("Param", zeros(300, 1000)))]))]),
        "no elements": Dict([("weight", variable("Param", zeros(0, 3)))]),
        "bare leaves": Dict([("a", f32(2)), ("b", i32(2, 2)), ("c", Dict([(0, f32(1, 2))]))]),
        "a tuple of arrays": Dict([("a", variable("Intermediate", (f32(2), i32(2, 2))))]),
        "a list of arrays": Dict([("a", variable("Intermediate", [f32(2, 2), i32(1)]))]),
        "a dictionary of arrays": Dict([("a", variable("Cache", {"k": f32(2, 2), "v": f32(1)}))]),
        "nested values": Dict([("a", variable("Cache", {"k": [(f32(1), f32(1, 1)), f32(2)]}))]),
        "metadata": Dict([("kernel", variable("Param", f32(2), axes=("in", "out"), note="tied", count=3, hidden=True))]),
        "several kinds": Dict(
            [
                ("kernel", variable("Param", f32(2, 3))),
                ("mean", variable("BatchStat", f32(3))),
                ("layers", Dict([(i, Dict([("w", variable("Param", f32(i + 1)))])) for i in range(11)])),
            ]
        ),
        # Of one size in two axes, since lines of arrays with one are of other lengths where the name of the type is longer.
        **{
            f"{rows} rows of {columns}": Dict([("a", variable("Param", zeros(rows, columns)))])
            for rows, columns in [(83, 3), (50, 5), (251, 1), (52, 6), (91, 11), (2469, 5), (250001, 1)]
        },
        "1250 bytes": Dict([("a", variable("Param", jnp.zeros(1250, bool)))]),
        "1350 bytes": Dict([("a", variable("Param", jnp.zeros(1350, bool)))]),
        "999950 bytes": Dict([("a", variable("Param", jnp.zeros(999950, bool)))]),
    }


def make_state():
    cases = [{"name": name, "tree": encode(tree), "text": str(nnx.State(build(tree)))} for name, tree in trees().items()]
    write("state", {"cases": cases})
