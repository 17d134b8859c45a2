"""The programs of benches/language.rs in JAX and optax, with the models written in jax.numpy and parameters from the same keys.

Usage: python jax_language.py [--model llama] [create token prompt train] [--bf16] [--batch N] [--length N]; needs the packages of
benches/comparison/requirements.txt. Prints the lines that `cargo bench --bench language` prints, and the operations or bytes that a
step needs at least.

Both compute in the dtype of the model, but normalisations, scores of attention, their softmax, and Adam with its moments in f32. A
training step in bf16 has its parameters in f32, too.
"""

import argparse
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.nn import initializers

import measure


class Sizes(NamedTuple):
    """The lengths of the axes of a model, and its constants."""

    vocabulary: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    blocks: int
    epsilon: float
    # The number of learned positions of GPT-2, or the base of the rotary positions of Llama.
    positions: int | None
    rotary_base: float | None


MODELS = {
    "gpt2": Sizes(50257, 768, 12, 12, 3072, 12, 1e-6, 1024, None),
    "llama": Sizes(49152, 576, 9, 3, 1536, 30, 1e-5, None, 1e5),
}


def drawing(dtype):
    """A function that draws a matrix from the key that the next parameter of pytree is drawn from."""
    keys = (jax.random.fold_in(jax.random.key(0), count) for count in itertools.count())
    return lambda initializer, *matrix: initializer(next(keys), matrix, jnp.float32).astype(dtype)


def create(dtype=jnp.float32):
    """The parameters. A layer is a tuple: its weight or scale, and its bias if it has one. Only GPT-2 has biases."""
    drawn = drawing(dtype)
    biases = ["bias"] * (sizes.rotary_base is None)
    each = sizes.width // sizes.heads

    def linear(inputs, outputs, weight=None, bias=None):
        drawn_weight = drawn(initializers.lecun_normal(), inputs, outputs).reshape(weight or (inputs, outputs))
        return drawn_weight, *(drawn(initializers.zeros, outputs).reshape(bias or (outputs,)) for _ in biases)

    def norm():
        return drawn(initializers.ones, sizes.width), *(drawn(initializers.zeros, sizes.width) for _ in biases)

    def heads(count):
        return linear(sizes.width, count * each, (sizes.width, count, each), (count, each))

    def block():
        return {
            "attention_norm": norm(),
            "query": heads(sizes.heads),
            "key": heads(sizes.kv_heads),
            "value": heads(sizes.kv_heads),
            "out": linear(sizes.width, sizes.width, (sizes.heads, each, sizes.width)),
            "mlp_norm": norm(),
            # Llama has a gate and another hidden layer.
            "hidden": [linear(sizes.width, sizes.hidden) for _ in range(1 if biases else 2)],
            "output": linear(sizes.hidden, sizes.width),
        }

    parameters = {"tokens": drawn(initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0), sizes.vocabulary, sizes.width)}
    if sizes.positions:
        parameters["positions"] = drawn(initializers.normal(0.02), sizes.positions, sizes.width)
    return parameters | {"blocks": [block() for _ in range(sizes.blocks)], "norm": norm()}


def normalised(parameters, x):
    """Layer normalisation, or that by the mean square if there is no bias."""
    scale, *bias = (parameter.astype(jnp.float32) for parameter in parameters)
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True) if bias else wide
    variance = (centred**2).mean(-1, keepdims=True)
    return sum(bias, centred * jax.lax.rsqrt(variance + sizes.epsilon) * scale).astype(x.dtype)


def projected(parameters, x, axes=1):
    weight, *bias = parameters
    return sum(bias, jnp.tensordot(x, weight, axes))


def rotated(x, index):
    """The heads of tokens, turned by the angles of their positions."""
    if sizes.rotary_base is None:
        return x
    half = x.shape[-1] // 2
    angles = (index + jnp.arange(x.shape[1]))[:, None, None] * sizes.rotary_base ** (-jnp.arange(half) / half)
    first, second = jnp.split(x.astype(jnp.float32), 2, -1)
    turned = first * jnp.cos(angles) - second * jnp.sin(angles), second * jnp.cos(angles) + first * jnp.sin(angles)
    return jnp.concatenate(turned, -1).astype(x.dtype)


def attention(block, x, cache, index):
    """The attention of new tokens to themselves and earlier ones, and the keys and values of all of them."""
    query, key, value = (projected(block[name], x) for name in ("query", "key", "value"))
    query, key = rotated(query, index), rotated(key, index)
    if cache is not None:
        key, value = cache = tuple(
            jax.lax.dynamic_update_slice(old, new, (0, index, 0, 0)) for old, new in zip(cache, (key, value))
        )
    batch, tokens, heads, each = query.shape
    # Each head of keys has a group of heads of queries.
    query = query.reshape(batch, tokens, sizes.kv_heads, heads // sizes.kv_heads, each)
    scores = jnp.einsum("bqhgd,bkhd->bhgqk", query, key, preferred_element_type=jnp.float32) / each**0.5
    seen = jnp.arange(key.shape[1]) <= index + jnp.arange(tokens)[:, None]
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30)).astype(x.dtype)
    mixed = jnp.einsum("bhgqk,bkhd->bqhgd", weights, value).reshape(batch, tokens, heads, each)
    return projected(block["out"], mixed, 2), cache


def hidden(block, x):
    first, *second = (projected(layer, x) for layer in block["hidden"])
    return jax.nn.silu(first) * second[0] if second else jax.nn.gelu(first)


def features(parameters, tokens, caches=None, index=0):
    """The features of tokens before the last layer, and the caches with the keys and values of these tokens."""
    x, extended = parameters["tokens"][tokens], []
    if sizes.positions:
        x += jax.lax.dynamic_slice_in_dim(parameters["positions"], index, tokens.shape[1])
    for block, cache in zip(parameters["blocks"], caches or [None] * sizes.blocks):
        mixed, cache = attention(block, normalised(block["attention_norm"], x), cache, index)
        x = x + mixed
        x = x + projected(block["output"], hidden(block, normalised(block["mlp_norm"], x)))
        extended.append(cache)
    return normalised(parameters["norm"], x), extended


def logits(parameters, features):
    return features @ parameters["tokens"].T


def measured(name, most, advance, number):
    measure.measure_calls(name, "jax", most, advance, number)
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    if peak is not None:
        measure.report("K", name, "device_peak_mb", "jax", "MB", peak / 2**20)


def text(batch, length):
    """Sequences of tokens, each with the token after each token."""
    tokens = jnp.arange(batch * length, dtype=jnp.int32).reshape(batch, length)
    return tokens, tokens + 1


def create_case(name, dtype, batch, length):
    measured(name, 10**9, create, lambda model: float(jax.block_until_ready(model)["norm"][-1][0]))


def token(name, dtype, batch, length):
    batch, length = batch or 1, length or 256
    parameters = create(dtype)
    empty = lambda: jnp.zeros((batch, length, sizes.kv_heads, sizes.width // sizes.heads), dtype)
    state = [(empty(), empty()) for _ in range(sizes.blocks)], jnp.int32(0), jnp.zeros((batch, 1), jnp.int32)

    @jax.jit(donate_argnums=1)
    def step(parameters, state):
        caches, index, token = state
        found, caches = features(parameters, token, caches, index)
        found = logits(parameters, found[:, -1])
        return (caches, index + 1, found.argmax(-1, keepdims=True).astype(jnp.int32)), found.max()

    def advance():
        nonlocal state
        state, logit = step(parameters, state)
        jax.device_get(state[2])
        return logit

    measured(name, length, advance, float)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(parameters))
    measure.report("K", name, "bytes_of_weights", "jax", "B", size)


def prompt(name, dtype, batch, length):
    parameters, (tokens, _) = create(dtype), text(batch or 1, length or 128)
    last = jax.jit(lambda parameters, tokens: logits(parameters, features(parameters, tokens)[0][:, -1]).max())
    measured(name, 10**9, lambda: float(last(parameters, tokens)), float)


def train(name, dtype, batch, length):
    batch, length = batch or 2, length or 128
    parameters, (x, y) = create(), text(batch, length)
    size = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    optimizer = optax.adam(1e-4)
    state = parameters, optimizer.init(parameters)
    del parameters

    def loss(parameters, x, y):
        parameters = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
        found = logits(parameters, features(parameters, x)[0]).astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(found, y).mean()

    @jax.jit(donate_argnums=0)
    def step(state, x, y):
        parameters, state = state
        value, gradient = jax.value_and_grad(loss)(parameters, x, y)
        updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(parameters, updates), state), value

    def advance():
        nonlocal state
        state, value = step(state, x, y)
        return value

    measured(name, 10**9, advance, float)
    # Six for each parameter and token, and two products of each token with all keys and values, three times.
    flops = batch * length * (6 * size + 12 * sizes.blocks * sizes.width * length)
    measure.report("K", name, "flops_of_products", "jax", "FLOP", flops)


CASES = {"create": create_case, "token": token, "prompt": prompt, "train": train}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--length", type=int)
    options = parser.parse_args()
    dtype, suffix = (jnp.bfloat16, "-bf16") if options.bf16 else (jnp.float32, "")
    sizes = MODELS[options.model]
    for case in options.cases:
        CASES[case](f"{options.model}-{case}{suffix}", dtype, options.batch, options.length)
