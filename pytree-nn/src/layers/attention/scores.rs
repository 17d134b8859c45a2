//! The products of attention. The results have the axis of the heads before the axis of the queries.
//!
//! The axes of a query are `[*batch, queries, heads, head_dim]`. The axes of keys and values are
//! `[*batch, keys, kv_heads, _]`. If there are fewer key heads than query heads, consecutive query heads form a group
//! that shares a key head. The scores are `[*batch, heads, queries, keys]`, or with groups
//! `[*batch, kv_heads, queries, group, keys]`. The product of queries and keys returns the axes in this order, so the
//! scores need no transpose.

use std::ops::Range;

use pytree_transform::indexing::Index;
use pytree_transform::{DType, Tensor, TensorError};

/// How many scores are computed at a time.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The least number of scores of a head that are divided into blocks.
    pub(super) divided: usize,
    /// The most scores of a block, unless the least number of queries of a block has more.
    pub(super) block: usize,
}

/// Those of 512 tokens, and 2 MiB of f32.
pub(super) const LIMITS: Limits = Limits {
    divided: 1 << 18,
    block: 1 << 19,
};

/// The axes of the scores.
#[derive(Clone, Copy)]
pub(super) struct ScoreAxes {
    /// The number of batch axes.
    pub(super) batch: usize,
    pub(super) kv_heads: usize,
    /// The number of query heads that share a key head.
    pub(super) group: usize,
}

/// Returns the indices of the batch axes, followed by the indices of the axes `others`. The elements of `others` count
/// from the first axis after the batch axes.
fn axes(batch: usize, others: &[usize]) -> Vec<isize> {
    let all = (0..batch).chain(others.iter().map(|axis| batch + axis));
    all.map(usize::cast_signed).collect()
}

/// Returns the indices of the axes `others`. The elements of `others` count from the first axis after the batch axes.
fn after(batch: usize, others: &[usize]) -> Vec<isize> {
    axes(batch, others).split_off(batch)
}

impl ScoreAxes {
    /// Returns the layout of queries and keys. The caller has checked that the number of query heads is a multiple of
    /// the number of key heads.
    pub(super) fn new(query: &Tensor, key: &Tensor) -> Self {
        let batch = query.rank() - 3;
        let (heads, kv_heads) = (query.shape()[batch + 1], key.shape()[batch + 1]);
        Self {
            batch,
            kv_heads,
            group: heads.checked_div(kv_heads).unwrap_or(1),
        }
    }

    fn has_groups(self) -> bool {
        self.group != 1
    }

    /// Returns query · keyᵀ for each head.
    #[track_caller]
    pub(super) fn scores(self, query: &Tensor, key: &Tensor) -> Tensor {
        let batch = self.batch;
        let (by_head, depth) = (axes(batch, &[1]), after(batch, &[2]));
        if !self.has_groups() {
            return query.dot_general(key, (&depth, &depth), (&by_head, &by_head));
        }
        let mut shape = query.shape().to_vec();
        shape.splice(batch + 1..batch + 2, [self.kv_heads, self.group]);
        let grouped = query.reshape(shape);
        grouped.dot_general(key, (&after(batch, &[3]), &depth), (&by_head, &by_head))
    }

    /// Reshapes a tensor that broadcasts to `[*batch, heads, queries, keys]` so that the tensor broadcasts to the
    /// scores.
    #[track_caller]
    pub(super) fn arranged(self, tensor: &Tensor) -> Tensor {
        if !self.has_groups() || tensor.rank() < 2 {
            return tensor.clone();
        }
        if tensor.rank() == 2 || tensor.shape()[tensor.rank() - 3] == 1 {
            // The tensor is the same for all heads: [.., 1, queries, keys] becomes [.., 1, queries, 1, keys].
            return tensor.expand_dims(-2);
        }
        let place = tensor.rank() - 3;
        let mut shape = tensor.shape().to_vec();
        shape.splice(place..=place, [self.kv_heads, self.group]);
        tensor.reshape(shape).move_axis(-3, -2)
    }

    /// Returns the sum of the values, weighted by `weights`, for each head. The result has the axes of the scores, with
    /// the axis `value_dim` in place of the axis `keys`.
    #[track_caller]
    pub(super) fn mixed(self, weights: &Tensor, value: &Tensor) -> Tensor {
        let batch = self.batch;
        let keys = usize::from(self.has_groups()) + 2;
        weights.dot_general(
            value,
            (&after(batch, &[keys]), &after(batch, &[0])),
            (&axes(batch, &[0]), &axes(batch, &[1])),
        )
    }

    /// Returns the values of all queries with their layout.
    pub(super) fn values(self, values: Tensor) -> Mixed {
        Mixed {
            layout: self,
            values,
        }
    }
}

/// The weighted sums of values: `[*batch, heads, queries, value_dim]`, or with groups
/// `[*batch, kv_heads, queries, group, value_dim]`.
pub(super) struct Mixed {
    layout: ScoreAxes,
    values: Tensor,
}

impl Mixed {
    /// Returns the values as `[*batch, queries, heads, value_dim]`.
    #[track_caller]
    pub(super) fn by_query(&self) -> Tensor {
        let batch = self.layout.batch;
        let moved = self
            .values
            .move_axis(batch.cast_signed(), (batch + 1).cast_signed());
        if !self.layout.has_groups() {
            return moved;
        }
        let mut shape = moved.shape().to_vec();
        shape.splice(
            batch + 1..batch + 3,
            [self.layout.kv_heads * self.layout.group],
        );
        moved.reshape(shape)
    }

    /// Returns the product with a weight `[heads, value_dim, out]`, summed over heads: `[*batch, queries, out]`.
    ///
    /// # Errors
    /// Returns [`TensorError`] if the shape or the dtype of the weight does not fit the values.
    #[track_caller]
    pub(super) fn try_project(&self, weight: &Tensor) -> Result<Tensor, TensorError> {
        let ScoreAxes {
            batch,
            kv_heads,
            group,
        } = self.layout;
        match *weight.shape() {
            [_, _, _] if !self.layout.has_groups() => {
                let contracted = after(batch, &[0, 2]);
                self.values.try_tensordot(weight, (&contracted, &[0, 1]))
            }
            [heads, value_dim, out] if heads == kv_heads * group => {
                let weight = weight.reshape([kv_heads, group, value_dim, out]);
                let contracted = after(batch, &[0, 2, 3]);
                self.values
                    .try_tensordot(&weight, (&contracted, &[0, 1, 2]))
            }
            // The weight does not fit, so this product always fails. The product is computed only for its error, which
            // shows the axes in the order that the user knows.
            _ => self.by_query().try_tensordot(weight, (&[-2, -1], &[0, 1])),
        }
    }

    /// Sets the values of queries to zero where `is_valid: bool[*batch, queries]` is false.
    #[track_caller]
    pub(super) fn zero_unless(&mut self, is_valid: &Tensor) {
        let mut is_valid = is_valid
            .expand_dims(self.layout.batch.cast_signed())
            .expand_dims(-1);
        if self.layout.has_groups() {
            is_valid = is_valid.expand_dims(-1);
        }
        self.values = is_valid.select(&self.values, zero(self.values.dtype()));
    }
}

/// Returns the scalar 0.
#[track_caller]
pub(super) fn zero(dtype: DType) -> Tensor {
    Tensor::zeros(dtype, [])
}

/// Returns the elements of a tensor whose index along an axis is in a range.
#[track_caller]
pub(super) fn part(tensor: &Tensor, axis: usize, range: Range<usize>) -> Tensor {
    if range == (0..tensor.shape()[axis]) {
        return tensor.clone();
    }
    let mut indices = vec![Index::from(..); axis];
    indices.push(Index::from(range));
    tensor.index(indices)
}
