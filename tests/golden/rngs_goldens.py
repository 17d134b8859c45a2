"""rngs.json: streams of `nnx.Rngs` in models, through transformations, split, forked, broadcast and reseeded.

`with_rngs` has streams of the seeds params 0, dropout 1, noise 2 (`new`) after each rule, and the ones they were made from. `model`
is two layers of `nnx.Dropout`, of rates 0.5 and 0.25, on ones `f32[4,6]`.
"""

from golden_cases import *

from flax import nnx


def keys(stream):
    return array(jax.random.key_data(stream.key[...]))


def stream(s):
    return {"tag": s.tag, "key": keys(s), "count": array(s.count[...])}


def streams(rngs):
    return [{"name": name, **stream(s)} for name, s in rngs.items()]


def changed(change, **seeds):
    """What `change` makes of streams, and the streams afterwards."""
    rngs = nnx.Rngs(**seeds)
    new = change(rngs)
    return {"new": streams(new), "parent_after": streams(rngs)}


def with_rngs():
    seeds = dict(params=0, dropout=1, noise=2)
    change = lambda **rules: changed(
        lambda rngs: nnx.with_rngs(rngs, graph=True, graph_updates=False, **rules), **seeds
    )
    return {
        "split": change(split=4),
        "split_shape": change(split=(2, 3)),
        "fork": change(fork=...),
        "broadcast": change(broadcast=5),
        "split_by_name": change(split={"params": 4, ...: (2, 3)}),
        "split_some_fork_rest": change(split={"params": 4}, fork=...),
        "fork_one": change(fork="params"),
        "broadcast_one": change(broadcast={"params": 5}),
    }


class TwoDropouts(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Dropout(0.5, rngs=rngs)
        self.second = nnx.Dropout(0.25, rngs=rngs)

    def __call__(self, x):
        return self.second(self.first(x))


def state(model):
    return [stream(model.first.rngs), stream(model.second.rngs)]


def in_a_model():
    x = jnp.ones((4, 6))
    model = TwoDropouts(nnx.Rngs(dropout=42))
    first = model(x)
    compiled = nnx.jit(lambda model, x: model(x))
    under_jit = compiled(model, x)
    after = state(model)
    nnx.reseed(model, dropout=7)
    reseeded = state(model)
    nnx.reseed(model, dropout=42)
    again = model(x)
    np.testing.assert_array_equal(first, again)

    # Each example drops others: the streams are split and mapped over.
    model = TwoDropouts(nnx.Rngs(dropout=3))
    split = nnx.split_rngs(model, splits=4, graph=True, graph_updates=False)
    axes = nnx.StateAxes({nnx.RngState: 0, ...: None})
    per_example = nnx.vmap(lambda model, x: model(x), in_axes=(axes, 0))(split, x)
    split_after = state(split)
    nnx.reseed(split, dropout=5, policy="match_shape")
    split_reseeded = state(split)
    model_after_split = state(model)

    # Each example drops the same.
    model = TwoDropouts(nnx.Rngs(dropout=3))
    same = nnx.with_rngs(model, broadcast=4, graph=True, graph_updates=False)
    same_for_all = nnx.vmap(lambda model, x: model(x), in_axes=(axes, 0))(same, x)

    model = TwoDropouts(nnx.Rngs(dropout=9))
    scanned = nnx.scan(
        lambda model, x: (model, model(x)), in_axes=(nnx.Carry, 0), out_axes=(nnx.Carry, 0)
    )
    model, steps = scanned(model, x)
    after_scan = state(model)

    model = TwoDropouts(nnx.Rngs(dropout=11))
    weights = jnp.arange(6.0)
    loss = lambda weights, model: jnp.sum(model(x * weights))
    value, gradient = nnx.value_and_grad(loss)(weights, model)
    return {
        "first": array(first),
        "under_jit": array(under_jit),
        "after": after,
        "reseeded": reseeded,
        "per_example": array(per_example),
        "split_after": split_after,
        "split_reseeded": split_reseeded,
        "model_after_split": model_after_split,
        "same_for_all": array(same_for_all),
        "scanned": array(steps),
        "after_scan": after_scan,
        "loss": array(value),
        "gradient": array(gradient),
        "after_gradient": state(model),
    }


class Counted(nnx.Module):
    """A layer that drops, and counts its calls in a state that is not random."""

    def __init__(self, rngs):
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.calls = nnx.BatchStat(jnp.zeros((), jnp.int32))

    def __call__(self, x):
        self.calls[...] += 1
        return self.dropout(x)


class Dense(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(6, 2, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.dropout(self.linear(x))


def splits():
    """Streams under `vmap` and `scan`, split by `nnx.split_rngs` or not."""
    x = jnp.ones((4, 6))
    each = nnx.StateAxes({nnx.RngState: 0, ...: None})
    call = lambda model, x: model(x)
    new = lambda: Counted(nnx.Rngs(dropout=3))

    def outcome(model, *results):
        return {
            "results": [array(y) for y in results],
            "stream": stream(model.dropout.rngs),
            "calls": array(model.calls[...]),
        }

    # The streams are split for the time of a call. Other states are written to the model.
    model = new()
    split = nnx.split_rngs(splits=4)(nnx.vmap(call, in_axes=(each, 0)))
    split_twice = outcome(model, split(model, x), split(model, x))

    # The streams are neither split nor mapped: all examples drop the same elements.
    model = new()
    unsplit = outcome(model, nnx.vmap(call, in_axes=(None, 0))(model, x))
    model = new()
    unsplit_jit = outcome(model, nnx.vmap(nnx.jit(call), in_axes=(None, 0))(model, x))

    # A step of a loop for each of the split streams.
    model = new()
    step = lambda carry, model, x: (carry, model(x))
    with nnx.split_rngs(model, splits=4, graph=True, graph_updates=True):
        _, y = nnx.scan(step, in_axes=(nnx.Carry, each, 0), out_axes=(nnx.Carry, 0))(
            jnp.zeros(()), model, x
        )
    scan_split = outcome(model, y)

    # A model that is not the carry keeps no states: all steps drop the same elements.
    model = nnx.Dropout(0.5, rngs=nnx.Rngs(dropout=3))
    _, y = nnx.scan(step, in_axes=(nnx.Carry, None, 0), out_axes=(nnx.Carry, 0))(
        jnp.zeros(()), model, x
    )
    scan_unsplit = {"results": [array(y)], "stream": stream(model.rngs)}

    # An ensemble: each member is created with streams of its own, and drops other elements.
    rngs = nnx.Rngs(params=0, dropout=1)
    members = nnx.split_rngs(splits=3)(nnx.vmap(lambda rngs: Dense(rngs)))(rngs)
    kernel = array(members.linear.kernel[...])
    y = nnx.vmap(call, in_axes=(0, None))(members, x)
    ensemble = {
        "kernel": kernel,
        "result": array(y),
        "stream": stream(members.dropout.rngs),
        "rngs_after": streams(rngs),
    }
    return {
        "split_twice": split_twice,
        "unsplit": unsplit,
        "unsplit_jit": unsplit_jit,
        "scan_split": scan_split,
        "scan_unsplit": scan_unsplit,
        "ensemble": ensemble,
    }


def draws():
    rngs = nnx.Rngs(0, params=1)
    return {
        "normal": array(rngs.normal((2, 3))),
        "params_uniform": array(rngs.params.uniform((2, 3))),
        "lecun_normal": array(rngs.lecun_normal()((2, 3))),
        "params_lecun_uniform": array(rngs.params.lecun_uniform()((2, 3))),
        "after": streams(rngs),
    }


def make_rngs():
    members = {
        "with_rngs": with_rngs(),
        "model": in_a_model(),
        "splits": splits(),
        "draws": draws(),
    }
    write("rngs", members)
