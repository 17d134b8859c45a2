"""Writes `exported.mlir`, a function that `jax.export` has exported and `tools/export-convert` has converted, and
`exported.json`, arguments and results of the function in JAX.

    pip install jax==0.12.0.1 flatbuffers
    python pytree-pjrt/tests/golden/exported.py
"""

import json
import pathlib
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "tools"))
from export_convert import from_jax


def forward(model, x):
    for layer in model["layers"][:-1]:
        x = jnp.tanh(x @ layer["weight"] + layer["bias"])
    layer = model["layers"][-1]
    return jax.nn.softmax(x @ layer["weight"] + layer["bias"]), jnp.sum(x)


random = numpy.random.default_rng(0)


def normal(*shape):
    return jnp.asarray(random.normal(size=shape), jnp.float32)


model = {"layers": [{"weight": normal(2, 3), "bias": normal(3)}, {"weight": normal(3, 2), "bias": normal(2)}]}
x = normal(4, 2)
exported = jax.export.export(jax.jit(forward))(model, x)
with tempfile.NamedTemporaryFile() as file:
    pathlib.Path(file.name).write_bytes(exported.serialize())
    from_jax(file.name, HERE / "exported.mlir")
flat = lambda tree: [numpy.asarray(leaf).ravel().tolist() for leaf in jax.tree.leaves(tree)]
numbers = {"inputs": flat((model, x)), "outputs": flat(forward(model, x))}
(HERE / "exported.json").write_text(json.dumps(numbers, indent=1) + "\n")
