"""Converts exported programs between pytree, JAX and other tools of StableHLO, and runs them in JAX.

A program of pytree is a text of MLIR behind two lines of comments; `docs/reference/formats.md` specifies them.

Example in Python, with the folder `tools` on the path:

    from export_convert import load
    forward = load("model.mlir")
    print(forward.inputs)           # names, dtypes and shapes
    results = forward(weight, x)    # one array for each input; returns a list of arrays
"""

import argparse
import importlib
import json
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

FORMAT = "// pytree-export "
VERSION = 1
# The version of StableHLO in which programs are written: later versions read them, too.
STABLEHLO = "1.9.0"
DTYPES = {
    "i1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "ui8": "u8", "ui16": "u16", "ui32": "u32",
    "bf16": "bf16", "f16": "f16", "f32": "f32", "f64": "f64",
}
NUMPY = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
}


class Refused(Exception):
    """A file that cannot be converted."""


def read(path):
    """Returns the signature and the text of a program of pytree."""
    text = pathlib.Path(path).read_text()
    first, second, module = (text.split("\n", 2) + ["", ""])[:3]
    number = first.removeprefix(FORMAT)
    if number == first or not number.isdigit():
        raise Refused(f"{path}: line 1: expected `{FORMAT}{VERSION}`, found `{first[:60]}`; give a file of `export::save`")
    if int(number) > VERSION:
        raise Refused(f"{path}: line 1: expected a format up to version {VERSION}, found version {number}")
    try:
        return json.loads(second.removeprefix("// ")), module
    except json.JSONDecodeError as error:
        raise Refused(f"{path}: line 2: expected `// ` and a JSON object: {error}") from error


def write(path, version, inputs, outputs, module):
    """Writes a program of pytree."""
    signature = {"inputs": inputs, "outputs": outputs, "stablehlo": version}
    line = json.dumps(signature, separators=(",", ":"), ensure_ascii=False)
    pathlib.Path(path).write_text(f"{FORMAT}{VERSION}\n// {line}\n{module.rstrip()}\n")


def array_of(name, mlir_type, path):
    """Describes an argument or result of `main`."""
    kind = ir.RankedTensorType(mlir_type)
    dtype = str(kind.element_type)
    if dtype not in DTYPES:
        known = ", ".join(DTYPES)
        raise Refused(f"{path}: {name}: expected one of the dtypes {known}, found {dtype}; convert it in the function")
    if not kind.has_static_shape:
        raise Refused(f"{path}: {name}: expected a shape of known lengths, found {mlir_type}; export without symbolic shapes")
    return {"name": name, "dtype": DTYPES[dtype], "shape": list(kind.shape)}


def main_of(module, path):
    for operation in module.body.operations:
        if operation.operation.name == "func.func" and operation.attributes["sym_name"].value == "main":
            return operation
    raise Refused(f"{path}: expected a module with the function `main`, found none")


def without_jax(function):
    """Removes the attributes of a function's arguments and results that only JAX reads."""
    for key in ("arg_attrs", "res_attrs"):
        if key in function.attributes:
            kept = [
                ir.DictAttr.get({named.name: named.attr for named in one if not named.name.startswith(("jax.", "mhlo.", "sdy."))})
                for one in ir.ArrayAttr(function.attributes[key])
            ]
            function.attributes[key] = ir.ArrayAttr.get(kept)


def portable(text, version):
    """Returns the portable artifact of a module for a version of StableHLO and later ones."""
    try:
        return stablehlo.serialize_portable_artifact_str(text, version)
    except Exception as error:
        newest = stablehlo.get_current_version()
        fix = f"use operations of `stablehlo` alone, or give a later version up to {newest} by `--version`"
        raise Refused(f"cannot write the module for StableHLO {version}: {error}; {fix}") from error


def text_of(artifact, path, names=None):
    """Returns the text of a portable artifact, and its inputs and outputs."""
    with mlir.make_ir_context():
        text = stablehlo.deserialize_portable_artifact_str(artifact)
        module = ir.Module.parse(text)
        kind = main_of(module, path).type
        inputs, outputs = names or ([f"[{i}]" for i in range(len(kind.inputs))], [f"[{i}]" for i in range(len(kind.results))])
        inputs = [array_of(name, of, path) for name, of in zip(inputs, kind.inputs, strict=True)]
        outputs = [array_of(name, of, path) for name, of in zip(outputs, kind.results, strict=True)]
        return str(module), inputs, outputs


def key_paths(tree):
    """Returns the key paths of the leaves of a structure of JAX, in the notation of pytree."""
    # None would be an empty tree, so the leaves are numbers.
    leaves, _ = jax.tree_util.tree_flatten_with_path(jax.tree_util.tree_unflatten(tree, range(tree.num_leaves)))
    return [jax.tree_util.keystr(path).lstrip(".") or "value" for path, _ in leaves]


def argument_names(tree):
    """Returns the names of the arguments of a function. One positional argument is the whole argument, as in pytree."""
    names = key_paths(tree)
    positional, keywords = tree.children()
    if keywords.num_leaves:
        return names
    names = [name.removeprefix("[0]") for name in names]
    if positional.num_nodes and len(positional.children()) == 1:
        names = [name.removeprefix("[0]").lstrip(".") or "value" for name in names]
    return names


def from_jax(source, target, version=STABLEHLO):
    """Converts a file with the bytes of `jax.export.export(jax.jit(f))(*arguments).serialize()`."""
    try:
        importlib.import_module("flatbuffers")
    except ImportError as error:
        fix = f"run `{sys.executable} -m pip install flatbuffers`"
        raise Refused(f"{source}: JAX reads files of `jax.export` with the package flatbuffers, which is not installed; {fix}") from error
    exported = jax.export.deserialize(bytearray(pathlib.Path(source).read_bytes()))
    if exported.nr_devices != 1:
        raise Refused(f"{source}: expected a program of one device, found one of {exported.nr_devices}")
    kept = exported.module_kept_var_idx
    names = argument_names(exported.in_tree)
    with mlir.make_ir_context():
        module = ir.Module.parse(exported.mlir_module())
        for operation in module.body.operations:
            if operation.operation.name == "func.func":
                without_jax(operation)
        for name in list(module.operation.attributes):
            if name.startswith("jax."):
                del module.operation.attributes[name]
        text = str(module)
    # The arguments that the function does not use are no arguments of `main`.
    names = [names[i] for i in kept], key_paths(exported.out_tree)
    module, inputs, outputs = text_of(portable(text, version), source, names)
    write(target, version, inputs, outputs, module)


def to_portable(source, target, version=STABLEHLO):
    """Converts a program of pytree to a portable artifact of StableHLO. The names are lost."""
    _, module = read(source)
    pathlib.Path(target).write_bytes(portable(module, version))


def from_portable(source, target, version=STABLEHLO):
    """Converts a portable artifact of StableHLO to a program of pytree. The names are `[0]`, `[1]` and so on."""
    artifact = pathlib.Path(source).read_bytes()
    with mlir.make_ir_context():
        artifact = portable(stablehlo.deserialize_portable_artifact_str(artifact), version)
    module, inputs, outputs = text_of(artifact, source)
    write(target, version, inputs, outputs, module)


class Program:
    """A program of pytree that runs with the compiler of JAX."""

    def __init__(self, path):
        signature, text = read(path)
        self.inputs, self.outputs = signature["inputs"], signature["outputs"]
        self.device = jax.devices()[0]
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        devices = xla_client.DeviceList((self.device,))
        with mlir.make_ir_context():
            module = ir.Module.parse(text)
            self.program = compiler.backend_compile_and_load(self.device.client, module, devices, options, [])

    def __call__(self, *arrays):
        if len(arrays) != len(self.inputs):
            raise TypeError(f"expected {len(self.inputs)} arrays, found {len(arrays)}; pass one for each of `inputs`")
        given = []
        # Without this, JAX would make numbers of 64 bits narrower.
        with jax.enable_x64(True):
            for array, expected in zip(arrays, self.inputs):
                array = jax.numpy.asarray(array)
                dtype, shape = NUMPY[expected["dtype"]], tuple(expected["shape"])
                if array.dtype != dtype or array.shape != shape:
                    raise TypeError(f"{expected['name']}: expected {dtype}{shape}, found {array.dtype}{array.shape}")
                given.append(jax.device_put(array, self.device))
            results = self.program.execute_sharded(given).disassemble_into_single_device_arrays()
            return [result[0] for result in results]


def load(path):
    """Returns a program of pytree as a function of arrays, one for each input. It returns a list of arrays."""
    return Program(path)


def run(source, inputs, outputs):
    """Runs a program of pytree on the arrays of a file, by the names of its inputs, and writes the results by their names.
    The files are .npz, or .json with an object of nested lists."""
    program = load(source)
    given = json.loads(pathlib.Path(inputs).read_text()) if inputs.endswith(".json") else dict(numpy.load(inputs))
    missing = [one["name"] for one in program.inputs if one["name"] not in given]
    if missing:
        raise Refused(f"{inputs}: expected an array for each input, found none for {', '.join(missing)}")
    if inputs.endswith(".json"):
        given = {one["name"]: numpy.asarray(given[one["name"]], NUMPY[one["dtype"]]) for one in program.inputs}
    results = program(*[given[one["name"]] for one in program.inputs])
    results = {one["name"]: numpy.asarray(result) for one, result in zip(program.outputs, results)}
    if outputs.endswith(".json"):
        pathlib.Path(outputs).write_text(json.dumps({name: result.tolist() for name, result in results.items()}))
    else:
        numpy.savez(outputs, **results)


def main():
    parser = argparse.ArgumentParser(prog="export-convert", description="Converts and runs exported programs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for function in (from_jax, from_portable, to_portable):
        command = commands.add_parser(function.__name__.replace("_", "-"), help=function.__doc__)
        command.add_argument("source")
        command.add_argument("target")
        command.add_argument("--version", default=STABLEHLO, help=f"the version of StableHLO, {STABLEHLO} by default")
        command.set_defaults(function=function)
    command = commands.add_parser("run", help=run.__doc__)
    for name in ("source", "inputs", "outputs"):
        command.add_argument(name)
    command.set_defaults(function=run)
    options = vars(parser.parse_args())
    function = options.pop("function")
    try:
        function(**options)
    except (Refused, OSError, TypeError, ValueError) as error:
        sys.exit(f"export-convert: {error}")


if __name__ == "__main__":
    main()
