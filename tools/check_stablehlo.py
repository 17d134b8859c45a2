"""Runs recorded programs in StableHLO with XLA and compares the results with the recorded results.

Each line of a file `*.jsonl` in the given folder is a program; `tests/stablehlo/record.rs` writes them. Each program is
parsed, serialised in the portable format (which has no place for dialects other than StableHLO's own), compiled and run
on the CPU.
"""

import gc
import json
import multiprocessing
import os
import pathlib
import sys
import time

# The greatest error relative to max(1, |result|).
TOLERANCES = {"f32": 1e-5, "f64": 1e-10}
# The errors of half-precision floats: one rounding step relative to |result|, because a result in f32 that differs a
# little may be rounded to the neighbour, and the error that is allowed for tiny results. This is the smallest f16. It is
# the smallest normal bf16, because XLA replaces smaller numbers in f32 by 0.
HALVES = {"bf16": (2**-7, 2**-126), "f16": (2**-10, 2**-24)}
# The greatest number of replicas of a program.
REPLICAS = 16
# The oldest version of StableHLO that must be able to read the programs: that of plugins from the spring of 2025.
OLDEST = "1.9.0"


def start():
    """Imports XLA, in each process once."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = (
        f"--xla_force_host_platform_device_count={REPLICAS} --xla_cpu_multi_thread_eigen=false"
        " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        # Otherwise XLA leaves out the rounding to half-precision floats between two operations.
        " --xla_allow_excess_precision=false"
    )
    global ml_dtypes, numpy, jax, ir, stablehlo, mlir, compiler, xla_client
    import jax
    import ml_dtypes
    import numpy
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    jax.config.update("jax_enable_x64", True)
    # The garbage collector need not look at the many objects of these modules again.
    gc.freeze()


def array(value):
    dtype, shape, data = value
    dtypes = {"bool": "?", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "u1", "u16": "<u2", "u32": "<u4"}
    dtypes |= {"bf16": ml_dtypes.bfloat16, "f16": "<f2", "f32": "<f4", "f64": "<f8"}
    return numpy.frombuffer(bytes.fromhex(data), dtypes[dtype]).reshape(shape)


def problem_of(found, expected, dtype):
    """Returns how a result differs, or None."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    same = found == expected
    if dtype in TOLERANCES:
        with numpy.errstate(all="ignore"):
            scale = numpy.maximum(1, numpy.abs(expected))
            same |= numpy.abs(found - expected) <= TOLERANCES[dtype] * scale
        same |= numpy.isnan(found) & numpy.isnan(expected)
    if dtype in HALVES:
        step, tiny = HALVES[dtype]
        wide, other = found.astype(float), expected.astype(float)
        with numpy.errstate(all="ignore"):
            same |= numpy.abs(wide - other) <= numpy.maximum(tiny, step * numpy.abs(other))
        same |= numpy.isnan(wide) & numpy.isnan(other)
    if same.all():
        return None
    wrong = numpy.argwhere(~same)
    places = [f"at {tuple(map(int, at))} {found[tuple(at)]} instead of {expected[tuple(at)]}" for at in wrong[:4]]
    return f"{len(wrong)} of {found.size} elements differ: {', '.join(places)}"


def run(module, replicas, inputs):
    devices = tuple(jax.devices("cpu")[:replicas])
    options = compiler.get_compile_options(num_replicas=replicas, num_partitions=1)
    client = devices[0].client
    program = compiler.backend_compile_and_load(client, module, xla_client.DeviceList(devices), options, [])
    count = len(inputs[0])
    if replicas == 1:
        arguments = [jax.device_put(x, devices[0]) for x in inputs[0]]
    else:
        arguments = []
        for place in range(count):
            parts = [jax.device_put(inputs[replica][place][None], devices[replica]) for replica in range(replicas)]
            mesh = jax.sharding.Mesh(numpy.array(devices), "replica")
            sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("replica"))
            shape = (replicas, *inputs[0][place].shape)
            arguments.append(jax.make_array_from_single_device_arrays(shape, sharding, parts))
        # Each replica takes its part without the axis of the replicas.
        arguments = [squeezed(x, devices) for x in arguments]
    results = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [[numpy.asarray(results[place][replica]) for place in range(len(results))] for replica in range(replicas)]


def squeezed(stacked, devices):
    parts = [jax.device_put(numpy.asarray(shard.data)[0], device) for shard, device in zip(stacked.addressable_shards, devices)]
    mesh = jax.sharding.Mesh(numpy.array(devices), "replica")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.make_array_from_single_device_arrays(parts[0].shape, sharding, parts)


def check(line):
    """Returns the problem of a program, or None."""
    case = json.loads(line)
    name = case["names"][0]
    try:
        with mlir.make_ir_context():
            module = ir.Module.parse(case["text"])
            module.operation.verify()
            stablehlo.serialize_portable_artifact_str(case["text"], OLDEST)
            inputs = [[array(value) for value in values] for values in case["inputs"]]
            found = run(module, len(inputs), inputs)
    except Exception as error:
        return f"{name}: {type(error).__name__}: {str(error)[:600]}"
    problems = []
    for values, expected in zip(found, case["results"]):
        if len(values) != len(expected):
            return f"{name}: {len(values)} results instead of {len(expected)}"
        for place, (value, other) in enumerate(zip(values, expected)):
            problem = problem_of(value, array(other), other[0])
            if problem:
                problems.append(f"{case['names'][place]}: {problem}")
    return "\n".join(problems) or None


def main(folder):
    begun = time.time()
    files = sorted(pathlib.Path(folder).glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    # Nearly all of the time is XLA's compiler. Long programs come first, so that no process is left alone with one at the end.
    lines.sort(key=len, reverse=True)
    if not lines:
        sys.exit(f"no programs in {folder}")
    wrong = []
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count(), initializer=start) as pool:
        for problem in pool.imap_unordered(check, lines):
            if problem:
                wrong.append(problem)
                print(problem)
    print(f"{len(lines) - len(wrong)} of {len(lines)} programs agree with XLA, in {time.time() - begun:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1])
