"""recurrent.json: recurrent cells of Flax NNX, applied along a time axis.

A case has a cell (or two, if `bidirectional`), whose parameters are set to those given, an input, and the outputs and last
carries with the gradients of `sum(weights * outputs) + sum(carry weights * carries)`. The matrices of a cell are called
`input`, `recurrent` and `bias`, with the gates one after another, as in `OptimizedLSTMCell`; those of `LSTMCell`,
which has a matrix for each gate, are joined. Outputs at padding are set to zero. `initial` says how many keys
a new cell draws, and which matrices it has first.
"""

from golden_cases import *

from flax import nnx

CELLS = {"LSTMCell": 4, "OptimizedLSTMCell": 4, "GRUCell": 3, "SimpleCell": 1}
GATES = "ifgo"


def matrices(rng, cell, inputs, hidden, dtype):
    """The parameters of a cell, of a size that keeps the gates away from their ends."""
    gates = CELLS[cell]
    draw = lambda shape: (any_float(rng, shape, np.float64) / 2).astype(dtype)
    return {
        "input": draw((inputs, gates * hidden)),
        "recurrent": draw((hidden, gates * hidden)),
        "bias": draw((gates * hidden,)),
    }


def with_parameters(layer, name, params):
    """A copy of the layer with the given parameters."""
    layer = nnx.clone(layer)
    if name == "LSTMCell":
        parts = {key: jnp.split(value, 4, axis=-1) for key, value in params.items()}
        for number, gate in enumerate(GATES):
            of_input = getattr(layer, "if_" if gate == "f" else "i" + gate)
            of_hidden = getattr(layer, "h" + gate)
            of_input.kernel.set_value(parts["input"][number])
            of_hidden.kernel.set_value(parts["recurrent"][number])
            of_hidden.bias.set_value(parts["bias"][number])
        return layer
    layer.dense_i.kernel.set_value(params["input"])
    layer.dense_h.kernel.set_value(params["recurrent"])
    (layer.dense_h if name == "OptimizedLSTMCell" else layer.dense_i).bias.set_value(params["bias"])
    return layer


def initial(name, inputs, hidden, dtype):
    """How many keys a new cell draws, and its matrices where Flax has one of each."""
    rngs = nnx.Rngs(0)
    layer = getattr(nnx, name)(inputs, hidden, param_dtype=dtype, rngs=rngs)
    drawn = int(rngs["default"].count.get_value())
    if not hasattr(layer, "dense_i"):
        return None
    return {
        "drawn": drawn,
        "input": array(layer.dense_i.kernel.get_value()),
        "recurrent": array(layer.dense_h.kernel.get_value()),
    }


def case(name, shape, hidden, dtype, bidirectional=False, lengths=None, carried=False, residual=False, **options):
    rng = generator("recurrent", name, shape, hidden, np.dtype(dtype).name, bidirectional, lengths, carried, residual, sorted(options.items()))
    inputs = shape[-1]
    cells = 2 if bidirectional else 1
    with precision(dtype):
        # Only this cell of Flax computes in f32 unless it is given another dtype.
        made = {"residual": residual, "dtype": dtype} if name == "SimpleCell" else {}
        new = lambda: getattr(nnx, name)(inputs, hidden, param_dtype=dtype, rngs=nnx.Rngs(0), **made)
        layers = [new() for _ in range(cells)]
        params = [jax.tree.map(jnp.asarray, matrices(rng, name, inputs, hidden, dtype)) for _ in range(cells)]
        x = jnp.asarray(any_float(rng, shape, dtype))
        time_axis = 0 if options.get("time_major") else len(shape) - 2
        batch = shape[:time_axis] + shape[time_axis + 1 : -1]
        parts = 2 if "LSTM" in name else 1
        carries = [[jnp.asarray(unit(rng, batch + (hidden,), dtype)) for _ in range(parts)] for _ in range(cells)]
        at = None if lengths is None else jnp.asarray(np.asarray(lengths, np.int32))
        carry_of = lambda parts: tuple(parts) if len(parts) == 2 else parts[0]

        def run(params, x, carries):
            set_cells = [with_parameters(layer, name, of_cell) for layer, of_cell in zip(layers, params)]
            given = {"seq_lengths": at, "return_carry": True}
            if bidirectional:
                rnn = nnx.Bidirectional(*[nnx.RNN(cell, **options) for cell in set_cells], **options)
                start = tuple(carry_of(carry) for carry in carries)
            else:
                rnn = nnx.RNN(set_cells[0], **options)
                start = carry_of(carries[0])
            carry, y = rnn(x, initial_carry=start if carried else None, **given)
            carry = list(carry) if bidirectional else [carry]
            return [list(one) if isinstance(one, tuple) else [one] for one in carry], y

        last, y = run(params, x, carries)
        y_weights = any_float(rng, y.shape, dtype)
        if at is not None:
            # The outputs at padding mean nothing.
            position = np.arange(shape[time_axis]).reshape([-1 if axis == time_axis else 1 for axis in range(len(shape))])
            inside = position < np.expand_dims(np.asarray(lengths), (time_axis, len(shape) - 1))
            y_weights = (y_weights * inside).astype(dtype)
            y = y * inside.astype(dtype)
        carry_weights = [[any_float(rng, part.shape, dtype) for part in one] for one in last]

        def loss(params, x, carries):
            last, y = run(params, x, carries)
            of_carries = sum(
                jnp.sum(weights * part)
                for weighted, one in zip(carry_weights, last)
                for weights, part in zip(weighted, one)
            )
            return jnp.sum(y_weights * y) + of_carries

        of_params, of_x, of_carries = jax.grad(loss, argnums=(0, 1, 2))(params, x, carries)
        return {
            "cell": name,
            "dtype": DTYPE_NAMES[np.dtype(dtype).name],
            "inputs": inputs,
            "hidden": hidden,
            "initial": initial(name, inputs, hidden, dtype),
            "bidirectional": bidirectional,
            "residual": residual,
            "options": options,
            "lengths": None if at is None else array(at),
            "parameters": [{key: array(value) for key, value in of_cell.items()} for of_cell in params],
            "initial_carry": [arrays(one) for one in carries] if carried else None,
            "x": array(x),
            "y": array(y),
            "carry": [arrays(one) for one in last],
            "weights": array(y_weights),
            "carry_weights": [arrays(one) for one in carry_weights],
            "gradients": {
                "x": array(of_x),
                "parameters": [{key: array(value) for key, value in of_cell.items()} for of_cell in of_params],
                "initial_carry": [arrays(one) for one in of_carries] if carried else None,
            },
        }


CASES = [
    ("LSTMCell", (2, 5, 3), 4, {}),
    ("OptimizedLSTMCell", (2, 5, 3), 4, dict(carried=True)),
    ("OptimizedLSTMCell", (5, 3), 2, {}),
    ("OptimizedLSTMCell", (3, 5, 2), 3, dict(lengths=(5, 2, 3))),
    ("OptimizedLSTMCell", (3, 5, 2), 3, dict(lengths=(1, 4, 5), reverse=True, keep_order=True)),
    ("GRUCell", (2, 5, 3), 4, {}),
    ("GRUCell", (5, 2, 3), 4, dict(time_major=True, carried=True)),
    ("GRUCell", (2, 5, 3), 2, dict(reverse=True)),
    ("GRUCell", (2, 5, 3), 2, dict(reverse=True, keep_order=True)),
    ("GRUCell", (5, 3, 2), 3, dict(time_major=True, lengths=(5, 2, 3), reverse=True)),
    ("GRUCell", (2, 3, 4, 2), 3, {}),
    ("SimpleCell", (2, 5, 3), 4, {}),
    ("SimpleCell", (2, 5, 3), 2, dict(residual=True, carried=True)),
    ("GRUCell", (2, 5, 3), 2, dict(bidirectional=True)),
    ("GRUCell", (3, 5, 2), 2, dict(bidirectional=True, lengths=(5, 2, 3), carried=True)),
    ("OptimizedLSTMCell", (5, 2, 3), 2, dict(bidirectional=True, time_major=True)),
]


def make_recurrent():
    write("recurrent", {"cases": [case(*entry[:3], dtype, **entry[3]) for entry in CASES for dtype in FLOATS]})


if __name__ == "__main__":
    make_recurrent()
