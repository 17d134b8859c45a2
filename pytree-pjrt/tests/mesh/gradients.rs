//! Gradients through collectives, compared with `vmap`.

use pytree_transform::{
    Tensor, Tiling, all_gather, all_to_all, axis_index, grad, pmax, pmean, ppermute, psum,
    psum_scatter, spmd, value_and_grad, vmap,
};

use crate::mesh::{assert_near, mesh, numbers};

/// Compares the gradient of each device with respect to its part of `x` with that of a `vmap`, which adds in another order.
#[track_caller]
fn assert_gradients(loss: fn(&Tensor) -> Tensor) {
    for count in [2, 4, 8] {
        let x = numbers(&[count * count, 3]);
        let gradient = move |x: Tensor| grad(loss)(&x);
        let Some(mesh) = mesh([("i", count)]) else {
            return;
        };
        let on_devices = spmd(gradient).over(&mesh).in_axes("i", 0).out_axes("i", 0);
        let expected = vmap(gradient).axis_name("i")(Tensor::stack(&x.split(count, 0), 0));
        let expected = expected.reshape(x.shape());
        let scale = expected.abs().max().item::<f32>().max(1.0);
        assert_near(&on_devices(x), &expected, 1e-5 * scale);
    }
}

#[test]
fn gradients_of_sums_equal_vmap() {
    assert_gradients(|x| (x.exp() * psum(x, "i")).sum());
    assert_gradients(|x| pmean(&x.square(), "i").sin().sum());
}

#[test]
fn gradient_of_maximum_equals_vmap() {
    assert_gradients(|x| (x * pmax(x, "i")).sum());
}

#[test]
fn gradients_of_moves_equal_vmap() {
    assert_gradients(|x| (all_gather(&x.sin(), "i", 0, Tiling::Stacked).square()).sum());
    assert_gradients(|x| (all_gather(x, "i", 0, Tiling::Tiled).exp()).sum());
    assert_gradients(|x| (ppermute(x, "i", [(0, 1), (1, 0)]) * x).sum());
    assert_gradients(|x| {
        psum_scatter(&x.exp(), "i", 0, Tiling::Stacked)
            .square()
            .sum()
    });
    assert_gradients(|x| {
        let weight = axis_index("i").convert(x.dtype()) + 1.0;
        (all_to_all(&x.exp(), "i", 0, 0, Tiling::Stacked) * weight).sum()
    });
}

#[test]
fn second_derivatives_equal_vmap() {
    assert_gradients(|x| {
        grad(|x: &Tensor| psum(&x.powi(3), "i").sum())(x)
            .square()
            .sum()
    });
}

/// The mean of the gradients of equal parts of a batch is the gradient of the whole batch.
#[test]
fn mean_of_gradients_is_gradient_of_batch() {
    let loss = |weight: &Tensor, x: &Tensor| x.matmul(weight).tanh().square().mean();
    let (weight, x) = (numbers(&[5, 4]), numbers(&[16, 5]));
    let whole = value_and_grad(|weight: &Tensor| loss(weight, &x))(&weight);
    for count in [2, 4, 8] {
        let Some(mesh) = mesh([("data", count)]) else {
            return;
        };
        let step = spmd(move |(weight, x): (Tensor, Tensor)| {
            let both = value_and_grad(|weight: &Tensor| loss(weight, &x))(&weight);
            pmean(&both, "data")
        });
        let step = step.over(&mesh).in_axes("data", (None, 0));
        let (loss, gradient) = step((weight.clone(), x.clone()));
        assert_near(&loss, &whole.0, 1e-6);
        assert_near(&gradient, &whole.1, 1e-6);
    }
}
