"""`digits --workload-d` in Flax NNX, from the start of the process to the test accuracy: `python benches/nnx_digits.py`."""

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import measure


class Mlp(nnx.Module):
    def __init__(self):
        self.layers = nnx.List([])
        for weight, bias in measure.linears("C1").values():
            layer = nnx.Linear(*weight.shape, rngs=nnx.Rngs(0))
            layer.kernel[...], layer.bias[...] = jnp.asarray(weight), jnp.asarray(bias)
            self.layers.append(layer)

    def __call__(self, x):
        return self.layers[2](nnx.relu(self.layers[1](nnx.relu(self.layers[0](x)))))


@nnx.jit
def step(model, optimizer, x, y):
    loss = lambda model: optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()
    optimizer.update(model, nnx.grad(loss)(model))


images, digits, count = measure.digits()
model = Mlp()
optimizer = nnx.Optimizer(model, optax.adam(measure.LEARNING_RATE), wrt=nnx.Param)
for part in measure.digits_batches(count):
    step(model, optimizer, images[part], digits[part])
found = np.asarray(model(images[count:])).argmax(1)
print(f"test accuracy: {(found == digits[count:]).mean():.4f}")
