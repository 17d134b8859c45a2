"""The training steps of benches/training.rs in JAX and optax, on the same data.

Usage: python jax_training.py [--bf16] [--devices N] [C1 C2 C3 C4 mlp4096 transformer1024]; needs the packages of
benches/comparison/requirements.txt. Prints the lines that `cargo bench --bench training` prints. Without names, the cases C1 to
C4 run. `--bf16` converts parameters and inputs to bfloat16. With `--devices`, `jax.shard_map` divides each batch among N
devices.
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax.extend import backend
from jax.sharding import NamedSharding, PartitionSpec as P

import measure
from measure import LEARNING_RATE, MLPS, TRANSFORMERS, linear, measure_steps, report


def transformer(sizes):
    """The parameters of a transformer."""
    width, hidden = sizes.width, sizes.hidden
    norm = lambda: (jnp.ones(width), jnp.zeros(width))
    layer = lambda number, inputs, outputs: tuple(map(jnp.asarray, linear(number, inputs, outputs)))
    blocks = [
        {
            "norm1": norm(),
            "qkv": layer(4 * b, width, 3 * width),
            "proj": layer(4 * b + 1, width, width),
            "norm2": norm(),
            "fc": layer(4 * b + 2, width, hidden),
            "out": layer(4 * b + 3, hidden, width),
        }
        for b in range(sizes.blocks)
    ]
    return {"blocks": blocks, "norm": norm(), "head": layer(4 * sizes.blocks, width, sizes.classes)}


def transformer_logits(sizes, parameters, x):
    affine = lambda p, x: x @ p[0] + p[1]

    def normalised(p, x):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * p[0] + p[1]

    # A device of a mesh has a part of the batch.
    batch, tokens, width, heads = x.shape[0], sizes.tokens, sizes.width, sizes.heads
    each = width // heads
    seen = jnp.tril(jnp.ones((tokens, tokens), bool))
    for block in parameters["blocks"]:
        qkv = jnp.split(affine(block["qkv"], normalised(block["norm1"], x)), 3, axis=-1)
        q, k, v = (part.reshape(batch, tokens, heads, each).transpose(0, 2, 1, 3) for part in qkv)
        scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / each**0.5, -1e9)
        mixed = (jax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
        x = x + affine(block["proj"], mixed.reshape(batch, tokens, width))
        inner = jax.nn.gelu(affine(block["fc"], normalised(block["norm2"], x)), approximate=True)
        x = x + affine(block["out"], inner)
    return affine(parameters["head"], normalised(parameters["norm"], x)).reshape(batch * tokens, sizes.classes)


def mlp_logits(parameters, x):
    for weight, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = parameters[-1]
    return x @ weight + bias


def run(name, dtype, devices):
    if name in TRANSFORMERS:
        sizes = TRANSFORMERS[name]
        parameters, logits = transformer(sizes), partial(transformer_logits, sizes)
    else:
        sizes = MLPS[name][0]
        parameters, logits = [tuple(map(jnp.asarray, linear(k, sizes[k], sizes[k + 1]))) for k in range(3)], mlp_logits
    parameters = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
    optimizer = optax.adam(LEARNING_RATE)
    state = optimizer.init(parameters)
    batches = [(jnp.asarray(x, dtype), jnp.asarray(y)) for x, y in measure.batches(name)]

    def loss(parameters, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(logits(parameters, x), y).mean()

    def step(parameters, state, x, y):
        value, gradient = jax.value_and_grad(loss)(parameters, x, y)
        if devices > 1:
            value, gradient = jax.lax.pmean((value, gradient), "data")
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    if devices > 1:
        mesh = jax.make_mesh((devices,), ("data",))
        whole, part = P(), P("data")
        # The gradient of one part is the gradient of the loss of this part, as in `spmd`, without an implicit sum.
        step = jax.shard_map(
            step, mesh=mesh, in_specs=(whole, whole, part, part), out_specs=whole, check_vma=False
        )
        parameters, state = jax.device_put((parameters, state), NamedSharding(mesh, whole))
        batches = jax.device_put(batches, NamedSharding(mesh, part))
    step = jax.jit(step, donate_argnums=(0, 1))

    count = 0

    def advance():
        nonlocal parameters, state, count
        parameters, state, value = step(parameters, state, *batches[count % 4])
        count += 1
        return value

    measure_steps("C", name, "jax", advance, float)
    device = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in device:
        peak = device["peak_bytes_in_use"] / 2**20
        report("C", name, "device_peak_mb", "jax", "MB", peak)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    dtype = jnp.bfloat16 if "--bf16" in arguments else jnp.float32
    devices = 1
    if "--devices" in arguments:
        at = arguments.index("--devices")
        devices = int(arguments[at + 1])
        del arguments[at : at + 2]
        if jax.default_backend() == "cpu":
            backend.clear_backends()
            jax.config.update("jax_num_cpu_devices", devices)
    for case in [it for it in arguments if not it.startswith("--")] or ["C1", "C2", "C3", "C4"]:
        run(case, dtype, devices)
