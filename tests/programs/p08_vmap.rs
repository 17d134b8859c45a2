//! `vmap(grad(f))` for per-example gradients, and an ensemble as a stacked module.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Line {
    #[param]
    weight: Tensor,
    #[param]
    bias: Tensor,
}

fn loss(model: &Line, x: &Tensor, y: &Tensor) -> Tensor {
    (x.matmul(&model.weight) + &model.bias - y).square().sum()
}

fn line(seed: u64) -> Line {
    Line {
        weight: Key::new(seed).normal(DType::F32, [3]),
        bias: Tensor::from(0.5_f32),
    }
}

fn data() -> (Tensor, Tensor) {
    (
        Key::new(10).normal(DType::F32, [6, 3]),
        Key::new(11).normal(DType::F32, [6]),
    )
}

#[test]
fn per_example_gradients_sum_to_total() {
    let (model, (xs, ys)) = (line(0), data());
    let each = vmap(|(x, y): (Tensor, Tensor)| grad(|m: &Line| loss(m, &x, &y))(&model))((
        xs.clone(),
        ys.clone(),
    ));
    assert_eq!(each["weight"].shape(), [6, 3]);
    let whole = grad(|m: &Line| loss(m, &xs, &ys))(&model);
    assert!(
        (each["weight"].sum_axes([0]) - &whole["weight"])
            .abs()
            .max()
            .item::<f32>()
            < 1e-4
    );
    assert!(
        (each["bias"].sum_axes([0]) - &whole["bias"])
            .abs()
            .max()
            .item::<f32>()
            < 1e-4
    );
}

#[test]
fn axes_are_chosen_by_prefix_of_arguments() {
    let (model, (xs, ys)) = (line(1), data());
    let per_example =
        vmap(grad(|(m, x, y): &(Line, Tensor, Tensor)| loss(m, x, y)).wrt(Filter::param()));
    let (by_model, ..) =
        jit(per_example.in_axes((None, 0, 0)))((model.clone(), xs.clone(), ys.clone()));
    let loop_gradient = grad(|m: &Line| loss(m, &xs.index(ix![2]), &ys.index(ix![2])))(&model);
    assert!(
        (by_model["weight"].index(ix![2]) - &loop_gradient["weight"])
            .abs()
            .max()
            .item::<f32>()
            < 1e-5
    );
}

#[test]
fn an_ensemble_is_a_stacked_module() {
    let members: Vec<Line> = (0..4).map(line).collect();
    let (xs, ys) = data();
    let stacked = stack(&members, 0);
    assert_eq!(stacked.weight.shape(), [4, 3]);
    let losses = vmap(|member: Line| loss(&member, &xs, &ys))(stacked.clone());
    for (index, member) in members.iter().enumerate() {
        let alone = loss(member, &xs, &ys).item::<f32>();
        assert!((losses.to_vec::<f32>()[index] - alone).abs() < 1e-4 * alone.abs().max(1.0));
    }
    let gradients = vmap(grad(|member: &Line| loss(member, &xs, &ys)))(stacked);
    assert_eq!(gradients["bias"].shape(), [4]);
}
