//! Samples inside the domain of a case, and the accuracy of the computation there.

use pytree_transform::Tensor;

use crate::gradients::case::Case;

/// The range of an operand's elements. All floats of a case are distinct, so that no sample is on a kink of `max` or
/// `abs`.
#[derive(Clone, Copy)]
pub enum Domain {
    /// f64 in (-2, 2), except -1, 0 and 1.
    Real,
    /// f64 in (0.4, 2.4).
    Positive,
    /// f64 in (-2.4, -0.4) and (0.4, 2.4).
    NonZero,
    /// f64 in (-0.8, 0.8).
    Unit,
    /// i32 from -1 to this number: on an axis of that length, one index is too low and one is too high.
    Index(i32),
    /// bool.
    Truth,
}

/// The accuracy of a case.
#[derive(Clone, Copy)]
pub enum Precision {
    /// f64 throughout: a relative error of 1e-16 per operation.
    Double,
    /// Through f32: a relative error of 6e-8 per operation.
    Single,
}

/// The allowed distance of two results, relative to 1 or the greater of them.
pub struct Tolerance {
    /// The step h of central differences.
    pub step: f64,
    /// The error of central differences: h²/6 · f''' (truncation) and ε/h · f (rounding).
    pub difference: f64,
    /// The error of a sum in another order: ε for each term.
    pub order: f64,
}

impl Precision {
    pub fn tolerance(self) -> Tolerance {
        let (step, difference, order) = match self {
            // 2e-11 · f''' + 2e-11 · f. The domains keep f''' below 1e3 times the compared derivative.
            Self::Double => (1e-5, 1e-7, 1e-13),
            // 1e-5 · f''' + 8e-6 · f. f''' and f are of the order of 1.
            Self::Single => (1.0 / 128.0, 1e-4, 1e-6),
        };
        Tolerance {
            step,
            difference,
            order,
        }
    }
}

/// A random generator (Steele et al., "Fast splittable pseudorandom number generators", 2014).
pub struct Random(pub u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// Returns numbers in [-1, 1) with the shape of a tensor.
    pub fn like(&mut self, tensor: &Tensor) -> Tensor {
        let elements: Vec<f64> = (0..tensor.len()).map(|_| 2.0 * self.unit() - 1.0).collect();
        Tensor::new(tensor.shape(), elements)
    }

    /// Returns the numbers below `count` in random order.
    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).for_each(|last| order.swap(last, self.below(last + 1)));
        order
    }
}

impl Case {
    /// Returns operands inside the domain.
    pub fn sample(&self, random: &mut Random) -> Vec<Tensor> {
        let lengths = self
            .operands
            .iter()
            .map(|(_, shape)| shape.iter().product::<usize>());
        // Every element has its own cell, and no function has a kink inside of a cell.
        let cells = lengths.sum::<usize>().next_multiple_of(4);
        let mut order = random.shuffled(cells).into_iter();
        let mut operands = Vec::new();
        for &(domain, shape) in &self.operands {
            let length = shape.iter().product();
            let order = order.by_ref().take(length);
            operands.push(match domain {
                Domain::Index(length_of_axis) => {
                    let count = length_of_axis as usize + 2;
                    let elements = order.map(|_| random.below(count) as i32 - 1);
                    Tensor::new(shape, elements.collect::<Vec<i32>>())
                }
                Domain::Truth => {
                    let elements = order.map(|_| random.below(2) == 1);
                    Tensor::new(shape, elements.collect::<Vec<bool>>())
                }
                _ => {
                    let inside = |cell: usize, place: f64| (cell as f64 + place) / cells as f64;
                    let unit = order.map(|cell| inside(cell, 0.3 + 0.4 * random.unit()));
                    let elements = unit.map(|unit| domain.element(unit));
                    Tensor::new(shape, elements.collect::<Vec<f64>>())
                }
            });
        }
        operands
    }
}

impl Domain {
    /// Converts a number in (0, 1) to an element.
    fn element(self, unit: f64) -> f64 {
        match self {
            Self::Positive => 2.0 * unit + 0.4,
            Self::NonZero if unit < 0.5 => 4.0 * unit - 2.4,
            Self::NonZero => 4.0 * unit - 1.6,
            Self::Unit => 1.6 * unit - 0.8,
            _ => 4.0 * unit - 2.0,
        }
    }
}
