"""The programs of benches/models.rs in JAX, Flax NNX and optax, on the same data and with parameters from the same keys.

Usage: python jax_models.py [H1 H2 H3 H4 H6 H7-1000]; needs the packages of benches/comparison/requirements.txt. Prints the lines that
`cargo bench --bench models` prints. A training step takes the state of an NNX model that was split once, and returns it: this
is the fastest way to train an NNX model.
"""

import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import measure
from jax_training import mlp_logits
from measure import LEARNING_RATE, labels, linear, uniform

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "char_gpt"))
import flax_losses as gpt

LETTERS = 64


def report(workload, operation, unit, median, least=None):
    measure.report("H", workload, operation, "jax", unit, median, least)


def steps(workload, advance):
    measure.measure_steps("H", workload, "jax", advance, float)


def cross_entropy(logits, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def train(workload, model, transformation, batches, loss):
    """Measures a compiled training step over four batches."""
    optimizer = nnx.Optimizer(model, transformation, wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    @jax.jit
    def step(state, x, y):
        model, optimizer = nnx.merge(graph, state)
        value, gradient = nnx.value_and_grad(lambda model: loss(model, x, y))(model)
        optimizer.update(model, gradient)
        return nnx.state((model, optimizer)), value

    count = 0

    def advance():
        nonlocal state, count
        state, value = step(state, *batches[count % 4])
        count += 1
        return value

    steps(workload, advance)


def images():
    """Four batches of images of 8 × 8 pixels."""
    return [(jnp.asarray(uniform(10 + k, (64, 8, 8, 1), 1.0)), jnp.asarray(labels(20 + k, 64, 10))) for k in range(4)]


def texts(batch, length, letters):
    """Four batches of texts, each with the letter after each letter."""
    whole = [jnp.asarray(labels(20 + k, batch * (length + 1), letters)).reshape(batch, length + 1) for k in range(4)]
    return [(text[:, :-1], text[:, 1:]) for text in whole]


def convolutional():
    """H1: the network of the example digits_cnn."""
    rngs = nnx.Rngs(0)

    def pool(x):
        return nnx.max_pool(x, (2, 2), strides=(2, 2))

    def convolution(inputs, outputs):
        return nnx.Conv(inputs, outputs, (3, 3), rngs=rngs), nnx.BatchNorm(outputs, rngs=rngs), nnx.relu

    model = nnx.Sequential(
        *convolution(1, 32),
        *convolution(32, 32),
        pool,
        *convolution(32, 64),
        pool,
        lambda x: x.reshape(x.shape[0], -1),
        nnx.Dropout(0.3, rngs=rngs),
        nnx.Linear(256, 10, rngs=rngs),
    )
    train("H1", model, optax.adamw(LEARNING_RATE, weight_decay=1e-2), images(), lambda model, x, y: cross_entropy(model(x), y))


def char_gpt():
    """H2: the model of the example char_gpt."""
    model = gpt.Gpt(LETTERS, nnx.Rngs(0))
    batches = texts(16, gpt.LENGTH, LETTERS)
    train("H2", nnx.clone(model), optax.adam(3e-3), batches, lambda model, x, y: cross_entropy(model(x), y))
    generate(model)


def generate(model):
    """Writes letters with a cache of keys and values: the most probable letter after each letter."""
    for block in model.blocks:
        block.attention.init_cache((1, gpt.LENGTH, gpt.WIDTH))
    graph, params, empty = nnx.split(model, nnx.Param, ...)

    @jax.jit
    def step(params, cache, token, position):
        model = nnx.merge(graph, params, cache)
        x = model.tokens(token) + model.positions(position)
        for block in model.blocks:
            x = x + block.attention(block.attention_norm(x), decode=True)
            x = x + block.output(nnx.gelu(block.hidden(block.mlp_norm(x))))
        logits = model.tokens.attend(model.norm(x))[:, -1]
        return nnx.split(model, nnx.Param, ...)[2], logits.argmax(-1).reshape(1, 1), logits.max()

    positions = [jnp.asarray([[place]]) for place in range(gpt.LENGTH)]

    def write():
        cache, token, total = empty, jnp.zeros((1, 1), jnp.int32), 0.0
        for position in positions:
            cache, token, logit = step(params, cache, token, position)
            total += float(logit)
        return total

    report("H2", "sum_of_largest_logits", "", write())
    times = []
    for _ in range(measure.samples(20)):
        start = time.perf_counter()
        write()
        times.append((time.perf_counter() - start) * 1e6 / gpt.LENGTH)
    report("H2", "us_per_letter", "us", sorted(times)[len(times) // 2], min(times))


class Writer(nnx.Module):
    """The network of the example gru."""

    def __init__(self, rngs):
        self.letters = nnx.Embed(128, 32, rngs=rngs)
        self.rnn = nnx.RNN(nnx.GRUCell(32, 128, rngs=rngs))
        self.output = nnx.Linear(128, 128, rngs=rngs)

    def __call__(self, text):
        return self.output(self.rnn(self.letters(text)))


def gru():
    """H3."""
    model = Writer(nnx.Rngs(0))
    train("H3", model, optax.adam(3e-3), texts(32, 64, 128), lambda model, x, y: cross_entropy(model(x), y))


def waves():
    """H4: inputs and targets of 25 sine waves, 10 points of each to adapt to and 10 to be good at afterwards."""
    batches = []
    for k in range(4):
        x = jnp.asarray(uniform(10 + k, (25, 20, 1), 5.0))
        amplitude, phase = 2.5 + uniform(20 + k, (25, 1, 1), 2.4), uniform(30 + k, (25, 1, 1), 1.5)
        batches.append((x, amplitude * jnp.sin(x - phase)))
    return batches


def compiled(workload, params, loss):
    """Measures a compiled step of Adam, with parameters that are tuples."""
    optimizer = optax.adam(LEARNING_RATE)
    state, batches, count = optimizer.init(params), waves(), 0

    @jax.jit
    def step(params, state, x, y):
        value, gradient = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    def advance():
        nonlocal params, state, count
        params, state, value = step(params, state, *batches[count % 4])
        count += 1
        return value

    steps(workload, advance)


def maml():
    """H4: the gradient of a loss after a step of gradient descent."""
    rngs = nnx.Rngs(0)
    layers = [nnx.Linear(inputs, outputs, rngs=rngs) for inputs, outputs in ((1, 40), (40, 40), (40, 1))]
    params = [(layer.kernel[...], layer.bias[...]) for layer in layers]

    def loss(params, x, y):
        return jnp.mean((mlp_logits(params, x) - y) ** 2)

    def of_wave(params, x, y):
        gradient = jax.grad(loss)(params, x[:10], y[:10])
        adapted = jax.tree.map(lambda leaf, slope: leaf - 0.01 * slope, params, gradient)
        return loss(adapted, x[10:], y[10:])

    compiled("H4", params, lambda params, x, y: jax.vmap(of_wave, (None, 0, 0))(params, x, y).mean())


def eager():
    """H6: the step of case C1, each operation of which runs as it is called."""
    sizes = (64, 128, 128, 10)
    params = [tuple(map(jnp.asarray, linear(k, sizes[k], sizes[k + 1]))) for k in range(3)]
    optimizer = optax.adam(LEARNING_RATE)
    state, count = optimizer.init(params), 0
    batches = [(jnp.asarray(uniform(10 + k, (64, 64), 1.0)), jnp.asarray(labels(20 + k, 64, 10))) for k in range(4)]

    def advance():
        nonlocal params, state, count
        x, y = batches[count % 4]
        value, gradient = jax.value_and_grad(lambda params: cross_entropy(mlp_logits(params, x), y))(params)
        updates, state = optimizer.update(gradient, state)
        params, count = optax.apply_updates(params, updates), count + 1
        return value

    steps("H6", advance)


def first_call(workload, equations):
    """H7: the first call traces and compiles a chain of products and sines."""

    @jax.jit
    def function(x):
        for _ in range(equations // 2):
            x = jnp.sin(x * 1.01)
        return x

    x = jnp.asarray(uniform(10, (16,), 1.0))
    # The first computation also starts JAX, which is not measured.
    jax.block_until_ready(x + 1)
    start = time.perf_counter()
    result = np.asarray(function(x))
    report(workload, "first_call_ms", "ms", (time.perf_counter() - start) * 1e3)
    report(workload, "sum", "", float(result.sum()))


CASES = {"H1": convolutional, "H2": char_gpt, "H3": gru, "H4": maml, "H6": eager}

if __name__ == "__main__":
    for case in sys.argv[1:] or [*CASES, "H7-100", "H7-1000", "H7-10000"]:
        if case.startswith("H7-"):
            first_call(case, int(case.removeprefix("H7-")))
        else:
            CASES[case]()
