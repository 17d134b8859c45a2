"""The training steps of benches/networks.rs in torch, with the parameters that it writes.

Usage: python torch_networks.py eager|compile CASE FOLDER; needs the packages of
benches/comparison/requirements-torch.txt. `compile` needs a compiler for C++.
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

import measure


class Attention(nn.Module):
    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = (layer(x).view(batch, tokens, self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(*parts, is_causal=self.is_causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads, is_causal=False):
        super().__init__()
        self.attention_norm, self.mlp_norm = (nn.LayerNorm(width, eps=1e-6) for _ in range(2))
        self.attention = Attention(width, heads, is_causal)
        self.mlp = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(width, 4 * width), nn.Linear(4 * width, width)])})

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        hidden, output = self.mlp["layers"]
        return x + output(F.gelu(hidden(self.mlp_norm(x)), approximate="tanh" if self.attention.is_causal else "none"))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.positions = nn.Conv2d(3, 192, 4, 4), nn.Embedding(64, 192)
        self.blocks = nn.Sequential(*(Block(192, 3) for _ in range(6)))
        self.norm, self.head = nn.LayerNorm(192, eps=1e-6), nn.Linear(192, 10)

    def forward(self, x):
        x = self.patches(x.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x + self.positions.weight)).mean(1))


def convolution(inputs, outputs, stride):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1), nn.GroupNorm(8, outputs, eps=1e-6), nn.ReLU())


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.down, self.middle = convolution(3, 32, 1), convolution(32, 64, 2), convolution(64, 64, 1)
        self.up, self.joined, self.last = nn.ConvTranspose2d(64, 32, 2, 2), convolution(64, 32, 1), nn.Conv2d(32, 3, 1)

    def forward(self, x):
        first = self.first(x.permute(0, 3, 1, 2))
        up = self.up(self.middle(self.down(first)))
        return self.last(self.joined(torch.cat([first, up], 1))).permute(0, 2, 3, 1)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.lstm, self.head = nn.Embedding(1000, 256), nn.LSTM(256, 256, batch_first=True), nn.Linear(256, 1000)

    def forward(self, x):
        return self.head(self.lstm(self.tokens(x))[0])


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(1000, 512), nn.Embedding(1024, 512)
        self.blocks = nn.Sequential(*(Block(512, 8, is_causal=True) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(512, eps=1e-6), nn.Linear(512, 1000)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.positions.weight)))


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.columns = nn.ModuleList(nn.Embedding(50, 8) for _ in range(20))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in (160, 256, 256))
        self.layers = nn.ModuleList(nn.Linear(*sizes) for sizes in ((160, 256), (256, 256), (256, 10)))

    def forward(self, x):
        x = torch.cat([column(x[:, place]) for place, column in enumerate(self.columns)], -1)
        for place, (norm, layer) in enumerate(zip(self.norms, self.layers)):
            x = layer(norm(x))
            x = F.relu(x) if place < 2 else x
        return x


def length_of(case):
    """Returns the number of rows of a table."""
    return 10_000_000 if case.endswith("10m") else 1_000_000


class Bags(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.rows = nn.Embedding(length, 32, sparse=True, _weight=torch.empty(length, 32))

    def forward(self, x):
        return self.rows(x).sum(1)


def batches(case):
    """Four batches, as `benches/networks.rs` has them."""
    for k in range(4):
        labels = lambda stream, shape, classes: measure.labels(stream, torch.Size(shape).numel(), classes).reshape(shape)
        if case == "vit":
            yield measure.uniform(10 + k, (32, 32, 32, 3), 1.0), labels(20 + k, [32], 10)
        elif case == "unet":
            yield tuple(measure.uniform(stream + k, (8, 64, 64, 3), 1.0) for stream in (10, 20))
        elif case == "lstm":
            text = labels(20 + k, [32, 65], 1000)
            yield text[:, :-1].copy(), text[:, 1:].copy()
        elif case.startswith("decoder"):
            text = labels(20 + k, [1, 1025], 1000)
            yield text[:, :-1].copy(), text[:, 1:].copy()
        elif case.startswith("rows"):
            yield labels(10 + k, [4096, 20], length_of(case)), measure.uniform(20 + k, (4096, 32), 1.0)
        else:
            yield labels(10 + k, [512, 20], 50), labels(20 + k, [512], 10)


def optimizer_of(case, parameters):
    if case.startswith("rows_sgd"):
        return torch.optim.SGD(parameters, lr=1.0)
    if case == "rows_adagrad":
        # The defaults of pytree, which are those of optax.
        return torch.optim.Adagrad(parameters, lr=0.1, initial_accumulator_value=0.1, eps=1e-7)
    if case == "rows_adam":
        return torch.optim.SparseAdam(parameters, lr=1e-3)
    return torch.optim.Adam(parameters, lr=1e-3, fused=True)


def main(mode, case, folder):
    networks = {"vit": Vit, "unet": Unet, "lstm": Language, "decoder": Decoder, "decoder_bf16": Decoder, "table": Table}
    model = networks[case]() if case in networks else Bags(length_of(case))
    missing, unexpected = model.load_state_dict(load_file(pathlib.Path(folder) / f"{case}.safetensors"), strict=False)
    assert not unexpected and all("num_batches" in name for name in missing), (missing, unexpected)
    if case == "lstm":
        model.lstm.bias_hh_l0.requires_grad_(False)  # pytree has one bias
    if case in ("vit", "unet"):
        model = model.to(memory_format=torch.channels_last)
    optimizer = optimizer_of(case, model.parameters())
    forward = torch.compile(model) if mode == "compile" else model
    data = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in batches(case)]
    count = 0

    def advance():
        nonlocal count
        x, y = data[count % 4]
        count += 1
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=case == "decoder_bf16"):
            result = forward(x)
        loss = F.mse_loss(result, y) if case == "unet" or case.startswith("rows") else F.cross_entropy(result.flatten(0, -2).float(), y.flatten().long())
        loss.backward()
        optimizer.step()
        return loss

    measure.measure_steps("L", case, f"torch-{mode}", advance, lambda loss: loss.item())


main(*sys.argv[1:])
