"""kinds.json: which variables of a model the filters of Flax NNX by type select, and what `nnx.State` prints of them.

`parents` has the parent of each type that the model's variables have, `leaves` the type of each variable, `selected` for
each type the names of the variables that a filter by this type selects, and `text` the printed state.
"""

from golden_cases import *

from flax import nnx


class ScaledLoRAParam(nnx.LoRAParam):
    pass


class Average(nnx.BatchStat):
    pass


class SlowAverage(Average):
    pass


LEAVES = {
    "weight": nnx.Param,
    "down": nnx.LoRAParam,
    "scale": ScaledLoRAParam,
    "mean": nnx.BatchStat,
    "average": Average,
    "slow": SlowAverage,
    "cache": nnx.Cache,
}


class Model(nnx.Module):
    def __init__(self):
        for position, (name, kind) in enumerate(LEAVES.items()):
            setattr(self, name, kind(jnp.full((2,), position, jnp.float32)))


def make_kinds():
    model = Model()
    parents = {kind.__name__: kind.__mro__[1].__name__ for kind in LEAVES.values()}
    selected = {
        kind.__name__: sorted(path[0] for path, _ in nnx.to_flat_state(nnx.state(model, kind))) for kind in LEAVES.values()
    }
    write(
        "kinds",
        {
            "parents": parents,
            "leaves": {name: kind.__name__ for name, kind in LEAVES.items()},
            "selected": selected,
            "text": str(nnx.state(model)),
        },
    )
