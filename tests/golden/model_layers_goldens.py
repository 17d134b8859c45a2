"""model_layers.json: layers of Flax NNX without state: convolutions, pooling, general linear layers and others.

A case has a layer, made with `options` by `nnx.Rngs(0)`: its parameters at first (`initial`, and how many keys were drawn),
the parameters that are then set, an input, and the output with the gradients of `sum(weights * layer(x))`. The kernel of
Flax is called `weight`. With `transpose_kernel` its axes have another order, so `initial` differs. In `wrapped`, the weights are set
again before each of the three steps, because SpectralNorm of NNX overwrites them.
"""

from golden_cases import *

from flax import nnx

NAMES = {"kernel": "weight"}


def parameters(layer):
    """The parameters of a layer, by their names here."""
    if not isinstance(layer, nnx.Module):
        return {}
    state = nnx.to_pure_dict(nnx.state(layer, nnx.Param))
    return {NAMES.get(name, name): (name, value) for name, value in state.items()}


def figures(layer, x, weights):
    """The output and the gradients with respect to the input and the parameters."""
    if not isinstance(layer, nnx.Module):
        y, pullback = jax.vjp(layer, x)
        return y, {"x": array(pullback(jnp.asarray(weights))[0])}
    graphdef, params, rest = nnx.split(layer, nnx.Param, ...)

    def run(params, x):
        return nnx.merge(graphdef, params, rest)(x)

    y = run(params, x)
    of_params, of_x = jax.grad(lambda params, x: jnp.sum(weights * run(params, x)), argnums=(0, 1))(params, x)
    of_params = nnx.to_pure_dict(of_params)
    return y, {"x": array(of_x), **{NAMES.get(name, name): array(value) for name, value in of_params.items()}}


def case(name, arguments, shape, dtype, options):
    rng = generator("model layer", name, arguments, shape, np.dtype(dtype).name, sorted((k, repr(v)) for k, v in options.items()))
    with precision(dtype):
        rngs = nnx.Rngs(0)
        if name.endswith("_pool"):
            layer = lambda x: getattr(nnx, name)(x, *arguments, **options)
        elif name == "PReLU":
            layer = nnx.PReLU(*arguments, param_dtype=dtype, **options)
        else:
            layer = getattr(nnx, name)(*arguments, param_dtype=dtype, rngs=rngs, **options)
        initial = {key: array(value) for key, (_, value) in parameters(layer).items()}
        drawn = int(rngs["default"].count.get_value())
        for theirs, value in parameters(layer).values():
            getattr(layer, theirs).set_value(jnp.asarray(any_float(rng, value.shape, dtype)))
        # The elements of a window differ, so that each extremum is one element.
        x = jnp.asarray((distinct if name.endswith("_pool") else any_float)(rng, shape, dtype))
        weights = any_float(rng, layer(x).shape, dtype)
        y, gradients = figures(layer, x, weights)
        return {
            "layer": name,
            "arguments": arguments,
            "dtype": DTYPE_NAMES[np.dtype(dtype).name],
            "options": options,
            "initial": initial,
            "drawn": drawn,
            "parameters": {key: array(value) for key, (_, value) in parameters(layer).items()},
            "x": array(x),
            "weights": array(weights),
            "y": array(y),
            "gradients": gradients,
        }


CONVOLUTIONS = [
    ("Conv", (2, 3, (3,)), (2, 7, 2), {}),
    ("Conv", (2, 3, (4,)), (2, 7, 2), dict(strides=2, padding="VALID")),
    ("Conv", (2, 3, (3,)), (2, 9, 2), dict(padding="CAUSAL", kernel_dilation=2)),
    ("Conv", (2, 3, (4,)), (2, 6, 2), dict(padding="CAUSAL", strides=2, use_bias=False)),
    ("Conv", (2, 3, (3,)), (2, 5, 2), dict(padding="CIRCULAR")),
    ("Conv", (2, 3, (4,)), (2, 5, 2), dict(padding="CIRCULAR", kernel_dilation=2)),
    ("Conv", (2, 3, (7,)), (1, 2, 2), dict(padding="CIRCULAR")),
    ("Conv", (2, 3, (5,)), (2, 6, 2), dict(padding="REFLECT")),
    ("Conv", (2, 3, (4,)), (2, 6, 2), dict(padding=[(2, 1)], input_dilation=2)),
    ("Conv", (2, 3, (3, 3)), (2, 5, 4, 2), {}),
    ("Conv", (2, 3, (3, 2)), (2, 5, 6, 2), dict(strides=(2, 1), padding="VALID")),
    ("Conv", (2, 3, (3, 3)), (2, 5, 6, 2), dict(strides=2, padding="CIRCULAR")),
    ("Conv", (2, 3, (2, 3)), (2, 5, 6, 2), dict(strides=(1, 2), padding="REFLECT")),
    ("Conv", (2, 3, (3, 3)), (2, 5, 6, 2), dict(padding=[(1, 0), (2, 1)], kernel_dilation=(2, 1))),
    ("Conv", (4, 6, (3, 3)), (2, 5, 4, 4), dict(feature_group_count=2)),
    ("Conv", (3, 6, (3, 3)), (2, 5, 4, 3), dict(feature_group_count=3, strides=2, use_bias=False)),
    ("Conv", (2, 3, (3, 3)), (4, 5, 2), {}),
    ("Conv", (2, 3, (3,)), (2, 3, 5, 2), dict(padding="CIRCULAR")),
    ("Conv", (2, 3, (2, 3, 2)), (2, 3, 4, 3, 2), {}),
    ("Conv", (2, 2, (2, 2, 2)), (1, 4, 4, 5, 2), dict(strides=(2, 1, 2), padding="VALID", feature_group_count=2)),
    ("ConvTranspose", (2, 3, (3,)), (2, 5, 2), {}),
    ("ConvTranspose", (2, 3, (4,)), (2, 5, 2), dict(strides=2)),
    ("ConvTranspose", (2, 3, (2,)), (2, 5, 2), dict(strides=3, padding="VALID")),
    ("ConvTranspose", (2, 3, (3,)), (2, 5, 2), dict(strides=(2,), padding="CIRCULAR")),
    ("ConvTranspose", (2, 3, (6,)), (1, 2, 2), dict(strides=(2,), padding="CIRCULAR", use_bias=False)),
    ("ConvTranspose", (2, 3, (3,)), (2, 5, 2), dict(strides=2, padding=[(1, 2)], kernel_dilation=2)),
    ("ConvTranspose", (2, 3, (3, 3)), (2, 3, 4, 2), dict(strides=(2, 1))),
    ("ConvTranspose", (2, 3, (4, 3)), (2, 3, 4, 2), dict(strides=(2, 2), padding="CIRCULAR")),
    ("ConvTranspose", (2, 3, (3, 2)), (3, 4, 2), dict(strides=2, padding="VALID", use_bias=False)),
    ("ConvTranspose", (2, 3, (3, 3)), (2, 3, 4, 2), dict(strides=2, transpose_kernel=True)),
    ("ConvTranspose", (2, 3, (2, 2, 3)), (1, 2, 3, 2, 2), dict(strides=(1, 2, 2))),
]

POOLING = [
    ("max_pool", ((2,),), (2, 6, 3), dict(strides=(2,))),
    ("max_pool", ((3, 2),), (2, 5, 4, 3), dict(padding="SAME")),
    ("max_pool", ((2, 2),), (5, 4, 3), dict(strides=(2, 1), padding=((1, 0), (0, 1)))),
    ("min_pool", ((2, 2),), (2, 5, 4, 3), dict(strides=(2, 2))),
    ("min_pool", ((2, 2, 2),), (2, 3, 4, 3, 2), {}),
    ("avg_pool", ((2,),), (2, 6, 3), dict(strides=(2,))),
    ("avg_pool", ((3, 2),), (2, 5, 4, 3), dict(padding="SAME")),
    ("avg_pool", ((3, 2),), (2, 5, 4, 3), dict(padding="SAME", count_include_pad=False)),
    ("avg_pool", ((2, 2, 2),), (2, 3, 4, 3, 2), dict(strides=(1, 2, 1))),
]

OTHERS = [
    ("LinearGeneral", (2, 4), (3, 2), {}),
    ("LinearGeneral", (2, (4, 5)), (3, 2), {}),
    ("LinearGeneral", ((2, 3), (4, 5)), (6, 2, 3), dict(axis=(-2, -1))),
    ("LinearGeneral", ((2, 3), (4,)), (2, 6, 3), dict(axis=(0, -1), use_bias=False)),
    ("LinearGeneral", (3, 4), (2, 3, 5), dict(axis=1)),
    ("LinearGeneral", (3, (4, 2)), (5, 6, 3), dict(batch_axis={0: 5})),
    ("LinearGeneral", ((2, 3), 4), (5, 2, 6, 3), dict(axis=(1, 3), batch_axis={0: 5})),
    ("Einsum", ("nta,hab->nthb", (5, 2, 4), (5, 4)), (3, 6, 2), {}),
    ("Einsum", ("...a,ab->...b", (3, 4), (4,)), (2, 5, 3), {}),
    ("Einsum", ("nta,hab->nhtb", (5, 2, 4), (5, 1, 4)), (3, 6, 2), {}),
    ("Einsum", ("bij,jk->bik", (3, 4), None), (2, 5, 3), {}),
    ("InstanceNorm", (3,), (2, 4, 5, 3), {}),
    ("InstanceNorm", (3,), (2, 6, 3), dict(epsilon=1e-2, use_bias=False)),
    ("InstanceNorm", (3,), (2, 6, 3), dict(use_scale=False, use_fast_variance=False)),
    ("InstanceNorm", (4,), (2, 4, 5), dict(feature_axes=1)),
    ("PReLU", (), (4, 3), {}),
    ("PReLU", (0.25,), (2, 4, 3), {}),
]


def adapter(dtype, rank):
    """A linear layer with an adapter of low rank."""
    rng = generator("lora", np.dtype(dtype).name, rank)
    with precision(dtype):
        rngs = nnx.Rngs(0)
        layer = nnx.LoRALinear(3, 4, lora_rank=rank, param_dtype=dtype, lora_param_dtype=dtype, rngs=rngs)
        first = nnx.LoRA(3, rank, 4, param_dtype=dtype, rngs=nnx.Rngs(0))
        initial = {"a": array(first.lora_a.get_value()), "b": array(first.lora_b.get_value())}
        values = {
            "weight": (layer.kernel, (3, 4)),
            "bias": (layer.bias, (4,)),
            "a": (layer.lora.lora_a, (3, rank)),
            "b": (layer.lora.lora_b, (rank, 4)),
        }
        for variable, shape in values.values():
            variable.set_value(jnp.asarray(any_float(rng, shape, dtype)))
        given = {name: array(variable.get_value()) for name, (variable, _) in values.items()}
        x = jnp.asarray(any_float(rng, (5, 3), dtype))
        weights = any_float(rng, (5, 4), dtype)
        graphdef, lora, rest = nnx.split(layer, nnx.LoRAParam, ...)
        run = lambda lora, x: nnx.merge(graphdef, lora, rest)(x)
        of_lora = jax.grad(lambda lora: jnp.sum(weights * run(lora, x)))(lora)
        of_lora = nnx.to_pure_dict(of_lora)["lora"]
        return {
            "dtype": DTYPE_NAMES[np.dtype(dtype).name],
            "rank": rank,
            "initial": initial,
            "parameters": given,
            "x": array(x),
            "weights": array(weights),
            "y": array(run(lora, x)),
            "gradients": {"a": array(of_lora["lora_a"]), "b": array(of_lora["lora_b"])},
        }


def wrapped(name, inner, arguments, shape, dtype, **options):
    """Three steps of a layer whose weights are normalised. Its weights are set again before each step, because
    SpectralNorm of NNX overwrites them."""
    rng = generator("wrapped", name, inner, arguments, shape, np.dtype(dtype).name, sorted(options.items()))
    with precision(dtype):
        rngs = nnx.Rngs(0)
        layer = getattr(nnx, inner)(*arguments, param_dtype=dtype, rngs=rngs)
        kinds = {"param_dtype": dtype} if name == "SpectralNorm" else {}
        layer = getattr(nnx, name)(layer, rngs=rngs, **kinds, **options)
        drawn = int(rngs["default"].count.get_value())
        inside = layer.layer_instance
        kernel = any_float(rng, inside.kernel.shape, dtype)
        bias = any_float(rng, inside.bias.shape, dtype)
        inside.bias.set_value(jnp.asarray(bias))
        given = {"weight": array(kernel), "bias": array(bias)}
        if name == "WeightNorm":
            (scale,) = layer.scales.values()
            scale.set_value(jnp.asarray(positive(rng, scale.shape, dtype)))
            given["scale"] = array(scale.get_value())
        else:
            u = layer.batch_stats[("kernel", "u")]
            initial = array(u.get_value())
            u.set_value(jnp.asarray(any_float(rng, u.shape, dtype)))
            given["u"] = array(u.get_value())
        steps = []
        for _ in range(3):
            inside.kernel.set_value(jnp.asarray(kernel))
            x = jnp.asarray(any_float(rng, shape, dtype))
            graphdef, params, rest = nnx.split(layer, nnx.Param, ...)

            def run(params, x):
                model = nnx.merge(graphdef, params, rest, copy=True)
                y = model(x)
                return y, nnx.state(model, nnx.BatchStat)

            weights = any_float(rng, run(params, x)[0].shape, dtype)

            def loss(params, x):
                y, state = run(params, x)
                return jnp.sum(weights * y), (y, state)

            (of_params, of_x), (y, state) = jax.grad(loss, argnums=(0, 1), has_aux=True)(params, x)
            nnx.update(layer, state)
            of_params = nnx.to_pure_dict(of_params)
            step = {"x": array(x), "weights": array(weights), "y": array(y)}
            of_inside = of_params["layer_instance"]
            gradients = {"x": of_x, "weight": of_inside["kernel"], "bias": of_inside["bias"]}
            if name == "WeightNorm":
                (gradients["scale"],) = of_params["scales"].values()
            else:
                stats = layer.batch_stats
                step["u"] = array(stats[("kernel", "u")].get_value())
                step["sigma"] = array(stats[("kernel", "sigma")].get_value())
            step["gradients"] = {key: array(value) for key, value in gradients.items()}
            steps.append(step)
        return {
            "wrapper": name,
            "layer": inner,
            "arguments": arguments,
            "dtype": DTYPE_NAMES[np.dtype(dtype).name],
            "options": options,
            "drawn": drawn,
            "initial": initial if name == "SpectralNorm" else None,
            "given": given,
            "steps": steps,
        }


WRAPPED = [
    ("WeightNorm", "Linear", (3, 4), (5, 3), {}),
    ("WeightNorm", "Conv", (2, 3, (3,)), (2, 5, 2), {}),
    ("SpectralNorm", "Linear", (3, 4), (5, 3), {}),
    ("SpectralNorm", "Linear", (4, 2), (5, 4), dict(n_steps=3)),
    ("SpectralNorm", "Conv", (2, 3, (3,)), (2, 5, 2), {}),
]


def json_options(options):
    return {k: ({str(a): n for a, n in v.items()} if isinstance(v, dict) else v) for k, v in options.items()}


def make_model_layers():
    groups = {"convolutions": CONVOLUTIONS, "pooling": POOLING, "others": OTHERS}
    body = {}
    for group, entries in groups.items():
        body[group] = [case(*entry[:3], dtype, entry[3]) for entry in entries for dtype in FLOATS]
        for made in body[group]:
            made["options"] = json_options(made["options"])
    body["wrapped"] = [wrapped(*entry[:4], dtype, **entry[4]) for entry in WRAPPED for dtype in FLOATS]
    body["adapters"] = [adapter(dtype, rank) for dtype in FLOATS for rank in (1, 2)]
    write("model_layers", body)


if __name__ == "__main__":
    make_model_layers()
