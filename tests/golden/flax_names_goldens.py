"""flax_names.json: names and shapes of the variables of layers of Flax NNX, as a file of Flax has them.

    pip install -r requirements-0.12.txt
    python flax_names_goldens.py
"""

import json

from flax import nnx, traverse_util

from golden_cases import HERE, versions


class Net(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(3, 4, (2, 5), rngs=rngs)
        self.up = nnx.ConvTranspose(4, 2, (3,), rngs=rngs)
        self.bn = nnx.BatchNorm(4, rngs=rngs)
        self.norm = nnx.LayerNorm(4, rngs=rngs)
        self.table = nnx.Embed(6, 2, rngs=rngs)
        self.fc = nnx.Linear(2, 3, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(3, 6, decode=False, rngs=rngs)


def main():
    state = nnx.state(Net(nnx.Rngs(0)), nnx.Any(nnx.Param, nnx.BatchStat))
    names = traverse_util.flatten_dict(nnx.to_pure_dict(state), sep="/")
    shapes = {name: list(value.shape) for name, value in names.items()}
    (HERE / "flax_names.json").write_text(json.dumps({"versions": versions(), "shapes": shapes}) + "\n")


if __name__ == "__main__":
    main()
