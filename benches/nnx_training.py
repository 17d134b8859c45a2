"""The training steps of benches/training.rs in Flax NNX and Equinox, with their layers, on the same data.

Usage: python nnx_training.py nnx|nnx-split|equinox C1|C2|C3|C4; needs the packages of benches/comparison/requirements.txt. `nnx` is
`nnx.jit` with a model and an `nnx.Optimizer`. `nnx-split` splits both once, and carries their state through `jax.jit`.
"""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import nnx

import measure
from measure import LEARNING_RATE, TRANSFORMERS


def forward(case, linear, norm, x):
    """Returns logits. `linear` and `norm` apply a layer by name."""
    if case not in TRANSFORMERS:
        return linear("2", jax.nn.relu(linear("1", jax.nn.relu(linear("0", x)))))
    sizes = TRANSFORMERS[case]
    split = (sizes.batch, sizes.tokens, sizes.heads, sizes.width // sizes.heads)
    seen = jnp.tril(jnp.ones((sizes.tokens, sizes.tokens), bool))
    for b in range(sizes.blocks):
        qkv = jnp.split(linear(f"{b}_qkv", norm(f"{b}_norm1", x)), 3, axis=-1)
        q, k, v = (part.reshape(split).transpose(0, 2, 1, 3) for part in qkv)
        scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / split[-1] ** 0.5, -1e9)
        mixed = (jax.nn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
        x = x + linear(f"{b}_proj", mixed.reshape(sizes.batch, sizes.tokens, sizes.width))
        inner = jax.nn.gelu(linear(f"{b}_fc", norm(f"{b}_norm2", x)), approximate=True)
        x = x + linear(f"{b}_out", inner)
    return linear("head", norm("norm", x)).reshape(sizes.batch * sizes.tokens, sizes.classes)


def cross_entropy(logits, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


class Model(nnx.Module):
    def __init__(self, case):
        self.case, rngs, layers = case, nnx.Rngs(0), {}
        for name, (weight, bias) in measure.linears(case).items():
            layers[name] = nnx.Linear(*weight.shape, rngs=rngs)
            layers[name].kernel[...], layers[name].bias[...] = jnp.asarray(weight), jnp.asarray(bias)
        for name in measure.norms(case):
            layers[name] = nnx.LayerNorm(TRANSFORMERS[case].width, epsilon=1e-5, rngs=rngs)
        self.layers = nnx.Dict({f"layer_{name}": layer for name, layer in layers.items()})

    def __call__(self, x):
        apply = lambda name, x: self.layers[f"layer_{name}"](x)
        return forward(self.case, apply, apply, x)


def step_of(model, optimizer, x, y):
    value, gradient = nnx.value_and_grad(lambda model: cross_entropy(model(x), y))(model)
    optimizer.update(model, gradient)
    return value


def of_nnx(case):
    model = Model(case)
    optimizer, step = nnx.Optimizer(model, optax.adam(LEARNING_RATE), wrt=nnx.Param), nnx.jit(step_of)
    return lambda x, y: step(model, optimizer, x, y)


def of_nnx_split(case):
    model = Model(case)
    graph, state = nnx.split((model, nnx.Optimizer(model, optax.adam(LEARNING_RATE), wrt=nnx.Param)))

    @jax.jit
    def step(state, x, y):
        model, optimizer = nnx.merge(graph, state)
        value = step_of(model, optimizer, x, y)
        return nnx.state((model, optimizer)), value

    def advance(x, y):
        nonlocal state
        state, value = step(state, x, y)
        return value

    return advance


class Modules(eqx.Module):
    case: str = eqx.field(static=True)
    layers: dict

    def __init__(self, case):
        self.case, self.layers = case, {}
        for name, (weight, bias) in measure.linears(case).items():
            layer = eqx.nn.Linear(*weight.shape, key=jax.random.key(0))
            # Equinox keeps the weight as [outputs, inputs].
            self.layers[name] = eqx.tree_at(lambda it: (it.weight, it.bias), layer, (jnp.asarray(weight.T), jnp.asarray(bias)))
        for name in measure.norms(case):
            self.layers[name] = eqx.nn.LayerNorm(TRANSFORMERS[case].width, eps=1e-5)

    def __call__(self, x):
        def apply(name, x):
            # The layers take one example without leading axes.
            function = self.layers[name]
            for _ in x.shape[1:]:
                function = jax.vmap(function)
            return function(x)

        return forward(self.case, apply, apply, x)


def of_equinox(case):
    model, optimizer = Modules(case), optax.adam(LEARNING_RATE)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state, x, y):
        value, gradient = eqx.filter_value_and_grad(lambda model: cross_entropy(model(x), y))(model)
        updates, state = optimizer.update(gradient, state, model)
        return eqx.apply_updates(model, updates), state, value

    def advance(x, y):
        nonlocal model, state
        model, state, value = step(model, state, x, y)
        return value

    return advance


PEERS = {"nnx": of_nnx, "nnx-split": of_nnx_split, "equinox": of_equinox}

if __name__ == "__main__":
    peer, case = sys.argv[1:]
    batches = [(jnp.asarray(x), jnp.asarray(y)) for x, y in measure.batches(case)]
    step, count = PEERS[peer](case), 0

    def advance():
        global count
        count += 1
        return step(*batches[(count - 1) % 4])

    measure.measure_steps("C", case, peer, advance, float)
