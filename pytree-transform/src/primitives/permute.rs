//! Collectives that send tensors from example to example.

use std::fmt;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::{Names, in_front, unbound};
use crate::array::Array;
use crate::axis_names::AxisName;
use crate::dtype::AbstractArray;
use crate::error::{TensorError, or_panic};
use crate::primitive::{Collective, Linear, Operands, Outputs, Primitive, one};
use crate::primitives::shape::{batch_axis_first, broadcast_in_dim, move_axis};
use crate::tensor::Tensor;
use crate::trace::{axis_length, bind_one};

/// Each example's tensor goes to another one; who gets none has zeros.
#[derive(Clone, Debug)]
pub(crate) struct PPermute {
    pub(crate) name: [AxisName; 1],
    /// From where, and to where.
    pub(crate) pairs: Arc<[(usize, usize)]>,
}

/// The parts along an axis go one to each example, which puts the parts it gets along a new axis.
#[derive(Clone, Debug)]
pub(crate) struct AllToAll {
    pub(crate) name: [AxisName; 1],
    pub(crate) split_axis: usize,
    /// In the result.
    pub(crate) concat_axis: usize,
}

#[track_caller]
pub(crate) fn ppermute(
    operand: &Tensor,
    name: &AxisName,
    pairs: Arc<[(usize, usize)]>,
) -> Result<Tensor, TensorError> {
    let name = [name.clone()];
    bind_one(&PPermute { name, pairs }, &[operand])
}

#[track_caller]
pub(crate) fn all_to_all(
    operand: &Tensor,
    name: &AxisName,
    split_axis: usize,
    concat_axis: usize,
) -> Result<Tensor, TensorError> {
    let name = [name.clone()];
    let primitive = AllToAll {
        name,
        split_axis,
        concat_axis,
    };
    bind_one(&primitive, &[operand])
}

impl PPermute {
    /// All that is wrong with the pairs.
    fn problems(&self, length: usize) -> Vec<String> {
        let mut problems = Vec::new();
        for (position, &(from, to)) in self.pairs.iter().enumerate() {
            let before = &self.pairs[..position];
            if from >= length || to >= length {
                problems.push(format!(
                    "({from}, {to}) leaves the batch axis `{}` of length {length}",
                    self.name[0]
                ));
            }
            if before.iter().any(|&(other, _)| other == from) {
                problems.push(format!("example {from} sends twice"));
            }
            if before.iter().any(|&(_, other)| other == to) {
                problems.push(format!("example {to} gets twice"));
            }
        }
        problems
    }
}

impl Primitive for PPermute {
    fn name(&self) -> &'static str {
        "ppermute"
    }

    fn abstract_evaluation(
        &self,
        operands: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        let problems = self.problems(axis_length("ppermute", &self.name[0])?);
        if problems.is_empty() {
            return Ok(one(operands[0].clone()));
        }
        Err(TensorError::Shape {
            operation: "ppermute",
            found: vec![operands[0].clone()],
            problem: problems.join(", "),
            mend: "give pairs `(from, to)` in which each example is at most once on either side"
                .to_owned(),
        })
    }

    fn evaluate(&self, _: Operands) -> Outputs<Array> {
        unbound(self)
    }

    fn jvp(
        &self,
        primals: &[Tensor],
        tangents: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let send = |operand| or_panic(ppermute(operand, &self.name[0], Arc::clone(&self.pairs)));
        (one(send(&primals[0])), one(tangents[0].as_ref().map(send)))
    }

    /// Cotangents go back.
    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        _: &[Linear],
    ) -> SmallVec<[Option<Tensor>; 2]> {
        let back: Arc<[_]> = self.pairs.iter().map(|&(from, to)| (to, from)).collect();
        let cotangent = cotangents[0].as_ref();
        smallvec![cotangent.map(|cotangent| or_panic(ppermute(cotangent, &self.name[0], back)))]
    }

    fn batch(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        _: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let sent = ppermute(&operands[0], &self.name[0], Arc::clone(&self.pairs));
        (one(or_panic(sent)), one(axes[0]))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis_name={} perm={:?}", Names(&self.name), self.pairs)
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }

    fn collective(&self) -> Option<&dyn Collective> {
        Some(self)
    }
}

impl Collective for PPermute {
    fn axis_names(&self) -> &[AxisName] {
        &self.name
    }

    fn batch_named(
        &self,
        _: &AxisName,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let all = or_panic(batch_axis_first(&operands[0], axes[0], size));
        let mut sources: Vec<Option<usize>> = vec![None; size];
        for &(from, to) in &*self.pairs {
            sources[to] = Some(from);
        }
        let positions: Vec<i32> = sources
            .iter()
            .map(|source| i32::try_from(source.unwrap_or(0)).unwrap_or(i32::MAX))
            .collect();
        let sent = all.take(&Tensor::from(positions), 0);
        if !sources.contains(&None) {
            return (one(sent), one(Some(0)));
        }
        let gets: Vec<bool> = sources.iter().map(Option::is_some).collect();
        let gets = or_panic(broadcast_in_dim(&Tensor::from(gets), sent.shape(), &[0]));
        let result = gets.select(&sent, &Tensor::zeros_like(&sent));
        (one(result), one(Some(0)))
    }
}

impl Primitive for AllToAll {
    fn name(&self) -> &'static str {
        "all_to_all"
    }

    fn abstract_evaluation(
        &self,
        operands: &[&AbstractArray],
    ) -> Result<Outputs<AbstractArray>, TensorError> {
        let length = axis_length("all_to_all", &self.name[0])?;
        let operand = operands[0];
        for axis in [self.split_axis, self.concat_axis] {
            if axis >= operand.rank() {
                return Err(TensorError::Axis {
                    operation: "all_to_all",
                    found: operand.clone(),
                    axis: axis.cast_signed(),
                });
            }
        }
        let found = operand.shape[self.split_axis];
        if found != length {
            return Err(TensorError::Shape {
                operation: "all_to_all",
                found: vec![operand.clone()],
                problem: format!(
                    "axis {} has length {found}, the batch axis `{}` has {length}",
                    self.split_axis, self.name[0]
                ),
                mend: "each example needs one part; reshape the axis first".to_owned(),
            });
        }
        let mut result = operand.clone();
        result.shape.remove(self.split_axis);
        result.shape.insert(self.concat_axis, length);
        Ok(one(result))
    }

    fn evaluate(&self, _: Operands) -> Outputs<Array> {
        unbound(self)
    }

    fn jvp(
        &self,
        primals: &[Tensor],
        tangents: &[Option<Tensor>],
    ) -> (Outputs<Tensor>, Outputs<Option<Tensor>>) {
        let (split, concat) = (self.split_axis, self.concat_axis);
        let send = |operand| or_panic(all_to_all(operand, &self.name[0], split, concat));
        (one(send(&primals[0])), one(tangents[0].as_ref().map(send)))
    }

    /// Cotangents go back.
    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        _: &[Linear],
    ) -> SmallVec<[Option<Tensor>; 2]> {
        let (split, concat) = (self.concat_axis, self.split_axis);
        let cotangent = cotangents[0].as_ref();
        smallvec![cotangent.map(|cotangent| or_panic(all_to_all(
            cotangent,
            &self.name[0],
            split,
            concat
        )))]
    }

    fn batch(
        &self,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let (operand, batch) = in_front(&operands[0], axes[0], size);
        let shift = usize::from(batch.is_some());
        let (split, concat) = (self.split_axis + shift, self.concat_axis + shift);
        let sent = or_panic(all_to_all(&operand, &self.name[0], split, concat));
        (one(sent), one(batch))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Names(&self.name);
        write!(
            f,
            "axis_name={names} concat_axis={} split_axis={}",
            self.concat_axis, self.split_axis
        )
    }

    fn to_shared(&self) -> Arc<dyn Primitive> {
        Arc::new(self.clone())
    }

    fn collective(&self) -> Option<&dyn Collective> {
        Some(self)
    }
}

impl Collective for AllToAll {
    fn axis_names(&self) -> &[AxisName] {
        &self.name
    }

    /// Who gets a part is the new batch axis, who sends it the new axis.
    fn batch_named(
        &self,
        _: &AxisName,
        operands: &[Tensor],
        axes: &[Option<usize>],
        size: usize,
    ) -> (Outputs<Tensor>, Outputs<Option<usize>>) {
        let all = or_panic(batch_axis_first(&operands[0], axes[0], size));
        let by_receiver = or_panic(move_axis(&all, self.split_axis + 1, 0));
        let result = or_panic(move_axis(&by_receiver, 1, self.concat_axis + 1));
        (one(result), one(Some(0)))
    }
}
