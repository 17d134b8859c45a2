"""The training steps of benches/training.rs in torch, on the same data.

Usage: python torch_training.py eager|compile C1|C2|C3|C4; needs the packages of benches/comparison/requirements-torch.txt. `compile`
needs a compiler for C++.
"""

import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

import measure
from measure import LEARNING_RATE, TRANSFORMERS


class Model(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case, self.layers = case, nn.ModuleDict()
        for name, (weight, bias) in measure.linears(case).items():
            layer = nn.Linear(*weight.shape)
            with torch.no_grad():
                # torch keeps the weight as [outputs, inputs].
                layer.weight.copy_(torch.from_numpy(weight.T.copy()))
                layer.bias.copy_(torch.from_numpy(bias))
            self.layers[name] = layer
        for name in measure.norms(case):
            self.layers[name] = nn.LayerNorm(TRANSFORMERS[case].width, eps=1e-5)
        if case in TRANSFORMERS:
            tokens = TRANSFORMERS[case].tokens
            self.register_buffer("hidden", ~torch.tril(torch.ones(tokens, tokens, dtype=torch.bool)))

    def forward(self, x):
        layers = self.layers
        if self.case not in TRANSFORMERS:
            return layers["2"](F.relu(layers["1"](F.relu(layers["0"](x)))))
        sizes = TRANSFORMERS[self.case]
        split = (sizes.batch, sizes.tokens, sizes.heads, sizes.width // sizes.heads)
        for b in range(sizes.blocks):
            qkv = layers[f"{b}_qkv"](layers[f"{b}_norm1"](x)).split(sizes.width, dim=-1)
            q, k, v = (part.reshape(split).transpose(1, 2) for part in qkv)
            scores = (q @ k.transpose(-1, -2) / split[-1] ** 0.5).masked_fill(self.hidden, -1e9)
            mixed = (scores.softmax(-1) @ v).transpose(1, 2)
            x = x + layers[f"{b}_proj"](mixed.reshape(sizes.batch, sizes.tokens, sizes.width))
            inner = F.gelu(layers[f"{b}_fc"](layers[f"{b}_norm2"](x)), approximate="tanh")
            x = x + layers[f"{b}_out"](inner)
        return layers["head"](layers["norm"](x)).reshape(sizes.batch * sizes.tokens, sizes.classes)


def main(mode, case):
    model = Model(case)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    forward = torch.compile(model) if mode == "compile" else model
    batches = [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in measure.batches(case)]
    count = 0

    def advance():
        nonlocal count
        x, y = batches[count % 4]
        count += 1
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    measure.measure_steps("C", case, "torch" if mode == "eager" else "torch.compile", advance, float)


if __name__ == "__main__":
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    # With an empty cache, the first step compiles.
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        main(*sys.argv[1:])
