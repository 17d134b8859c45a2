"""layers.json: normalisation and embedding layers of Flax NNX.

A case of `normalizations` has a layer whose parameters and statistics are set to those given, a step in training for
each input, and one in use. `loss(x, parameters) = sum(weights * layer(x))`. With `over_batch`, examples go through `vmap` with `axis_name`. No group has two
elements: there the gradient of the input is a difference that cancels. A case of `embeddings` has the rows of
indices, the products with a query, and gradients, also of a table tied at both ends.
"""

from golden_cases import *

from flax import nnx


def named(layer):
    """The parameters of a layer that are there, by name."""
    return {name: value for name in ("scale", "bias") if (value := getattr(layer, name, None)) is not None}


def statistics(layer):
    return {"mean": array(layer.mean.get_value()), "variance": array(layer.var.get_value())}


def step(layer, x, mask, weights, over_batch=False):
    """Output, and gradients of the loss; the layer keeps its new statistics."""
    graphdef, params, rest = nnx.split(layer, nnx.Param, ...)
    masks = {} if mask is None else {"mask": jnp.asarray(mask)}

    def run(params, x):
        def example(x):
            model = nnx.merge(graphdef, params, rest, copy=True)
            y = model(x, **masks)
            return y, nnx.state(model, nnx.BatchStat)

        if over_batch:
            return jax.vmap(example, axis_name="batch", out_axes=(0, None))(x)
        return example(x)

    def loss(params, x):
        y, state = run(params, x)
        return jnp.sum(weights * y), (y, state)

    (_, (y, state)), (of_params, of_x) = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(
        params, jnp.asarray(x)
    )
    nnx.update(layer, state)
    gradients = {name: array(of_params[name].get_value()) for name in named(layer)}
    case = {"x": array(x), "weights": array(weights), "y": array(y), "gradients": {"x": array(of_x), **gradients}}
    if mask is not None:
        case["mask"] = array(mask)
    return case


def normalization(name, shape, dtype, masks=None, steps=1, over_batch=False, **options):
    rng = generator("layers", name, shape, np.dtype(dtype).name, sorted((k, repr(v)) for k, v in options.items()), repr(masks))
    features = options.pop("features", shape[-1])
    with precision(dtype):
        rngs = nnx.Rngs(0)
        made = {"axis_name": "batch"} if over_batch else {}
        layer = getattr(nnx, name)(features, param_dtype=dtype, rngs=rngs, **options, **made)
        initial = {key: array(value.get_value()) for key, value in named(layer).items()}
        drawn = int(rngs["default"].count.get_value())
        for value in named(layer).values():
            value.set_value(jnp.asarray(any_float(rng, (features,), dtype)))
        if name == "BatchNorm":
            initial.update(statistics(layer))
            layer.mean.set_value(jnp.asarray(any_float(rng, (features,), dtype)))
            layer.var.set_value(jnp.asarray(positive(rng, (features,), dtype)))
        case = {
            "layer": name,
            "features": features,
            "dtype": DTYPE_NAMES[np.dtype(dtype).name],
            "options": {**options, **({"over_batch": True} if over_batch else {})},
            "initial": initial,
            "drawn": drawn,
            "parameters": {key: array(value.get_value()) for key, value in named(layer).items()},
            "steps": [],
        }
        if name == "BatchNorm":
            case["statistics"] = statistics(layer)
        for _ in range(steps):
            x, weights = any_float(rng, shape, dtype), any_float(rng, shape, dtype)
            mask = None
            if masks is not None:
                mask = boolean(rng, masks, dtype)
                mask[..., 0] = True
                mask[0] = True
            case["steps"].append(step(layer, x, mask, weights, over_batch))
            if name == "BatchNorm":
                case["steps"][-1].update(statistics(layer))
        if name == "BatchNorm":
            layer.eval()
            x, weights = any_float(rng, shape, dtype), any_float(rng, shape, dtype)
            case["eval"] = {**step(layer, x, None, weights, over_batch), **statistics(layer)}
        return case


NORMALIZATIONS = [
    ("BatchNorm", (6, 3), dict(steps=3)),
    ("BatchNorm", (4, 2, 3), dict(steps=2, momentum=0.9, epsilon=1e-3)),
    ("BatchNorm", (3, 2, 4, 2), dict(steps=2, use_scale=False)),
    ("BatchNorm", (5, 3), dict(use_bias=False, use_fast_variance=False)),
    ("BatchNorm", (3, 4, 2), dict(features=4, axis=1, steps=2)),
    ("BatchNorm", (6, 3), dict(use_scale=False, use_bias=False)),
    ("BatchNorm", (6, 3), dict(masks=(6, 1), steps=2)),
    ("BatchNorm", (4, 3, 2), dict(masks=(4, 3, 2))),
    ("BatchNorm", (6, 3), dict(over_batch=True, steps=2)),
    ("BatchNorm", (4, 2, 3), dict(over_batch=True, use_fast_variance=False)),
    ("LayerNorm", (5, 4), {}),
    ("LayerNorm", (2, 3, 4), dict(epsilon=1e-2)),
    ("LayerNorm", (2, 3, 2, 4), dict(reduction_axes=(1, 2, 3))),
    ("LayerNorm", (2, 3, 4), dict(features=12, reduction_axes=(-2, -1), feature_axes=(-2, -1))),
    ("LayerNorm", (3, 4), dict(use_scale=False)),
    ("LayerNorm", (3, 4), dict(use_bias=False, use_fast_variance=False)),
    ("LayerNorm", (3, 4), dict(use_scale=False, use_bias=False)),
    ("LayerNorm", (3, 5), dict(masks=(3, 5))),
    ("RMSNorm", (5, 4), {}),
    ("RMSNorm", (2, 3, 2, 4), dict(epsilon=1e-2)),
    ("RMSNorm", (2, 3, 4), dict(use_scale=False)),
    ("RMSNorm", (2, 3, 4), dict(features=3, reduction_axes=1, feature_axes=1)),
    ("RMSNorm", (3, 5), dict(masks=(3, 5))),
    ("GroupNorm", (3, 6), dict(num_groups=2)),
    ("GroupNorm", (2, 3, 6), dict(num_groups=3, epsilon=1e-2)),
    ("GroupNorm", (2, 3, 2, 4), dict(num_groups=2)),
    ("GroupNorm", (2, 3, 4), dict(num_groups=1, use_fast_variance=False)),
    ("GroupNorm", (2, 3, 4), dict(num_groups=4, use_scale=False)),
    ("GroupNorm", (2, 3, 4), dict(num_groups=2, masks=(2, 3, 4))),
]


def embedding(shape, indices, dtype):
    rng = generator("embed", shape, indices, np.dtype(dtype).name)
    embeddings, features = shape
    with precision(dtype):
        layer = nnx.Embed(embeddings, features, param_dtype=dtype, rngs=nnx.Rngs(0))
        initial = array(layer.embedding.get_value())
        table = jnp.asarray(any_float(rng, shape, dtype))
        graphdef, state = nnx.split(layer)
        at = np.asarray(indices, np.int32)

        def with_table(table):
            return nnx.merge(graphdef, jax.tree.map(lambda _: table, state))

        rows = with_table(table)(at)
        query = any_float(rng, at.shape + (features,), dtype)
        of_rows = any_float(rng, rows.shape, dtype)
        products = with_table(table).attend(jnp.asarray(query))
        of_products = any_float(rng, products.shape, dtype)
        return {
            "dtype": DTYPE_NAMES[np.dtype(dtype).name],
            "initial": initial,
            "table": array(table),
            "indices": array(at),
            "rows": array(rows),
            "row_weights": array(of_rows),
            "row_gradient": array(jax.grad(lambda t: jnp.sum(of_rows * with_table(t)(at)))(table)),
            "query": array(query),
            "products": array(products),
            "product_weights": array(of_products),
            "product_gradients": arrays(
                jax.grad(
                    lambda t, q: jnp.sum(of_products * with_table(t).attend(q)), argnums=(0, 1)
                )(table, jnp.asarray(query))
            ),
            "tied_gradient": array(
                jax.grad(
                    lambda t: jnp.sum(of_products * with_table(t).attend(jnp.tanh(with_table(t)(at))))
                )(table)
            ),
        }


EMBEDDINGS = [
    ((5, 3), [0, 4, 4, 2]),
    ((4, 2), [[1, -1], [-4, 3]]),
    ((7, 4), [[[6], [0]]]),
    ((3, 2), 1),
]


def missing_rows():
    """A row that is not there."""
    layer = nnx.Embed(4, 2, rngs=nnx.Rngs(0))
    table = any_float(generator("missing rows"), (4, 2), np.float32)
    layer.embedding.set_value(jnp.asarray(table))
    indices = np.array([0, 4, -5, -4], np.int32)
    weights = any_float(generator("missing weights"), (4, 2), np.float32)
    graphdef, state = nnx.split(layer)

    def loss(state):
        return jnp.nansum(weights * nnx.merge(graphdef, state)(indices))

    return {
        "table": array(table),
        "indices": array(indices),
        "weights": array(weights),
        "rows": array(layer(indices)),
        "gradient": array(jax.grad(loss)(state)["embedding"].get_value()),
    }


def make_layers():
    normalizations = [
        normalization(name, shape, dtype, **dict(options))
        for name, shape, options in NORMALIZATIONS
        for dtype in FLOATS
    ]
    embeddings = [embedding(shape, at, dtype) for shape, at in EMBEDDINGS for dtype in FLOATS]
    write(
        "layers",
        {"normalizations": normalizations, "embeddings": embeddings, "missing_rows": missing_rows()},
    )
