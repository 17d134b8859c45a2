//! The meaning of a random program's steps.
//!
//! A step that can't be done with the values it names does something similar instead, so every list of
//! steps is a program, and it shrinks well.
//!
//! Two ways to compute a program may add in different orders, after which nothing is exact any more. A
//! value therefore knows whether it is exact: only then is it compared, rounded or divided by, and only
//! then is it outside of (-1, 1) when a function is applied to it. Otherwise a last bit could become a
//! difference of any size.

use proptest::sample::Index as Pick;
use pytree::debug::debug_callback;
use pytree::indexing::{Index, Step as Stride};
use pytree::{DType, Tensor, jit};

use crate::laws::programs::Use;
use crate::laws::steps::{
    Binary, Comparison, Condition, Detour, ElementsAlong, Filling, Logic, Reduction, Reordering,
    Step, Unary,
};

/// The number of elements that a value may have.
const MOST_ELEMENTS: usize = 4000;

/// The number of axes that a value may have.
const MOST_AXES: usize = 4;

/// A value of a program.
#[derive(Clone)]
struct Value {
    tensor: Tensor,
    /// Whether every way to compute it gives the same bits.
    exact: bool,
}

/// The values that a program made so far; the inputs are the first.
pub struct Interpreter {
    purpose: Use,
    values: Vec<Value>,
    used: Vec<bool>,
}

fn inexact(tensor: Tensor) -> Value {
    Value {
        tensor,
        exact: false,
    }
}

/// The shape that two shapes broadcast to, if they do and it is not too large.
fn broadcast(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let rank = left.len().max(right.len());
    let length = |shape: &[usize], axis: usize| {
        let axis = (axis + shape.len()).checked_sub(rank);
        axis.map_or(1, |axis| shape[axis])
    };
    let joined = |axis| match (length(left, axis), length(right, axis)) {
        (left, right) if left == right => Some(left),
        (1, other) | (other, 1) => Some(other),
        _ => None,
    };
    let shape: Option<Vec<usize>> = (0..rank).map(joined).collect();
    shape.filter(|shape| shape.iter().product::<usize>() <= MOST_ELEMENTS)
}

impl Interpreter {
    pub fn new(purpose: Use, inputs: &[Tensor]) -> Self {
        let input = |tensor: &Tensor| Value {
            tensor: tensor.clone(),
            exact: true,
        };
        let values: Vec<Value> = inputs.iter().map(input).collect();
        Self {
            purpose,
            used: vec![true; values.len()],
            values,
        }
    }

    /// Adds the value that a step makes.
    pub fn run(&mut self, step: &Step) {
        let value = self.step(step);
        self.values.push(value);
        self.used.push(false);
    }

    /// The values that were not used.
    pub fn results(self) -> Vec<Tensor> {
        let values = self.values.into_iter().zip(self.used);
        let unused = values.filter(|(_, used)| !used);
        unused.map(|(value, _)| value.tensor).collect()
    }

    fn step(&mut self, step: &Step) -> Value {
        let (tensor, exact) = match step {
            Step::Unary(unary, of) => {
                let value = self.take(of);
                (self.unary(*unary, &value), value.exact)
            }
            Step::Binary(binary, left, right) => {
                let (left, right) = self.take_two(left, right);
                let exact = left.exact && right.exact;
                (self.binary(*binary, &left, &right), exact)
            }
            Step::WithNumber(binary, left, number) => {
                let left = self.take(left);
                (with_number(*binary, &self.calm(&left), *number), left.exact)
            }
            Step::Choose(condition, on_true, on_false) => {
                let (on_true, on_false) = self.take_two(on_true, on_false);
                let exact = on_true.exact && on_false.exact;
                (
                    self.choose(condition, &on_true.tensor, &on_false.tensor),
                    exact,
                )
            }
            Step::Indicate(condition) => {
                let dtype = self.values[0].tensor.dtype();
                (self.condition(condition).convert(dtype), true)
            }
            Step::Convert(detour, of) => {
                let value = self.take(of);
                (self.convert(*detour, &value), value.exact)
            }
            Step::Reduce(reduction, of, axis) => {
                let value = self.take(of);
                return self.reduce(*reduction, &value, axis);
            }
            Step::Multiply(left, right) => {
                let (left, right) = (self.take(left), self.take(right));
                (product(&left.tensor.tanh(), &right.tensor.tanh()), false)
            }
            Step::Reorder(reordering, of) => {
                let value = self.take(of);
                (reorder(*reordering, &value.tensor), value.exact)
            }
            Step::Part(part, of, axis) => {
                let value = self.take(of);
                (part_of(*part, &value.tensor, axis), value.exact)
            }
            Step::Join(left, right, axis) => {
                let (left, right) = (self.take(left), self.take(right));
                let exact = left.exact && right.exact;
                (join(&left.tensor, &right.tensor, axis), exact)
            }
            Step::Fill(filling, of) => {
                let value = self.take(of);
                (fill(*filling, &value.tensor), value.exact)
            }
        };
        Value { tensor, exact }
    }

    fn take(&mut self, pick: &Pick) -> Value {
        let position = pick.index(self.values.len());
        self.used[position] = true;
        self.values[position].clone()
    }

    /// Two values that broadcast: the one without axes takes the place of a second that does not fit.
    fn take_two(&mut self, left: &Pick, right: &Pick) -> (Value, Value) {
        let (left, right) = (self.take(left), self.take(right));
        match broadcast(left.tensor.shape(), right.tensor.shape()) {
            Some(_) => (left, right),
            None => (left, self.values[3].clone()),
        }
    }

    /// Whether functions may be applied that are steep, or not defined everywhere.
    fn is_free(&self, value: &Value) -> bool {
        value.exact && self.purpose == Use::Values
    }

    /// The value itself, or what lies in (-1, 1) instead.
    fn calm(&self, value: &Value) -> Tensor {
        if self.is_free(value) {
            value.tensor.clone()
        } else {
            value.tensor.tanh()
        }
    }

    fn unary(&self, unary: Unary, value: &Value) -> Tensor {
        let (x, free) = (self.calm(value), self.is_free(value));
        let away_from_zero = || x.square() + 0.5;
        match unary {
            Unary::Neg => -x,
            Unary::Exp => x.exp(),
            Unary::Cos => x.cos(),
            Unary::Tanh => x.tanh(),
            Unary::Sigmoid => x.sigmoid(),
            Unary::Square => x.square(),
            Unary::Cube => x.powi(3),
            Unary::Log if free => x.log(),
            Unary::Log => away_from_zero().log(),
            Unary::Sqrt if free => x.sqrt(),
            Unary::Sqrt => away_from_zero().sqrt(),
            Unary::ErfInv if free => x.erf_inv(),
            Unary::ErfInv => (x * 0.5).erf_inv(),
            Unary::Reciprocal if free => x.powi(-1),
            Unary::Reciprocal => away_from_zero().powi(-1),
            Unary::Abs if value.exact => x.abs(),
            Unary::Sign if value.exact => x.sign(),
            Unary::Relu if value.exact => x.relu(),
            Unary::Clip if value.exact => x.clip(-0.5, 1.0),
            Unary::Compiled => jit(|x: Tensor| x.tanh() * -&x)(x),
            Unary::Watched => {
                debug_callback(&[&x], |values| assert_eq!(values.len(), 1));
                x
            }
            Unary::Sin | Unary::Abs | Unary::Sign | Unary::Relu | Unary::Clip => x.sin(),
        }
    }

    fn binary(&self, binary: Binary, left: &Value, right: &Value) -> Tensor {
        let exact = left.exact && right.exact;
        let free = exact && self.is_free(left);
        let (x, y) = match free {
            true => (left.tensor.clone(), right.tensor.clone()),
            false => (left.tensor.tanh(), right.tensor.tanh()),
        };
        match binary {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Div if free => x / y,
            Binary::Div => x / (y.square() + 0.5),
            Binary::Maximum if exact => x.maximum(y),
            Binary::Minimum if exact => x.minimum(y),
            Binary::Mul | Binary::Maximum | Binary::Minimum => x * y,
        }
    }

    /// A comparison of exact values: inputs take the place of others.
    fn comparison(&mut self, comparison: Comparison, left: &Pick, right: &Pick) -> Tensor {
        let (left, right) = self.take_two(left, right);
        let (x, y) = match left.exact && right.exact {
            true => (left.tensor, right.tensor),
            false => (self.values[0].tensor.clone(), self.values[1].tensor.clone()),
        };
        match comparison {
            Comparison::Equal => x.equal(y),
            Comparison::NotEqual => x.not_equal(y),
            Comparison::Less => x.less(y),
            Comparison::LessEqual => x.less_equal(y),
            Comparison::Greater => x.greater(y),
            Comparison::GreaterEqual => x.greater_equal(y),
        }
    }

    fn condition(&mut self, condition: &Condition) -> Tensor {
        let (comparison, left, right) = &condition.first;
        let mut result = self.comparison(*comparison, left, right);
        if let Some((logic, comparison, left, right)) = &condition.second {
            let second = self.comparison(*comparison, left, right);
            if broadcast(result.shape(), second.shape()).is_some() {
                result = match logic {
                    Logic::And => result & second,
                    Logic::Or => result | second,
                    Logic::Xor => result.bit_xor(second),
                };
            }
        }
        if condition.negated { !result } else { result }
    }

    fn choose(&mut self, condition: &Condition, on_true: &Tensor, on_false: &Tensor) -> Tensor {
        let condition = self.condition(condition);
        let shape = broadcast(on_true.shape(), on_false.shape()).unwrap_or_default();
        match broadcast(condition.shape(), &shape) {
            Some(_) => condition.select(on_true, on_false),
            None => self.values[3].tensor.greater(0.0).select(on_true, on_false),
        }
    }

    /// Through another element type and back.
    fn convert(&self, detour: Detour, value: &Value) -> Tensor {
        let (x, dtype) = (&value.tensor, value.tensor.dtype());
        let wide = x * 4.0;
        match detour {
            _ if !value.exact => self.calm(value).cos(),
            // Rounding a tangent to f32 is a large difference.
            Detour::OtherFloat if self.purpose == Use::Derivatives => self.calm(value).cos(),
            Detour::OtherFloat => {
                let other = if dtype == DType::F32 {
                    DType::F64
                } else {
                    DType::F32
                };
                (x.convert(other).sin() + 1.0).convert(dtype)
            }
            Detour::I32 => wide.convert(DType::I32).convert(dtype),
            Detour::I64 => wide.convert(DType::I64).convert(dtype),
            Detour::U32 => wide.convert(DType::U32).convert(dtype),
            Detour::Bool => x.convert(DType::Bool).convert(dtype),
            Detour::IntegerArithmetic => {
                let whole = wide.convert(DType::I32);
                let other = (&whole * &whole - 7) / (whole.shift_left(1) + 1);
                let mixed = other.bit_xor(&whole);
                whole
                    .less(&other)
                    .select(&mixed, -whole.abs())
                    .convert(dtype)
            }
        }
    }

    fn reduce(&self, reduction: Reduction, value: &Value, axis: &Pick) -> Value {
        let x = &value.tensor;
        if x.rank() == 0 {
            return Value {
                tensor: self.calm(value).sin(),
                exact: value.exact,
            };
        }
        let place = axis.index(x.rank());
        let (axes, length) = ([place as isize], x.shape()[place]);
        let exact = |tensor: Tensor| Value {
            tensor,
            exact: true,
        };
        let (calm, share) = (x.tanh(), 1.0 / length.max(1) as f64);
        match reduction {
            // Adding 0 makes of -0, which may come first or last among equal zeros, 0.
            Reduction::Max if value.exact && length > 0 => exact(x.max_axes(axes) + 0.0),
            Reduction::MaxKeep if value.exact && length > 0 => exact(x.max_keep(axes) + 0.0),
            Reduction::ArgMax if value.exact && length > 0 => {
                exact(x.argmax(axes[0]).convert(x.dtype()))
            }
            Reduction::Mean if length > 0 => inexact(calm.mean_axes(axes)),
            Reduction::Variance if length > 0 => inexact(calm.variance_axes(axes)),
            Reduction::SumKeep | Reduction::MaxKeep => inexact(calm.sum_keep(axes) * share),
            _ => inexact(calm.sum_axes(axes) * share),
        }
    }
}

fn with_number(binary: Binary, x: &Tensor, number: f64) -> Tensor {
    match binary {
        Binary::Add => x + number,
        Binary::Sub => number - x,
        Binary::Mul => x * number,
        Binary::Div => x / (number + 0.25),
        // Above what occurs where a value is not exact.
        Binary::Maximum => x.maximum(number + 5.0),
        Binary::Minimum => x.minimum(number + 5.0),
    }
}

/// A product of matrices, if the shapes allow one.
fn product(x: &Tensor, y: &Tensor) -> Tensor {
    let depth = x.shape().last().copied().unwrap_or(1).max(1);
    let scale = 1.0 / depth as f64;
    let outer = (x.len() / depth) * (y.len() / depth);
    if x.rank() > 0 && y.rank() > 0 && outer <= MOST_ELEMENTS {
        if let Ok(product) = x.try_matmul(y) {
            return product * scale;
        }
    }
    match x.rank() {
        0 => x * x,
        1 => x.matmul(x) * scale,
        _ => x.matmul(&first_row(x)) * scale,
    }
}

/// The first rows of matrices as columns.
fn first_row(x: &Tensor) -> Tensor {
    x.index([Index::Ellipsis, Index::from(0..1), Index::from(..)])
        .move_axis(-1, -2)
}

fn reorder(reordering: Reordering, x: &Tensor) -> Tensor {
    match reordering {
        Reordering::ExpandFirst if x.rank() < MOST_AXES => x.expand_dims(0),
        Reordering::ExpandLast if x.rank() < MOST_AXES => x.expand_dims(-1),
        Reordering::Flatten => x.flatten(),
        Reordering::MoveAxis if x.rank() > 1 => x.move_axis(0, -1),
        Reordering::Repeat if x.rank() < MOST_AXES && 2 * x.len() <= MOST_ELEMENTS => {
            x.broadcast_to([&[2], x.shape()].concat())
        }
        _ => x.t(),
    }
}

fn part_of(part: ElementsAlong, x: &Tensor, axis: &Pick) -> Tensor {
    if x.rank() == 0 {
        return x.expand_dims(0);
    }
    let place = axis.index(x.rank());
    let length = x.shape()[place];
    let along_axis = |index: Index| {
        let mut indices = vec![Index::from(..); place];
        indices.push(index);
        x.index(indices)
    };
    match part {
        ElementsAlong::EverySecond => along_axis(Stride(.., 2).into()),
        ElementsAlong::AllButTheFirst => along_axis(Index::from(1..)),
        ElementsAlong::Last if length > 0 => along_axis(Index::from(-1)),
        ElementsAlong::Take if length > 0 && x.rank() < MOST_AXES => {
            x.take(&Tensor::from([[1, 0], [2, 1]]), place as isize)
        }
        ElementsAlong::Padded if 3 * x.len() <= MOST_ELEMENTS => {
            let mut padding = vec![(0, 0, 0); x.rank()];
            padding[place] = (1, -1, 1);
            x.pad(0.5, padding)
        }
        _ => along_axis(Stride(.., -1).into()),
    }
}

fn join(x: &Tensor, y: &Tensor, axis: &Pick) -> Tensor {
    let fits = x.len() + y.len() <= MOST_ELEMENTS && 2 * x.len() <= MOST_ELEMENTS;
    if !fits || x.rank() >= MOST_AXES {
        return x.clone();
    }
    if x.rank() > 0 {
        let parts = [x.clone(), y.clone()];
        if let Ok(joined) = Tensor::try_concatenate(&parts, axis.index(x.rank()) as isize) {
            return joined;
        }
    }
    Tensor::stack(&[x.clone(), x.clone()], axis.index(x.rank() + 1) as isize)
}

fn fill(filling: Filling, x: &Tensor) -> Tensor {
    match (filling, x.shape().last()) {
        (Filling::Zeros, _) => Tensor::zeros_like(x) + x,
        (Filling::Half, _) => Tensor::full(x.dtype(), x.shape(), 0.5) * x,
        (Filling::Positions, Some(&length)) => x - Tensor::arange(x.dtype(), length) * 0.125,
        (Filling::Positions, None) => x - Tensor::ones(x.dtype(), []),
    }
}
