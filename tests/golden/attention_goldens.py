"""attention.json: attention of JAX, and the attention layer of Flax NNX.

With `loss = sum(weights * f(inputs))`, `gradients` are those of the loss. In f64, `jax.nn.dot_product_attention` rounds
the scores to f32. So figures of f64 come from the other path of `nnx.dot_product_attention`, which computes the softmax
in f64; it is chosen by the argument `module`.
"""

from golden_cases import *

import ml_dtypes
from flax import nnx
from jax._src.nn import functions as jax_functions

BF16 = np.dtype(ml_dtypes.bfloat16)


def name_of(dtype):
    return DTYPE_NAMES[np.dtype(dtype).name]


# ---------------------------------------------------------------------------
# The function
# ---------------------------------------------------------------------------


def in_f64(query, key, value, bias, mask, scale, is_causal, query_lengths, key_lengths, window):
    """The same attention, by functions of Flax and JAX that compute in f64."""
    queries, keys = query.shape[1], key.shape[1]
    masks = [] if mask is None else [mask]
    if is_causal:
        masks.append(jax_functions._get_causal_mask(queries, keys))
    if window is not None:
        masks.append(jax_functions._get_window_mask(queries, keys, window))
    if key_lengths is not None or query_lengths is not None:
        masks.append(jax_functions._get_padding_mask_logits(queries, keys, query_lengths, key_lengths))
    mask = nnx.combine_masks(*masks)
    if scale is not None:
        query = query * (scale * np.sqrt(query.shape[-1]))
    y = nnx.dot_product_attention(
        query, key, value, bias, mask, deterministic=True, module=nnx.Module(), dtype=jnp.float64
    )
    if query_lengths is not None:
        y = y * jax_functions._get_padding_mask_encoded(queries, query_lengths)
    return y


def function_case(dtype, shape, kv_heads=None, keys=None, bias=None, mask=None, scale=None, is_causal=False,
                  query_lengths=None, key_lengths=None, window=None, empty_row=False):
    rng = generator("attention", np.dtype(dtype).name, shape, kv_heads, keys, bias, mask, scale, is_causal,
                    query_lengths, key_lengths, window, empty_row)
    batch, queries, heads, depth = shape
    of_key = (batch, keys or queries, kv_heads or heads, depth)
    with precision(dtype):
        query, key, value = (jnp.asarray(any_float(rng, s, dtype)) for s in (shape, of_key, of_key))
        weights = jnp.asarray(any_float(rng, shape, dtype))
        bias = None if bias is None else jnp.asarray(any_float(rng, bias, dtype))
        if mask is not None:
            mask = rng.integers(0, 3, mask) > 0
            if empty_row:
                mask[..., 1, :] = False
            mask = jnp.asarray(mask)
        lengths = [None if n is None else jnp.asarray(n, jnp.int32) for n in (query_lengths, key_lengths)]

        def attention(query, key, value, bias):
            if np.dtype(dtype) == np.float64:
                return in_f64(query, key, value, bias, mask, scale, is_causal, *lengths, window)
            return jax.nn.dot_product_attention(
                query, key, value, bias, mask, scale=scale, is_causal=is_causal,
                query_seq_lengths=lengths[0], key_value_seq_lengths=lengths[1], local_window_size=window,
            )

        def loss(*inputs):
            return jnp.sum((weights * attention(*inputs)).astype(jnp.promote_types(dtype, jnp.float32)))

        differentiated = (0, 1, 2) if bias is None else (0, 1, 2, 3)
        gradients = jax.grad(loss, argnums=differentiated)(query, key, value, bias)
        return {
            "dtype": name_of(dtype),
            "query": array(query), "key": array(key), "value": array(value), "weights": array(weights),
            "bias": array(bias), "mask": array(mask), "scale": scale, "is_causal": is_causal,
            "query_lengths": array(lengths[0]), "key_lengths": array(lengths[1]), "window": window,
            "y": array(attention(query, key, value, bias)),
            "gradients": arrays(gradients),
        }


FUNCTIONS = [
    ((2, 3, 2, 4), {}),
    ((1, 4, 2, 2), dict(is_causal=True)),
    ((2, 3, 2, 4), dict(keys=5, is_causal=True)),
    ((2, 3, 4, 2), dict(kv_heads=2)),
    ((2, 4, 4, 2), dict(kv_heads=1, is_causal=True, keys=3)),
    ((2, 3, 2, 4), dict(bias=(2, 2, 3, 3), scale=0.25)),
    ((2, 3, 4, 2), dict(kv_heads=2, bias=(1, 4, 3, 3))),
    ((2, 3, 2, 4), dict(mask=(2, 2, 3, 3), empty_row=True)),
    ((2, 3, 4, 2), dict(kv_heads=2, mask=(2, 4, 3, 5), keys=5)),
    ((2, 3, 4, 2), dict(kv_heads=2, mask=(2, 1, 3, 3), is_causal=True)),
    ((2, 5, 2, 2), dict(window=(1, 2))),
    ((2, 5, 4, 2), dict(window=(2, 0), kv_heads=1, is_causal=True)),
    ((3, 4, 2, 2), dict(key_lengths=(4, 2, 0))),
    ((3, 4, 4, 2), dict(key_lengths=(1, 2, 4), query_lengths=(4, 0, 3), kv_heads=2)),
    ((2, 4, 2, 2), dict(query_lengths=(4, 1), bias=(2, 1, 1, 4), mask=(1, 1, 4, 4), scale=2.0)),
]


# ---------------------------------------------------------------------------
# Rotary and sinusoidal positions
# ---------------------------------------------------------------------------


def rotary_case(dtype, shape, positions, theta):
    rng = generator("rotary", np.dtype(dtype).name, shape, positions, theta)
    with precision(dtype):
        x, weights = (jnp.asarray(any_float(rng, shape, dtype)) for _ in range(2))
        at = jnp.asarray(positions, dtype)
        rope = nnx.RoPE(theta=theta)
        axes = (-2, None) if at.ndim == 1 else None

        def rotated(x):
            over_heads = jax.vmap(rope, in_axes=(-2, None), out_axes=-2)
            if at.ndim == 1:
                return over_heads(x, at)
            return jax.vmap(over_heads)(x, at)

        return {
            "x": array(x), "positions": array(jnp.asarray(positions, jnp.int32)), "base": theta, "weights": array(weights),
            "y": array(rotated(x)),
            "gradient": array(jax.grad(lambda x: jnp.sum(weights * rotated(x)))(x)),
        }


ROTARIES = [
    ((2, 3, 2, 4), [0, 1, 2], 10000.0),
    ((3, 2, 6), [5, 0, 17], 100.0),
    ((2, 3, 1, 8), [[0, 1, 2], [4, 9, 30]], 10000.0),
]


def sinusoidal_case(dtype, positions, features):
    """The formula of Vaswani et al., 2017, section 3.5."""
    with precision(dtype):
        at = jnp.asarray(positions, dtype)
        index = jnp.arange(features)
        angle = at[..., None] / jnp.power(jnp.asarray(10000.0, dtype), (2 * (index // 2) / features).astype(dtype))
        return {
            "positions": array(jnp.asarray(positions, jnp.int32)), "features": features,
            "y": array(jnp.where(index % 2 == 0, jnp.sin(angle), jnp.cos(angle))),
        }


# ---------------------------------------------------------------------------
# The layer
# ---------------------------------------------------------------------------


def parameters(layer):
    flat = nnx.to_flat_state(nnx.state(layer, nnx.Param))
    return {".".join(map(str, path)): value for path, value in flat}


def layer_case(dtype, x_shape, heads, context=None, masks=None, is_causal=False, rotary=False, steps=1, **options):
    label = sorted((k, repr(v)) for k, v in options.items())
    rng = generator("layer", np.dtype(dtype).name, x_shape, heads, context, masks, is_causal, rotary, label)
    with precision(dtype):
        rngs = nnx.Rngs(0)
        made = dict(options)
        if rotary:
            # The positions are an argument, because RoPE computes default positions in f32.
            at = jnp.arange(x_shape[1], dtype=dtype)
            rope = nnx.RoPE()

            def attention(query, key, value, **rest):
                turn = jax.vmap(rope, in_axes=(-2, None), out_axes=-2)
                return nnx.dot_product_attention(turn(query, at), turn(key, at), value, **rest)

            made["attention_fn"] = attention
        layer = nnx.MultiHeadAttention(
            heads, x_shape[-1], decode=False, deterministic=False, param_dtype=dtype, dtype=dtype, rngs=rngs, **made
        )
        initial = {name: array(value.get_value()) for name, value in parameters(layer).items()}
        drawn = int(rngs["default"].count.get_value())
        for value in parameters(layer).values():
            value.set_value(jnp.asarray(any_float(rng, value.get_value().shape, dtype) / 2))
        case = {
            "dtype": name_of(dtype), "heads": heads, "features": x_shape[-1], "options": options,
            "is_causal": is_causal, "rotary": rotary, "initial": initial, "drawn": drawn,
            "parameters": {name: array(value.get_value()) for name, value in parameters(layer).items()},
            "steps": [],
        }
        for _ in range(steps):
            x = jnp.asarray(any_float(rng, x_shape, dtype))
            other = x if context is None else jnp.asarray(any_float(rng, context, dtype))
            mask = None if masks is None else jnp.asarray(rng.integers(0, 3, masks) > 0)
            graphdef, params, rest = nnx.split(layer, nnx.Param, ...)

            def run(params, x, other):
                model = nnx.merge(graphdef, params, rest, copy=True)
                inputs = (x,) if context is None else (x, other)
                # Sowing chooses the path that computes in the dtype of the inputs.
                sow = np.dtype(dtype) == np.float64
                y = model(*inputs, mask=mask, is_causal=is_causal, sow_weights=sow)
                return y, nnx.state(model, nnx.RngState)

            out, _ = run(params, x, other)
            # The gradient of the bias of the keys is 0. Small weights keep its rounding errors small.
            weights = jnp.asarray(any_float(rng, out.shape, dtype) / 8)

            def loss(params, x, other):
                y, state = run(params, x, other)
                return jnp.sum(weights * y), (y, state)

            (_, (y, state)), (of_params, of_x, of_other) = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(
                params, x, other
            )
            nnx.update(layer, state)
            of_params = {".".join(map(str, p)): array(v.get_value()) for p, v in nnx.to_flat_state(of_params)}
            case["steps"].append({
                "x": array(x), "context": None if context is None else array(other), "mask": array(mask),
                "weights": array(weights), "y": array(y), "gradients": of_params, "gradient_of_x": array(of_x),
                "gradient_of_context": None if context is None else array(of_other),
            })
        return case


LAYERS = [
    ((2, 3, 4), 2, {}),
    ((2, 4, 6), 3, dict(is_causal=True)),
    ((2, 3, 4), 2, dict(qkv_features=8, out_features=5, use_bias=False)),
    ((2, 3, 4), 4, dict(num_kv_heads=2, qkv_features=8, is_causal=True)),
    ((2, 3, 4), 2, dict(context=(2, 5, 6), in_kv_features=6, masks=(2, 1, 3, 5))),
    ((2, 3, 8), 2, dict(normalize_qk=True, masks=(2, 2, 3, 3))),
    ((2, 4, 8), 2, dict(rotary=True, is_causal=True)),
    ((2, 4, 4), 2, dict(dropout_rate=0.5, steps=3)),
    ((2, 4, 4), 4, dict(dropout_rate=0.25, broadcast_dropout=False, num_kv_heads=2, steps=2)),
]


# ---------------------------------------------------------------------------
# The cache
# ---------------------------------------------------------------------------


def cache_case(dtype, x_shape, heads, length, masks=None, **options):
    label = sorted((k, repr(v)) for k, v in options.items())
    rng = generator("cache", np.dtype(dtype).name, x_shape, heads, length, masks, label)
    with precision(dtype):
        layer = nnx.MultiHeadAttention(heads, x_shape[-1], decode=True, param_dtype=dtype, dtype=dtype, rngs=nnx.Rngs(0), **options)
        for value in parameters(layer).values():
            value.set_value(jnp.asarray(any_float(rng, value.get_value().shape, dtype) / 2))
        layer.init_cache((x_shape[0], length, x_shape[-1]), dtype=dtype)
        x = jnp.asarray(any_float(rng, x_shape, dtype))
        case = {
            "dtype": name_of(dtype), "heads": heads, "features": x_shape[-1], "options": options, "length": length,
            "parameters": {name: array(value.get_value()) for name, value in parameters(layer).items()},
            "x": array(x), "steps": [],
        }
        for token in range(x_shape[1]):
            mask = None if masks is None else jnp.asarray(rng.integers(0, 3, masks) > 0)
            sow = np.dtype(dtype) == np.float64
            y = layer(x[:, token : token + 1], mask=mask, sow_weights=sow, deterministic=True)
            case["steps"].append({
                "mask": array(mask), "y": array(y), "key": array(layer.cached_key.get_value()),
                "value": array(layer.cached_value.get_value()), "index": array(layer.cache_index.get_value()),
            })
        return case


CACHES = [
    ((2, 3, 4), 2, 4, {}),
    ((1, 4, 8), 4, 4, dict(num_kv_heads=1, normalize_qk=True)),
    ((2, 3, 6), 3, 5, dict(masks=(2, 1, 1, 5), use_bias=False)),
]


def make_attention():
    write("attention", {
        "functions": [function_case(dtype, shape, **options) for shape, options in FUNCTIONS for dtype in (*FLOATS, BF16)],
        "rotaries": [rotary_case(dtype, *case) for case in ROTARIES for dtype in FLOATS],
        "sinusoidals": [sinusoidal_case(dtype, at, n) for at, n in (([0, 1, 7], 6), ([[3], [20]], 4)) for dtype in FLOATS],
        # With x64, Flax draws the numbers for dropout in f64. They are other numbers than those in f32.
        "layers": [
            layer_case(dtype, shape, heads, **options)
            for shape, heads, options in LAYERS
            for dtype in (FLOATS if "dropout_rate" not in options else FLOATS[:1])
        ],
        "caches": [cache_case(dtype, shape, heads, length, **options) for shape, heads, length, options in CACHES for dtype in FLOATS],
    })
