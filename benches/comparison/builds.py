"""Measures builds: from nothing, and again after a change of `main.rs`; and the code that the derive generates."""

import json
import os
import resource
import shutil
import subprocess
import time

from .programs import CACHE, HERE, ROOT, Unavailable, last_line

TARGET = CACHE / "clean"
# A package with derived modules, and its builds.
MODULES = CACHE / "modules"


def measure(program):
    """Builds a program, and returns the workload and the results. Raises Unavailable."""
    if program.kind == "modules":
        return f"{program.name} modules", modules(int(program.name))
    return "digits", program_builds(program)


def program_builds(program):
    """Builds a program from nothing and again, and returns the results. Raises Unavailable."""
    if program.kind == "example":
        command, source = ["--locked", "--example", program.name], ROOT / "examples" / program.name / "main.rs"
    else:
        folder = HERE / "peers" / program.name.removeprefix("peer-")
        command, source = ["--manifest-path", str(folder / "Cargo.toml")], folder / "src" / "main.rs"
    # The sources are fetched before, so that the network is not measured.
    _cargo(["fetch", *(command[:2] if program.kind == "rust" else [])])
    build = ["build", "--release", *command, "--target-dir", str(TARGET), "--message-format", "json"]
    shutil.rmtree(TARGET, ignore_errors=True)
    try:
        output, seconds, processor = _cargo(build)
        source.touch()
        _, seconds_again, processor_again = _cargo(build)
    finally:
        shutil.rmtree(TARGET, ignore_errors=True)
    return [
        ("clean build, s", "s", seconds),
        ("clean build, processor s", "s", processor),
        ("rebuild, s", "s", seconds_again),
        ("rebuild, processor s", "s", processor_again),
        ("crates", "", crates(output)),
    ]


MANIFEST = """\
[package]
name = "modules"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
pytree = {{ package = "pytree-rs", path = "{root}" }}
"""

MODULE = """\
pub mod m{number} {{
    use pytree::prelude::*;
    #[derive(Module, Clone, Debug)]
    pub struct Model {{
        #[param]
        pub weight: Tensor,
        #[param]
        pub bias: Option<Tensor>,
        #[r#static]
        pub heads: usize,
    }}
    pub fn halved(weight: &Tensor) -> usize {{
        let model = Model {{ weight: weight.clone(), bias: None, heads: {number} }};
        let halved = tree::map::<Tensor, Model>(&model, |leaf| leaf * 0.5);
        tree::flatten::<Tensor, Model>(&halved).0.len()
    }}
}}
"""


def modules(count):
    """Builds a program with some derived modules, each of which is mapped and flattened once, again after a change of its source. Returns
    the results."""
    (MODULES / "src").mkdir(parents=True, exist_ok=True)
    (MODULES / "Cargo.toml").write_text(MANIFEST.format(root=ROOT))
    shutil.copyfile(ROOT / "Cargo.lock", MODULES / "Cargo.lock")
    calls = "".join(f"    leaves += m{number}::halved(&weight);\n" for number in range(count))
    body = f"fn main() {{\n    let weight = pytree::Tensor::from([0.5_f32]);\n    let mut leaves = 0;\n{calls}    println!(\"{{leaves}}\");\n}}\n"
    source = MODULES / "src" / "main.rs"
    source.write_text("".join(MODULE.format(number=number) for number in range(count)) + body)
    options = ["--manifest-path", str(MODULES / "Cargo.toml"), "--target-dir", str(MODULES / "target")]
    # The dependencies are built before, so that only the modules are measured.
    _cargo(["build", "--release", *options])
    _cargo(["check", *options])
    source.touch()
    _, _, checked = _cargo(["check", *options])
    source.touch()
    _, _, built = _cargo(["build", "--release", *options])
    source.touch()
    expanded, _, _ = _cargo(["rustc", "--profile", "check", *options, "--", "-Zunpretty=expanded"], {"RUSTC_BOOTSTRAP": "1"})
    return [
        ("check, processor s", "s", checked),
        ("build, processor s", "s", built),
        ("lines", "", len(expanded.splitlines())),
        ("program, kB", "kB", (MODULES / "target" / "release" / "modules").stat().st_size / 1000),
    ]


def crates(output):
    """Returns the number of packages that were compiled, from the messages of cargo."""
    messages = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return len({it["package_id"] for it in messages if it.get("reason") == "compiler-artifact"})


def _cargo(arguments, environment=()):
    """Runs cargo. Returns its output, and the elapsed and the processor time in seconds."""
    before, start = _processor(), time.perf_counter()
    process = subprocess.run(["cargo", *arguments], cwd=ROOT, env=os.environ | dict(environment), capture_output=True, text=True)
    if process.returncode != 0:
        raise Unavailable(last_line(process.stderr))
    return process.stdout, time.perf_counter() - start, _processor() - before


def _processor():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
