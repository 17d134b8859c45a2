"""Writes the golden figures (JAX, Flax NNX, optax) that the tests compare with.

    pip install -r requirements.txt
    python make_goldens.py            # every file
    python make_goldens.py ops trees  # only some of them

Each file is JSON, written beside this script, with a "versions" object first.
README.md describes the format. Inputs come from numpy generators with fixed
seeds, so that the same versions write the same files.

JAX runs with x64 off, as it does by default, except inside `x64()`, which the
f64 figures use.
"""

import collections
import itertools
import json
import os
import pathlib
import sys
import warnings
import zlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import optax
from flax import nnx
from jax import lax

import accuracy_goldens
import attention_goldens
import collectives_goldens
import control_goldens
import data_goldens
import draws_goldens
import elementwise_goldens
import convolution_goldens
import structural_goldens
import jaxpr_goldens
import kinds_goldens
import layers_goldens
import linalg_goldens
import model_layers_goldens
import recurrent_goldens
import optimizers_goldens
import losses_goldens
import compositions_goldens
import state_goldens
import rngs_goldens
import narrow_goldens
import rows_goldens
import special_points_goldens
import tree_goldens
from golden_cases import *  # noqa: F403 (the samplers and writers)

# ---------------------------------------------------------------------------
# ops.json: per operation and dtype: output, derivatives, vmap
# ---------------------------------------------------------------------------

def elementwise_ops():
    shape = (2, 3)
    unary = [
        ("neg", lax.neg, any_float),
        ("exp", jnp.exp, any_float),
        ("log", jnp.log, positive),
        ("tanh", jnp.tanh, any_float),
        ("sin", jnp.sin, any_float),
        ("cos", jnp.cos, any_float),
        ("sqrt", jnp.sqrt, positive),
        ("logistic", jax.nn.sigmoid, any_float),
        ("erf_inv", lax.erf_inv, unit),
        ("abs", jnp.abs, with_zero),
        ("relu", jax.nn.relu, with_zero),
        ("gelu_tanh", lambda x: jax.nn.gelu(x, approximate=True), any_float),
    ]
    for name, function, sampler in unary:
        yield op(name, function, [(shape, sampler)])
    yield op("tanh", jnp.tanh, [((), any_float)])
    for y in (3, 2, -2):
        yield op("integer_pow", lambda x, y=y: lax.integer_pow(x, y), [(shape, nonzero)], y=y)

    binary = [
        ("add", lax.add, any_float, any_float),
        ("sub", lax.sub, any_float, any_float),
        ("mul", lax.mul, any_float, any_float),
        ("div", lax.div, any_float, nonzero),
        ("maximum", lax.max, grid, grid),
        ("minimum", lax.min, grid, grid),
        ("eq", lax.eq, grid, grid),
        ("ne", lax.ne, grid, grid),
        ("lt", lax.lt, grid, grid),
        ("le", lax.le, grid, grid),
        ("gt", lax.gt, grid, grid),
        ("ge", lax.ge, grid, grid),
    ]
    for name, function, left, right in binary:
        yield op(name, function, [(shape, left), (shape, right)])
    yield op("mul", lax.mul, [((), any_float), ((), any_float)])
    yield op("select", jnp.where, [(shape, boolean), (shape, any_float), (shape, any_float)])

    bitwise = [
        ("xor", lax.bitwise_xor, uint32),
        ("and", lax.bitwise_and, uint32),
        ("or", lax.bitwise_or, uint32),
        ("shift_right_logical", lax.shift_right_logical, shift),
    ]
    for name, function, right in bitwise:
        yield op(name, function, [(shape, uint32), (shape, right)], [np.uint32])


def convert_ops():
    """`dtypes` only says here whether x64 is on."""
    single, double = [np.float32], [np.float64]
    table = [
        (of_dtype(any_float, np.float32), "int32", single),
        (of_dtype(any_float, np.float64), "int32", double),
        (int32, "float32", single),
        (int32, "float64", double),
        (of_dtype(any_float, np.float32), "float64", double),
        (of_dtype(any_float, np.float64), "float32", double),
        (boolean, "float32", single),
        (boolean, "float64", double),
    ]
    for sampler, to, dtypes in table:
        yield op(
            "convert",
            lambda x, to=to: lax.convert_element_type(x, to),
            [((2, 3), sampler)],
            dtypes,
            dtype=DTYPE_NAMES[to],
        )


def reduction_ops():
    shape = (2, 3, 4)
    for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2), ()):
        yield op("sum", lambda x, a=axes: jnp.sum(x, axis=a), [(shape, any_float)], axes=axes)
    for sampler in (distinct, grid):
        for axes in ((0,), (2,), (0, 1), (0, 1, 2)):
            yield op(
                "reduce_max",
                lambda x, a=axes: jnp.max(x, axis=a),
                [(shape, sampler)],
                axes=axes,
                ties=sampler is grid,
            )
    for sampler in (distinct, grid):
        for axis in (0, 1):
            yield op(
                "argmax",
                lambda x, a=axis: lax.argmax(x, a, np.int32),
                [((3, 4), sampler)],
                axis=axis,
            )
    for axes in ((0,), (1,), (0, 1)):
        yield op("mean", lambda x, a=axes: jnp.mean(x, axis=a), [((3, 4), any_float)], axes=axes)
    for axes in ((0,), (1,), (0, 1)):
        yield op("var", lambda x, a=axes: jnp.var(x, axis=a), [((3, 4), any_float)], axes=axes)


def matmul_ops():
    shapes = [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 5)),
        ((2, 3, 4), (4, 5)),
    ]
    for left, right in shapes:
        yield op("matmul", jnp.matmul, [(left, any_float), (right, any_float)])


def structural_ops():
    for perm in ((2, 0, 1), (1, 0, 2)):
        yield op(
            "transpose",
            lambda x, p=perm: lax.transpose(x, p),
            [((2, 3, 2), any_float)],
            perm=perm,
        )
    for old, new in (((2, 6), (3, 4)), ((2, 3), (6,)), ((1,), ())):
        yield op("reshape", lambda x, s=new: lax.reshape(x, s), [(old, any_float)], shape=new)
    for old, new in (((3, 1), (2, 3, 4)), ((), (2, 3)), ((3,), (2, 3))):
        yield op("broadcast", lambda x, s=new: jnp.broadcast_to(x, s), [(old, any_float)], shape=new)
    # -1 counts from the end, and 7 reads the last element.
    takes = [
        ((5, 3), (4,), index(0, 3), 0),
        ((3, 5), (6,), index(0, 5), 1),
        ((5, 2), (2, 3), index(0, 5), 0),
        ((2, 4), (2, 2), index(0, 4), 1),
        ((4,), (6,), index(-7, 8), 0),
    ]
    for shape, indices, sampler, axis in takes:
        yield op(
            "take",
            lambda x, i, a=axis: x.at[(slice(None),) * a + (i,)].get(mode="clip"),
            [(shape, any_float), (indices, sampler)],
            axis=axis,
        )
    slices = [
        ((4, 5), (1, 0), (3, 4), (1, 1)),
        ((4, 5), (0, 1), (4, 5), (2, 3)),
        ((7,), (2,), (7,), (2,)),
    ]
    for shape, start, limit, strides in slices:
        yield op(
            "slice",
            lambda x, s=start, l=limit, t=strides: lax.slice(x, s, l, t),
            [(shape, any_float)],
            start=start,
            limit=limit,
            strides=strides,
        )
    pads = [
        ((2, 3), (1, 0), (0, 2), (0, 0), 0.0),
        ((2, 3), (0, 1), (1, 1), (1, 2), 0.5),
        ((3,), (2,), (1,), (1,), -1.5),
        ((2, 3), (0, -1), (1, 0), (0, 0), 0.25),
    ]
    for shape, low, high, interior, value in pads:
        yield op(
            "pad",
            lambda x, c=tuple(zip(low, high, interior)), v=value: lax.pad(x, x.dtype.type(v), c),
            [(shape, any_float)],
            low=low,
            high=high,
            interior=interior,
            value=value,
        )
    joins = [
        (((2, 3), (2, 2)), 1),
        (((2, 2), (1, 2), (2, 2)), 0),
        (((3,), (2,)), 0),
    ]
    for shapes, axis in joins:
        yield op(
            "concatenate",
            lambda *xs, a=axis: lax.concatenate(xs, a),
            [(shape, any_float) for shape in shapes],
            axis=axis,
        )


def loss_ops():
    shape = (3, 4)
    yield op("softmax", lambda x: jax.nn.softmax(x, axis=-1), [(shape, any_float)], axis=-1)
    yield op("log_softmax", lambda x: jax.nn.log_softmax(x, axis=-1), [(shape, any_float)], axis=-1)
    yield op(
        "logsumexp",
        lambda x: jax.scipy.special.logsumexp(x, axis=-1),
        [(shape, any_float)],
        axis=-1,
    )
    yield op(
        "softmax_cross_entropy_with_integer_labels",
        lambda x, labels: jnp.mean(optax.softmax_cross_entropy_with_integer_labels(x, labels)),
        [(shape, any_float), ((3,), index(0, 4))],
        reduction="mean",
    )
    yield op(
        "mse",
        lambda a, b: jnp.mean((a - b) ** 2),
        [(shape, any_float), (shape, any_float)],
    )


def make_ops():
    table = itertools.chain(
        elementwise_ops(),
        convert_ops(),
        reduction_ops(),
        matmul_ops(),
        structural_ops(),
        loss_ops(),
    )
    write("ops", {"cases": operation_cases(table)})


# ---------------------------------------------------------------------------
# random.json: `jax.random` for four seeds; threefry2x32, partitionable
# ---------------------------------------------------------------------------


def uniform_between(key):
    """Uniform numbers between bounds of which the minimum is not below the maximum, or one is not finite."""
    nan, inf = np.nan, np.inf
    bounds = [
        *((0.0, -1.0), (1.0, -1.0), (3.0, -2.0), (-0.0, -4.0), (0.1, 0.1), (1e30, -1e30)),
        *((0.7, nan), (nan, 0.7), (inf, 0.0), (0.0, -inf), (-inf, 0.0), (0.0, inf), (3e38, -3e38)),
    ]
    return [
        {
            "bounds": [scalar(bound) for bound in pair],
            "numbers": array(jax.random.uniform(key, (5,), dtype, *pair)),
        }
        for dtype in FLOATS
        for pair in bounds
    ]


def make_random():
    r = jax.random
    data = r.key_data
    cases = []
    for seed in (0, 1, 42, 2**31 + 5):
        key = r.key(seed)
        case = {
            "seed": seed,
            "key": array(data(key)),
            "split_2": array(data(r.split(key, 2))),
            "split_5": array(data(r.split(key, 5))),
            "split_2x3": array(data(r.split(key, (2, 3)))),
            "fold_in": [
                {"data": n, "key": array(data(r.fold_in(key, n)))} for n in (0, 1, 7, 2**31)
            ],
            "bits_7": array(r.bits(key, (7,), np.uint32)),
            "bits_2x3": array(r.bits(key, (2, 3), np.uint32)),
            "uniform_f32": array(r.uniform(key, (2, 3), np.float32)),
            "uniform_f32_minus2_3": array(r.uniform(key, (2, 3), np.float32, -2.0, 3.0)),
            "normal_f32": array(r.normal(key, (2, 3), np.float32)),
            "truncated_normal_f32_minus2_2": array(
                r.truncated_normal(key, -2.0, 2.0, (2, 3), np.float32)
            ),
            "bernoulli_0.3": array(r.bernoulli(key, 0.3, (10,))),
            "permutation_10": array(r.permutation(key, 10)),
            "permutation_1000": array(r.permutation(key, 1000)),
            "permutation_2000": array(r.permutation(key, 2000)),
            "randint_0_100": array(r.randint(key, (5,), 0, 100, np.int32)),
            "vmap_uniform_of_split_4": array(
                jax.vmap(lambda k: r.uniform(k, (3,), np.float32))(r.split(key, 4))
            ),
        }
        with x64():
            key = r.key(seed)
            case["uniform_f64"] = array(r.uniform(key, (4,), np.float64))
            case["normal_f64"] = array(r.normal(key, (4,), np.float64))
            case["uniform_between"] = uniform_between(key)
            case["randint_0_100_i64"] = array(r.randint(key, (5,), 0, 100, np.int64))
        cases.append(case)
    config = {
        "jax_threefry_partitionable": bool(jax.config.jax_threefry_partitionable),
        "jax_default_prng_impl": jax.config.jax_default_prng_impl,
    }
    write("random", {"config": config, "seeds": cases, "poisson": poisson_of_seeds()})


def poisson_of_seeds():
    """Poisson numbers of many seeds: the digits of a sum decide which numbers are accepted."""
    cases = []
    for rates, count in (([0.5, 50.0], 400), ([9.5, 10.0, 33.3, 1e3, 2e4, 1e6, 1.9e9], 100)):
        rates = np.array(rates, np.float32)
        draw = jax.jit(lambda seed: jax.random.poisson(jax.random.key(seed), rates, rates.shape))
        numbers = np.array([draw(seed) for seed in range(count)], np.int32)
        cases.append({"rates": array(rates), "numbers": array(numbers)})
    return cases


# ---------------------------------------------------------------------------
# nnx.json: keys of `nnx.Rngs`, `nnx.Linear`, `nnx.Dropout`, initializers. `fresh` has the first four keys of each stream of a new
# `Rngs`, `interleaved` a sequence of calls on one; the stream `""` is `rngs()` itself. The rules seen there:
#
# - A stream is a key and a count from 0. Call `i` gives `fold_in(key(seed), i)`, whatever the name of the stream. An unknown name
#   uses, and advances, `default`; without a `default` it is an error.
# - `split(n)` takes the next key `k` of each stream; the new stream has `random.split(k, n)` and counts of 0. `fork()` takes the next
#   key as the new stream's key. Both advance the parent's count by one.
# - `split({"params": 3})` and `split({..., "dropout": None})` leave the keys of the other streams, but their counts start again from
#   0; those of the parent stay. `fork(split={"params": 3})` forks the others.
# - `nnx.Linear` takes a `params` key for the kernel (lecun_normal) and, with a bias, a second one for it. `nnx.Dropout` forks the
#   stream `dropout` when made (`own_key`); its call `c` keeps an element where `uniform(fold_in(own_key, c)) < 1 - rate`.
# ---------------------------------------------------------------------------


def draw(rngs, stream):
    """The next key of a stream; "" means calling the Rngs itself."""
    key = rngs() if stream == "" else getattr(rngs, stream)()
    return np.asarray(jax.random.key_data(key))


def streams(rngs):
    """Key data and count of every stream, which the calls do not advance."""
    return {
        name: {
            "key": array(jax.random.key_data(stream.key.get_value())),
            "count": array(stream.count.get_value()),
        }
        for name, stream in rngs.items()
    }


def key_sequences():
    constructors = [
        {"default": 0},
        {"params": 1, "dropout": 2},
        {"default": 0, "params": 1},
    ]
    out = []
    for seeds in constructors:
        names = ["params", "dropout"]
        if "default" in seeds:
            names = ["", "default"] + names + ["noise"]
        fresh = {
            name: array(np.stack([draw(rngs, name) for _ in range(4)]))
            for name in names
            for rngs in [nnx.Rngs(**seeds)]
        }
        rngs = nnx.Rngs(**seeds)
        order = (names + names[::-1]) * 2
        interleaved = [{"stream": name, "key": array(draw(rngs, name))} for name in order]
        out.append(
            {
                "seeds": seeds,
                "fresh": fresh,
                "interleaved": interleaved,
                "after": streams(rngs),
            }
        )
    return out


def split_and_fork():
    seeds = {"params": 1, "dropout": 2}
    operations = [
        ("split(3)", lambda r: r.split(3)),
        ("split((2, 3))", lambda r: r.split((2, 3))),
        ("split({'params': 3})", lambda r: r.split({"params": 3})),
        ("split({'params': 3, 'dropout': None})", lambda r: r.split({"params": 3, "dropout": None})),
        ("fork()", lambda r: r.fork()),
        ("fork(split=3)", lambda r: r.fork(split=3)),
        ("fork(split={'params': 3})", lambda r: r.fork(split={"params": 3})),
    ]
    out = []
    for text, function in operations:
        rngs = nnx.Rngs(**seeds)
        before = ["params", "params", "dropout"]
        for name in before:
            draw(rngs, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork(split=...)
            new = function(rngs)
        out.append(
            {
                "seeds": seeds,
                "calls_before": before,
                "operation": text,
                "result": streams(new),
                "parent_after": streams(rngs),
            }
        )
    return out


def linear_layers():
    rngs = nnx.Rngs(0)
    single = nnx.Linear(2, 3, rngs=rngs)
    after_single = streams(rngs)
    without_bias = nnx.Linear(2, 3, use_bias=False, rngs=rngs)

    rngs = nnx.Rngs(0)
    layers = [nnx.Linear(i, o, rngs=rngs) for i, o in ((4, 8), (8, 8), (8, 2))]
    x = any_float(generator("nnx mlp"), (5, 4), np.float32)
    h = jnp.tanh(layers[0](jnp.asarray(x)))
    h = jnp.tanh(layers[1](h))
    mlp = {
        "layers": [
            {"kernel": array(layer.kernel.get_value()), "bias": array(layer.bias.get_value())}
            for layer in layers
        ],
        "input": array(x),
        "activation": "tanh",
        "output": array(layers[2](h)),
        "after": streams(rngs),
    }
    linear = {
        "kernel": array(single.kernel.get_value()),
        "bias": array(single.bias.get_value()),
        "after": after_single,
        "next_kernel_without_bias": array(without_bias.kernel.get_value()),
    }
    with x64():
        double = nnx.Linear(2, 3, param_dtype=np.float64, rngs=nnx.Rngs(0))
        linear["kernel_f64"] = array(double.kernel.get_value())
    return linear, mlp


def dropout_layers():
    out = []
    for rate in (0.5, 0.1):
        for seeds in ({"default": 0}, {"params": 1, "dropout": 2}):
            rngs = nnx.Rngs(**seeds)
            layer = nnx.Dropout(rate, rngs=rngs)
            own_key = array(jax.random.key_data(layer.rngs.key.get_value()))
            ones = jnp.ones((4, 5), jnp.float32)
            out.append(
                {
                    "seeds": seeds,
                    "rate": rate,
                    "own_key": own_key,
                    "parent_after": streams(rngs),
                    "input": array(ones),
                    "outputs": [array(layer(ones)) for _ in range(2)],
                }
            )
    return out


def initializers():
    i = jax.nn.initializers
    table = [
        ("lecun_normal", {}, i.lecun_normal()),
        ("lecun_uniform", {}, i.lecun_uniform()),
        ("he_normal", {}, i.he_normal()),
        ("he_uniform", {}, i.he_uniform()),
        ("glorot_normal", {}, i.glorot_normal()),
        ("glorot_uniform", {}, i.glorot_uniform()),
        ("normal", {"stddev": 0.02}, i.normal(0.02)),
        ("uniform", {"scale": 0.1}, i.uniform(0.1)),
        ("truncated_normal", {"stddev": 0.5}, i.truncated_normal(0.5)),
        ("zeros", {}, i.zeros),
        ("ones", {}, i.ones),
    ]
    return [
        {
            "name": name,
            "params": params,
            "seed": 0,
            "output": array(init(jax.random.key(0), shape, np.float32)),
        }
        for name, params, init in table
        for shape in ((4, 6), (3, 4, 6))
    ]


def make_nnx():
    linear, mlp = linear_layers()
    write(
        "nnx",
        {
            "rngs": key_sequences(),
            "split_fork": split_and_fork(),
            "linear": linear,
            "mlp": mlp,
            "dropout": dropout_layers(),
            "initializers": initializers(),
        },
    )


# ---------------------------------------------------------------------------
# optax.json: parameters after each of five given gradients
# ---------------------------------------------------------------------------


def labels_out_of_range():
    """Cross entropies of integer labels, some without a class, and the gradients of their sum."""
    logits = any_float(generator("labels"), (9, 3), np.float32)
    labels = np.array([0, 2, 3, 4, -1, -3, -4, 2**31 - 1, -(2**31)])
    cases = []
    for dtype in (np.int32, np.int64, np.uint32):
        # JAX converts u32 and i64 to i32. Large labels would become other ones, so there are none.
        chosen = labels[(labels >= 0) & (labels < 2**31 - 1)] if dtype == np.uint32 else labels
        rows = logits[: len(chosen)]
        with x64():
            losses = lambda x: optax.softmax_cross_entropy_with_integer_labels(x, chosen.astype(dtype))
            gradient = jax.grad(lambda x: losses(x).sum())(rows)
            cases.append(
                {
                    "logits": array(rows),
                    "labels": array(chosen.astype(dtype)),
                    "losses": array(losses(rows)),
                    "gradient": array(gradient),
                }
            )
    return cases


def make_optax():
    rng = generator("optax")
    shapes = ((3, 2), (2,))
    params = [any_float(rng, shape, np.float32) for shape in shapes]
    # Norms on both sides of the clipping bound, and one step of zeros.
    scales = (1.0, 0.0625, 2.0, 0.0, 0.25)
    gradients = [[np.float32(s) * any_float(rng, shape, np.float32) for shape in shapes] for s in scales]
    adam = {"learning_rate": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-8}
    table = [
        ("sgd", {"learning_rate": 0.1}, optax.sgd(0.1)),
        ("sgd", {"learning_rate": 0.1, "momentum": 0.9}, optax.sgd(0.1, momentum=0.9)),
        (
            "sgd",
            {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True},
            optax.sgd(0.1, momentum=0.9, nesterov=True),
        ),
        ("adam", adam, optax.adam(1e-3)),
        ("adamw", {**adam, "weight_decay": 1e-2}, optax.adamw(1e-3, weight_decay=1e-2)),
        (
            "clip_by_global_norm+sgd",
            {"max_norm": 0.5, "learning_rate": 0.1},
            optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1)),
        ),
    ]
    cases = []
    for name, hyper, optimizer in table:
        current = [jnp.asarray(p) for p in params]
        state = optimizer.init(current)
        steps = []
        for gradient in gradients:
            updates, state = optimizer.update([jnp.asarray(g) for g in gradient], state, current)
            current = optax.apply_updates(current, updates)
            steps.append(arrays(current))
        cases.append({"name": name, "params": hyper, "after": steps})
    write(
        "optax",
        {
            "parameters": arrays(params),
            "gradients": [arrays(g) for g in gradients],
            "optimizers": cases,
            "labels": labels_out_of_range(),
        },
    )


# ---------------------------------------------------------------------------
# transforms.json: small models, Hessians, higher orders
# ---------------------------------------------------------------------------


def tied_model(dtype):
    """One table used for the input and for the output projection."""
    rng = generator("tied")
    table = any_float(rng, (5, 4), dtype)
    indices = np.array([0, 3, 1, 4, 3, 2], np.int32)
    targets = np.array([1, 3, 0, 0, 2, 4], np.int32)

    def f(p, i, target):
        logits = jnp.tanh(p["embed"][i]) @ p["embed"].T
        return jax.scipy.special.logsumexp(logits) - logits[target]

    p = {"embed": jnp.asarray(table)}
    each = lambda g: jax.jit(jax.vmap(g, in_axes=(None, 0, 0)))
    return {
        "dtype": DTYPE_NAMES[np.dtype(dtype).name],
        "embed": array(table),
        "indices": array(indices),
        "targets": array(targets),
        "value": array(each(f)(p, indices, targets)),
        "gradient": array(each(jax.grad(f))(p, indices, targets)["embed"]),
    }


def classifier(dtype, activation):
    """Mean cross entropy of a 4-6-3 network on five examples."""
    rng = generator("classifier")
    shapes = {"w1": (4, 6), "b1": (6,), "w2": (6, 3), "b2": (3,)}
    params = {name: any_float(rng, shape, dtype) for name, shape in shapes.items()}
    x = any_float(rng, (5, 4), dtype)
    labels = np.array([0, 2, 1, 1, 0], np.int32)
    act = {"relu": jax.nn.relu, "tanh": jnp.tanh}[activation]

    def loss(p):
        logits = act(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))

    value, gradient = jax.value_and_grad(loss)({k: jnp.asarray(v) for k, v in params.items()})
    return {
        "dtype": DTYPE_NAMES[np.dtype(dtype).name],
        "activation": activation,
        "params": {name: array(v) for name, v in params.items()},
        "x": array(x),
        "labels": array(labels),
        "value": array(value),
        "gradient": {name: array(gradient[name]) for name in shapes},
    }


def rosenbrock(dtype):
    def f(v):
        a, b, c = v
        return (1 - a) ** 2 + 100 * (b - a**2) ** 2 + 100 * (c - b**2) ** 2 + jnp.sin(a * b * c)

    point = np.array([0.5, 0.7, -0.3], dtype)
    x = jnp.asarray(point)
    return {
        "dtype": DTYPE_NAMES[np.dtype(dtype).name],
        "point": array(point),
        "value": array(f(x)),
        "gradient": array(jax.grad(f)(x)),
        "hessian": array(jax.hessian(f)(x)),
    }


def higher_order():
    """Derivatives of order 0 to 4 of a scalar function."""
    f = lambda x: jnp.sin(x) * jnp.tanh(x) * jnp.exp(-x)
    points = np.array([-1.25, -0.5, 0.0, 0.375, 1.0, 2.5])
    orders = []
    for _ in range(5):
        orders.append(array(np.array([np.asarray(f(jnp.asarray(p))) for p in points])))
        f = jax.grad(f)
    return {"points": array(points), "orders": orders}


def perturbation_confusion():
    grad = jax.grad
    derivative = lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
    expressions = {
        "grad(x: x*grad(y: x+y)(2))(3)": grad(lambda x: x * grad(lambda y: x + y)(2.0))(3.0),
        "grad(x: x*grad(y: x*y)(2))(3)": grad(lambda x: x * grad(lambda y: x * y)(2.0))(3.0),
        "jvp(x: x*jvp(y: x+y)(2))(3)": derivative(
            lambda x: x * derivative(lambda y: x + y)(jnp.asarray(2.0))
        )(jnp.asarray(3.0)),
        "grad(x: x*jvp(y: x*y*y)(2))(3)": grad(
            lambda x: x * derivative(lambda y: x * y * y)(jnp.asarray(2.0))
        )(3.0),
        "jvp(x: x*grad(y: x*y*y)(2))(3)": derivative(
            lambda x: x * grad(lambda y: x * y * y)(2.0)
        )(jnp.asarray(3.0)),
    }
    return [{"expression": text, "value": array(value)} for text, value in expressions.items()]


def make_transforms():
    def for_floats(function, *args):
        out = []
        for dtype in FLOATS:
            with precision(dtype):
                out.append(function(dtype, *args))
        return out

    with x64():
        scalars = higher_order()
        confusion = perturbation_confusion()
    write(
        "transforms",
        {
            "tied": for_floats(tied_model),
            "mlp": for_floats(classifier, "relu") + for_floats(classifier, "tanh"),
            "rosenbrock": for_floats(rosenbrock),
            "higher_order": scalars,
            "perturbation_confusion": confusion,
        },
    )


# ---------------------------------------------------------------------------
# trees.json
# ---------------------------------------------------------------------------

def make_trees():
    with_optree = {**versions(), "optree": tree_goldens.optree.__version__}
    write("trees", {"versions": with_optree, **tree_goldens.members()})


# ---------------------------------------------------------------------------
# display.json: arrays and their numpy `str` and `repr`
# ---------------------------------------------------------------------------


def sample_arrays():
    f32, f64, i32, u32 = np.float32, np.float64, np.int32, np.uint32
    nan, inf = np.nan, np.inf
    rng = generator("display")
    for dtype in (f32, f64):
        yield from [np.array(v, dtype) for v in (1.0, -0.5, 0.1, 1e-8, 3e20, nan, -inf)]
        yield np.array([1, 2, 3], dtype)
        yield np.array([0.1, 0.25, -3.5], dtype)
        yield np.array([-0.0, 0.0, 1.5], dtype)
        yield np.array([nan, inf, -inf, 1.0], dtype)
        yield np.array([1.0, nan, 2.25], dtype)
        yield np.array([1e-5, 1.0], dtype)
        yield np.array([1e10, 1.0, -2.5], dtype)
        yield np.array([1e8, 1.0], dtype)
        yield np.array([123456.789, 0.001], dtype)
        yield np.array([[1.5, -2.25], [1e3, 0.125]], dtype)
        yield rng.standard_normal((2, 3)).astype(dtype)
        yield (rng.standard_normal((2, 2, 3)) * 100).astype(dtype)
        yield (rng.standard_normal((2, 9)) * 1e-6).astype(dtype)
        yield rng.standard_normal(13).astype(dtype)
    yield from [np.zeros(shape, f32) for shape in ((0,), (0, 3), (2, 0))]
    yield np.array(7, i32)
    yield np.array([1, -20, 300], i32)
    yield np.arange(24, dtype=i32).reshape(2, 3, 4)
    yield np.array([[-1, 10], [100, 1000]], i32)
    yield np.array([], i32)
    yield np.array([2**32 - 1, 0, 17], u32)
    yield np.array(2**31, u32)
    yield np.array(True)
    yield np.array([True, False])
    yield np.array([[True, False], [False, True]])
    yield np.arange(40, dtype=i32)
    yield np.arange(1000, dtype=i32)
    # More than 1000 elements: summarised.
    yield np.arange(1001, dtype=i32)
    yield np.arange(1010, dtype=f32) / 4
    yield np.arange(1050, dtype=i32).reshape(35, 30)
    yield np.arange(1200, dtype=f32).reshape(2, 20, 30) / 8
    yield (np.arange(1008) % 3 == 0).reshape(4, 252)
    yield np.arange(1005, dtype=f64).reshape(3, 335) * 1e6


def make_display():
    cases = [{"array": array(a), "str": str(a), "repr": repr(a)} for a in sample_arrays()]
    write("display", {"cases": cases})


def make_jaxprs():
    write("jaxprs", jaxpr_goldens.jaxprs())


FILES = {
    "ops": make_ops,
    "accuracy": accuracy_goldens.make_accuracy,
    "structural": structural_goldens.make_structural,
    "convolution": convolution_goldens.make_convolution,
    "random": make_random,
    "nnx": make_nnx,
    "optax": make_optax,
    "transforms": make_transforms,
    "trees": make_trees,
    "state": state_goldens.make_state,
    "kinds": kinds_goldens.make_kinds,
    "display": make_display,
    "collectives": collectives_goldens.make_collectives,
    "elementwise": elementwise_goldens.make_elementwise,
    "special_points": special_points_goldens.make_special_points,
    "narrow": narrow_goldens.make_narrow,
    "rows": rows_goldens.make_rows,
    "jaxprs": make_jaxprs,
    "compositions": compositions_goldens.make_compositions,
    "control": control_goldens.make_control,
    "data": data_goldens.make_data,
    "draws": draws_goldens.make_draws,
    "functions": draws_goldens.make_functions,
    "layers": layers_goldens.make_layers,
    "linalg": linalg_goldens.make_linalg,
    "model_layers": model_layers_goldens.make_model_layers,
    "recurrent": recurrent_goldens.make_recurrent,
    "attention": attention_goldens.make_attention,
    "losses": losses_goldens.make_losses,
    "metrics": losses_goldens.make_metrics,
    "rngs": rngs_goldens.make_rngs,
    "optimizers": optimizers_goldens.make_optimizers,
    "schedules": optimizers_goldens.make_schedules,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or FILES:
        FILES[chosen]()
