//! Attention with named axes: the width of a projection is the computed length `heads*head_dim`.

use pytree::einsum;
use pytree::nn::softmax;
use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Attention {
    #[param("model heads*head_dim")]
    query: Tensor,
    #[param("model heads*head_dim")]
    key: Tensor,
    #[param("model heads*head_dim")]
    value: Tensor,
    #[param("heads*head_dim model")]
    output: Tensor,
    #[r#static]
    heads: usize,
    #[r#static]
    head_dim: usize,
}

impl Attention {
    fn new(model: usize, heads: usize, rngs: &mut Rngs) -> Self {
        let head_dim = model / heads;
        let mut matrix = || rngs.normal(DType::F32, [model, model]) * 0.3;
        Self {
            query: matrix(),
            key: matrix(),
            value: matrix(),
            output: matrix(),
            heads,
            head_dim,
        }
    }

    /// Attends from each place of `x` to all places, or to the places where the mask is true.
    #[shapes(
        x = "batch time model",
        mask = "bool[time time]",
        return = "batch time model"
    )]
    fn forward(&self, x: &Tensor, mask: Option<&Tensor>) -> Tensor {
        let [query, key, value] =
            [&self.query, &self.key, &self.value].map(|weight| self.split(&x.matmul(weight)));
        let scores = einsum("bhqd,bhkd->bhqk", &[&query, &key]) / (self.head_dim as f64).sqrt();
        let scores = match mask {
            Some(mask) => mask.select(&scores, Tensor::full_like(&scores, -1e9)),
            None => scores,
        };
        let mixed = einsum("bhqk,bhkd->bqhd", &[&softmax(&scores, -1), &value]);
        let [batch, time] = [x.shape()[0], x.shape()[1]];
        mixed
            .reshape([batch, time, self.heads * self.head_dim])
            .matmul(&self.output)
    }

    #[shapes(x = "batch time heads*head_dim", return = "batch heads time head_dim")]
    fn split(&self, x: &Tensor) -> Tensor {
        let [batch, time] = [x.shape()[0], x.shape()[1]];
        x.reshape([batch, time, self.heads, self.head_dim])
            .transpose([0, 2, 1, 3])
    }

    /// A mistake: the axis of the heads is not moved before the axis of the time.
    #[shapes(x = "batch time heads*head_dim", return = "batch heads time head_dim")]
    fn split_without_transpose(&self, x: &Tensor) -> Tensor {
        x.reshape([x.shape()[0], x.shape()[1], self.heads, self.head_dim])
    }
}

fn causal(time: usize) -> Tensor {
    let places = Tensor::arange(DType::I32, time);
    places.expand_dims(1).greater_equal(places.expand_dims(0))
}

#[test]
fn attention_is_trained() {
    let mut rngs = Rngs::new(0);
    let mut attention = Attention::new(8, 2, &mut rngs);
    attention.check_shapes().unwrap();
    let x = rngs.normal(DType::F32, [3, 5, 8]);
    assert_eq!(attention.forward(&x, None).shape(), [3, 5, 8]);
    let loss = |attention: &Attention| mse(&attention.forward(&x, Some(&causal(5))), &x);
    let mut optimizer = Optimizer::new(&attention, adam(1e-2));
    let before = loss(&attention).item::<f32>();
    for _ in 0..20 {
        let gradient = grad(loss)(&attention);
        optimizer.update(&mut attention, &gradient);
    }
    assert!(loss(&attention).item::<f32>() < before);
}

#[test]
fn wrong_width_names_the_model_axis() {
    let attention = Attention::new(8, 2, &mut Rngs::new(0));
    assert_eq!(
        panic_message(|| attention.forward(&Tensor::ones(DType::F32, [3, 5, 6]), None)),
        "Attention::forward: x is f32[3,5,6], expected [batch time model] with model = 8 (from query: f32[8,8] as [model heads*head_dim]); \
         pass x with model = 8, or make the Attention with model = 6"
    );
}

#[test]
fn mask_of_another_length_names_the_time() {
    let attention = Attention::new(8, 2, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [3, 5, 8]);
    assert_eq!(
        panic_message(|| attention.forward(&x, Some(&causal(4)))),
        "Attention::forward: mask is bool[4,4], expected bool[time time] with time = 5 (from x: f32[3,5,8] as [batch time model]); \
         pass mask and x with the same `time`"
    );
}

#[test]
fn forgotten_transpose_is_a_mistake_of_the_method() {
    let attention = Attention::new(8, 2, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [3, 5, 8]);
    assert_eq!(
        panic_message(|| attention.split_without_transpose(&x)),
        "Attention::split_without_transpose: the result is f32[3,5,2,4], expected [batch heads time head_dim] with \
         heads = 2 (from the static `heads`), time = 5 (from x as [batch time heads*head_dim]); \
         this is a mistake in `split_without_transpose` itself, at tests/programs/p29_attention.rs:LINE, and not in its arguments"
    );
}

#[test]
fn heads_that_do_not_divide_the_model_are_reported() {
    let attention = Attention::new(8, 3, &mut Rngs::new(0));
    let error = attention.check_shapes().unwrap_err();
    assert_eq!(error.mismatches().len(), 1);
    assert_eq!(
        error.to_string(),
        "Attention: heads is 3, expected 4 (from query: f32[8,8] as [model heads*head_dim], key: f32[8,8] as [model heads*head_dim], \
         value: f32[8,8] as [model heads*head_dim], output: f32[8,8] as [heads*head_dim model]); \
         set the static `heads` to 4, or make these 4 arrays with heads = 3"
    );
}
