"""Builds the programs, makes the Python environments, and finds the command of each program.

Everything is kept under target/compare. What cannot be built or fetched is left out, with its reason.
"""

import json
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / "target" / "compare"
HERE = ROOT / "benches"
# JAX 0.12 needs it.
OLDEST_PYTHON = (3, 12)


class Unavailable(Exception):
    """A program cannot be built or fetched."""


class Programs:
    """Finds commands, and builds what they need on first use."""

    def __init__(self, pythons=(), without=()):
        """`pythons` are existing environments, by kind, that replace those under target/compare. Kinds in `without` are left out."""
        self.pythons, self.without = dict(pythons), without
        self.found = {}
        self.missing = {}
        self.fetched = {}

    def check(self, kind):
        """Raises Unavailable if programs of a kind are left out."""
        if kind in self.without:
            raise Unavailable("left out by --without")

    def command(self, program):
        """Returns the command of a program. Raises Unavailable."""
        self.check(program.kind)
        key = (program.kind, program.name if program.kind in ("bench", "example", "rust") else "")
        if key in self.missing:
            raise Unavailable(self.missing[key])
        if key not in self.found:
            try:
                self.found[key] = self._find(program)
            except (Unavailable, subprocess.SubprocessError, OSError) as error:
                self.missing[key] = str(error)
                raise Unavailable(str(error)) from error
        base = self.found[key]
        if program.kind in ("python", "torch"):
            base = [*base, str(HERE / f"{program.name}.py")]
        return [*base, *map(self._argument, program.arguments)]

    def _argument(self, argument):
        """Returns an argument. For `$(tools/fetch NAME)`, fetches the file and returns its path, as a shell does."""
        if not argument.startswith("$("):
            return argument
        if argument not in self.fetched:
            say(f"running {argument[2:-1]}")
            self.fetched[argument] = run(argument[2:-1].split()).strip()
        return self.fetched[argument]

    def _find(self, program):
        match program.kind:
            case "bench" | "example":
                return [self._target(program.kind, program.name)]
            case "rust":
                return [self._peer(program.name)]
            case kind if kind in self.pythons:
                python = shutil.which(self.pythons[kind])
                if not python:
                    raise Unavailable(f"there is no program {self.pythons[kind]}")
                return [python]
            case kind:
                return [self._environment(kind)]

    def _target(self, kind, name):
        say(f"building the {kind} {name}")
        command = ["cargo", "bench", "--no-run", "--features", "models"] if kind == "bench" else ["cargo", "build", "--release"]
        return _executable([*command, "--locked", f"--{kind}", name], name)

    def _peer(self, name):
        say(f"building {name}, which takes minutes the first time")
        manifest = HERE / "peers" / "Cargo.toml"
        command = ["cargo", "build", "--release", "--manifest-path", str(manifest), "--target-dir", str(CACHE / "peers"), "-p", name]
        return _executable(command, name)

    def _environment(self, kind):
        requirements = HERE / "comparison" / ("requirements.txt" if kind == "python" else "requirements-torch.txt")
        environment = CACHE / f"environment-{kind}"
        python, installed = environment / "bin" / "python", environment / "requirements.txt"
        if installed.exists() and installed.read_text() == requirements.read_text():
            return str(python)
        say(f"installing {requirements.name} into {environment.relative_to(ROOT)}")
        shutil.rmtree(environment, ignore_errors=True)
        environment.parent.mkdir(parents=True, exist_ok=True)
        run([_new_python(), "-m", "venv", str(environment)])
        run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)])
        shutil.copyfile(requirements, installed)
        return str(python)


def commit():
    """Returns the commit of this repository, with a mark if files differ from it that this tool does not write."""
    git = ["git", "-C", str(ROOT)]
    written = [":!benches/results", ":!docs/reference/performance.md"]
    changed = _output([*git, "status", "--porcelain", "--untracked-files=no", "--", ".", *written])
    return _output([*git, "rev-parse", "--short=8", "HEAD"]) + ("-dirty" if changed else "")


def versions(programs):
    """Returns the names and versions of the compiler, and of the peers that were used."""
    lines = [_output(["rustc", "--version"])]
    for kind in ("python", "torch"):
        if (kind, "") in programs.found:
            script = "import importlib.metadata as m, platform\nprint('Python', platform.python_version(), end='')\n"
            script += f"for name in {PACKAGES[kind]!r}:\n    print(',', name, m.version(name), end='')"
            lines.append(_output([*programs.found[kind, ""], "-c", script]))
    lock = HERE / "peers" / "Cargo.toml"
    if any(kind == "rust" for kind, _ in programs.found):
        lines.append(", ".join(line.replace(' = { version = "=', " ").split('"')[0] for line in lock.read_text().splitlines() if '"=' in line))
    return [line for line in lines if line]


PACKAGES = {"python": ("jax", "jaxlib", "flax", "optax", "equinox", "optree", "numpy"), "torch": ("torch",)}


def say(text):
    print(f"compare: {text}", flush=True)


def run(command):
    """Runs a command that prepares something. Raises Unavailable with the last line of its errors."""
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        raise Unavailable(last_line(result.stderr) or f"{command[0]} ended with {result.returncode}")
    return result.stdout


def last_line(text):
    """Returns the last line of an error message that is not empty, without the path of this repository. Of a panic, returns the message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    panics = [number for number, line in enumerate(lines[:-1]) if " panicked at " in line]
    if panics:
        lines = lines[: panics[-1] + 2]
    return lines[-1].replace(str(ROOT), ".")[:200] if lines else ""


def _executable(command, name):
    """Builds a target and returns the path of its executable."""
    for line in run([*command, "--message-format", "json"]).splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message["target"]["name"] == name:
            return message["executable"]
    raise Unavailable(f"cargo built no executable {name}")


def _new_python():
    """Returns a Python that JAX supports."""
    candidates = [os.environ.get("PYTHON"), "python3.13", "python3.12", "python3.14", "python3"]
    candidates += sorted(map(str, pathlib.Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python")))
    check = f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    for candidate in filter(None, candidates):
        if shutil.which(candidate) and subprocess.run([candidate, "-c", check], capture_output=True).returncode == 0:
            return candidate
    raise Unavailable("expected Python 3.12 or later; set PYTHON to its path")


def _output(command):
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""
