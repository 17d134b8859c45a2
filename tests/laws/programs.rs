//! Random programs over tensors: short sequences of operations on five inputs.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use pytree::{DType, Tensor};

use crate::laws::interpreter::Interpreter;
use crate::laws::steps::{Step, steps};

/// What a program is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// To compare values. The program may leave the domains of functions, and read infinities and NaN.
    Values,
    /// To compare values and derivatives. The program has derivatives everywhere, and they are moderate.
    Derivatives,
}

/// A random function from tensors to tensors.
#[derive(Clone, Debug)]
pub struct Program {
    purpose: Use,
    /// The inputs are a matrix, a row, a column, one without axes, and a second matrix.
    rows: usize,
    columns: usize,
    /// What the elements of the inputs are made from.
    seed: u64,
    /// Whether some of them are infinite or NaN.
    special: bool,
    steps: Vec<Step>,
}

/// Rows and columns whose product fits a tile of the fusing executor or not, two with more elements than a small program has, and
/// degenerate ones.
const LONG: &[(usize, usize)] = &[
    (1, 513),
    (2, 512),
    (3, 700),
    (700, 3),
    (513, 1),
    (1030, 2),
    (33, 31),
    (3, 1400),
    (1366, 3),
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
    most_steps: usize,
) -> impl Strategy<Value = Program> {
    let special = prop::bool::weighted(if purpose == Use::Values { 0.2 } else { 0.0 });
    let steps = vec(steps(), 1..=most_steps);
    let parts = (select(sizes), any::<u64>(), special, steps);
    parts.prop_map(move |((rows, columns), seed, special, steps)| Program {
        purpose,
        rows,
        columns,
        seed,
        special,
        steps,
    })
}

/// Programs for their values, with lengths around those of the executor's tiles.
pub fn long_programs() -> impl Strategy<Value = Program> {
    programs(Use::Values, LONG, 13)
}

/// Programs for their values, of few elements.
pub fn short_programs() -> impl Strategy<Value = Program> {
    programs(Use::Values, SHORT, 9)
}

/// Programs for their derivatives, of few elements.
pub fn smooth_programs() -> impl Strategy<Value = Program> {
    programs(Use::Derivatives, SHORT, 7)
}

/// Programs for their derivatives, with lengths around those of the executor's tiles.
pub fn long_smooth_programs() -> impl Strategy<Value = Program> {
    programs(Use::Derivatives, LONG, 7)
}

/// Random bits for a place (Steele et al., "Fast splittable pseudorandom number generators", 2014).
fn bits(seed: u64, place: u64) -> u64 {
    let mut bits = seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A number in [-2, 2), every other time a multiple of a quarter, so that there are equal ones.
fn number(bits: u64) -> f64 {
    let number = (bits >> 11) as f64 / (1_u64 << 51) as f64 - 2.0;
    if bits & 1 == 0 {
        (number * 4.0).floor() / 4.0
    } else {
        number
    }
}

/// A number, at times no finite one.
fn special_number(bits: u64) -> f64 {
    match (bits >> 1) % 32 {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        _ => number(bits),
    }
}

fn filled(dtype: DType, shape: &[usize], seed: u64, element: fn(u64) -> f64) -> Tensor {
    let places = 0..shape.iter().product::<usize>() as u64;
    let elements: Vec<f64> = places.map(|place| element(bits(seed, place))).collect();
    Tensor::new(shape, elements).convert(dtype)
}

/// A tensor of numbers in [-2, 2).
pub fn noise(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    filled(dtype, shape, seed, number)
}

impl Program {
    /// Inputs; each example has others.
    pub fn inputs(&self, dtype: DType, example: u64) -> Vec<Tensor> {
        let (rows, columns) = (self.rows, self.columns);
        let matrix = vec![rows, columns];
        let shapes = [matrix.clone(), vec![columns], vec![rows, 1], vec![], matrix];
        let element = if self.special { special_number } else { number };
        let seeds = (0..).map(|input| bits(self.seed, 1000 * example + input));
        let inputs = shapes.iter().zip(seeds);
        inputs
            .map(|(shape, seed)| filled(dtype, shape, seed, element))
            .collect()
    }

    /// The results: what no step used, the last step's among them.
    pub fn run(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let mut interpreter = Interpreter::new(self.purpose, inputs);
        self.steps.iter().for_each(|step| interpreter.run(step));
        interpreter.results()
    }

    /// A scalar of all results, with weights for their elements.
    pub fn loss(&self, inputs: &[Tensor]) -> Tensor {
        let results = self.run(inputs);
        let terms = results.iter().zip(0..).map(|(result, place)| {
            let weights = noise(result.dtype(), result.shape(), bits(self.seed, place));
            (result.sin() * weights).sum()
        });
        terms.reduce(|sum, term| sum + term).unwrap()
    }
}
