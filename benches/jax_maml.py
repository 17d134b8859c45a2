"""The example maml in JAX with Flax NNX and optax: `python benches/jax_maml.py [steps [interval]]`.

The network, the tasks and the batches are drawn from the same keys, so it prints the losses of `cargo run --release --example
maml`, and then the time of the steps.
"""

import sys
import time

import jax
import jax.numpy as jnp
import optax
from flax import nnx

TASKS, POINTS, RATE = 25, 10, 0.01


def tasks(key, count):
    amplitude, phase, first, second = (jax.random.fold_in(key, part) for part in range(4))
    amplitude = jax.random.uniform(amplitude, (count, 1, 1), minval=0.1, maxval=5.0)
    phase = jax.random.uniform(phase, (count, 1, 1), minval=0.0, maxval=jnp.pi)

    def wave(key):
        x = jax.random.uniform(key, (count, POINTS, 1), minval=-5.0, maxval=5.0)
        return x, amplitude * jnp.sin(x - phase)

    return wave(first), wave(second)


def main():
    steps, interval = (int(argument) for argument in (*sys.argv[1:], *("10000", "1000")[len(sys.argv) - 1 :]))
    rngs = nnx.Rngs(0)
    layers = [nnx.Linear(inputs, outputs, rngs=rngs) for inputs, outputs in ((1, 40), (40, 40), (40, 1))]
    params = [(layer.kernel[...], layer.bias[...]) for layer in layers]

    def loss(params, points):
        x, y = points
        for kernel, bias in params[:-1]:
            x = jax.nn.relu(x @ kernel + bias)
        kernel, bias = params[-1]
        return jnp.mean((x @ kernel + bias - y) ** 2)

    def losses(params, waves):
        def of_task(support, query):
            gradient = jax.grad(loss)(params, support)
            adapted = jax.tree.map(lambda leaf, slope: leaf - RATE * slope, params, gradient)
            return loss(params, query), loss(adapted, query)

        before, after = jax.vmap(of_task)(*waves)
        return before.mean(), after.mean()

    optimizer = optax.adam(1e-3)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, key):
        waves = tasks(key, TASKS)
        gradient = jax.grad(lambda params: losses(params, waves)[1])(params)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state

    unseen, test = tasks(jax.random.key(2), 500), jax.jit(losses)
    for number in range(steps + 1):
        if number % interval == 0:
            before, after = test(params, unseen)
            print(f"step {number:5}: loss {before:.3f} before adaptation, {after:.3f} after")
        if number == 1:
            jax.block_until_ready(params)
            start = time.perf_counter()
        params, state = step(params, state, jax.random.fold_in(jax.random.key(1), number))
    jax.block_until_ready(params)
    print(f"{(time.perf_counter() - start) / steps * 1e6:.0f} us for a step")


if __name__ == "__main__":
    main()
