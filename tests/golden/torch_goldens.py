"""torch.json: cross entropies of PyTorch with their options, and their gradients; layers and their `state_dict`; tables whose
gradients are sparse.

    pip install -r requirements-torch.txt
    python torch_goldens.py

This script is not a part of make_goldens.py, because it needs PyTorch and not JAX. `reduction="none"` gives `losses`, and
`reduction="mean"` gives `mean` and the `gradient` of the mean. The figures come from the CPU.
"""

import json
import pathlib
import zlib

import numpy as np
import torch
from torch.nn.functional import cross_entropy

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20240607
DTYPES = {"float32": "f32", "float64": "f64", "int64": "i64"}


def array(value):
    """The JSON object of an array, or null for None."""
    if value is None:
        return None
    value = np.asarray(value.detach())
    data = [x if np.isfinite(x) else str(x) for x in value.ravel().tolist()]
    return {"dtype": DTYPES[value.dtype.name], "shape": list(value.shape), "data": data}


def generator(*labels):
    return np.random.default_rng([SEED, zlib.crc32(repr(labels).encode())])


def floats(rng, shape, dtype):
    """Numbers that both dtypes represent."""
    return torch.tensor((rng.integers(-384, 385, shape) / 64).astype(dtype))


def figures(logits, labels, **options):
    """The losses, their mean and its gradient. The classes are on the last axis, as in pytree."""

    def run(logits, reduction):
        # PyTorch has the classes on axis 1.
        given = labels.movedim(-1, 1) if labels.is_floating_point() else labels
        return cross_entropy(logits.movedim(-1, 1), given, reduction=reduction, **options)

    logits = logits.clone().requires_grad_()
    mean = run(logits, "mean")
    (gradient,) = torch.autograd.grad(mean, logits)
    return {
        "logits": array(logits),
        "labels": array(labels),
        "losses": array(run(logits, "none")),
        "mean": array(mean),
        "gradient": array(gradient),
    }


def hard_cases():
    cases = []
    for dtype in ("float32", "float64"):
        for shape in ((5, 3), (2, 3, 4)):
            for smoothing in (0.0, 0.125, 1.0):
                for weighted in (False, True):
                    for ignored in (None, -100, 1):
                        rng = generator("hard", dtype, shape)
                        logits = floats(rng, shape, dtype)
                        labels = torch.tensor(rng.integers(0, shape[-1], shape[:-1]))
                        if ignored is not None:
                            labels.view(-1)[3] = ignored
                        weights = torch.tensor((rng.integers(8, 257, shape[-1]) / 64).astype(dtype)) if weighted else None
                        # PyTorch ignores -100 by default. No label is -101.
                        options = {"weight": weights, "label_smoothing": smoothing}
                        options["ignore_index"] = -101 if ignored is None else ignored
                        cases.append(
                            {
                                "smoothing": smoothing,
                                "class_weights": array(weights),
                                "ignored": ignored,
                                **figures(logits, labels, **options),
                            }
                        )
    return cases


def all_ignored():
    """Without an example, the mean is NaN."""
    logits = torch.tensor([[0.5, -1.5], [2.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([-100, -100])
    return {"ignored": -100, "smoothing": 0.125, "class_weights": None, **figures(logits, labels, label_smoothing=0.125)}


def soft_cases():
    cases = []
    for dtype in ("float32", "float64"):
        for smoothing in (0.0, 0.125):
            rng = generator("soft", dtype)
            logits = floats(rng, (4, 3), dtype)
            labels = rng.integers(1, 9, (4, 3))
            labels[:, 2] = 0
            labels = torch.tensor((labels / labels.sum(-1, keepdims=True)).astype(dtype))
            cases.append({"smoothing": smoothing, **figures(logits, labels, label_smoothing=smoothing)})
    return cases


def layers():
    """Layers, with all their tensors, an input and the output. The output of recurrent layers is a sequence."""
    made = {
        "lstm": (torch.nn.LSTM(3, 4), (5, 2, 3)),
        "rnn": (torch.nn.RNN(3, 4), (5, 2, 3)),
        "prelu": (torch.nn.PReLU(), (2, 3)),
    }
    cases = []
    for name, (layer, shape) in made.items():
        rng = generator("layer", name)
        state = {key: floats(rng, value.shape, "float32") / 4 for key, value in layer.state_dict().items()}
        layer.load_state_dict(state)
        x = floats(rng, shape, "float32")
        y = layer(x)
        y = y[0] if isinstance(y, tuple) else y
        state = {key: array(value) for key, value in state.items()}
        cases.append({"name": name, "state": state, "x": array(x), "y": array(y)})
    return cases


def tables():
    """A table after each step of an optimizer of sparse gradients. A step reads the rows `ids`, and `cotangents` are their gradients."""
    makers = {
        "sgd": lambda table: torch.optim.SGD([table], lr=0.1),
        "adagrad": lambda table: torch.optim.Adagrad([table], lr=0.1, initial_accumulator_value=0.1, eps=0),
        "adam": lambda table: torch.optim.SparseAdam([table], lr=0.1, eps=1e-16),
    }
    cases = []
    for name, maker in makers.items():
        rng = generator("table", name)
        layer = torch.nn.Embedding(6, 3, sparse=True, dtype=torch.float64)
        layer.load_state_dict({"weight": floats(rng, (6, 3), "float64")})
        optimizer = maker(layer.weight)
        case = {"name": name, "table": array(layer.weight), "ids": [], "cotangents": [], "after": []}
        for rows in ([1, 4, 1], [0, 1], [5, 4, 4, 4], [0, 3]):
            ids, cotangents = torch.tensor(rows), floats(rng, (len(rows), 3), "float64")
            optimizer.zero_grad()
            (layer(ids) * cotangents).sum().backward()
            optimizer.step()
            case["ids"].append(array(ids))
            case["cotangents"].append(array(cotangents))
            case["after"].append(array(layer.weight))
        cases.append(case)
    return cases


def write(name, body):
    """Writes one file, with a line for each case."""
    compact = lambda value: json.dumps(value, separators=(",", ":"), allow_nan=False)
    versions = {"torch": torch.__version__.split("+")[0], "numpy": np.__version__}
    members = ['"versions":' + compact(versions)]
    for key, cases in body.items():
        members.append(json.dumps(key) + ":[\n" + ",\n".join(compact(case) for case in cases) + "\n]")
    path = HERE / f"{name}.json"
    path.write_text("{\n" + ",\n".join(members) + "\n}\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    write("torch", {"cross_entropy": [*hard_cases(), all_ignored()], "soft_cross_entropy": soft_cases(), "layers": layers(), "tables": tables()})
