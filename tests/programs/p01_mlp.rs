//! `Linear` and `Mlp` that the user wrote in twelve lines. A jitted step of four lines trains the model.

use pytree::nn::Initializer;
use pytree::prelude::{DType, Key, Module, Optimizer, Rngs, Tensor, adam, jit, mse, value_and_grad};

#[derive(Module, Clone, Debug)]
struct Linear { #[param] weight: Tensor, #[param] bias: Tensor }
#[derive(Module, Clone, Debug)]
struct Mlp { hidden: Vec<Linear>, output: Linear }
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor { x.matmul(&self.weight) + &self.bias }
}
impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.output.forward(&self.hidden.iter().fold(x.clone(), |x, layer| layer.forward(&x).tanh()))
    }
}

fn linear(inputs: usize, outputs: usize, rngs: &mut Rngs) -> Linear {
    let weight = Initializer::lecun_normal().initialize(&rngs.params(), DType::F32, [inputs, outputs]);
    Linear { weight, bias: Tensor::zeros(DType::F32, [outputs]) }
}

fn train(sizes: [usize; 4], seed: u64) -> (f32, f32) {
    let mut rngs = Rngs::new(seed);
    let hidden = vec![linear(sizes[0], sizes[1], &mut rngs), linear(sizes[1], sizes[2], &mut rngs)];
    let mut model = Mlp { hidden, output: linear(sizes[2], sizes[3], &mut rngs) };
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let x = Key::new(seed + 1).normal(DType::F32, [64, sizes[0]]);
    let y = x.sum_keep([-1]).sin().broadcast_to([64, sizes[3]]);

    let step = jit(|(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
        let (loss, gradient) = value_and_grad(|model: &Mlp| mse(&model.forward(&x), &y))(&model);
        optimizer.update(&mut model, &gradient);
        (model, optimizer, loss)
    });
    let mut losses = Vec::new();
    for _ in 0..200 {
        let loss;
        (model, optimizer, loss) = step((model, optimizer, x.clone(), y.clone()));
        losses.push(loss.item::<f32>());
    }
    assert_eq!(step.traces(), 1);
    (losses[0], losses[199])
}

#[test]
fn a_user_written_mlp_learns() {
    for (sizes, seed) in [([3, 16, 16, 1], 0), ([5, 8, 8, 2], 7)] {
        let (first, last) = train(sizes, seed);
        assert!(last < 0.1 * first, "{first} {last}");
    }
}
