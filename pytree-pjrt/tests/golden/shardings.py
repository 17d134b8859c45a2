"""Prints the parts of devices, and the messages of shardings, as JAX computes them: `python shardings.py > shardings.json`.

Needs jax alone. The figures were made with jax 0.12.0.1.
"""

import json
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=12"

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

LENGTHS = {"a": 2, "b": 3, "c": 2}
SHAPE = (12, 24)
SPECS = [
    [],
    [["a"]],
    [[], ["b"]],
    [["c"], ["a"]],
    [["a", "c"]],
    [["c", "a"]],
    [["b", "a"], ["c"]],
    [["c"], ["b", "a"]],
    [[], ["c", "b", "a"]],
]



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


axes = tuple(LENGTHS)
mesh = jax.make_mesh(tuple(LENGTHS.values()), axes, axis_types=(AxisType.Auto,) * 3)
cases = []
for spec in SPECS:
    sharding = NamedSharding(mesh, PartitionSpec(*(tuple(names) or None for names in spec)))
    parts = sharding.devices_indices_map(SHAPE)
    parts = {device.id: [index.start or 0 for index in indices] for device, indices in parts.items()}
    tiles = sharding._to_xla_hlo_sharding(len(SHAPE)).to_proto().SerializeToString()
    # HloModuleProto.spmd_output_sharding of a compiled module
    x = jax.device_put(jax.numpy.ones(SHAPE), sharding)
    compiled = jax.jit(lambda x: x * 2, out_shardings=sharding).lower(x).compile()
    module = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    named = next(value for number, value in fields(module) if number == 12)
    cases.append(
        {
            "spec": spec,
            "starts": [parts[device] for device in range(12)],
            "tiles": tiles.hex(),
            "named": named.hex(),
        }
    )
print(json.dumps({"axes": LENGTHS, "shape": SHAPE, "cases": cases}))
