"""data.json: orders of examples by `jax.random.permutation`, and the bytes of `.npy` files by `numpy.save`.

A file of `files` has its bytes in base64, and the array that `numpy.load` returns. The arrays cover the dtypes, both orders of
memory, both orders of bytes, the three versions of the format, and shapes with and without axes or elements. NumPy has no bfloat16,
and `ml_dtypes` writes it as `<V2`. `written` says that `numpy.save` writes the array in this way by default.
"""

import base64
import io

import ml_dtypes

from golden_cases import *


def orders():
    cases = []
    for seed in (0, 7, 2**31 + 5):
        key = jax.random.key(seed)
        for count in (1, 2, 10, 1437, 2000):
            epochs = [jax.random.permutation(jax.random.fold_in(key, epoch), count).tolist() for epoch in (0, 1, 29)]
            cases.append({"seed": seed, "examples": count, "epochs": [0, 1, 29], "orders": epochs})
    return cases


def saved(value, version=None):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(value), version=version)
    return base64.b64encode(stream.getvalue()).decode()


def files():
    numbers = np.array([[0, 1, 2], [100, 17, 5]])
    dtypes = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32]
    dtypes += [ml_dtypes.bfloat16, np.float16, np.float32, np.float64]
    cases = []

    def add(value, written=False, version=None):
        cases.append({"array": array(value), "bytes": saved(value, version), "written": written})

    for dtype in dtypes:
        value = numbers.astype(dtype)
        add(value, written=True)
        add(np.asfortranarray(value))
        if dtype is not ml_dtypes.bfloat16:
            value = value.astype(np.dtype(dtype).newbyteorder(">"))
            stream = saved(value)
            cases.append({"array": array(value.astype(dtype)), "bytes": stream, "written": False})
    cube = np.arange(24, dtype=np.int16).reshape(2, 3, 4) - 7
    for version in ((1, 0), (2, 0), (3, 0)):
        add(cube, version=version)
        add(np.asfortranarray(cube), version=version)
    for shape in ((), (1,), (0,), (0, 3), (2, 0, 4), (1000,), (1,) * 32):
        add(np.ones(shape, np.float32) / 3, written=True)
    edges = [np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38]
    add(np.array(edges, np.float32), written=True)
    return cases


def make_data():
    write("data", {"orders": orders(), "files": files()})
