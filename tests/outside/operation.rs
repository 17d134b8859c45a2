//! An operation with its own kernel and all rules: a leaky sum along the last axis.

use pytree::control::scan;
use pytree::extend::{
    Block, Examples, Operand, Primitive, Tangents, Value, each_example, try_apply,
};
use pytree::indexing::Index;
use pytree::prelude::*;
use pytree::{AbstractArray, TensorError, remat, unstack};

/// `yᵢ = decay yᵢ₋₁ + xᵢ` in the order of `direction`, with `x: [.., n]` and `decay: []`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LeakySum {
    direction: Direction,
}

/// The order in which the elements of an axis are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    Forward,
    Backward,
}

/// Adds the elements of the last axis of `x: [.., n]`, each multiplied by `decay: []` for each step that has passed.
///
/// # Errors
/// Returns [`TensorError::Shape`] if `decay` is not a scalar, or if a dtype is not a float of the same width.
#[track_caller]
pub fn try_leaky_sum(
    x: &Tensor,
    decay: &Tensor,
    direction: Direction,
) -> Result<Tensor, TensorError> {
    Ok(try_apply(&LeakySum { direction }, &[x, decay])?.remove(0))
}

#[track_caller]
pub fn leaky_sum(x: &Tensor, decay: &Tensor, direction: Direction) -> Tensor {
    try_leaky_sum(x, decay, direction).unwrap_or_else(|error| panic!("{error}"))
}

impl Direction {
    fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }

    /// Returns the elements of the step before: `yᵢ₋₁` for `Forward`, and zeros at the beginning.
    fn before(self, y: &Tensor) -> Tensor {
        let zero = Tensor::zeros_like(&y.index(ix![Index::Ellipsis, ..1]));
        match self {
            Self::Forward => Tensor::concatenate(&[zero, y.index(ix![Index::Ellipsis, ..-1])], -1),
            Self::Backward => Tensor::concatenate(&[y.index(ix![Index::Ellipsis, 1..]), zero], -1),
        }
    }
}

impl Primitive for LeakySum {
    fn name(&self) -> &'static str {
        "leaky_sum"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        match operands {
            [x, decay]
                if x.dtype.is_float()
                    && x.dtype == decay.dtype
                    && x.rank() > 0
                    && decay.rank() == 0 =>
            {
                Ok(vec![(*x).clone()])
            }
            _ => Err(TensorError::Shape {
                operation: "compute the leaky sum of",
                found: operands.iter().copied().cloned().collect(),
                problem: "it needs an array of floats, and a scalar of the same dtype".to_owned(),
                fix: "pass `x: [.., n]` and `decay: []`".to_owned(),
            }),
        }
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let wide = |tensor: &Tensor| tensor.convert(DType::F64).to_vec::<f64>();
        let (mut elements, decay) = (wide(&operands[0]), wide(&operands[1])[0]);
        let length = operands[0].shape().last().copied().unwrap_or(0).max(1);
        for row in elements.chunks_mut(length) {
            let mut sum = 0.0;
            let add = |element: &mut f64| {
                sum = sum * decay + *element;
                *element = sum;
            };
            match self.direction {
                Direction::Forward => row.iter_mut().for_each(add),
                Direction::Backward => row.iter_mut().rev().for_each(add),
            }
        }
        let sums = Tensor::new(operands[0].shape(), elements);
        vec![sums.convert(operands[0].dtype())]
    }

    // y' = decay y'₋ + x' + decay' y₋, where y₋ is the step before.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let [x, decay] = primals else {
            unreachable!("two operands")
        };
        let y = leaky_sum(x, decay, self.direction);
        let by_decay = tangents[1]
            .as_ref()
            .map(|tangent| tangent * self.direction.before(&y));
        let tangent = match (tangents[0].clone(), by_decay) {
            (Some(x), Some(decay)) => Some(x + decay),
            (x, decay) => x.or(decay),
        };
        let tangent = tangent.map(|tangent| leaky_sum(&tangent, decay, self.direction));
        (vec![y], vec![tangent])
    }

    // A JVP rule applies the operation to a tangent `x` and a known decay.
    fn transpose(
        &self,
        cotangents: &[Option<Tensor>],
        operands: &[Operand],
    ) -> Vec<Option<Tensor>> {
        let [Operand::Linear(_), Operand::Known(decay)] = operands else {
            unreachable!("the operation is linear in `x` only")
        };
        let back = |cotangent| leaky_sum(cotangent, decay, self.direction.reversed());
        vec![cotangents[0].as_ref().map(back), None]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        match axes {
            // The operation takes any number of axes in front of the last one.
            [Some(axis), None] => {
                let x = operands[0].move_axis(isize::try_from(*axis).unwrap(), 0);
                (
                    vec![leaky_sum(&x, &operands[1], self.direction)],
                    vec![Some(0)],
                )
            }
            _ => each_example(self, operands, axes),
        }
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        _: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError> {
        let flip = |x: &Tensor| match self.direction {
            Direction::Forward => x.clone(),
            Direction::Backward => x.reverse(0),
        };
        block.computed(operands, |operands| {
            let decay = operands[1].clone();
            let steps = flip(&operands[0].move_axis(-1, 0));
            let zero = Tensor::zeros_like(&steps.index(ix![0]));
            let step = |(sum, decay): (Tensor, Tensor), x: Tensor| {
                let sum = sum * &decay + x;
                ((sum.clone(), decay), sum)
            };
            let (_, sums) = scan(step, (zero, decay), steps);
            vec![flip(&sums).move_axis(0, -1)]
        })
    }
}

fn x() -> Tensor {
    Tensor::from([[1.0_f64, 2.0, 4.0], [-1.0, 0.5, 3.0]])
}

fn half() -> Tensor {
    Tensor::from(0.5_f64)
}

#[test]
fn kernel_runs_in_both_directions() {
    let forward = leaky_sum(&x(), &half(), Direction::Forward);
    assert_eq!(forward.to_vec::<f64>(), [1.0, 2.5, 5.25, -1.0, 0.0, 3.0]);
    let backward = leaky_sum(&x(), &half(), Direction::Backward);
    assert_eq!(backward.to_vec::<f64>(), [3.0, 4.0, 4.0, 0.0, 2.0, 3.0]);
    let narrow = leaky_sum(
        &x().convert(DType::BF16),
        &half().convert(DType::BF16),
        Direction::Forward,
    );
    assert_eq!(
        (narrow.dtype(), narrow.convert(DType::F64)),
        (DType::BF16, forward)
    );
}

type Function = fn(&Tensor, &Tensor) -> Tensor;

/// Computes the same with a triangular matrix of powers.
fn reference(x: &Tensor, decay: &Tensor) -> Tensor {
    let powers = Tensor::from([[0.0_f64, 1.0, 2.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]);
    let triangle = Tensor::from([[1.0_f64, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]);
    x.matmul(&(decay.pow(powers) * triangle))
}

fn loss(f: Function, x: &Tensor, decay: &Tensor) -> Tensor {
    f(x, decay).sin().sum()
}

#[test]
fn transformations_agree_with_operations() {
    let own: Function = |x, decay| leaky_sum(x, decay, Direction::Forward);
    let close = |found: &Tensor, expected: &Tensor| {
        let difference = (found - expected).abs().max().item::<f64>();
        assert!(difference < 1e-12, "{found} and not {expected}");
    };
    let of_own = grad(|(x, decay): &(Tensor, Tensor)| loss(own, x, decay));
    let of_reference = grad(|(x, decay): &(Tensor, Tensor)| loss(reference, x, decay));
    let (found, expected) = (of_own(&(x(), half())), of_reference(&(x(), half())));
    close(&found.0, &expected.0);
    close(&found.1, &expected.1);
    // The second derivative by the decay, with the first pass computed anew.
    let second = |f: Function| hessian(move |decay: &Tensor| loss(f, &x(), decay))(&half());
    close(&second(own), &second(reference));
    let anew = remat(move |(x, decay): &(Tensor, Tensor)| own(x, decay));
    let of_anew = grad(|decay: &Tensor| anew(&(x(), decay.clone())).sin().sum())(&half());
    close(&of_anew, &expected.1);
    // A batch of either operand.
    let decays = Tensor::from([0.5_f64, 0.25]);
    let by_decay = jit(vmap(move |decay: Tensor| own(&x(), &decay)))(decays.clone());
    for (example, decay) in unstack(&by_decay).iter().zip(unstack(&decays)) {
        close(example, &reference(&x(), &decay));
    }
    let by_column = vmap(move |x: Tensor| own(&x, &half()))
        .in_axes(1)
        .out_axes(1)(x().t());
    close(&by_column, &reference(&x(), &half()).t());
}

#[test]
fn wrong_operands_are_an_error_of_the_call() {
    let error = try_leaky_sum(&x(), &Tensor::from(0.5_f32), Direction::Forward).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("pass `x: [.., n]` and `decay: []`"),
        "{message}"
    );
}
