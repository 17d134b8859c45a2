//! Random programs over tensors: short sequences of operations that fit whatever shapes they meet.
//!
//! A program is a list of steps; each takes values made before and adds one. A step that can't be done
//! with the operands it names does something similar instead, so every list of steps is a program, and
//! it shrinks well.
//!
//! Two ways to compute a program may add in different orders, after which nothing is exact any more. A
//! value therefore knows whether it is exact: only then is it compared, rounded or divided by, and only
//! then is it outside of (-1, 1) when a function is applied to it. Otherwise a last bit could become a
//! difference of any size.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index as Pick, select};
use pytree::indexing::{Index, Step as Stride};
use pytree::{DType, Tensor, ix};

/// What a program is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Its values: it may leave the domains of functions, and read infinities and NaN.
    Values,
    /// Its derivatives too: it has some everywhere, and they are moderate.
    Derivatives,
}

/// Values that exist when an operation is chosen; `Pick` chooses among them.
#[derive(Clone, Debug)]
enum Step {
    Unary(Unary, Pick),
    Binary(Binary, Pick, Pick),
    WithNumber(Binary, Pick, f64),
    Choose(Condition, Pick, Pick),
    Indicate(Condition),
    Convert(Detour, Pick),
    Reduce(Reduction, Pick, Pick),
    Multiply(Pick, Pick),
    Reorder(Reordering, Pick),
    Part(Part, Pick, Pick),
    Join(Pick, Pick, Pick),
    Fill(Filling, Pick),
}

#[derive(Clone, Copy, Debug)]
enum Unary {
    Neg,
    Exp,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Square,
    Cube,
    // With poles, or not defined everywhere.
    Log,
    Sqrt,
    ErfInv,
    Reciprocal,
    // With kinks.
    Abs,
    Sign,
    Relu,
    Clip,
}

#[derive(Clone, Copy, Debug)]
enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Maximum,
    Minimum,
}

/// A comparison, perhaps joined to another one, perhaps negated.
#[derive(Clone, Debug)]
struct Condition {
    first: (Comparison, Pick, Pick),
    second: Option<(Logic, Comparison, Pick, Pick)>,
    negated: bool,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Clone, Copy, Debug)]
enum Logic {
    And,
    Or,
    Xor,
}

/// Another element type to go through.
#[derive(Clone, Copy, Debug)]
enum Detour {
    OtherFloat,
    I32,
    I64,
    U32,
    Bool,
    IntegerArithmetic,
}

#[derive(Clone, Copy, Debug)]
enum Reduction {
    Sum,
    SumKeep,
    Mean,
    Variance,
    Max,
    MaxKeep,
    ArgMax,
}

#[derive(Clone, Copy, Debug)]
enum Reordering {
    Transpose,
    Flatten,
    ExpandFirst,
    ExpandLast,
    MoveAxis,
    Repeat,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Backwards,
    EverySecond,
    AllButTheFirst,
    Last,
    Take,
}

#[derive(Clone, Copy, Debug)]
enum Filling {
    Zeros,
    Half,
    Positions,
}

fn picks() -> impl Strategy<Value = Pick> {
    any::<Pick>()
}

fn conditions() -> impl Strategy<Value = Condition> {
    use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    let comparison = select(vec![
        Equal,
        NotEqual,
        Less,
        LessEqual,
        Greater,
        GreaterEqual,
    ]);
    let logic = select(vec![Logic::And, Logic::Or, Logic::Xor]);
    let second = proptest::option::of((logic, comparison.clone(), picks(), picks()));
    ((comparison, picks(), picks()), second, any::<bool>()).prop_map(|(first, second, negated)| {
        Condition {
            first,
            second,
            negated,
        }
    })
}

fn unaries() -> impl Strategy<Value = Unary> {
    use Unary::*;
    select(vec![
        Neg, Exp, Sin, Cos, Tanh, Sigmoid, Square, Cube, Log, Sqrt, ErfInv, Reciprocal, Abs, Sign,
        Relu, Clip,
    ])
}

fn binaries() -> impl Strategy<Value = Binary> {
    use Binary::*;
    select(vec![Add, Sub, Mul, Div, Maximum, Minimum])
}

fn steps() -> impl Strategy<Value = Step> {
    let detours = select(vec![
        Detour::OtherFloat,
        Detour::I32,
        Detour::I64,
        Detour::U32,
        Detour::Bool,
        Detour::IntegerArithmetic,
    ]);
    let reductions = select(vec![
        Reduction::Sum,
        Reduction::SumKeep,
        Reduction::Mean,
        Reduction::Variance,
        Reduction::Max,
        Reduction::MaxKeep,
        Reduction::ArgMax,
    ]);
    let reorderings = select(vec![
        Reordering::Transpose,
        Reordering::Flatten,
        Reordering::ExpandFirst,
        Reordering::ExpandLast,
        Reordering::MoveAxis,
        Reordering::Repeat,
    ]);
    let parts = select(vec![
        Part::Backwards,
        Part::EverySecond,
        Part::AllButTheFirst,
        Part::Last,
        Part::Take,
    ]);
    let fillings = select(vec![Filling::Zeros, Filling::Half, Filling::Positions]);
    let numbers = select(vec![0.0, 0.5, -1.25, 3.0]);
    // Element by element most of the time: that is what is fused.
    prop_oneof![
        5 => (unaries(), picks()).prop_map(|(unary, of)| Step::Unary(unary, of)),
        7 => (binaries(), picks(), picks()).prop_map(|(binary, left, right)| Step::Binary(binary, left, right)),
        3 => (binaries(), picks(), numbers).prop_map(|(binary, left, right)| Step::WithNumber(binary, left, right)),
        3 => (conditions(), picks(), picks()).prop_map(|(condition, on_true, on_false)| Step::Choose(condition, on_true, on_false)),
        2 => conditions().prop_map(Step::Indicate),
        2 => (detours, picks()).prop_map(|(detour, of)| Step::Convert(detour, of)),
        2 => (reductions, picks(), picks()).prop_map(|(reduction, of, axis)| Step::Reduce(reduction, of, axis)),
        1 => (picks(), picks()).prop_map(|(left, right)| Step::Multiply(left, right)),
        2 => (reorderings, picks()).prop_map(|(reordering, of)| Step::Reorder(reordering, of)),
        1 => (parts, picks(), picks()).prop_map(|(part, of, axis)| Step::Part(part, of, axis)),
        1 => (picks(), picks(), picks()).prop_map(|(left, right, axis)| Step::Join(left, right, axis)),
        1 => (fillings, picks()).prop_map(|(filling, of)| Step::Fill(filling, of)),
    ]
}

/// A random function from tensors to tensors.
#[derive(Clone, Debug)]
pub struct Program {
    purpose: Use,
    /// The shapes of the inputs: a matrix, a row, a column, one without axes, and a second matrix.
    rows: usize,
    columns: usize,
    /// What the elements of the inputs are made from.
    seed: u64,
    /// Whether some of them are infinite or NaN.
    special: bool,
    steps: Vec<Step>,
}

/// The number of elements that a value may have.
const MOST_ELEMENTS: usize = 4000;

/// Lengths that fit a tile of the fusing executor or not, and degenerate ones.
const LONG: &[(usize, usize)] = &[
    (1, 513),
    (2, 512),
    (3, 700),
    (700, 3),
    (513, 1),
    (1030, 2),
    (33, 31),
    (2, 3),
    (1, 1),
    (0, 3),
    (3, 0),
    (0, 0),
];

const SHORT: &[(usize, usize)] = &[
    (2, 3),
    (3, 2),
    (1, 3),
    (3, 1),
    (1, 1),
    (0, 2),
    (2, 0),
    (4, 4),
];

fn programs(
    purpose: Use,
    sizes: &'static [(usize, usize)],
    count: usize,
) -> impl Strategy<Value = Program> {
    let special = any::<u8>().prop_map(move |chance| purpose == Use::Values && chance < 50);
    (select(sizes), any::<u64>(), special, vec(steps(), 1..count)).prop_map(
        move |((rows, columns), seed, special, steps)| Program {
            purpose,
            rows,
            columns,
            seed,
            special,
            steps,
        },
    )
}

/// Programs for their values, with lengths around those of the executor's tiles.
pub fn long_programs() -> impl Strategy<Value = Program> {
    programs(Use::Values, LONG, 14)
}

/// Programs for their values, of few elements.
pub fn short_programs() -> impl Strategy<Value = Program> {
    programs(Use::Values, SHORT, 10)
}

/// Programs for their derivatives, of few elements.
pub fn smooth_programs() -> impl Strategy<Value = Program> {
    programs(Use::Derivatives, SHORT, 8)
}

/// Programs for their derivatives, with lengths around those of the executor's tiles.
pub fn long_smooth_programs() -> impl Strategy<Value = Program> {
    programs(Use::Derivatives, LONG, 8)
}

/// A tensor of a program.
#[derive(Clone)]
struct Value {
    tensor: Tensor,
    /// Whether every way to compute it gives the same bits.
    exact: bool,
    used: bool,
}

/// Random bits for a place (Steele et al., "Fast splittable pseudorandom number generators", 2014).
fn bits(seed: u64, place: u64) -> u64 {
    let mut bits = seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A tensor of numbers in [-2, 2], half of them multiples of a quarter, so that there are equal ones.
pub fn noise(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let element = |place: usize| {
        let bits = bits(seed, place as u64);
        let unit = (bits >> 11) as f64 / (1_u64 << 53) as f64;
        if bits & 1 == 0 {
            (unit * 16.0).floor() / 4.0 - 2.0
        } else {
            unit * 4.0 - 2.0
        }
    };
    let elements: Vec<f64> = (0..shape.iter().product()).map(element).collect();
    Tensor::new(shape, elements).convert(dtype)
}

impl Program {
    fn shapes(&self) -> [Vec<usize>; 5] {
        let (rows, columns) = (self.rows, self.columns);
        [
            vec![rows, columns],
            vec![columns],
            vec![rows, 1],
            vec![],
            vec![rows, columns],
        ]
    }

    /// Inputs; each example has others.
    pub fn inputs(&self, dtype: DType, example: u64) -> Vec<Tensor> {
        let seed = |input: usize| bits(self.seed, 1000 * example + input as u64);
        self.shapes()
            .iter()
            .enumerate()
            .map(|(input, shape)| self.input(dtype, shape, seed(input)))
            .collect()
    }

    fn input(&self, dtype: DType, shape: &[usize], seed: u64) -> Tensor {
        let plain = noise(dtype, shape, seed);
        if !self.special {
            return plain;
        }
        let mut elements = plain.convert(DType::F64).to_vec::<f64>();
        for (place, element) in elements.iter_mut().enumerate() {
            match bits(!seed, place as u64) % 32 {
                0 => *element = f64::NAN,
                1 => *element = f64::INFINITY,
                2 => *element = f64::NEG_INFINITY,
                3 => *element = -0.0,
                _ => {}
            }
        }
        Tensor::new(shape, elements).convert(dtype)
    }

    /// The values that no step used, the last step's among them.
    pub fn run(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let start = |tensor: &Tensor| Value {
            tensor: tensor.clone(),
            exact: true,
            used: true,
        };
        let mut state = State {
            purpose: self.purpose,
            values: inputs.iter().map(start).collect(),
        };
        for step in &self.steps {
            let (tensor, exact) = state.step(step);
            state.values.push(Value {
                tensor,
                exact,
                used: false,
            });
        }
        state
            .values
            .into_iter()
            .filter(|value| !value.used)
            .map(|value| value.tensor)
            .collect()
    }

    /// A scalar of all results, each with weights of its own.
    pub fn loss(&self, inputs: &[Tensor]) -> Tensor {
        let results = self.run(inputs);
        let terms = results.iter().zip(0..).map(|(result, place)| {
            (result.sin() * noise(result.dtype(), result.shape(), bits(self.seed, place))).sum()
        });
        terms.reduce(|sum, term| sum + term).unwrap()
    }
}

struct State {
    purpose: Use,
    values: Vec<Value>,
}

/// The shape that two shapes broadcast to, if they do and it is not too large.
fn broadcast(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let rank = left.len().max(right.len());
    let length = |shape: &[usize], axis: usize| {
        (axis + shape.len())
            .checked_sub(rank)
            .map_or(1, |axis| shape[axis])
    };
    let shape: Option<Vec<usize>> = (0..rank)
        .map(|axis| match (length(left, axis), length(right, axis)) {
            (left, right) if left == right => Some(left),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect();
    shape.filter(|shape| shape.iter().product::<usize>() <= MOST_ELEMENTS)
}

impl State {
    fn take(&mut self, pick: &Pick) -> Value {
        let position = pick.index(self.values.len());
        self.values[position].used = true;
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

    fn step(&mut self, step: &Step) -> (Tensor, bool) {
        match step {
            Step::Unary(unary, of) => {
                let value = self.take(of);
                self.unary(*unary, &value)
            }
            Step::Binary(binary, left, right) => {
                let (left, right) = self.take_two(left, right);
                self.binary(*binary, &left, &right)
            }
            Step::WithNumber(binary, left, number) => {
                let left = self.take(left);
                (with_number(*binary, &self.calm(&left), *number), left.exact)
            }
            Step::Choose(condition, on_true, on_false) => {
                let (on_true, on_false) = self.take_two(on_true, on_false);
                let exact = on_true.exact && on_false.exact;
                let shape =
                    broadcast(on_true.tensor.shape(), on_false.tensor.shape()).unwrap_or_default();
                let condition = self.condition(condition);
                let fits = broadcast(condition.shape(), &shape).is_some();
                let condition = if fits {
                    condition
                } else {
                    self.values[3].tensor.greater(0.0)
                };
                (condition.select(&on_true.tensor, &on_false.tensor), exact)
            }
            Step::Indicate(condition) => (
                self.condition(condition)
                    .convert(self.values[0].tensor.dtype()),
                true,
            ),
            Step::Convert(detour, of) => {
                let value = self.take(of);
                self.convert(*detour, &value)
            }
            Step::Reduce(reduction, of, axis) => {
                let value = self.take(of);
                self.reduce(*reduction, &value, axis)
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
                (
                    join(&left.tensor, &right.tensor, axis),
                    left.exact && right.exact,
                )
            }
            Step::Fill(filling, of) => {
                let value = self.take(of);
                (fill(*filling, &value.tensor), value.exact)
            }
        }
    }

    fn unary(&self, unary: Unary, value: &Value) -> (Tensor, bool) {
        let (x, free) = (self.calm(value), self.is_free(value));
        let away_from_zero = || x.square() + 0.5;
        let result = match unary {
            Unary::Neg => -&x,
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
            Unary::ErfInv => (&x * 0.5).erf_inv(),
            Unary::Reciprocal if free => x.powi(-1),
            Unary::Reciprocal => away_from_zero().powi(-1),
            Unary::Abs if value.exact => x.abs(),
            Unary::Sign if value.exact => x.sign(),
            Unary::Relu if value.exact => x.relu(),
            Unary::Clip if value.exact => x.clip(-0.5, 1.0),
            Unary::Sin | Unary::Abs | Unary::Sign | Unary::Relu | Unary::Clip => x.sin(),
        };
        (result, value.exact)
    }

    fn binary(&self, binary: Binary, left: &Value, right: &Value) -> (Tensor, bool) {
        let exact = left.exact && right.exact;
        let free = self.is_free(left) && self.is_free(right);
        let (x, y) = if free {
            (left.tensor.clone(), right.tensor.clone())
        } else {
            (left.tensor.tanh(), right.tensor.tanh())
        };
        let result = match binary {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Div if free => x / y,
            Binary::Div => x / (y.square() + 0.5),
            Binary::Maximum if exact => x.maximum(y),
            Binary::Minimum if exact => x.minimum(y),
            Binary::Mul | Binary::Maximum | Binary::Minimum => x * y,
        };
        (result, exact)
    }

    /// A comparison of exact values: inputs take the place of others.
    fn comparison(&mut self, comparison: Comparison, left: &Pick, right: &Pick) -> Tensor {
        let (left, right) = self.take_two(left, right);
        let (x, y) = if left.exact && right.exact {
            (left.tensor, right.tensor)
        } else {
            (self.values[0].tensor.clone(), self.values[1].tensor.clone())
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

    /// Through another element type and back.
    fn convert(&self, detour: Detour, value: &Value) -> (Tensor, bool) {
        let (x, dtype) = (&value.tensor, value.tensor.dtype());
        if !value.exact {
            return (self.calm(value).cos(), false);
        }
        let wide = x * 4.0;
        let result = match detour {
            // Rounding a tangent is as good as a difference of a last bit.
            Detour::OtherFloat if self.purpose == Use::Derivatives => self.calm(value).cos(),
            Detour::OtherFloat if dtype == DType::F32 => {
                (x.convert(DType::F64).sin() + 1.0).convert(dtype)
            }
            Detour::OtherFloat => (x.convert(DType::F32).sin() + 1.0).convert(dtype),
            Detour::I32 => wide.convert(DType::I32).convert(dtype),
            Detour::I64 => wide.convert(DType::I64).convert(dtype),
            Detour::U32 => wide.convert(DType::U32).convert(dtype),
            Detour::Bool => x.convert(DType::Bool).convert(dtype),
            Detour::IntegerArithmetic => {
                let whole = wide.convert(DType::I32);
                let other = (&whole * &whole - 7) / (&whole.shift_left(1) + 1);
                whole
                    .less(&other)
                    .select(&other.bit_xor(&whole), &-whole.abs())
                    .convert(dtype)
            }
        };
        (result, true)
    }

    fn reduce(&self, reduction: Reduction, value: &Value, axis: &Pick) -> (Tensor, bool) {
        let x = &value.tensor;
        if x.rank() == 0 {
            return (self.calm(value).sin(), value.exact);
        }
        let place = axis.index(x.rank());
        let (axes, length) = ([place as isize], x.shape()[place]);
        let calm = x.tanh();
        // Adding 0 makes of -0, which may come first or last among equal zeros, 0.
        let result = match reduction {
            Reduction::Max if value.exact && length > 0 => return (x.max_axes(axes) + 0.0, true),
            Reduction::MaxKeep if value.exact && length > 0 => {
                return (x.max_keep(axes) + 0.0, true);
            }
            Reduction::ArgMax if value.exact && length > 0 => {
                return (x.argmax(axes[0]).convert(x.dtype()), true);
            }
            Reduction::Mean if length > 0 => calm.mean_axes(axes),
            Reduction::Variance if length > 0 => calm.variance_axes(axes),
            Reduction::SumKeep | Reduction::MaxKeep => calm.sum_keep(axes) / length.max(1) as f64,
            _ => calm.sum_axes(axes) / length.max(1) as f64,
        };
        (result, false)
    }
}

fn with_number(binary: Binary, x: &Tensor, number: f64) -> Tensor {
    match binary {
        Binary::Add => x + number,
        Binary::Sub => number - x,
        Binary::Mul => x * number,
        Binary::Div => x / (number + 0.25),
        // A number between those that occur.
        Binary::Maximum => x.maximum(number + 5.0),
        Binary::Minimum => x.minimum(number + 5.0),
    }
}

/// A product of matrices, if the shapes allow one.
fn product(x: &Tensor, y: &Tensor) -> Tensor {
    let rows = |tensor: &Tensor| tensor.len() / tensor.shape().last().copied().unwrap_or(1).max(1);
    let scale = 1.0 / x.shape().last().copied().unwrap_or(1).max(1) as f64;
    let size = rows(x) * y.len() / y.shape().iter().rev().nth(1).copied().unwrap_or(1).max(1);
    if x.rank() > 0 && y.rank() > 0 && size <= MOST_ELEMENTS {
        if let Ok(product) = x.try_matmul(y) {
            return product * scale;
        }
    }
    match x.rank() {
        0 => x * x,
        1 => x.matmul(x) * scale,
        _ => x.matmul(&x.index(ix![Index::Ellipsis, 0..1, ..]).move_axis(-1, -2)) * scale,
    }
}

fn reorder(reordering: Reordering, x: &Tensor) -> Tensor {
    match reordering {
        Reordering::ExpandFirst if x.rank() < 4 => x.expand_dims(0),
        Reordering::ExpandLast if x.rank() < 4 => x.expand_dims(-1),
        Reordering::Flatten => x.flatten(),
        Reordering::MoveAxis if x.rank() > 1 => x.move_axis(0, -1),
        Reordering::Repeat if x.rank() < 4 && 2 * x.len() <= MOST_ELEMENTS => {
            x.broadcast_to([&[2], x.shape()].concat())
        }
        _ => x.t(),
    }
}

fn part_of(part: Part, x: &Tensor, axis: &Pick) -> Tensor {
    if x.rank() == 0 {
        return x.expand_dims(0);
    }
    let place = axis.index(x.rank());
    let length = x.shape()[place];
    let of_axis = |index: Index| {
        let mut indices = vec![Index::from(..); place];
        indices.push(index);
        x.index(indices)
    };
    match part {
        Part::EverySecond => of_axis(Stride(.., 2).into()),
        Part::AllButTheFirst => of_axis(Index::from(1..)),
        Part::Last if length > 0 => of_axis(Index::from(-1)),
        Part::Take if length > 0 => x.take(&Tensor::from([[1, 0], [2, 1]]), place as isize),
        _ => of_axis(Stride(.., -1).into()),
    }
}

fn join(x: &Tensor, y: &Tensor, axis: &Pick) -> Tensor {
    if x.len() + y.len() > MOST_ELEMENTS {
        return x.clone();
    }
    if x.rank() > 0 {
        if let Ok(joined) =
            Tensor::try_concatenate(&[x.clone(), y.clone()], axis.index(x.rank()) as isize)
        {
            return joined;
        }
    }
    if 2 * x.len() > MOST_ELEMENTS || x.rank() > 3 {
        return x.clone();
    }
    Tensor::stack(&[x.clone(), x.clone()], axis.index(x.rank() + 1) as isize)
}

fn fill(filling: Filling, x: &Tensor) -> Tensor {
    match filling {
        Filling::Zeros => Tensor::zeros_like(x) + x,
        Filling::Half => Tensor::full(x.dtype(), x.shape(), 0.5) * x,
        Filling::Positions => match x.shape().last() {
            Some(&length) => x - Tensor::arange(x.dtype(), length) * 0.125,
            None => x - Tensor::ones(x.dtype(), []),
        },
    }
}
