"""Prints the parts of a CompileOptionsProto that `src/options.rs` writes, as jaxlib 0.10.2 writes them.

`python compile_options.py` needs jax alone. The part for several partitions was printed with jaxlib 0.12.0. The whole message also has flags with their defaults, which are left out here.
"""

import numpy as np
from jax._src.lib import xla_client as xc


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if tag & 7 == 1 else varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


options = xc.CompileOptions()
options.num_replicas = options.num_partitions = 1
options.device_assignment = xc.DeviceAssignment.create(np.array([[3]]))
options.env_option_overrides = [
    ("xla_backend_optimization_level", 2),
    ("xla_cpu_enable_fast_math", False),
    ("xla_dump_to", "d"),
    ("x", 1.5),
]
for number, value in fields(options.SerializeAsString()):
    if number == 7:
        print("env_option_overrides", value)
    if number == 3:
        for inner, part in fields(value):
            if inner in (1, 4, 5, 9):
                print("executable_build_options", inner, part)

options = xc.CompileOptions()
options.num_replicas, options.num_partitions = 1, 4
options.device_assignment = xc.DeviceAssignment.create(np.array([[0, 1, 2, 3]]))
build = options.executable_build_options
build.use_spmd_partitioning = build.use_shardy_partitioner = True
build.allow_spmd_sharding_propagation_to_output = [True, False]
for number, value in fields(options.SerializeAsString()):
    if number == 3:
        for inner, part in fields(value):
            if inner in (4, 5, 6, 9, 12, 19):
                print("executable_build_options with partitions", inner, part)
