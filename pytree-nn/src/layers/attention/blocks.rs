//! Attention to long sequences, in blocks of queries.
//!
//! The scores of all queries take memory that grows with the square of the length. The values of a query depend on the scores of
//! this query alone, so a long sequence is computed head by head, in blocks of queries whose scores fit the cache of a core: the
//! memory grows with the length. Derivatives compute the scores of a block again instead of storing them (Dao et al. 2022).
//! A block has all keys of its queries, so it needs no running maximum.
//!
//! In causal attention and with a window, most queries attend to a part of the keys. So the queries are divided into stripes, and the
//! scores of a stripe contain only the keys between those of its first and its last query.

use std::ops::Range;

use pytree_base::bug::expect_next;
use pytree_transform::{DType, Remat, Tensor, map, remat};

use super::dot_product::Attention;
use super::scores::{ScoreAxes, part};

/// The least number of queries of a block.
const LEAST_QUERIES: usize = 16;

/// The most queries of a block.
const QUERIES: usize = 128;

/// The most stripes. With eight, a ninth of the causal scores that are computed is not needed.
const STRIPES: usize = 8;

/// The most stripes with a window.
const WINDOW_STRIPES: usize = 64;

impl Attention<'_> {
    /// Returns the values of all queries, in the order of the axes of the scores.
    #[track_caller]
    pub(super) fn in_blocks(&self, query: &Tensor) -> Tensor {
        let ScoreAxes {
            batch,
            kv_heads,
            group,
        } = self.layout;
        // The axes `[*batch, kv_heads, …]` come first.
        let by_head = |tensor: &Tensor, group: usize| {
            let mut shape = tensor.shape().to_vec();
            shape.splice(batch + 1..batch + 2, [kv_heads, group]);
            let (from, to) = ((batch + 1).cast_signed(), batch.cast_signed());
            tensor.reshape(shape).move_axis(from, to)
        };
        let leading = batch + 1;
        let terms = self.bias.iter().chain(&self.masks);
        let terms = terms.map(|term| {
            let ones = vec![1; leading + 2 - term.rank()];
            let mut shape = [&ones, term.shape()].concat();
            let heads = if shape[batch] == 1 {
                [1, 1]
            } else {
                [kv_heads, group]
            };
            shape.splice(batch..=batch, heads);
            term.reshape(shape)
        });
        let tensors = [
            by_head(query, group),
            by_head(&self.key, 1),
            by_head(&self.value, 1),
        ];
        let tensors = tensors.into_iter().chain(terms).collect();
        let head = |tensors: &Vec<Tensor>| {
            let mut terms = tensors[3..].iter().cloned();
            let head = Self {
                layout: ScoreAxes {
                    batch: 0,
                    kv_heads: 1,
                    group,
                },
                key: tensors[1].clone(),
                value: tensors[2].clone(),
                bias: self.bias.as_ref().and_then(|_| terms.next()),
                masks: terms.collect(),
                ..*self
            };
            head.by_stripes(&tensors[0]).squeeze(0)
        };
        over(leading, tensors, &remat(head))
    }

    /// Returns the values of all queries of a head of keys.
    #[track_caller]
    fn by_stripes(&self, query: &Tensor) -> Tensor {
        let queries = self.queries;
        let most = match self.window {
            _ if self.range(0..1) == self.range(queries - 1..queries) => 1,
            Some(_) => WINDOW_STRIPES,
            None => STRIPES,
        };
        let stripes = queries.div_ceil(QUERIES).min(most);
        let stripes =
            (0..stripes).map(|stripe| queries * stripe / stripes..queries * (stripe + 1) / stripes);
        Tensor::concatenate(&self.stripes(query, &stripes.collect::<Vec<_>>()), 1)
    }

    /// Returns the values of each stripe. A stripe takes its keys from those of several stripes and not from all keys, because the
    /// derivative of a part is as long as what it is taken from.
    #[track_caller]
    fn stripes(&self, query: &Tensor, stripes: &[Range<usize>]) -> Vec<Tensor> {
        let (first, last) = (&stripes[0], &stripes[stripes.len() - 1]);
        let keys = self.range(first.start..last.end);
        let range = keys.start - self.first_key..keys.end - self.first_key;
        let these = Self {
            key: part(&self.key, 0, range.clone()),
            value: part(&self.value, 0, range),
            first_key: keys.start,
            bias: self.bias.clone(),
            masks: self.masks.clone(),
            ..*self
        };
        if stripes.len() == 1 {
            return vec![these.stripe(query, first.clone())];
        }
        let (left, right) = stripes.split_at(match self.window {
            Some(_) => stripes.len() / 2,
            None => stripes.len() - 1,
        });
        // The derivative runs in the opposite order. So it adds the parts of a short stripe to those of a longer one and frees them.
        let right = these.stripes(query, right);
        [these.stripes(query, left), right].concat()
    }

    /// Returns the values of some consecutive queries.
    #[track_caller]
    fn stripe(&self, query: &Tensor, range: Range<usize>) -> Tensor {
        let block = remat(|(query, start): &(Tensor, Tensor)| self.rows(query, Some(start)));
        let size = self.limits.block / (self.layout.group * self.key.shape()[0]).max(1);
        let size = size.clamp(LEAST_QUERIES, QUERIES);
        let blocks = range.len() / size;
        let mut mapped_end = range.start;
        let mut parts = Vec::new();
        if blocks > 1 {
            mapped_end += blocks * size;
            let mapped = part(query, 0, range.start..mapped_end);
            let mapped = mapped.reshape([&[blocks, size], &query.shape()[1..]].concat());
            let starts = Tensor::arange(DType::I32, blocks) * size + range.start;
            let values = map(|input: (Tensor, Tensor)| block(&input), (mapped, starts));
            // From [blocks, 1, size, ..] to [1, blocks · size, ..].
            let mut shape = values.shape().to_vec();
            shape.splice(..3, [1, blocks * size]);
            parts.push(values.reshape(shape));
        }
        if mapped_end < range.end {
            let start = Tensor::full(DType::I32, [], mapped_end);
            parts.push(block(&(part(query, 0, mapped_end..range.end), start)));
        }
        Tensor::concatenate(&parts, 1)
    }

    /// Returns the keys that some consecutive queries may attend to by their positions. These are all keys if a query may have no
    /// allowed key, because it then attends to all keys alike.
    fn range(&self, queries: Range<usize>) -> Range<usize> {
        let keys = self.keys;
        if !self.masks.is_empty() || (self.window.is_some() && self.queries > keys) {
            return 0..keys;
        }
        let (left, right) = self.window.unwrap_or((usize::MAX, usize::MAX));
        let right = if self.is_causal { 0 } else { right };
        let end = queries.end.saturating_add(right).min(keys);
        queries.start.saturating_sub(left).min(end)..end
    }
}

/// Maps a function over the first `count` axes of all tensors, of which those of length 1 are repeated.
#[track_caller]
fn over(count: usize, tensors: Vec<Tensor>, function: &Remat<'_, Vec<Tensor>, Tensor>) -> Tensor {
    let Some(rest) = count.checked_sub(1) else {
        return function(&tensors);
    };
    let length = tensors[0].shape()[0];
    if length == 1 {
        let tensors = tensors.iter().map(|tensor| tensor.squeeze(0));
        return over(rest, tensors.collect(), function).expand_dims(0);
    }
    let is_mapped = |tensor: &&Tensor| tensor.shape()[0] == length;
    let mapped: Vec<Tensor> = tensors.iter().filter(is_mapped).cloned().collect();
    let each = |elements: Vec<Tensor>| {
        let mut elements = elements.into_iter();
        let tensors = tensors.iter().map(|tensor| {
            if is_mapped(&tensor) {
                expect_next(&mut elements, "an element of each mapped tensor")
            } else {
                tensor.squeeze(0)
            }
        });
        over(rest, tensors.collect(), function)
    };
    map(each, mapped)
}

#[cfg(test)]
mod tests {
    use pytree_transform::{Tensor, grad, jit, jvp, value_and_grad, vmap};

    use super::*;
    use crate::layers::attention::dot_product::{AttentionOptions, Extras};
    use crate::layers::attention::masks::{padding_mask, window_mask};
    use crate::layers::attention::options::AttentionDirection;
    use crate::layers::attention::scores::{LIMITS, Limits};
    use crate::random::Key;

    const TOKENS: usize = 150;
    const NEVER: Limits = Limits {
        divided: usize::MAX,
        block: 1,
    };
    const ALWAYS: Limits = Limits {
        divided: 0,
        block: 1,
    };

    type Inputs = (Tensor, Tensor, Tensor);

    fn attend(limits: Limits, (query, key, value): &Inputs, options: &AttentionOptions) -> Tensor {
        let extras = Extras::default();
        Attention::new(query, key, value, options, &extras, limits)
            .mixed(query, options.query_lengths.as_ref())
            .by_query()
    }

    fn inputs(keys: usize, kv_heads: usize) -> Inputs {
        inputs_of(TOKENS, keys, kv_heads)
    }

    fn inputs_of(queries: usize, keys: usize, kv_heads: usize) -> Inputs {
        let normal = |seed, shape: [usize; 4]| Key::new(seed).normal(DType::F64, shape);
        let key = normal(1, [2, keys, kv_heads, 8]);
        (
            normal(0, [2, queries, 4, 8]),
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

    fn causal() -> AttentionOptions {
        AttentionOptions {
            direction: AttentionDirection::Causal,
            ..AttentionOptions::default()
        }
    }

    #[test]
    fn blocks_give_the_values_of_the_whole() {
        let lengths = || Some(Tensor::from([0, 90]));
        for keys in [TOKENS, 100, 170] {
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
                &inputs(TOKENS, 2),
                &AttentionOptions {
                    bias: bias(&shape),
                    ..AttentionOptions::default()
                },
            );
        }
        for mask in [
            window_mask(TOKENS, TOKENS, 20, 0),
            padding_mask(&Tensor::from([0, 9]), TOKENS),
        ] {
            let options = AttentionOptions {
                mask: Some(mask),
                direction: AttentionDirection::Causal,
                ..AttentionOptions::default()
            };
            check(&inputs(TOKENS, 4), &options);
        }
    }

    #[test]
    fn blocks_nest_in_vmap() {
        let inputs = inputs(TOKENS, 2);
        let options = causal();
        let each = vmap(|inputs: Inputs| attend(ALWAYS, &inputs, &options));
        assert_near(&each(inputs.clone()), &attend(NEVER, &inputs, &options));
    }

    #[test]
    fn stripes_give_the_values_of_the_whole() {
        for (queries, keys) in [(300, 300), (260, 300), (300, 260)] {
            let inputs = inputs_of(queries, keys, 2);
            check(&inputs, &causal());
            for options in [causal(), AttentionOptions::default()] {
                for window in [(40, 0), (3, 70)] {
                    let local_window = Some(window);
                    check(
                        &inputs,
                        &AttentionOptions {
                            local_window,
                            ..options.clone()
                        },
                    );
                }
            }
        }
    }

    #[test]
    fn lengths_near_the_least_divided_length_agree() {
        for tokens in [511, 512, 513] {
            let inputs = inputs_of(tokens, tokens, 4);
            let found = attend(LIMITS, &inputs, &causal());
            assert_near(&found, &attend(NEVER, &inputs, &causal()));
        }
    }

    #[test]
    fn blocks_have_derivatives_of_every_order() {
        let inputs = inputs(TOKENS, 2);
        let run = |limits| {
            let loss = move |inputs: &Inputs| attend(limits, inputs, &causal()).sin().sum();
            let slope = grad(loss)(&inputs);
            let along = |inputs: &Inputs| {
                let slopes = grad(loss)(inputs);
                slopes.0.sin().sum() + (&slopes.1 * &slopes.1).sum() + slopes.2.sum()
            };
            let second = grad(along)(&inputs);
            let (_, pushed) = jvp(along, &inputs, &slope);
            (second, pushed)
        };
        let (found, found_pushed) = run(ALWAYS);
        let (expected, pushed) = run(NEVER);
        assert_near(&found_pushed, &pushed);
        assert_near(&found.0, &expected.0);
        assert_near(&found.1, &expected.1);
        assert_near(&found.2, &expected.2);
    }
}
