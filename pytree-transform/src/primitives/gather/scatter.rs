//! Scatters that replace elements by updates, or combine them by a product or an extremum. For sums, see [`ScatterAdd`].
//!
//! If several updates replace an element, the last of them does, for any number of threads. The replacement is linear in the elements
//! and the updates.

use pytree_kernels::base::shape::{AxisList, PerAxis, Shape};
use pytree_kernels::loops::elementwise::Comparison;
use pytree_kernels::loops::gather::{self, Outside, ScatterBy};

use super::scatter_add::ScatterAdd;
use super::take::{Take, check_indices, lower_positions, write_batch_axes};
use crate::primitives::convert::convert;
use crate::primitives::create::{
    broadcast_in_dim, full, iota, ones_like, or_zeros, zeros, zeros_like,
};
use crate::primitives::elementwise::compare;
use crate::primitives::prelude::*;
use crate::primitives::select::select;
use crate::primitives::shape::{batch_axis_first, move_axis, reshape};
use crate::primitives::slice::slice;
use crate::tensor::primitive::{Division, take as take_operands};
use crate::tensor::stablehlo::Bound;

/// Combines updates with the elements of a tensor at indices along `axis`. The operands are the tensor, the indices and
/// the updates. Updates at indices out of range are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scatter {
    pub(crate) by: ScatterBy,
    axis: usize,
    batch_axes: usize,
}

/// Returns `operand` with the elements at `indices` along an axis combined with `updates`.
#[track_caller]
pub(crate) fn scatter_by(
    by: ScatterBy,
    operand: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
    axis: usize,
) -> Result<Tensor, TensorError> {
    let scatter = Scatter {
        by,
        axis,
        batch_axes: 0,
    };
    bind_one(&scatter, &[operand, indices, updates])
}

impl Scatter {
    /// Replaces whole rows of a tensor.
    pub(crate) const SET_ROWS: Self = Self {
        by: ScatterBy::Set,
        axis: 0,
        batch_axes: 0,
    };

    pub(crate) fn take(self) -> Take {
        Take::clamped(self.axis, self.batch_axes)
    }

    fn add(self, updates: &Tensor, indices: &Tensor, length: usize) -> Tensor {
        let scatter = ScatterAdd {
            axis: self.axis,
            length,
            outside: Outside::Drop,
            batch_axes: self.batch_axes,
        };
        scatter.bind(updates, indices)
    }

    fn bind(self, operand: &Tensor, indices: &Tensor, updates: &Tensor) -> Tensor {
        or_panic(bind_one(&self, &[operand, indices, updates]))
    }

    /// Returns the number of the last update of each position of an axis with the given length, or -1. `by` is the replacement, or the
    /// maximum if it is not known to apply updates in order.
    fn last_updates(self, by: ScatterBy, indices: &Tensor, length: usize) -> Tensor {
        let (examples, places) = indices.shape().split_at(self.batch_axes);
        let count: usize = places.iter().product();
        let with = |length: usize| [examples, &[length]].concat();
        let none = or_panic(full(DType::I32, &with(length), -1.0));
        let numbers = or_panic(iota(DType::I32, &with(count), self.batch_axes));
        let (axis, batch_axes) = (self.batch_axes, self.batch_axes);
        let scatter = Self {
            by,
            axis,
            batch_axes,
        };
        scatter.bind(&none, &or_panic(reshape(indices, &with(count))), &numbers)
    }

    /// Returns whether each element has an update.
    fn has_update(self, last: &Tensor, shape: &[usize]) -> Tensor {
        let changed = or_panic(compare(Comparison::Ge, last, &Tensor::scalar(0_i32)));
        let axes: AxisList = (0..self.batch_axes).chain([self.axis]).collect();
        or_panic(broadcast_in_dim(&changed, shape, &axes))
    }

    /// Replaces the elements by their last updates, without an order of the updates.
    fn replaced(self, operand: &Tensor, indices: &Tensor, updates: &Tensor) -> Tensor {
        let mut shape = Shape::from(operand.shape());
        let last = self.last_updates(ScatterBy::Max, indices, shape[self.axis]);
        shape[self.axis] = indices.shape()[self.batch_axes..].iter().product();
        let chosen = self.take().bind(&or_panic(reshape(updates, &shape)), &last);
        let has_update = self.has_update(&last, operand.shape());
        or_panic(select(&has_update, &chosen, operand))
    }

    /// Divides the tangent of an extremum equally among all elements and updates that equal the extremum, like a
    /// reduction.
    fn tangent_of_extremum(
        self,
        [x, indices, updates]: [&Tensor; 3],
        extremum: &Tensor,
        [of_x, of_updates]: [&Tensor; 2],
    ) -> Tensor {
        let chosen = |x: &Tensor, extremum: &Tensor| {
            let equal = or_panic(compare(Comparison::Eq, x, extremum));
            or_panic(convert(&equal, x.dtype()))
        };
        let length = x.shape()[self.axis];
        let in_x = chosen(x, extremum);
        let in_updates = chosen(updates, &self.take().bind(extremum, indices));
        let count = &in_x + self.add(&in_updates, indices, length);
        (of_x * in_x + self.add(&(of_updates * in_updates), indices, length)) / count
    }

    /// Applies the product rule: each tangent is multiplied by all other factors. Zero factors are counted separately,
    /// so no division by zero occurs.
    fn tangent_of_product(
        self,
        [x, indices, updates]: [&Tensor; 3],
        [of_x, of_updates]: [&Tensor; 2],
    ) -> Tensor {
        let (zero, one) = (zeros_like(updates), ones_like(updates));
        let is_zero = or_panic(compare(Comparison::Eq, updates, &zero));
        let (length, ones) = (x.shape()[self.axis], ones_like(x));
        let all = self.bind(&ones, indices, updates);
        let factors = or_panic(select(&is_zero, &one, updates));
        let without_zeros = self
            .take()
            .bind(&self.bind(&ones, indices, &factors), indices);
        let counted = or_panic(convert(&is_zero, x.dtype()));
        let zeros = self
            .take()
            .bind(&self.add(&counted, indices, length), indices);
        // If this factor is the only zero, or if no factor is zero, the product of the other factors contains no zero.
        let nonzero = or_panic(compare(Comparison::Eq, &zeros, &counted));
        let others = or_panic(select(&nonzero, &(without_zeros / &factors), &zero));
        let pushed = self.add(&(of_updates * others), indices, length);
        of_x * all + x * pushed
    }
}

impl Primitive for Scatter {
    fn name(&self) -> &'static str {
        match self.by {
            ScatterBy::Set => "scatter_set",
            ScatterBy::Multiply => "scatter_mul",
            ScatterBy::Max => "scatter_max",
            ScatterBy::Min => "scatter_min",
        }
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (operand, indices, updates) = (operands[0], operands[1], operands[2]);
        check_indices("update at indices", operands)?;
        let is_set = self.by == ScatterBy::Set;
        if operand.dtype != updates.dtype || operand.dtype == DType::Bool && !is_set {
            return Err(TensorError::dtype(
                "update at indices",
                operands,
                "numbers, with the same element type in the tensor and the updates",
            ));
        }
        let taken = self.take().abstract_evaluation(&[operand, indices])?;
        if taken[0].shape != updates.shape {
            return Err(TensorError::shape(
                "update at indices",
                operands,
                format!("the indices select {}", taken[0]),
                "broadcast the updates to the shape of the selected elements",
            ));
        }
        Ok(one(operand.clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand, indices, updates] = take_operands(operands);
        let blocks = self.take().blocks(operand.shape());
        one(gather::scatter(
            self.by, operand, &indices, &updates, &blocks,
        ))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let [x, indices, updates] = [&primals[0], &primals[1], &primals[2]];
        let result = self.bind(x, indices, updates);
        let tangent = (tangents[0].is_some() || tangents[2].is_some()).then(|| {
            let tangents = [
                or_zeros(tangents[0].as_ref(), x.info()),
                or_zeros(tangents[2].as_ref(), updates.info()),
            ];
            let tangents = [&tangents[0], &tangents[1]];
            match self.by {
                ScatterBy::Set => self.bind(tangents[0], indices, tangents[1]),
                ScatterBy::Multiply => self.tangent_of_product([x, indices, updates], tangents),
                _ => self.tangent_of_extremum([x, indices, updates], &result, tangents),
            }
        });
        (one(result), one(tangent))
    }

    /// An element gives its cotangent to its last update. Without an update, it keeps the cotangent.
    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        if self.by != ScatterBy::Set {
            not_linear(self.name());
        }
        let Some(cotangent) = &cotangents[0] else {
            return smallvec![None, None, None];
        };
        let (indices, shape) = (operands[1].known(), cotangent.shape());
        let last = self.last_updates(self.by, indices, shape[self.axis]);
        let kept = || {
            let zero = Tensor::constant(cotangent.dtype(), 0.0);
            or_panic(select(&self.has_update(&last, shape), &zero, cotangent))
        };
        let given = || {
            let updates = operands[2].info();
            let mut shape = Shape::from(shape);
            shape[self.axis] = indices.shape()[self.batch_axes..].iter().product();
            let (limits, starts) = (shape.clone(), shape.iter().map(|_| 0));
            let (starts, steps): (PerAxis, PerAxis) = starts.map(|start| (start, 1)).unzip();
            // The index -1 selects one more position, for the cotangents of elements without update.
            shape[self.axis] += 1;
            let none = zeros(&AbstractArray::new(updates.dtype, shape));
            let all = self.bind(&none, &last, cotangent);
            let of_updates = or_panic(slice(&all, &starts, &limits, &steps));
            or_panic(reshape(&of_updates, &updates.shape))
        };
        smallvec![
            operands[0].is_unknown().then(kept),
            None,
            operands[2].is_unknown().then(given)
        ]
    }

    /// Adds a batch axis to the tensor and the updates, behind the axes that they share with the indices. If the indices have a batch axis,
    /// it becomes one of these, and the first.
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let shared = usize::from(axes[1].is_some());
        let place = if shared == 1 { 0 } else { self.batch_axes };
        let with_axis = |operand: usize| {
            let first = or_panic(batch_axis_first(
                &operands[operand],
                axes[operand],
                batch.size,
            ));
            or_panic(move_axis(&first, 0, place))
        };
        let scatter = Self {
            axis: self.axis + 1,
            batch_axes: self.batch_axes + shared,
            ..*self
        };
        let indices = match axes[1] {
            Some(_) => with_axis(1),
            None => operands[1].clone(),
        };
        let result = scatter.bind(&with_axis(0), &indices, &with_axis(2));
        (one(result), one(Some(place)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let [operand, indices, updates] = [&operands[0], &operands[1], &operands[2]];
        if updates.info.is_empty() {
            return Ok(one(operand.clone()));
        }
        // XLA applies the updates in any order.
        let (name, reaches) = match self.by {
            ScatterBy::Set => {
                let replaced = |x: &[Tensor]| vec![self.replaced(&x[0], &x[1], &x[2])];
                return Ok(block.computed(operands, replaced)?.into());
            }
            ScatterBy::Multiply => ("stablehlo.multiply", None),
            ScatterBy::Max => ("stablehlo.maximum", Some(Bound::Greatest)),
            ScatterBy::Min => ("stablehlo.minimum", Some(Bound::Least)),
        };
        let axes = self.take().gather_axes(operand.rank(), indices.rank());
        let indices = lower_positions(block, indices, operand.shape()[self.axis], Outside::Drop);
        // XLA may combine the updates between devices.
        if let (Some(reaches), Some(_)) = (reaches, block.partition_mesh()) {
            let scatter = |block: &mut Block<'_>, keys: &[Value]| {
                block.scattered(name, &keys[0], &indices, &keys[1], &axes)
            };
            return block
                .extremum_with_nan(reaches, &[operand, updates], scatter)
                .map(one);
        }
        block
            .scattered(name, operand, &indices, updates, &axes)
            .map(one)
    }

    fn overwritten(&self) -> Option<usize> {
        (self.by == ScatterBy::Set).then_some(0)
    }

    fn accepts_narrow(&self) -> bool {
        self.by == ScatterBy::Set
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        let axes = (self.batch_axes..operands[0].rank()).filter(|&axis| axis != self.axis);
        let mut division = Division::along(operands[0], axes)?;
        let of_updates = match division.result {
            axis if axis > self.axis => axis + operands[1].rank() - self.batch_axes - 1,
            axis => axis,
        };
        division.operands.extend([None, Some(of_updates)]);
        Some(division)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis={}", self.axis)?;
        write_batch_axes(f, self.batch_axes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        assert_close, check_batching, check_tangent, noise,
    };

    const KINDS: [ScatterBy; 4] = [
        ScatterBy::Set,
        ScatterBy::Multiply,
        ScatterBy::Max,
        ScatterBy::Min,
    ];

    #[test]
    fn repeated_indices_combine_in_order() {
        let x = Tensor::from([2, 3, 4]);
        let (at, updates) = (Tensor::from([0, 2, 0]), Tensor::from([5, -1, -7]));
        let of = |by| scatter_by(by, &x, &at, &updates, 0).unwrap();
        assert_eq!(of(ScatterBy::Set), Tensor::from([-7, 3, -1]));
        assert_eq!(of(ScatterBy::Multiply), Tensor::from([-70, 3, -4]));
        assert_eq!(of(ScatterBy::Max), Tensor::from([5, 3, 4]));
        assert_eq!(of(ScatterBy::Min), Tensor::from([-7, 3, -1]));
    }

    #[test]
    fn zero_factor_has_correct_derivative() {
        let (x, at) = (Tensor::from([3.0, 5.0]), Tensor::from([0, 0, 1]));
        let updates = Tensor::from([0.0, 2.0, 0.0]);
        let scatter = Scatter {
            by: ScatterBy::Multiply,
            axis: 0,
            batch_axes: 0,
        };
        let direction = Tensor::from([1.0, 1.0, 1.0]);
        let (_, tangent) = scatter.jvp(&[x, at, updates], &[None, None, Some(direction)]);
        let tangent = tangent[0].clone().unwrap();
        assert_close(&tangent, &Tensor::from([6.0, 5.0]), 1e-15);
    }

    #[test]
    fn rules_agree_with_evaluation() {
        let at = Tensor::from([[1, 0], [1, 3]]);
        for by in KINDS {
            let scatter = Scatter {
                by,
                axis: 1,
                batch_axes: 0,
            };
            let operands = [noise(&[2, 4], 1), at.clone(), noise(&[2, 2, 2], 2)];
            check_tangent(&scatter, &operands);
            check_batching(
                &scatter,
                &[noise(&[2, 4, 3], 1), at.clone(), noise(&[2, 3, 2, 2], 2)],
                &[Some(2), None, Some(1)],
            );
            let one_of_two = [noise(&[2, 4], 1), at.clone(), noise(&[2, 2], 2)];
            check_batching(&scatter, &one_of_two, &[None, Some(0), None]);
        }
    }
}
