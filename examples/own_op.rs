//! An operation with its own kernel: the squared distances between points, under `jit`, `grad` and `vmap`.
//!
//! `cargo run --release --example own_op` prints
//!
//!     [[ 0. 25.]
//!      [25.  0.]]
//!     [[[-24. -32.]
//!       [ 24.  32.]]]

use ndarray::{Array2, Ix2};
use pytree::extend::{Block, Primitive, Tangents, Value, apply};
use pytree::prelude::*;
use pytree::{AbstractArray, TensorError};

/// Computes `|x_i − x_j|²` for `n` points, the rows of `x` with shape `[n, d]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SquaredDistances;

#[track_caller]
fn squared_distances(x: &Tensor) -> Tensor {
    apply(&SquaredDistances, &[x]).remove(0)
}

impl Primitive for SquaredDistances {
    fn name(&self) -> &'static str {
        "squared_distances"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        match operands[0].shape[..] {
            [n, _] => Ok(vec![AbstractArray::new(operands[0].dtype, [n, n])]),
            _ => Err(TensorError::Shape {
                operation: "compute the distances between the rows of",
                found: vec![operands[0].clone()],
                problem: "it is not a matrix".to_owned(),
                fix: "pass points with the shape [n, d]".to_owned(),
            }),
        }
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let x = operands[0].view::<f32>().expect("points in f32");
        let x = x.into_dimensionality::<Ix2>().expect("a matrix");
        let distance = |(i, j)| (&x.row(i) - &x.row(j)).map(|d| d * d).sum();
        vec![Array2::from_shape_fn((x.nrows(), x.nrows()), distance).into()]
    }

    /// The derivative of `|x_i − x_j|²` is `2 (x_i − x_j)·(x_i' − x_j')`.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let x = &primals[0];
        let tangent = tangents[0].as_ref().map(|tangent| {
            let (own, product) = ((x * tangent).sum_axes(1), x.matmul(&tangent.t()));
            (own.expand_dims(0) + own.expand_dims(1) - product.t() - product) * 2.0
        });
        (vec![squared_distances(x)], vec![tangent])
    }

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        _: &[&AbstractArray],
    ) -> Result<Vec<Value>, TensorError> {
        let differences = |x: &Tensor| x.expand_dims(1) - x.expand_dims(0);
        block.computed(operands, |x| vec![differences(&x[0]).square().sum_axes(2)])
    }
}

fn main() {
    let x = Tensor::from([[0.0_f32, 0.0], [3.0, 4.0]]);
    println!("{}", jit(squared_distances)(&x));
    let energy = |x: &Tensor| squared_distances(x).sum();
    println!("{}", jit(vmap(grad(energy)))(stack(&[x * 2.0], 0)));
}
