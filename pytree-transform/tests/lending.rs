//! Compiled functions that take arguments by reference.

use pytree_core::Ref;
use pytree_derive::Pytree;
use pytree_transform::{DType, JitRef, Lent, Tensor, grad, jit, make_jaxpr, vmap};

/// A model that cannot be copied, so a call with it copies nothing.
#[derive(Pytree)]
struct Scale {
    factor: Tensor,
    calls: Ref<Tensor>,
}

impl Scale {
    fn new(factor: f32) -> Self {
        Self {
            factor: Tensor::from(factor),
            calls: Ref::new(Tensor::from(0_i32)),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        self.calls.update(|calls| calls + 1);
        x * &self.factor
    }
}

fn twice(scale: &Scale) -> Tensor {
    scale.forward(&scale.factor)
}

#[test]
fn arguments_are_lent() {
    let scale = Scale::new(3.0);
    let (x, y) = (Tensor::from([1.0_f32, 2.0]), Tensor::from(0.5_f32));
    let both = jit(|(scale, x): (&Scale, &Tensor)| scale.forward(x));
    let first = jit(|(scale, x, y): (&Scale, Tensor, Tensor)| scale.forward(&x) + y);
    let single = jit(twice);
    for calls in 1..4 {
        assert_eq!(both((&scale, &x)).to_vec::<f32>(), [3.0, 6.0]);
        assert_eq!(
            first((&scale, x.clone(), y.clone())).to_vec::<f32>(),
            [3.5, 6.5]
        );
        assert_eq!(single(&scale).item::<f32>(), 9.0);
        assert_eq!(
            scale.calls.get().item::<i32>(),
            3 * calls,
            "writes take effect"
        );
    }
    assert_eq!((both.traces(), first.traces(), single.traces()), (1, 1, 1));
}

#[test]
fn references_and_values_have_any_order() {
    let scale = Scale::new(3.0);
    let (x, y) = (Tensor::from([1.0_f32, 2.0]), Tensor::from(0.5_f32));
    let last: JitRef<(Tensor, Lent<Scale>), Tensor> =
        jit(|(x, scale): (Tensor, &Scale)| scale.forward(&x));
    let mixed =
        jit(|(x, scale, y, z): (Tensor, &Scale, &Tensor, Tensor)| scale.forward(&x) - y * z);
    let outer = jit(move |(y, x, scale): (&Tensor, Tensor, &Scale)| last((x, scale)) + y);
    assert_eq!(
        mixed((x.clone(), &scale, &y, y.clone())).to_vec::<f32>(),
        [2.75, 5.75]
    );
    assert_eq!(outer((&y, x, &scale)).to_vec::<f32>(), [3.5, 6.5]);
    assert_eq!(scale.calls.get().item::<i32>(), 2);
}

#[test]
fn eight_arguments_are_lent() {
    type Four<'a> = (
        &'a Tensor,
        &'a Tensor,
        &'a Tensor,
        &'a Tensor,
        Tensor,
        Tensor,
        Tensor,
        Tensor,
    );
    let sum = jit(|(a, b, c, d, e, f, g, h): Four<'_>| a + b * c - d + e * f - g * h);
    let [a, b, c, d, e, f, g, h] = [1.0_f64, 2., 3., 4., 5., 6., 7., 8.].map(Tensor::from);
    assert_eq!(
        sum((&a, &b, &c, &d, e, f, g, h)).item::<f64>(),
        1. + 6. - 4. + 30. - 56.
    );
}

#[test]
fn lent_functions_are_transformed_and_shown() {
    let square: JitRef<Lent<Tensor>, Tensor> = jit(|x: &Tensor| x * x);
    let x = Tensor::from(3.0_f64);
    assert_eq!(grad(square.clone())(&x).item::<f64>(), 6.0);
    assert_eq!(jit(square.clone())(&x).item::<f64>(), 9.0);
    let product = jit(|(x, y): (&Tensor, &Tensor)| x * y);
    assert_eq!(product.jaxpr((&x, &x)).equations().len(), 1);
    assert_eq!(
        make_jaxpr(|x: Tensor| product((&x, &x)))(x.clone())
            .equations()
            .len(),
        1
    );
    let rows = vmap(|x: Tensor| product((&x, &x)));
    assert_eq!(
        rows(Tensor::from([1.0_f64, 2.0])).to_vec::<f64>(),
        [1.0, 4.0]
    );
}

#[test]
fn lent_memory_is_not_reused() {
    let add = jit(|(x, y): (&Tensor, Tensor)| (x + &y, x - y));
    let x = Tensor::ones(DType::F32, [100_000]);
    let expected = x.to_vec::<f32>();
    let (sum, _) = add((&x, Tensor::ones(DType::F32, [100_000])));
    assert_eq!(sum.to_vec::<f32>()[0], 2.0);
    assert_eq!(x.to_vec::<f32>(), expected);
}

#[test]
fn a_new_shape_of_a_lent_argument_is_named() {
    let sum = jit(|(x, y): (&Tensor, &Tensor)| x.sum() + y);
    let y = Tensor::from(1.0_f32);
    sum((&Tensor::ones(DType::F32, [2]), &y));
    sum((&Tensor::ones(DType::F32, [3]), &y));
    assert_eq!(
        sum.why_retraced().unwrap(),
        "[0]: f32[2] before, f32[3] now"
    );
}
