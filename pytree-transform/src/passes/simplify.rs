//! Algebraic simplification of equations. Every rule keeps every bit of the results.
//!
//! Floats need care. `x + 0` turns a negative zero into a positive zero, so it differs from `x`, but `x + (-0)` and
//! `x - 0` equal `x`. `x · 0` differs from 0 if `x` is infinite or NaN. These expressions are simplified:
//!
//! - `x · 1`, `x / 1`, `x - 0`, `x + (-0)`, `x¹`; for integers also `x + 0`;
//! - `max(x, x)`, `min(x, x)`, `x & x`, `x | x`;
//! - `-(-x)`, `!!x`; `stop_gradient` and `with_tangent`, which affect only derivatives;
//! - a selection between equal values, or of x where x > y from max(x, y); a conversion to the same dtype;
//! - a sum over no axes, a concatenation of a single operand, and a transposition, reshape, broadcast or slice that is
//!   a no-op;
//! - a transposition of a transposition, a reshape of a reshape, and a broadcast of a broadcast, which become one
//!   operation;
//! - a broadcast of a known number, which becomes a `full`; `x⁰`, which becomes ones;
//! - a product of a transposed operand, which becomes a product of the operand with other axes, if its terms are then added in
//!   the same order. The kernels of products read each operand in its own layout.

use std::any::Any;
use std::sync::Arc;

use pytree_base::bug::expect_at;
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::AxisList;
use pytree_kernels::loops::dot::DotGeneral;
use pytree_kernels::loops::elementwise::{Binary, Comparison, Elementwise, Unary};
use smallvec::{SmallVec, smallvec};

use super::replacements::Replacements;
use crate::primitives::convert::Convert;
use crate::primitives::create::{Broadcast, Full, known_scalar};
use crate::primitives::reduce::Sum;
use crate::primitives::shape::{Reshape, Transpose};
use crate::primitives::slice::{Concatenate, Slice};
use crate::primitives::tangent::WithTangent;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// The replacement of a simplified equation.
enum Found {
    /// The result of the equation equals this variable.
    Same(Variable),
    /// This primitive, applied to these variables, computes the same result.
    Other(Arc<dyn Primitive>, SmallVec<[Variable; 4]>),
}

/// Replaces equations by simpler equations that compute the same bits.
pub(crate) fn simplify(mut jaxpr: Jaxpr) -> Jaxpr {
    let mut replacements = Replacements::none(&jaxpr);
    let mut makers: Vec<Option<usize>> = vec![None; jaxpr.variables.len()];
    let constants = jaxpr.constants_by_variable();
    let numbers: Vec<Option<f64>> = constants
        .into_iter()
        .map(|constant| known_scalar(constant?))
        .collect();
    for position in 0..jaxpr.equations.len() {
        replacements.in_inputs(&mut jaxpr.equations[position]);
        let view = View {
            jaxpr: &jaxpr,
            makers: &makers,
            numbers: &numbers,
        };
        match view.simplified(&jaxpr.equations[position]) {
            Some(Found::Same(variable)) => {
                let outputs = &jaxpr.equations[position].outputs;
                replacements.replace(
                    *expect_at(outputs, 0, "the result of an equation that is simplified"),
                    variable,
                );
            }
            Some(Found::Other(primitive, inputs)) => {
                jaxpr.equations[position].primitive = primitive;
                jaxpr.equations[position].inputs = inputs;
            }
            None => {}
        }
        for output in &jaxpr.equations[position].outputs {
            makers[output.index()] = Some(position);
        }
    }
    replacements.in_outputs(&mut jaxpr);
    jaxpr
}

/// Moves a transposition of an operand of a product into the contracted and batch axes of this operand. Returns `None` if the order of
/// the result's axes would change.
pub(super) fn untranspose(
    [contract, batch]: [&mut AxisList; 2],
    permutation: &[usize],
) -> Option<()> {
    let is_free = |axis: &usize| !contract.contains(axis) && !batch.contains(axis);
    let free = (0..permutation.len()).filter(is_free);
    free.map(|axis| permutation[axis])
        .is_sorted()
        .then_some(())?;
    for axis in contract.iter_mut().chain(batch) {
        *axis = permutation[*axis];
    }
    Some(())
}

/// A jaxpr, with the facts that are known about the equations before the current equation.
struct View<'j> {
    jaxpr: &'j Jaxpr,
    makers: &'j [Option<usize>],
    /// For each variable, its value if it is a constant without axes.
    numbers: &'j [Option<f64>],
}

impl<'j> View<'j> {
    /// If a variable is the result of a primitive of type `P`, returns this primitive and its operands.
    fn made_by<P: 'static>(&self, variable: Variable) -> Option<(&'j P, &'j [Variable])> {
        let equation = &self.jaxpr.equations[self.makers[variable.index()]?];
        Some((equation.parameters()?, &equation.inputs))
    }

    fn info(&self, variable: Variable) -> &'j AbstractArray {
        self.jaxpr.info(variable)
    }

    /// If all elements of a variable are known to have the same value, returns this value.
    fn number(&self, variable: Variable) -> Option<f64> {
        let full = self.made_by::<Full>(variable);
        full.map_or(self.numbers[variable.index()], |(full, _)| Some(full.value))
    }

    /// Moves transpositions of a product's operands into the product's axes: of both operands, or of one of them. Does so only
    /// if the order of the result's axes and the order of summation do not change.
    fn product(&self, product: &DotGeneral, equation: &Equation) -> Option<Found> {
        let summation = |product: &DotGeneral, inputs: &[Variable]| {
            product.summation(self.info(inputs[0]), self.info(inputs[1]))
        };
        let inputs = &equation.inputs;
        let is_transposed = |side: usize| self.made_by::<Transpose>(inputs[side]).is_some();
        let ways = [[true, true], [true, false], [false, true]];
        let mut ways = ways
            .into_iter()
            .filter(|way| (0..2).any(|side| way[side] && is_transposed(side)))
            .peekable();
        ways.peek()?;
        let expected = summation(product, inputs);
        ways.filter_map(|way| self.without_transpositions(product, inputs, way))
            .find(|(product, inputs)| summation(product, inputs) == expected)
            .map(|(product, inputs)| Found::Other(Arc::new(product), inputs))
    }

    /// Moves the transpositions of the chosen operands of a product into its axes. Returns `None` if one of these operands is
    /// not transposed, or if the order of the result's axes would change.
    fn without_transpositions(
        &self,
        product: &DotGeneral,
        inputs: &SmallVec<[Variable; 4]>,
        chosen: [bool; 2],
    ) -> Option<(DotGeneral, SmallVec<[Variable; 4]>)> {
        let (mut product, mut inputs) = (product.clone(), inputs.clone());
        let DotGeneral { contract, batch } = &mut product;
        let sides = [
            [&mut contract.0, &mut batch.0],
            [&mut contract.1, &mut batch.1],
        ];
        let operands = inputs.iter_mut().zip(sides).zip(chosen);
        for ((operand, axes), _) in operands.filter(|(_, is_chosen)| *is_chosen) {
            let (Transpose { permutation }, source) = self.made_by::<Transpose>(*operand)?;
            untranspose(axes, permutation)?;
            *operand = source[0];
        }
        Some((product, inputs))
    }

    fn simplified(&self, equation: &Equation) -> Option<Found> {
        let primitive: &dyn Any = &*equation.primitive;
        match equation.primitive.elementwise() {
            Some(Elementwise::Unary(unary)) => return self.unary(unary, equation),
            Some(Elementwise::Binary(binary)) => {
                return self.binary(binary, equation).map(Found::Same);
            }
            Some(Elementwise::Select) => {
                let [_, on_true, on_false] = equation.inputs[..] else {
                    return None;
                };
                let is_same = on_true == on_false || self.is_maximum(&equation.inputs);
                return is_same.then_some(Found::Same(on_false));
            }
            _ => {}
        }
        let operand = *equation.inputs.first()?;
        let info = self.info(operand);
        let result = self.info(*equation.outputs.first()?);
        if let Some(product) = primitive.downcast_ref::<DotGeneral>() {
            return self.product(product, equation);
        }
        if let Some(Convert(dtype)) = primitive.downcast_ref() {
            return (info.dtype == *dtype).then_some(Found::Same(operand));
        }
        if let Some(sum) = primitive.downcast_ref::<Sum>() {
            return sum.axes.is_empty().then_some(Found::Same(operand));
        }
        if primitive.is::<WithTangent>() {
            return Some(Found::Same(operand));
        }
        if primitive.is::<Concatenate>() {
            return (equation.inputs.len() == 1).then_some(Found::Same(operand));
        }
        if let Some(slice) = primitive.downcast_ref::<Slice>() {
            let is_whole = info == result && slice.start.iter().all(|&start| start == 0);
            return is_whole.then_some(Found::Same(operand));
        }
        if let Some(transpose) = primitive.downcast_ref::<Transpose>() {
            return self.transpose(transpose, operand);
        }
        if primitive.is::<Reshape>() {
            return self.reshape(operand, result);
        }
        self.broadcast(primitive.downcast_ref()?, operand, result)
    }

    /// Returns whether a selection chooses x where x > y, and max(x, y) elsewhere. Then it is the maximum everywhere.
    fn is_maximum(&self, selection: &[Variable]) -> bool {
        let compared = self.made_by::<Comparison>(selection[0]);
        let maximum = self.made_by::<Binary>(selection[2]);
        match (compared, maximum) {
            (Some((Comparison::Gt, compared)), Some((Binary::Max, operands))) => {
                let mut pairs = compared.iter().zip(operands);
                pairs.all(|(&left, &right)| self.are_same(left, right))
                    && compared[0] == selection[1]
            }
            _ => false,
        }
    }

    /// Returns whether two variables are one, or have the same number everywhere.
    fn are_same(&self, left: Variable, right: Variable) -> bool {
        let bits = |variable| self.number(variable).map(f64::to_bits);
        left == right || bits(left).is_some() && bits(left) == bits(right)
    }

    fn unary(&self, unary: Unary, equation: &Equation) -> Option<Found> {
        let &[operand] = &equation.inputs[..] else {
            return None;
        };
        match unary {
            Unary::StopGradient | Unary::IntegerPower(1) => Some(Found::Same(operand)),
            Unary::IntegerPower(0) => {
                let info = self.info(operand);
                let ones = Full {
                    dtype: info.dtype,
                    shape: info.shape.clone(),
                    value: 1.0,
                };
                Some(Found::Other(Arc::new(ones), smallvec![]))
            }
            Unary::Neg | Unary::Not => match self.made_by::<Unary>(operand) {
                Some((inner, &[source])) if *inner == unary => Some(Found::Same(source)),
                _ => None,
            },
            _ => None,
        }
    }

    fn binary(&self, binary: Binary, equation: &Equation) -> Option<Variable> {
        let &[left, right] = &equation.inputs[..] else {
            return None;
        };
        let is_float = self.info(left).dtype.is_float();
        // An integer has only one zero, so the sign of `number` matters only for floats.
        let is = |variable, number: f64| {
            let exactly = if is_float { number } else { number + 0.0 };
            self.number(variable)
                .is_some_and(|found| found.to_bits() == exactly.to_bits())
        };
        match binary {
            Binary::Mul if is(left, 1.0) => Some(right),
            Binary::Add if is(left, -0.0) => Some(right),
            _ => {
                let unchanged = match binary {
                    Binary::Mul | Binary::Div => is(right, 1.0),
                    Binary::Sub => is(right, 0.0),
                    Binary::Add => is(right, -0.0),
                    Binary::Max | Binary::Min | Binary::And | Binary::Or => left == right,
                    _ => false,
                };
                unchanged.then_some(left)
            }
        }
    }

    fn transpose(&self, outer: &Transpose, operand: Variable) -> Option<Found> {
        let (inner, source) = match self.made_by::<Transpose>(operand) {
            Some((inner, &[source])) => (Some(inner), source),
            _ => (None, operand),
        };
        let permutation: AxisList = match inner {
            Some(inner) => outer
                .permutation
                .iter()
                .map(|&axis| inner.permutation[axis])
                .collect(),
            None => outer.permutation.clone(),
        };
        if permutation.iter().copied().eq(0..permutation.len()) {
            return Some(Found::Same(source));
        }
        inner.map(|_| Found::Other(Arc::new(Transpose { permutation }), smallvec![source]))
    }

    fn reshape(&self, operand: Variable, result: &AbstractArray) -> Option<Found> {
        let (inner, source) = match self.made_by::<Reshape>(operand) {
            Some((_, &[source])) => (true, source),
            _ => (false, operand),
        };
        if self.info(source) == result {
            return Some(Found::Same(source));
        }
        let shape = result.shape.clone();
        inner.then(|| Found::Other(Arc::new(Reshape { shape }), smallvec![source]))
    }

    fn broadcast(
        &self,
        outer: &Broadcast,
        operand: Variable,
        result: &AbstractArray,
    ) -> Option<Found> {
        if self.info(operand) == result {
            return Some(Found::Same(operand));
        }
        if let Some(value) = self.number(operand) {
            let full = Full {
                dtype: result.dtype,
                shape: result.shape.clone(),
                value,
            };
            return Some(Found::Other(Arc::new(full), smallvec![]));
        }
        let Some((inner, &[source])) = self.made_by::<Broadcast>(operand) else {
            return None;
        };
        let axes = inner.axes.iter().map(|&axis| outer.axes[axis]).collect();
        let shape = outer.shape.clone();
        let joined = Broadcast { shape, axes };
        Some(Found::Other(Arc::new(joined), smallvec![source]))
    }
}
