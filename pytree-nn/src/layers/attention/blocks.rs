//! Attention to long sequences, in blocks of queries.
//!
//! The scores of all queries take memory that grows with the square of the length. The values of a query depend on the scores of
//! this query alone, so a long sequence is computed in blocks of queries, one after the other: the memory grows with the length.
//! Derivatives compute the scores of a block again instead of storing them.
//!
//! In causal attention, no query of the first part of the sequence attends to a key of the rest. So the queries are divided into
//! stripes, and the scores of a stripe end with the key of its last query.

use std::ops::Range;

use pytree_transform::{DType, Tensor, map, remat};

use super::dot_product::Attention;
use super::scores::part;

/// The least number of queries of a block.
const LEAST_QUERIES: usize = 16;

/// The number of stripes. With eight, a ninth of the scores that are computed are not needed.
const STRIPES: usize = 8;

impl Attention<'_> {
    /// Returns the values of all queries, in the order of the axes of the scores.
    #[track_caller]
    pub(super) fn in_blocks(&self, query: &Tensor) -> Tensor {
        let queries = query.shape()[self.layout.batch];
        let stripes = if self.ends_at_query() { STRIPES } else { 1 };
        let stripes = (0..stripes).map(|stripe| {
            let range = queries * stripe / stripes..queries * (stripe + 1) / stripes;
            self.stripe(query, range)
        });
        Tensor::concatenate(&stripes.collect::<Vec<_>>(), self.query_axis())
    }

    /// Returns the values of some consecutive queries.
    #[track_caller]
    fn stripe(&self, query: &Tensor, range: Range<usize>) -> Tensor {
        let batch = self.layout.batch;
        let keys = if self.ends_at_query() {
            range.end.min(self.keys())
        } else {
            self.keys()
        };
        let heads: usize = self.full[..=batch].iter().product();
        let size = (self.limits.block / (heads * keys).max(1)).max(LEAST_QUERIES);
        let blocks = range.len() / size;
        let mapped_end = range.start + blocks * size;
        let mut parts = Vec::new();
        if blocks > 0 {
            let mapped = part(query, batch, range.start..mapped_end);
            let mut shape = mapped.shape().to_vec();
            shape.splice(batch..=batch, [blocks, size]);
            let mapped = mapped.reshape(shape).move_axis(batch.cast_signed(), 0);
            let starts = Tensor::arange(DType::I32, blocks) * size + range.start;
            let block =
                remat(|(query, start): &(Tensor, Tensor)| self.rows(query, Some(start), keys));
            let values = map(|input: (Tensor, Tensor)| block(&input), (mapped, starts));
            // From [blocks, *batch, heads, size, ..] to [*batch, heads, blocks · size, ..].
            let values = values.move_axis(0, self.query_axis());
            let mut shape = values.shape().to_vec();
            shape.splice(batch + 1..batch + 3, [blocks * size]);
            parts.push(values.reshape(shape));
        }
        if mapped_end < range.end {
            let rest = part(query, batch, mapped_end..range.end);
            let start = Tensor::full(DType::I32, [], mapped_end);
            parts.push(self.rows(&rest, Some(&start), keys));
        }
        Tensor::concatenate(&parts, self.query_axis())
    }

    /// Returns whether the scores of a query may end with its own key. This key must be allowed, because a query without any allowed key
    /// attends to all keys alike.
    fn ends_at_query(&self) -> bool {
        let options = self.options;
        let has_masks = options.mask.is_some() || options.key_lengths.is_some();
        options.direction.is_causal() && !has_masks && self.extras.allowed.is_none()
    }

    /// Returns the axis of the queries in the scores.
    fn query_axis(&self) -> isize {
        (self.layout.batch + 1).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use pytree_transform::{Tensor, jit, value_and_grad, vmap};

    use super::*;
    use crate::layers::attention::dot_product::{AttentionOptions, Extras};
    use crate::layers::attention::masks::{padding_mask, window_mask};
    use crate::layers::attention::options::AttentionDirection;
    use crate::layers::attention::scores::Limits;
    use crate::random::Key;

    const QUERIES: usize = 150;
    const NEVER: Limits = Limits {
        whole: usize::MAX,
        block: 1,
    };
    const ALWAYS: Limits = Limits { whole: 0, block: 1 };

    type Inputs = (Tensor, Tensor, Tensor);

    fn attend(limits: Limits, (query, key, value): &Inputs, options: &AttentionOptions) -> Tensor {
        let extras = Extras::default();
        Attention::new(query, key, value, options, &extras, limits)
            .mixed(query)
            .by_query()
    }

    fn inputs(keys: usize, kv_heads: usize) -> Inputs {
        let normal = |seed, shape: [usize; 4]| Key::new(seed).normal(DType::F64, shape);
        let key = normal(1, [2, keys, kv_heads, 8]);
        (
            normal(0, [2, QUERIES, 4, 8]),
            key,
            normal(2, [2, keys, kv_heads, 5]),
        )
    }

    #[track_caller]
    fn assert_near(found: &Tensor, expected: &Tensor) {
        assert_eq!(found.shape(), expected.shape());
        let difference = (found - expected).abs().max().item::<f64>();
        assert!(difference < 1e-12, "{difference}");
    }

    /// Compares values and gradients with those of all scores at once.
    #[track_caller]
    fn check(inputs: &Inputs, options: &AttentionOptions) {
        let run = |limits| {
            let options = options.clone();
            let compiled = jit(move |inputs: Inputs| {
                let values = |inputs: &Inputs| attend(limits, inputs, &options);
                let loss = |inputs: &Inputs| values(inputs).sin().sum();
                (values(&inputs), value_and_grad(loss)(&inputs))
            });
            compiled(inputs.clone())
        };
        let (found, (_, found_gradient)) = run(ALWAYS);
        let (expected, (_, gradient)) = run(NEVER);
        assert_near(&found, &expected);
        assert_near(&attend(ALWAYS, inputs, options), &expected);
        for (found, expected) in [
            (&found_gradient.0, &gradient.0),
            (&found_gradient.1, &gradient.1),
            (&found_gradient.2, &gradient.2),
        ] {
            assert_near(found, expected);
        }
    }

    #[test]
    fn blocks_give_the_values_of_the_whole() {
        let causal = || AttentionOptions {
            direction: AttentionDirection::Causal,
            ..AttentionOptions::default()
        };
        let lengths = || Some(Tensor::from([0, 90]));
        for keys in [QUERIES, 100, 170] {
            check(&inputs(keys, 4), &AttentionOptions::default());
            check(&inputs(keys, 2), &causal());
            check(
                &inputs(keys, 1),
                &AttentionOptions {
                    local_window: Some((7, 3)),
                    ..causal()
                },
            );
            check(
                &inputs(keys, 4),
                &AttentionOptions {
                    key_lengths: lengths(),
                    query_lengths: lengths(),
                    ..causal()
                },
            );
        }
    }

    #[test]
    fn blocks_take_their_part_of_masks_and_biases() {
        let bias = |shape: &[usize]| Some(Key::new(3).normal(DType::F64, shape));
        for shape in [
            vec![],
            vec![150],
            vec![150, 1],
            vec![4, 150, 150],
            vec![2, 4, 150, 150],
        ] {
            check(
                &inputs(QUERIES, 2),
                &AttentionOptions {
                    bias: bias(&shape),
                    ..AttentionOptions::default()
                },
            );
        }
        for mask in [
            window_mask(QUERIES, QUERIES, 20, 0),
            padding_mask(&Tensor::from([0, 9]), QUERIES),
        ] {
            let options = AttentionOptions {
                mask: Some(mask),
                direction: AttentionDirection::Causal,
                ..AttentionOptions::default()
            };
            check(&inputs(QUERIES, 4), &options);
        }
    }

    #[test]
    fn blocks_nest_in_vmap() {
        let inputs = inputs(QUERIES, 2);
        let options = AttentionOptions {
            direction: AttentionDirection::Causal,
            ..AttentionOptions::default()
        };
        let each = vmap(|inputs: Inputs| attend(ALWAYS, &inputs, &options));
        assert_near(&each(inputs.clone()), &attend(NEVER, &inputs, &options));
    }
}
