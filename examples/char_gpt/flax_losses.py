"""flax_losses.txt: the losses of the first 100 training steps of the same GPT in Flax NNX.

    python examples/char_gpt/flax_losses.py

The weights begin with the same random numbers, because the layers draw their keys in the same order. The batches are
drawn from the same keys, too.
"""

import pathlib

import flax
import jax
import jax.numpy as jnp
import optax
from flax import nnx

HERE = pathlib.Path(__file__).resolve().parent
LENGTH, WIDTH, HEADS, BLOCKS, BATCH, RATE, STEPS = 64, 64, 4, 2, 16, 3e-3, 100


class Block(nnx.Module):
    def __init__(self, rngs):
        self.attention_norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.mlp_norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.hidden = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.output = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.attention_norm(x), is_causal=True)
        return x + self.output(nnx.gelu(self.hidden(self.mlp_norm(x))))


class Gpt(nnx.Module):
    def __init__(self, vocabulary, rngs):
        self.tokens = nnx.Embed(vocabulary, WIDTH, rngs=rngs)
        self.positions = nnx.Embed(LENGTH, WIDTH, embedding_init=nnx.initializers.normal(0.02), rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(BLOCKS)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)

    def __call__(self, tokens):
        x = self.tokens(tokens) + self.positions(jnp.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.tokens.attend(self.norm(x))


def main():
    text = (HERE.parent / "data" / "as_you_like_it.txt").read_text()
    letters = sorted(set(text))
    data = jnp.asarray([letters.index(letter) for letter in text], jnp.int32)
    model = Gpt(len(letters), nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(RATE), wrt=nnx.Param)

    @nnx.jit
    def train(model, optimizer, step):
        key = jax.random.fold_in(jax.random.key(1), step)
        starts = jax.random.randint(key, (BATCH, 1), 0, len(text) - LENGTH)
        batch = data[starts + jnp.arange(LENGTH + 1)]

        def loss(model):
            logits = model(batch[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

        value, gradient = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradient)
        return value

    losses = [float(train(model, optimizer, jnp.uint32(step))) for step in range(STEPS)]
    head = f"# jax {jax.__version__}, flax {flax.__version__}, optax {optax.__version__}\n"
    (HERE / "flax_losses.txt").write_text(head + "".join(f"{loss:.7f}\n" for loss in losses))
    print(losses[0], losses[-1])


if __name__ == "__main__":
    main()
