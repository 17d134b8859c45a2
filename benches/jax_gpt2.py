"""The programs of benches/gpt2.rs in JAX and optax, with the model written in jax.numpy and parameters from the same keys.

Usage: python jax_gpt2.py [create token prompt train] [--bf16] [--batch N] [--length N]; needs the packages of
benches/comparison/requirements.txt. Prints the lines that `cargo bench --bench gpt2` prints, and the operations or bytes that a
step needs at least.

Both compute in the dtype of the model, but normalisations, scores of attention, their softmax, and Adam with its moments in f32.
"""

import argparse
import itertools
import time

import jax
import jax.numpy as jnp
import optax
from jax.nn import initializers

import measure

VOCABULARY, POSITIONS, WIDTH, HEADS, BLOCKS = 50257, 1024, 768, 12, 12
EACH = WIDTH // HEADS


def create(dtype=jnp.float32):
    """The parameters, drawn from the keys that the layers of pytree draw."""
    keys = (jax.random.fold_in(jax.random.key(0), count) for count in itertools.count())

    def drawn(initializer, *matrix):
        return initializer(next(keys), matrix, jnp.float32).astype(dtype)

    def linear(inputs, outputs, weight=None, bias=None):
        drawn_weight = drawn(initializers.lecun_normal(), inputs, outputs).reshape(weight or (inputs, outputs))
        return drawn_weight, drawn(initializers.zeros, outputs).reshape(bias or (outputs,))

    def norm():
        return drawn(initializers.ones, WIDTH), drawn(initializers.zeros, WIDTH)

    def heads():
        return linear(WIDTH, WIDTH, (WIDTH, HEADS, EACH), (HEADS, EACH))

    def block():
        return {
            "attention_norm": norm(),
            "query": heads(),
            "key": heads(),
            "value": heads(),
            "out": linear(WIDTH, WIDTH, (HEADS, EACH, WIDTH)),
            "mlp_norm": norm(),
            "hidden": linear(WIDTH, 4 * WIDTH),
            "output": linear(4 * WIDTH, WIDTH),
        }

    return {
        "tokens": drawn(initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0), VOCABULARY, WIDTH),
        "positions": drawn(initializers.normal(0.02), POSITIONS, WIDTH),
        "blocks": [block() for _ in range(BLOCKS)],
        "norm": norm(),
    }


def normalised(parameters, x):
    scale, bias = (parameter.astype(jnp.float32) for parameter in parameters)
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + 1e-6) * scale + bias).astype(x.dtype)


def projected(parameters, x):
    weight, bias = parameters
    return jnp.tensordot(x, weight, 1) + bias


def attention(block, x, cache, index):
    """The attention of new tokens to themselves and earlier ones, and the keys and values of all of them."""
    query, key, value = (projected(block[name], x) for name in ("query", "key", "value"))
    if cache is not None:
        key, value = cache = tuple(
            jax.lax.dynamic_update_slice(old, new, (0, index, 0, 0)) for old, new in zip(cache, (key, value))
        )
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=jnp.float32) / EACH**0.5
    seen = jnp.arange(key.shape[1]) <= index + jnp.arange(query.shape[1])[:, None]
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30)).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    weight, bias = block["out"]
    return jnp.tensordot(mixed, weight, 2) + bias, cache


def forward(parameters, tokens, caches=None, index=0):
    positions = jax.lax.dynamic_slice_in_dim(parameters["positions"], index, tokens.shape[1])
    x, extended = parameters["tokens"][tokens] + positions, []
    for block, cache in zip(parameters["blocks"], caches or [None] * BLOCKS):
        mixed, cache = attention(block, normalised(block["attention_norm"], x), cache, index)
        x = x + mixed
        x = x + projected(block["output"], jax.nn.gelu(projected(block["hidden"], normalised(block["mlp_norm"], x))))
        extended.append(cache)
    return normalised(parameters["norm"], x) @ parameters["tokens"].T, extended


def measured(name, most, advance, number):
    """Measures at most so many calls: `advance` starts a call, and `number` waits for its result."""

    def report(operation, unit, median, least=None):
        measure.report("K", name, operation, "jax", unit, median, least)

    start = time.perf_counter()
    report("result_step1", "", number(advance()))
    report("first_step_ms", "ms", (time.perf_counter() - start) * 1e3)
    number(advance())
    start = time.perf_counter()
    report("result_step5", "", number([advance() for _ in range(3)][-1]))
    count = measure.samples(10)
    inner = max(1, min(int(0.1 / ((time.perf_counter() - start) / 3)), (most - 5) // count))
    times = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(inner):
            result = advance()
        number(result)
        times.append((time.perf_counter() - start) * 1e6 / inner)
    report("us_per_step", "us", sorted(times)[count // 2], min(times))
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    if peak is not None:
        report("device_peak_mb", "MB", peak / 2**20)


def text(batch, length):
    """Sequences of tokens, each with the token after each token."""
    tokens = jnp.arange(batch * length, dtype=jnp.int32).reshape(batch, length)
    return tokens, tokens + 1


def create_case(name, dtype, batch, length):
    measured(name, 10**9, create, lambda model: float(jax.block_until_ready(model)["norm"][1][0]))


def token(name, dtype, batch, length):
    batch, length = batch or 1, length or 256
    parameters = create(dtype)
    empty = lambda: jnp.zeros((batch, length, HEADS, EACH), dtype)
    state = [(empty(), empty()) for _ in range(BLOCKS)], jnp.int32(0), jnp.zeros((batch, 1), jnp.int32)

    @jax.jit(donate_argnums=1)
    def step(parameters, state):
        caches, index, token = state
        logits, caches = forward(parameters, token, caches, index)
        logits = logits[:, -1]
        return (caches, index + 1, logits.argmax(-1, keepdims=True).astype(jnp.int32)), logits.max()

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
    last = jax.jit(lambda parameters, tokens: forward(parameters, tokens)[0][:, -1].max())
    measured(name, 10**9, lambda: float(last(parameters, tokens)), float)


def train(name, dtype, batch, length):
    batch, length = batch or 2, length or 128
    parameters, (x, y) = create(dtype), text(batch, length)
    size = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    optimizer = optax.adam(1e-4)
    wide = lambda tree: jax.tree.map(lambda leaf: leaf.astype(jnp.float32), tree)
    state = parameters, optimizer.init(wide(parameters))

    def loss(parameters, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(forward(parameters, x)[0], y).mean()

    @jax.jit(donate_argnums=0)
    def step(state, x, y):
        parameters, state = state
        value, gradient = jax.value_and_grad(loss)(parameters, x, y)
        updates, state = optimizer.update(wide(gradient), state)
        return (optax.apply_updates(parameters, updates), state), value

    def advance():
        nonlocal state
        state, value = step(state, x, y)
        return value

    measured(name, 10**9, advance, float)
    # Six for each parameter and token, and two products of each token with all keys and values, three times.
    flops = batch * length * (6 * size + 12 * BLOCKS * WIDTH * length)
    measure.report("K", name, "flops_of_products", "jax", "FLOP", flops)


CASES = {"create": create_case, "token": token, "prompt": prompt, "train": train}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--length", type=int)
    options = parser.parse_args()
    dtype, suffix = (jnp.bfloat16, "-bf16") if options.bf16 else (jnp.float32, "")
    for case in options.cases:
        CASES[case](case + suffix, dtype, options.batch, options.length)
