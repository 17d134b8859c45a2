"""Measures builds: from nothing, and again after a change of `main.rs`."""

import json
import resource
import shutil
import subprocess
import time

from .programs import CACHE, HERE, ROOT, Unavailable, last_line

TARGET = CACHE / "clean"


def measure(program):
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


def crates(output):
    """Returns the number of packages that were compiled, from the messages of cargo."""
    messages = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return len({it["package_id"] for it in messages if it.get("reason") == "compiler-artifact"})


def _cargo(arguments):
    """Runs cargo. Returns its output, and the elapsed and the processor time in seconds."""
    before, start = _processor(), time.perf_counter()
    process = subprocess.run(["cargo", *arguments], cwd=ROOT, capture_output=True, text=True)
    if process.returncode != 0:
        raise Unavailable(last_line(process.stderr))
    return process.stdout, time.perf_counter() - start, _processor() - before


def _processor():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
