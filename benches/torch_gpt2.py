"""The programs of benches/gpt2.rs in torch, with its parameters, which it has written to target/compare/gpt2.safetensors.

Usage: python torch_gpt2.py eager|compile [create token prompt train] [--bf16]; needs the packages of
benches/comparison/requirements-torch.txt. Prints the lines that `cargo bench --bench gpt2` prints.

A model in bf16 is trained with its parameters and the moments of Adam in f32, and `torch.autocast`.
"""

import argparse
import pathlib
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

import measure

VOCABULARY, POSITIONS, WIDTH, HEADS, BLOCKS = 50257, 1024, 768, 12, 12
EACH = WIDTH // HEADS
LENGTH = 256
FILE = pathlib.Path(__file__).resolve().parent.parent / "target" / "compare" / "gpt2.safetensors"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = (nn.LayerNorm(WIDTH, eps=1e-6) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.hidden, self.output = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache, index):
        batch, tokens, _ = x.shape
        y = self.attention_norm(x)
        query, key, value = (layer(y).view(batch, tokens, HEADS, EACH).transpose(1, 2) for layer in (self.query, self.key, self.value))
        if cache is not None:
            for old, new in zip(cache, (key, value)):
                old[:, :, index : index + tokens] = new
            key, value = (old[:, :, : index + tokens] for old in cache)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=tokens > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.output(F.gelu(self.hidden(self.mlp_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)

    def forward(self, tokens, caches=(None,) * BLOCKS, index=0):
        x = self.tokens(tokens) + self.positions.weight[index : index + tokens.shape[1]]
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache, index)
        return F.linear(self.norm(x), self.tokens.weight)


def loaded():
    """The model with the parameters of the file: a weight of pytree is the transpose of one of torch."""
    with torch.device("meta"):
        model = Gpt2()
    found = load_file(FILE)

    def layer(path):
        # The weights of attention have an axis of heads, whose product with the axis beside it is the width.
        bias = found[f"{path}.bias"].reshape(-1)
        return {"weight": found[f"{path}.weight"].reshape(-1, len(bias)).T.contiguous(), "bias": bias}

    def norm(path):
        return {"weight": found[f"{path}.scale"], "bias": found[f"{path}.bias"]}

    parts = {name: {"weight": found[f"{name}.embedding"]} for name in ("tokens", "positions")} | {"norm": norm("norm")}
    for i in range(BLOCKS):
        parts |= {f"blocks.{i}.{name}": norm(f"blocks[{i}].{name}") for name in ("attention_norm", "mlp_norm")}
        parts |= {f"blocks.{i}.{name}": layer(f"blocks[{i}].attention.{name}") for name in ("query", "key", "value", "out")}
        parts |= {f"blocks.{i}.{name}": layer(f"blocks[{i}].mlp.layers[{j}]") for j, name in enumerate(("hidden", "output"))}
    state = {f"{path}.{name}": tensor for path, part in parts.items() for name, tensor in part.items()}
    model.load_state_dict(state, assign=True)
    return model


def measured(name, most, advance):
    """Measures at most so many calls, each of which returns a number."""

    def report(operation, unit, median, least=None):
        measure.report("K", name, operation, f"torch-{options.mode}", unit, median, least)

    start = time.perf_counter()
    report("result_step1", "", advance())
    report("first_step_ms", "ms", (time.perf_counter() - start) * 1e3)
    advance()
    start = time.perf_counter()
    report("result_step5", "", [advance() for _ in range(3)][-1])
    count = measure.samples(10)
    inner = max(1, min(int(0.1 / ((time.perf_counter() - start) / 3)), (most - 5) // count))
    times = []
    for _ in range(count):
        start = time.perf_counter()
        for _ in range(inner):
            advance()
        times.append((time.perf_counter() - start) * 1e6 / inner)
    report("us_per_step", "us", sorted(times)[count // 2], min(times))


def create(name, dtype):
    measured(name, 10**9, lambda: Gpt2().norm.bias[0].item())


def compiled(model):
    return torch.compile(model) if options.mode == "compile" else model


def token(name, dtype):
    model = compiled(loaded().to(dtype).eval())
    caches = [[torch.zeros(1, HEADS, LENGTH, EACH, dtype=dtype) for _ in range(2)] for _ in range(BLOCKS)]
    state = {"token": torch.zeros(1, 1, dtype=torch.int64), "index": 0}

    @torch.inference_mode()
    def advance():
        logits = model(state["token"], caches, state["index"])[:, -1]
        state["token"], state["index"] = logits.argmax(-1, keepdim=True), state["index"] + 1
        state["token"].item()
        return logits.max().item()

    measured(name, LENGTH, advance)


def prompt(name, dtype):
    model, tokens = compiled(loaded().to(dtype).eval()), torch.arange(128).view(1, 128)
    measured(name, 10**9, torch.inference_mode()(lambda: model(tokens)[:, -1].max().item()))


def train(name, dtype):
    model, tokens = loaded(), torch.arange(256).view(2, 128)
    run, optimizer = compiled(model), torch.optim.Adam(model.parameters(), 1e-4, fused=True)

    def advance():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype != torch.float32):
            logits = run(tokens)
        loss = F.cross_entropy(logits.float().view(-1, VOCABULARY), tokens.view(-1) + 1)
        loss.backward()
        optimizer.step()
        return loss.item()

    measured(name, 10**9, advance)


CASES = {"create": create, "token": token, "prompt": prompt, "train": train}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["eager", "compile"])
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    dtype, suffix = (torch.bfloat16, "-bf16") if options.bf16 else (torch.float32, "")
    for case in options.cases:
        CASES[case](case + suffix, dtype)
