//! Attention under transformations, the cache for decoding, and mistakes.

use pytree_core::kind::Cache;
use pytree_core::{Filter, Pytree, partition};
use pytree_nn::{
    AttentionDirection, AttentionOptions, DropoutMask, InputError, Key, KeyValueCache,
    LearnedPositions, LinearOptions, MultiHeadAttention, MultiHeadAttentionOptions, NormOptions,
    NormOrder, Rngs, SinusoidalPositions, TransformerBlock, TransformerBlockOptions, causal_mask,
    convert_floats, dot_product_attention, eval, padding_mask, rotary, try_dot_product_attention,
    try_rotary, window_mask, with_cache,
};
use pytree_transform::{DType, Tensor, grad, ix, jit, jit_mut, make_jaxpr, scan_mut, vmap};

use super::assert_near;

fn rngs() -> Rngs {
    Rngs::new(0)
}

fn normal(seed: u64, shape: &[usize]) -> Tensor {
    Key::new(seed).normal(DType::F32, shape)
}

#[track_caller]
fn message<T>(outcome: Result<T, InputError>) -> String {
    outcome.err().unwrap().to_string()
}

/// A causal layer with all options that the cache must respect.
fn grouped() -> MultiHeadAttention {
    let options = MultiHeadAttentionOptions {
        direction: AttentionDirection::Causal,
        kv_heads: Some(2),
        rotary_base: Some(100.0),
        qk_norm: Some(NormOptions::default()),
        ..MultiHeadAttentionOptions::default()
    };
    MultiHeadAttention::with_options(16, 4, options, &mut rngs())
}

fn token(x: &Tensor, place: usize) -> Tensor {
    x.index(ix![.., place..=place])
}

#[test]
fn decoding_in_parts_of_any_length_equals_whole() {
    let mut layer = grouped();
    let x = normal(1, &[3, 7, 16]);
    let whole = layer.forward(&x);
    for parts in [vec![1; 7], vec![3, 1, 3], vec![7], vec![2, 5]] {
        let mut decoder = with_cache(&layer, [3], 9);
        let mut start = 0;
        for part in parts {
            let range = start..start + part;
            let y = decoder.forward(&x.index(ix![.., range.clone()]));
            assert_near(&y, &whole.index(ix![.., range]));
            start += part;
        }
        assert_eq!(decoder.cache.unwrap().index.item::<i32>(), 7);
    }
}

#[test]
fn cache_works_under_scan_and_vmap() {
    let mut layer = grouped();
    let x = normal(1, &[3, 5, 16]);
    let whole = layer.forward(&x);

    let mut decoder = with_cache(&layer, [3], 5);
    let steps = x.transpose([1, 0, 2]).expand_dims(2);
    let run = jit_mut(|(decoder, steps): (&mut MultiHeadAttention, Tensor)| {
        scan_mut(
            |layer: &mut MultiHeadAttention, x: Tensor| layer.forward(&x),
            decoder,
            steps,
        )
    });
    let y = run((&mut decoder, steps));
    assert_near(&y.squeeze(2).transpose([1, 0, 2]), &whole);

    // Each example has a cache of its own, without a batch axis.
    let one = with_cache(&layer, [], 5);
    let each = vmap(|x: Tensor| {
        let mut decoder = one.clone();
        let tokens: Vec<Tensor> = (0..5)
            .map(|place| decoder.forward(&x.index(ix![place..=place])))
            .collect();
        Tensor::concatenate(&tokens, 0)
    });
    assert_near(&each(x), &whole);
}

#[test]
fn caches_are_states_in_collection() {
    let block = TransformerBlock::causal(8, 2, &mut rngs());
    assert_eq!(
        partition::filter(&block, &Filter::state::<Cache>()).len(),
        0
    );
    let decoder = with_cache(&block, [2], 4);
    let caches = partition::filter(&decoder, &Filter::state::<Cache>());
    let paths: Vec<String> = caches
        .iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(
        paths,
        [
            "attention.cache.key",
            "attention.cache.value",
            "attention.cache.index"
        ]
    );
    decoder.check_shapes().unwrap();
    // The parameters are those of the block, and a filled cache is emptied.
    let params = |block: &TransformerBlock| -> Vec<Tensor> {
        partition::filter(block, &Filter::param()).leaves().to_vec()
    };
    assert_eq!(params(&decoder), params(&block));
    let mut filled = decoder.clone();
    filled.forward(&normal(1, &[2, 3, 8]));
    assert_ne!(filled, decoder);
    assert_eq!(with_cache(&filled, [2], 4), decoder);
    // The caches have the dtype of the weights.
    let narrow = with_cache(&convert_floats(&block, DType::BF16), [2], 4);
    assert_eq!(narrow.attention.cache.unwrap().key.dtype(), DType::BF16);
}

#[test]
fn full_cache_is_an_error_or_nan() {
    let layer = MultiHeadAttention::causal(8, 2, &mut rngs());
    let mut decoder = with_cache(&layer, [1], 3);
    let x = normal(1, &[1, 2, 8]);
    decoder.forward(&x);
    let before = decoder.clone();
    assert_eq!(
        message(decoder.try_forward(&x)),
        "MultiHeadAttention has room for 3 tokens and holds 2, so 2 more do not fit; create a longer cache with `with_cache`, or a table with more positions"
    );
    assert_eq!(decoder, before, "a mistake writes nothing");
    // Under `jit` the number of tokens in the cache is not known.
    let step = jit_mut(|(layer, x): (&mut MultiHeadAttention, Tensor)| layer.forward(&x));
    let y = step((&mut decoder, token(&x, 0)));
    assert!(y.isfinite().all().item::<bool>());
    assert!(
        step((&mut decoder, token(&x, 0)))
            .isnan()
            .all()
            .item::<bool>()
    );
    assert!(
        step((&mut decoder, token(&x, 0)))
            .isnan()
            .all()
            .item::<bool>()
    );
    // The number of new tokens is known there, too.
    let failed = jit(|(mut layer, x): (MultiHeadAttention, Tensor)| {
        layer.try_forward(&x).unwrap_or_else(|error| {
            assert!(error.to_string().starts_with(
                "MultiHeadAttention has room for 3 tokens and holds 0, so 4 more do not fit"
            ));
            x.clone()
        })
    });
    let four = normal(1, &[1, 4, 8]);
    assert_eq!(failed((decoder, four.clone())), four);
}

#[test]
fn positions_continue_after_cached_tokens() {
    let x = normal(1, &[2, 5, 8]);
    let mut learned = LearnedPositions::new(6, 8, &mut rngs());
    let mut waves = SinusoidalPositions::default();
    let whole = (learned.forward(&x), waves.forward(&x));
    let (mut learned, mut waves) = with_cache(&(learned, waves), [2], 6);
    for range in [0..2, 2..3, 3..5] {
        let part = x.index(ix![.., range.clone()]);
        assert_near(
            &learned.forward(&part),
            &whole.0.index(ix![.., range.clone()]),
        );
        assert_near(&waves.forward(&part), &whole.1.index(ix![.., range]));
    }
    assert_eq!(
        message(learned.try_forward(&x)),
        "LearnedPositions has room for 6 tokens and holds 5, so 5 more do not fit; create a longer cache with `with_cache`, or a table with more positions"
    );
    let step = jit_mut(|(layer, x): (&mut LearnedPositions, Tensor)| layer.forward(&x));
    assert!(
        step((&mut learned, token(&x, 0)))
            .isfinite()
            .all()
            .item::<bool>()
    );
    assert!(
        step((&mut learned, token(&x, 0)))
            .isnan()
            .all()
            .item::<bool>()
    );
}

#[test]
fn attention_needs_no_transposes() {
    let count = |layer: &MultiHeadAttention, x: &Tensor| {
        let jaxpr = make_jaxpr(|(mut layer, x): (MultiHeadAttention, Tensor)| layer.forward(&x))((
            layer.clone(),
            x.clone(),
        ));
        let text = jaxpr.to_string();
        let lines = |name: &str| text.matches(name).count();
        (lines("dot_general"), lines("transpose"), lines("gather"))
    };
    let x = normal(1, &[2, 5, 16]);
    // Four projections, the scores and the mixed values.
    assert_eq!(
        count(&MultiHeadAttention::causal(16, 4, &mut rngs()), &x),
        (6, 0, 0)
    );
    let options = MultiHeadAttentionOptions {
        kv_heads: Some(2),
        ..MultiHeadAttentionOptions::default()
    };
    let groups = MultiHeadAttention::with_options(16, 4, options, &mut rngs());
    assert_eq!(count(&groups, &x), (6, 0, 0));
    let decoder = with_cache(&MultiHeadAttention::causal(16, 4, &mut rngs()), [2], 8);
    assert_eq!(count(&decoder, &token(&x, 0)), (6, 0, 0));
}

#[test]
fn attention_is_batched_by_vmap() {
    let [query, key, value] = [1, 2, 3].map(|seed| normal(seed, &[3, 2, 4, 2, 6]));
    let attention = |(query, key, value): (Tensor, Tensor, Tensor)| {
        let options = AttentionOptions {
            direction: AttentionDirection::Causal,
            ..AttentionOptions::default()
        };
        dot_product_attention(&query, &key, &value, &options)
    };
    let given = (query, key, value);
    assert_near(&vmap(attention)(given.clone()), &attention(given));
}

#[test]
fn window_and_masks_agree() {
    let x = normal(1, &[2, 5, 2, 4]);
    let with = |options: AttentionOptions| dot_product_attention(&x, &x, &x, &options);
    let window = with(AttentionOptions {
        local_window: Some((2, 0)),
        ..AttentionOptions::default()
    });
    let masks = with(AttentionOptions {
        mask: Some(window_mask(5, 5, 2, 4)),
        direction: AttentionDirection::Causal,
        ..AttentionOptions::default()
    });
    assert_near(&window, &masks);
    assert_eq!(window_mask(4, 4, usize::MAX, 0), causal_mask(4, 4));
    let empty = with(AttentionOptions {
        mask: Some(Tensor::from(false)),
        ..AttentionOptions::default()
    });
    assert_near(&empty, &x.mean_keep([1]).broadcast_to([2, 5, 2, 4]));
}

#[test]
fn rotary_scores_depend_on_distance() {
    let [query, key] = [1, 2].map(|seed| normal(seed, &[1, 1, 8]));
    let score = |place: i32, other: i32| {
        let turned = |x: &Tensor, place: i32| rotary(x, &Tensor::from([place]), 10_000.0);
        (turned(&query, place) * turned(&key, other)).sum()
    };
    assert_near(&score(3, 1), &score(12, 10));
    assert!((score(3, 1) - score(3, 2)).abs().item::<f32>() > 1e-3);
    let narrow = rotary(&query.convert(DType::BF16), &Tensor::from([300]), 10_000.0);
    let wide = rotary(
        &query.convert(DType::BF16).convert(DType::F32),
        &Tensor::from([300]),
        10_000.0,
    );
    assert_eq!(
        narrow,
        wide.convert(DType::BF16),
        "computed in f32, and rounded once"
    );
}

#[test]
fn attention_dropout_stops_in_evaluation() {
    let options = MultiHeadAttentionOptions {
        dropout_rate: 0.5,
        dropout_mask: DropoutMask::PerHead,
        ..MultiHeadAttentionOptions::default()
    };
    let mut layer = MultiHeadAttention::with_options(8, 2, options, &mut rngs());
    let x = normal(1, &[2, 6, 8]);
    assert_ne!(layer.forward(&x), layer.forward(&x));
    assert_eq!(layer.stream().unwrap().count().item::<u32>(), 2);
    let mut quiet = eval(&layer);
    assert_eq!(quiet.forward(&x), quiet.forward(&x));
    assert_eq!(quiet.stream(), layer.stream());
    // Without a rate there is no stream, and no key is drawn for it.
    let mut own = rngs();
    let layer = MultiHeadAttention::new(8, 2, &mut own);
    assert!(layer.stream().is_none());
    assert_eq!(own.stream_mut("default").unwrap().count().item::<u32>(), 8);
}

#[test]
fn block_normalises_before_or_after() {
    let x = normal(1, &[2, 3, 8]);
    let mut pre = TransformerBlock::new(8, 2, &mut rngs());
    let inner = &x + pre.attention.forward(&pre.attention_norm.forward(&x));
    let expected = &inner + pre.mlp.forward(&pre.mlp_norm.forward(&inner));
    assert_near(&pre.forward(&x), &expected);
    let options = TransformerBlockOptions {
        norm_order: NormOrder::Post,
        dropout_rate: 0.5,
        ..TransformerBlockOptions::default()
    };
    let post = TransformerBlock::with_options(8, 2, options, &mut rngs());
    let mut post = eval(&post);
    let inner = post
        .attention_norm
        .forward(&(&x + post.attention.forward(&x)));
    let expected = post.mlp_norm.forward(&(&inner + post.mlp.forward(&inner)));
    assert_near(&post.forward(&x), &expected);
    let mask = padding_mask(&Tensor::from([1, 3]), 3);
    assert_ne!(post.forward_masked(&x, &mask), post.forward(&x));
}

#[test]
fn block_is_differentiated_and_compiled_in_f64() {
    let attention = MultiHeadAttentionOptions {
        linear: LinearOptions {
            param_dtype: DType::F64,
            ..LinearOptions::default()
        },
        ..MultiHeadAttentionOptions::default()
    };
    let options = TransformerBlockOptions {
        attention,
        ..TransformerBlockOptions::default()
    };
    let block = TransformerBlock::with_options(8, 2, options, &mut rngs());
    let x = Key::new(1).normal(DType::F64, [2, 3, 8]);
    let loss = |x: &Tensor| block.clone().forward(x).square().sum();
    let direction = Key::new(2).normal(DType::F64, [2, 3, 8]);
    let slope = (grad(loss)(&x) * &direction).sum().item::<f64>();
    let step = 1e-5;
    let at = |step: f64| loss(&(&x + &direction * step)).item::<f64>();
    let difference = (at(step) - at(-step)) / (2.0 * step);
    assert!(
        (slope - difference).abs() < 1e-6 * slope.abs(),
        "{slope} {difference}"
    );
}

#[test]
fn wrong_inputs_of_function_are_reported() {
    let x = normal(1, &[2, 3, 4, 8]);
    let none = AttentionOptions::default();
    let other = normal(1, &[2, 3, 4, 6]);
    assert_eq!(
        message(try_dot_product_attention(&x, &other, &x, &none)),
        "dot_product_attention: key is f32[2,3,4,6], expected T[*batch keys kv_heads head_dim] with head_dim = 8 (from query: f32[2,3,4,8] as T: float[*batch queries heads head_dim]); pass key and query with the same `head_dim`"
    );
    let three = normal(1, &[2, 3, 3, 8]);
    assert_eq!(
        message(try_dot_product_attention(&x, &three, &three, &none)),
        "dot_product_attention expects a number of key heads that divides the 4 heads of the query, found f32[2,3,3,8]; pass a key and a value whose number of heads divides the number of heads of the query; in dot_product_attention, queries = 3 (from query), heads = 4 (from query), head_dim = 8 (from query), keys = 3 (from key), kv_heads = 3 (from key), value_dim = 8 (from value)"
    );
    let wrong = [
        (
            AttentionOptions {
                mask: Some(Tensor::ones(DType::F32, [3, 3])),
                ..none.clone()
            },
            "dot_product_attention expects a bool mask that broadcasts to [*batch, heads, queries, keys] = [2, 4, 3, 3], found f32[3,3]",
        ),
        (
            AttentionOptions {
                mask: Some(causal_mask(3, 2)),
                ..none.clone()
            },
            "dot_product_attention expects a bool mask that broadcasts to [*batch, heads, queries, keys] = [2, 4, 3, 3], found bool[3,2]",
        ),
        (
            AttentionOptions {
                bias: Some(causal_mask(3, 3)),
                ..none.clone()
            },
            "dot_product_attention expects a float bias that broadcasts to [*batch, heads, queries, keys] = [2, 4, 3, 3], found bool[3,3]",
        ),
        (
            AttentionOptions {
                key_lengths: Some(Tensor::from([1, 2, 3])),
                ..none.clone()
            },
            "dot_product_attention expects integer lengths of the shape [2], found i32[3]",
        ),
    ];
    for (options, expected) in wrong {
        let found = message(try_dot_product_attention(&x, &x, &x, &options));
        assert!(found.starts_with(expected), "{found}");
    }
    let odd = normal(1, &[2, 3, 5]);
    assert!(
        message(try_rotary(&odd, &Tensor::arange(DType::I32, 2), 1e4)).starts_with(
            "rotary expects x with an even number of elements in each head, found f32[2,3,5]"
        )
    );
}

#[test]
fn wrong_inputs_of_layer_are_reported() {
    let mut layer = MultiHeadAttention::causal(8, 2, &mut rngs());
    assert!(
        message(layer.try_forward(&Tensor::from([1, 2]))).starts_with(
            "MultiHeadAttention::forward: x is i32[2], expected T: float[*batch tokens _]"
        )
    );
    let x = normal(1, &[2, 3, 8]);
    assert!(
        message(layer.try_forward_masked(&x, &causal_mask(2, 2))).starts_with(
            "MultiHeadAttention expects a bool mask that broadcasts to [*batch, heads, queries, keys] = [2, 2, 3, 3], found bool[2,2]"
        )
    );
    let mut decoder = with_cache(&layer, [4], 8);
    assert!(
        message(decoder.try_forward(&x))
            .starts_with("MultiHeadAttention expects x with the batch [4] of its cache, found f32[2,3,8]; pass as many sequences as the cache has, or call `with_cache` with the batch of x")
    );
    decoder.cache = Some(KeyValueCache::new(DType::F64, &[2], 8, 2, 4));
    assert!(message(decoder.try_forward(&x)).starts_with(
        "MultiHeadAttention expects keys and values like those in its cache, f64[2,8,2,4], found f32[2,3,2,4]; call `with_cache` again after the layer was changed"
    ));
    layer.out.weight = normal(2, &[4, 4, 8]);
    assert!(layer.try_forward(&x).is_err());
}

#[test]
#[should_panic(expected = "found 3 heads and 8 features; choose a number of heads that divides 8")]
fn heads_divide_the_features() {
    let _ = MultiHeadAttention::new(8, 3, &mut rngs());
}

#[test]
#[should_panic(expected = "found 3 key heads and 4 heads; choose a `kv_heads` that divides 4")]
fn key_heads_divide_the_heads() {
    let options = MultiHeadAttentionOptions {
        kv_heads: Some(3),
        ..MultiHeadAttentionOptions::default()
    };
    let _ = MultiHeadAttention::with_options(8, 4, options, &mut rngs());
}

#[test]
#[should_panic(expected = "cannot create caches: the model has no causal MultiHeadAttention")]
fn model_without_causal_attention_has_no_cache() {
    let _ = with_cache(&TransformerBlock::new(8, 2, &mut rngs()), [1], 4);
}
