"""pretrained.json: names, shapes and outputs of GPT-2 and ResNet-18, and outputs of layers of PyTorch.

    pip install -r requirements-torchvision.txt
    python pretrained_goldens.py

The values of all tensors follow a formula of their names and shapes, `value_of`, which the tests compute, too. So no file
with weights is needed. GPT-2 is `transformers.GPT2LMHeadModel`, with the published configuration for the names and
shapes and with a smaller one for the outputs. ResNet-18 is `torchvision.models.resnet18`, at its published size.
"""

import json
import pathlib
import zlib

import numpy as np
import safetensors.torch
import torch
import torchvision
import transformers

HERE = pathlib.Path(__file__).resolve().parent


def versions():
    # The builds of Debian, which were used, report versions of their own.
    builds = {"1.13.0a0": "1.13.1", "0.14.1a0": "0.14.1"}
    found = {"torch": torch, "torchvision": torchvision, "transformers": transformers, "safetensors": safetensors}
    return {name: builds.get(str(module.__version__), str(module.__version__)) for name, module in found.items()}


def hashed(count, seed):
    """Numbers in [-1, 1): the finalizer of MurmurHash3, of the positions and a seed."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(seed)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return x.astype(np.float64) / 2.0**31 - 1.0


def value_of(name, shape):
    numbers = hashed(int(np.prod(shape)), zlib.crc32(name.encode()))
    if name.endswith("running_var"):
        numbers = 1.0 + 0.5 * numbers
    elif len(shape) > 1:
        numbers = numbers * np.sqrt(3.0 * shape[0] / numbers.size)
    elif name.endswith(".weight"):
        numbers = 1.0 + 0.25 * numbers
    else:
        numbers = 0.25 * numbers
    return torch.tensor(numbers.reshape(shape), dtype=torch.float32)


def fill(model):
    state = model.state_dict()
    state = {name: value_of(name, tensor.shape) if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    model.load_state_dict(state)
    return model.eval()


def shapes(model):
    return {name: list(tensor.shape) for name, tensor in model.state_dict().items()}


def array(tensor):
    tensor = tensor.detach()
    return {"dtype": "f32", "shape": list(tensor.shape), "data": [float(number) for number in tensor.flatten()]}


def gpt2():
    config = {"vocab_size": 97, "n_positions": 24, "n_embd": 32, "n_layer": 3, "n_head": 4}
    transformer = fill(transformers.GPT2LMHeadModel(transformers.GPT2Config(**config)).transformer)
    tokens = [[(7 * place * place + 11 * row) % 97 for place in range(20)] for row in range(2)]
    hidden = transformer(torch.tensor(tokens)).last_hidden_state
    logits = hidden @ transformer.wte.weight.T
    published = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    return {"config": config, "tokens": tokens, "logits": array(logits), "published": shapes(published)}


def resnet18():
    model = fill(torchvision.models.resnet18())
    images = hashed(2 * 3 * 64 * 64, 1).reshape(2, 3, 64, 64)
    return {"logits": array(model(torch.tensor(images, dtype=torch.float32))), "published": shapes(model)}


def layers():
    found = {}
    made = {
        "linear": (torch.nn.Linear(5, 3), (2, 5)),
        "convolution": (torch.nn.Conv2d(4, 6, (3, 2), stride=2, groups=2), (2, 4, 9, 8)),
        "transposed": (torch.nn.ConvTranspose2d(4, 3, (4, 3), stride=2), (2, 4, 5, 6)),
        "norm": (torch.nn.GroupNorm(2, 4), (2, 4, 7)),
        "batch_norm": (torch.nn.BatchNorm1d(4), (2, 4, 7)),
    }
    for name, (layer, shape) in made.items():
        fill(layer)
        x = torch.tensor(hashed(int(np.prod(shape)), 2).reshape(shape), dtype=torch.float32)
        found[name] = {"shapes": shapes(layer), "x": array(x), "y": array(layer(x))}
    attention = fill(torch.nn.MultiheadAttention(6, 3, batch_first=True))
    x = torch.tensor(hashed(2 * 5 * 6, 3).reshape(2, 5, 6), dtype=torch.float32)
    y, _ = attention(x, x, x)
    found["attention"] = {"shapes": shapes(attention), "x": array(x), "y": array(y)}
    return found


def file():
    """A file as `safetensors.torch.save_file` writes it, in hexadecimal digits."""
    state = {"fc.weight": value_of("fc.weight", (3, 5)).to(torch.bfloat16), "fc.bias": value_of("fc.bias", (3,))}
    written = safetensors.torch.save(state, metadata={"format": "pt"})
    return {"bytes": written.hex(), "weight": array(state["fc.weight"].to(torch.float32)), "bias": array(state["fc.bias"])}


def main():
    torch.set_num_threads(1)
    goldens = {"versions": versions(), "gpt2": gpt2(), "resnet18": resnet18(), "layers": layers(), "file": file()}
    (HERE / "pretrained.json").write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
