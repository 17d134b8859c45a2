"""What is compared: the sections, their workloads, and the programs that run them.

A section has a group of programs for each part of it: ours first, then those of the peers. `rounds` runs each program in turn.
"""

from typing import NamedTuple


class Program(NamedTuple):
    """A program of one framework, with its arguments.

    `kind` says how it is found: `bench` and `example` are targets of this package, `python` and `torch` are files in `benches/` for
    one of the two environments, and `rust` is a package in `benches/peers`, and `modules` is a
    package with so many derived modules, which `builds` writes. An argument `$(tools/fetch NAME)` is the path that this command prints.
    """

    kind: str
    name: str
    arguments: tuple = ()

    def shown(self):
        """Returns the command with which a reader runs the program alone."""
        arguments = " ".join(self.arguments)
        features = " --features models" if self.name in ("language", "minilm", "resnet") else ""
        commands = {
            "bench": f"cargo bench --bench {self.name}{features}" + (" --" if arguments else ""),
            "example": f"cargo run --release --example {self.name}" + (" --" if arguments else ""),
            "python": f"python benches/{self.name}.py",
            "torch": f"python benches/{self.name}.py",
            "modules": f"a package with {self.name} derived modules",
            "rust": f"cargo run --release --manifest-path benches/peers/Cargo.toml -p {self.name}" + (" --" if arguments else ""),
        }
        return f"{commands[self.kind]} {arguments}".strip()


class Section(NamedTuple):
    """Workloads that are measured together and make one file of benches/results."""

    name: str
    title: str
    note: str
    # The groups of programs. The programs of a group run in turn, and each of them runs in a process of its own.
    groups: list
    # The operations in the results, with their names and units there.
    operations: dict
    # The largest difference between a peer's value and ours, relative to ours, for operations whose values must agree.
    checks: dict
    # The pairs of a workload and a peer whose weights are other random numbers than ours, so their values are not compared.
    unchecked: tuple = ()
    # Whether one core is enough, because nothing in the section uses threads.
    one_core: bool = False
    # Whether the driver measures the whole process, whose last line is like `test accuracy: 0.9750`.
    whole_process: bool = False
    # Whether the driver measures the builds of the programs, and does not run them. Such a section runs only if it is named.
    builds: bool = False


LOSSES = {"loss_step1": 1e-4, "loss_step20": 2e-3}
TRAINING = {
    "us_per_step": "a step, µs",
    "processor_us_per_step": "processor time of a step, µs",
    "first_step_ms": "the first step, ms",
    "peak_mb": "peak memory, MB",
}


def bench(name, *arguments):
    return Program("bench", name, arguments)


def python(name, *arguments):
    return Program("python", name, arguments)


def torch(name, *arguments):
    return Program("torch", name, arguments)


def rust(name, *arguments):
    return Program("rust", name, arguments)


def training(case):
    """The programs of a training case."""
    of_jax = [python("jax_training", case)] + [python("nnx_training", peer, case) for peer in ("nnx", "nnx-split", "equinox")]
    of_torch = [torch("torch_training", peer, case) for peer in ("eager", "compile")]
    return [bench("training", case), *of_jax, *of_torch, rust("peer-burn", "train", case), rust("peer-candle", "train", case)]


def language(model, case, *dtype, modes=None, others=()):
    """The programs of a case of a language model. Ours writes the parameters that torch and candle read.

    torch compiles a model for a minute or more, so it compiles only those in f32, if `modes` says nothing else.
    """
    modes = modes or (("eager",) if dtype else ("eager", "compile"))
    arguments = ("--model", model, case, *dtype)
    ours = bench("language", *arguments, "--save", f"target/compare/{model}.safetensors")
    if "--int8" in dtype:
        return [ours]
    return [ours, python("jax_language", *arguments), *(torch("torch_language", mode, *arguments) for mode in modes), *others]


def gpt2():
    """The groups of GPT-2."""
    groups = [language("gpt2", case, *dtype) for case in ("token", "prompt") for dtype in ((), ("--bf16",))]
    training = [language("gpt2", "train", others=[rust("peer-burn", "gpt2-train")]), language("gpt2", "train", "--bf16")]
    return [language("gpt2", "create", modes=("eager",)), *groups, language("gpt2", "token", "--int8"), *training]


def llama():
    """The groups of Llama, whose prompt and training step torch does not compile, because they have 30 blocks."""
    groups = [
        language("llama", case, *dtype, modes=modes, others=[rust("peer-candle", "llama", case, *dtype)])
        for case, modes in (("token", None), ("prompt", ("eager",)))
        for dtype in ((), ("--bf16",))
    ]
    training = [language("llama", "train", *dtype, modes=("eager",)) for dtype in ((), ("--bf16",))]
    return [*groups, language("llama", "token", "--int8"), *training]


def minilm():
    """The groups of MiniLM with its published weights. The last group has the weights in the page cache."""
    folder = "$(tools/fetch minilm)"
    of_torch = lambda *dtype: [torch("torch_minilm", folder, mode, *dtype) for mode in ("eager", "compile")]
    of_rust = lambda case: [rust(peer, case, folder) for peer in ("peer-candle", "peer-burn")]
    return [
        [bench("minilm", folder), *of_torch(), *of_rust("minilm")],
        [bench("minilm", folder, "--bf16"), *of_torch("--bf16")],
        [bench("minilm", folder, "--cold"), torch("torch_minilm", folder, "eager", "--cold"), *of_rust("minilm-cold")],
    ]


def resnet(case):
    """The programs of a case of ResNet-18. Ours writes the parameters that torch reads."""
    of_torch = [torch("torch_resnet", mode, case) for mode in ("eager", "compile")]
    return [bench("resnet", case, "--save", "target/compare/resnet18.safetensors"), python("jax_resnet", case), *of_torch]


def models(case, operations=None, checks=LOSSES, title="", **options):
    """A section with one program of benches/models.rs and its counterpart in JAX."""
    groups = [[bench("models", case), python("jax_models", case)]]
    return Section(case, title, "", groups, operations or TRAINING, checks, **options)


def networks(case, *modes):
    """Returns the group of a network: torch in some modes reads the parameters that pytree has written."""
    return [bench("networks", case, "--save", "target/compare"), *(torch("torch_networks", mode, case, "target/compare") for mode in modes)]


SECTIONS = [
    Section(
        "A",
        "Tree operations",
        "The trees have 6 (A1), 148 (A2), 2,000 (A3) and 100,000 leaves (A4). *By hand* is a handwritten walk over the same structs.",
        [[bench("trees"), python("peer_trees"), python("equinox_trees"), rust("peer-burn", "trees")]],
        {
            operation: f"{operation}, ns a leaf"
            for operation in (
                "flatten to references",
                "flatten to handles",
                "unflatten",
                "flatten with path",
                "map identity",
                "map first of two trees",
                "partition by kind",
                "merge",
                "structure equality",
                "structure and its hash",
                "match a stored treedef",
                "graph: flatten to handles",
            )
        },
        {"leaves": 0.0},
        one_core=True,
    ),
    Section(
        "B",
        "Calls of a compiled function with a tree",
        "The trees are A1 to A3, with one number in each leaf. Each call waits for its result.",
        [[bench("calls", "B"), python("jax_calls", "B")]],
        {
            "scalar": "tree in, µs",
            "identity": "tree in and out, µs",
            "identity, tree moved in and out": "tree moved in and out, µs",
            "update": "every leaf + 1, µs",
        },
        {},
    ),
    Section(
        "C",
        "A training step",
        "C1, C2 and C3 are MLPs 64-128-128-10, 784-512-512-10 and 784-2048-2048-10 with batches of 64, 128 and 256 examples. C4 is a "
        "transformer with two blocks of width 256 and 8 × 64 tokens.",
        [training(case) for case in ("C1", "C2", "C3", "C4")],
        TRAINING,
        LOSSES,
    ),
    Section(
        "D",
        "Digits, from the start of the process to its end",
        "660 steps of case C1 on scanned digits, and the accuracy on 360 other digits.",
        [
            [
                Program("example", "digits", ("--workload-d", "--quiet")),
                python("nnx_digits"),
                torch("torch_digits"),
                rust("peer-burn", "digits"),
                rust("peer-candle", "digits"),
            ]
        ],
        {"seconds": "whole program, s"},
        {"accuracy": 0.006},
        whole_process=True,
    ),
    Section(
        "E",
        "Building a program that trains",
        "From nothing, with the sources fetched before, and again after a change of `main.rs`. The programs of burn and candle also have "
        "the transformer of C4.",
        [[Program("example", "digits"), rust("peer-burn"), rust("peer-candle")]],
        {
            "clean build, s": "from nothing, s",
            "clean build, processor s": "from nothing, processor time, s",
            "rebuild, s": "after a change, s",
            "rebuild, processor s": "after a change, processor time, s",
            "crates": "compiled packages",
        },
        {},
        builds=True,
    ),
    Section(
        "F",
        "Transformed functions",
        "Gradients of the loss of C1 for each of 64 examples, the Hessian of a function of three numbers, and a small MLP.",
        [[bench("calls", "F"), python("jax_calls", "F")]],
        {"us_per_call": "a call, µs"},
        {"sum of squares": 1e-4, "entry [0][0]": 1e-5, "entry [0]": 1e-5},
    ),
    Section(
        "G",
        "What the machine can do",
        "Products of f32 matrices, a copy of 256 MB, whose bytes count twice because they are read and written, and updates of Adam of "
        "2¹⁴ to 2²² parameters, each of which reads and writes 28 bytes.",
        [[bench("limits"), python("peer_products", "numpy"), python("peer_products", "jax"), torch("peer_products", "torch")]],
        {"product": "product, GFLOP/s", "copy": "copy, GB/s", "adam": "update of Adam, GB/s"},
        {},
    ),
    models("H1", title="A training step of `digits_cnn`"),
    models(
        "H2",
        title="A training step of `char_gpt`, and a letter that it writes with a cache",
        operations={**TRAINING, "us_per_letter": "a letter, µs"},
        checks={**LOSSES, "sum_of_largest_logits": 1e-4},
    ),
    models("H3", title="A training step of a GRU under `scan`"),
    models("H4", title="A step of meta-learning"),
    Section(
        "H5",
        "A depthwise convolution with its gradient",
        "64 channels of 8 images with 32 × 32 pixels, and kernels of 3 × 3.",
        [[bench("convolutions", "depthwise"), python("jax_convolutions", "depthwise")]],
        {"forward": "forward, µs", "gradient": "gradient, µs"},
        {"sum_of_gradients": 1e-3},
    ),
    models("H6", title="A training step that is not compiled"),
    Section(
        "H7",
        "The first call of a compiled function",
        "The number in a name is the number of equations: a chain of products and sines of 16 numbers.",
        [[bench("models", f"H7-{count}"), python("jax_models", f"H7-{count}")] for count in (100, 1000, 10000)],
        {"first_call_ms": "the first call, ms"},
        {"sum": 1e-3},
    ),
    Section(
        "I",
        "Growth",
        "What an element costs as a program grows: a leaf, an example, a parameter or an equation. A figure that stays the same means that the "
        "time grows with the size. The number in a name is the size: of leaves, of levels of a tree, of static fields of a module, of "
        "examples in a batch, of hidden units in a layer, or of equations in a compiled function.",
        [[bench("growth", case), python("jax_growth", case)] for case in ("leaves", "depth", "static", "batch", "width", "equations", "iterations")],
        {
            "flatten": "flatten, ns a leaf",
            "unflatten": "unflatten, ns a leaf",
            "map": "map, ns a leaf",
            "structure equality": "equality of structures, ns a leaf",
            "call": "call of a compiled function, ns a leaf",
            "step": "a training step, ns an example or a parameter",
            "first call": "first call, ns an equation",
            "later call": "a later call, ns an equation",
            "iteration": "an iteration of a loop, ns",
        },
        {},
    ),
    Section(
        "J",
        "Derived modules",
        "A program with 1 to 500 modules of three fields, each of which is mapped and flattened once. The processor time is that of the "
        "program's own code, after its dependencies were built. Lines are those of the source after all macros.",
        [[Program("modules", str(count)) for count in (1, 10, 100, 500)]],
        {
            "check, processor s": "cargo check, processor time, s",
            "build, processor s": "cargo build --release, processor time, s",
            "lines": "lines",
            "program, kB": "program, kB",
        },
        {},
        builds=True,
    ),
    Section(
        "K",
        "Published models",
        "GPT-2 with 124 million parameters, and Llama with the sizes of SmolLM2-135M: the creation of the model; a token with a cache of "
        "256 tokens; the last token of a prompt of 128 tokens; a training step with 2 × 128 tokens. With bf16, a training step keeps its "
        "parameters in f32, and torch uses `autocast`. With int8, the weights are quantized. MiniLM has its published weights "
        "(`tools/fetch minilm`), and embeds 32 sentences of 32 tokens; `minilm-cold` is the time from the start of the process to the "
        "first embedding of one sentence. ResNet-18 classifies 32 images of 32 × 32 pixels. burn trains a model with the sizes of GPT-2 "
        "and other random parameters, so its loss is not compared; candle's MiniLM returns NaN in bf16. Llama of torch is that of "
        "transformers, and Llama and MiniLM of candle are those of candle-transformers. The peak of the memory includes the creation or the "
        "loading of the model.",
        [*gpt2(), *llama(), *minilm(), resnet("forward"), resnet("train")],
        {
            "us_per_step": "a call, µs",
            "first_step_ms": "the first call, ms",
            "cold_start_ms": "from the start of the process, ms",
            "load_ms": "loading, ms",
            "peak_mb": "peak memory, MB",
        },
        {"result_step1": 2e-2, "loss_step1": 2e-2},
        unchecked=(("gpt2-train", "burn"),),
    ),
    Section(
        "L",
        "A training step of other networks",
        "A vision transformer with the exact GELU, a U-Net of 32 and 64 features, an LSTM language model of width 256, a decoder of "
        "width 512 over 1,024 tokens, and a network of twenty embeddings with batch normalisations. In the cases `rows`, a step reads "
        "81,920 rows of a table with a million rows of 32 numbers, or with ten million, and updates only these, as torch does with "
        "`sparse=True`.",
        [
            *(networks(case, "eager", "compile") for case in ("vit", "unet", "lstm", "decoder", "decoder_bf16", "table")),
            *(networks(case, "eager") for case in ("rows_sgd", "rows_adagrad", "rows_adam", "rows_sgd_10m")),
        ],
        TRAINING,
        LOSSES,
    ),
    Section(
        "R",
        "Models with shared nodes",
        "A model of 2,000 leaves: as a tree, with each layer at two places, and with a reference for each leaf.",
        [[bench("graphs"), python("nnx_graphs")]],
        {
            operation: f"{operation}, µs"
            for operation in ("split", "merge", "update", "jitted call, model in", "jitted call, model in and out")
        },
        {},
        one_core=True,
    ),
    Section(
        "V",
        "Convolutions and pooling",
        "Other convolutions than that of section H5.",
        [
            [bench("convolutions", case), python("jax_convolutions", case)]
            for case in ("conv3x3", "strided", "first_layer", "conv1x1", "conv1d", "max_pool", "average_pool")
        ],
        {"forward": "forward, µs", "gradient": "gradient, µs"},
        {"sum_of_gradients": 1e-3},
    ),
    Section(
        "W",
        "Loops with small bodies",
        "A round of `scan`, `while_loop` or `fori_loop` in a compiled function of 1,000 rounds, and with the gradient of the parameters: recurrent "
        "networks of 8 to 64, control, ODE solvers, filters, samplers, optimizers, tables and sorting. The number in a name is a width.",
        [[bench("loops"), python("jax_loops")]],
        {"forward": "a round, ns", "reverse": "a round with its gradient, ns"},
        {"result": 1e-3, "gradient": 1e-2},
        one_core=True,
    ),
]


def named(names):
    """Returns the sections with some names, in the order of `SECTIONS`. Raises ValueError for an unknown name."""
    known = [section.name for section in SECTIONS]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"expected sections among {', '.join(known)}, found {', '.join(unknown)}")
    return [section for section in SECTIONS if section.name in names]
