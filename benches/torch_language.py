"""The programs of benches/language.rs in torch, with its parameters, which it has written to target/compare/MODEL.safetensors.

Usage: python torch_language.py eager|compile [--model llama] [create token prompt train] [--bf16]; needs the packages of
benches/comparison/requirements-torch.txt. Prints the lines that `cargo bench --bench language` prints. Llama is that of transformers.

A model in bf16 is trained with its parameters and the moments of Adam in f32, and `torch.autocast`.
"""

import argparse
import pathlib

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file
from torch import nn

import measure

VOCABULARY, POSITIONS, WIDTH, HEADS, BLOCKS = 50257, 1024, 768, 12, 12
EACH = WIDTH // HEADS
LENGTH = 256
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "target" / "compare"


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

    def forward(self, tokens, caches=None, index=0, only_last=False):
        x = self.tokens(tokens) + self.positions.weight[index : index + tokens.shape[1]]
        for block, cache in zip(self.blocks, caches or (None,) * BLOCKS):
            x = block(x, cache, index)
        return F.linear(self.norm(x[:, -1:] if only_last else x), self.tokens.weight)

    @staticmethod
    def caches(dtype):
        return [[torch.zeros(1, HEADS, LENGTH, EACH, dtype=dtype) for _ in range(2)] for _ in range(BLOCKS)]


class Llama(nn.Module):
    """Llama of transformers, called like `Gpt2`."""

    def __init__(self):
        super().__init__()
        self.config = transformers.LlamaConfig(
            vocab_size=49152,
            hidden_size=576,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            intermediate_size=1536,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 1e5},
            tie_word_embeddings=True,
        )
        self.model = transformers.LlamaForCausalLM(self.config)

    def forward(self, tokens, caches=None, index=0, only_last=False):
        output = self.model(tokens, cache=caches, use_cache=caches is not None, logits_to_keep=int(only_last))
        return output.logits

    def caches(self, dtype):
        # A compiled function needs the same shapes at each call.
        if options.mode == "compile":
            return transformers.StaticCache(config=self.config, max_cache_len=LENGTH)
        return transformers.DynamicCache(config=self.config)


def loaded():
    """The model with the parameters of the file. That of Llama has the names of transformers."""
    found = load_file(FOLDER / f"{options.model}.safetensors")
    if options.model == "llama":
        model = Llama()
        missing, unexpected = model.model.load_state_dict(found, strict=False)
        assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
        return model
    with torch.device("meta"):
        model = Gpt2()

    def layer(path):
        # A weight of pytree is the transpose of one of torch. The weights of attention have an axis of heads, whose product with the axis beside it is the width.
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
    measure.measure_calls(name, f"torch-{options.mode}", most, advance, lambda number: number)


def create(name, dtype):
    assert options.model == "gpt2", "transformers draws other numbers"
    measured(name, 10**9, lambda: Gpt2().norm.bias[0].item())


def compiled(model):
    return torch.compile(model) if options.mode == "compile" else model


def token(name, dtype):
    model = loaded().to(dtype).eval()
    caches, model = model.caches(dtype), compiled(model)
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
    measured(name, 10**9, torch.inference_mode()(lambda: model(tokens, only_last=True).max().item()))


def train(name, dtype):
    model, tokens = loaded(), torch.arange(256).view(2, 128)
    run, optimizer = compiled(model), torch.optim.Adam(model.parameters(), 1e-4, fused=True)

    def advance():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype != torch.float32):
            logits = run(tokens)
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens.view(-1) + 1)
        loss.backward()
        optimizer.step()
        return loss.item()

    measured(name, 10**9, advance)


CASES = {"create": create, "token": token, "prompt": prompt, "train": train}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["eager", "compile"])
    parser.add_argument("--model", choices=["gpt2", "llama"], default="gpt2")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--bf16", action="store_true")
    # The cases may follow the other options.
    options = parser.parse_intermixed_args()
    dtype, suffix = (torch.bfloat16, "-bf16") if options.bf16 else (torch.float32, "")
    for case in options.cases:
        CASES[case](f"{options.model}-{case}{suffix}", dtype)
