//! The derivatives of a function with respect to its float operands.

use pytree_transform::{Tensor, grad, jvp, vjp};

/// A function of the table, or the same function transformed.
pub type Function<'f> = &'f (dyn Fn(&[Tensor]) -> Tensor + Send + Sync);

/// Returns the operands that have derivatives.
pub fn floats(operands: &[Tensor]) -> Vec<Tensor> {
    let floats = operands.iter().filter(|operand| operand.dtype().is_float());
    floats.cloned().collect()
}

/// Returns the operands with their floats replaced.
pub fn with_floats(operands: &[Tensor], floats: &[Tensor]) -> Vec<Tensor> {
    let mut floats = floats.iter().cloned();
    let mut operands = operands.to_vec();
    for operand in operands
        .iter_mut()
        .filter(|operand| operand.dtype().is_float())
    {
        *operand = floats.next().unwrap();
    }
    operands
}

/// Returns J u, by forward mode.
pub fn pushed(f: Function<'_>, operands: &[Tensor], direction: &Vec<Tensor>) -> Tensor {
    let of_floats = |x: &Vec<Tensor>| f(&with_floats(operands, x));
    jvp(of_floats, &floats(operands), direction).1
}

/// Returns Jᵀ v, by reverse mode.
pub fn pulled(f: Function<'_>, operands: &[Tensor], weights: &Tensor) -> Vec<Tensor> {
    let of_floats = |x: &Vec<Tensor>| f(&with_floats(operands, x));
    let (_, pullback) = vjp(of_floats, &floats(operands));
    pullback.call(weights).leaves().to_vec()
}

/// Returns the weighted sum of sin(f): a loss with nontrivial second derivatives even where f is linear.
pub fn loss(f: Function<'_>, operands: &[Tensor], weights: &Tensor) -> Tensor {
    (f(operands).sin() * weights).sum()
}

/// Returns the gradient of the loss.
pub fn slope(f: Function<'_>, operands: &[Tensor], weights: &Tensor) -> Vec<Tensor> {
    let of_floats = grad(|x: &Vec<Tensor>| loss(f, &with_floats(operands, x), weights));
    of_floats(&floats(operands)).leaves().to_vec()
}

/// Returns H u, by forward over reverse mode.
pub fn curvature(
    f: Function<'_>,
    operands: &[Tensor],
    direction: &Vec<Tensor>,
    weights: &Tensor,
) -> Vec<Tensor> {
    let of_floats = |x: &Vec<Tensor>| slope(f, &with_floats(operands, x), weights);
    jvp(of_floats, &floats(operands), direction).1
}

/// Returns the inner product.
pub fn inner(left: &[Tensor], right: &[Tensor]) -> Tensor {
    let products = left
        .iter()
        .zip(right)
        .map(|(left, right)| (left * right).sum());
    products.fold(Tensor::from(0.0_f64), |sum, product| sum + product)
}

/// Returns the central difference of a function along a direction.
pub fn difference(
    f: impl Fn(&[Tensor]) -> Vec<Tensor>,
    operands: &[Tensor],
    direction: &[Tensor],
    step: f64,
) -> Vec<Tensor> {
    let at = |distance: f64| {
        let pairs = floats(operands).into_iter().zip(direction);
        let there: Vec<Tensor> = pairs.map(|(x, u)| x + u * distance).collect();
        f(&with_floats(operands, &there))
    };
    let pairs = at(step).into_iter().zip(at(-step));
    pairs
        .map(|(after, before)| (after - before) / (2.0 * step))
        .collect()
}
