//! `Linear` and `Mlp` written by the user, trained with a jitted step.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param]
    weight: Tensor,
    #[param]
    bias: Tensor,
}

#[derive(Module, Clone, Debug)]
struct Mlp {
    layers: Vec<Linear>,
    #[r#static]
    activation: fn(&Tensor) -> Tensor,
}

impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        let (last, hidden) = self.layers.split_last().unwrap();
        let apply = |x: Tensor, layer: &Linear| x.matmul(&layer.weight) + &layer.bias;
        apply(
            hidden
                .iter()
                .fold(x.clone(), |x, layer| (self.activation)(&apply(x, layer))),
            last,
        )
    }
}

fn linear(inputs: usize, outputs: usize, rngs: &mut Rngs) -> Linear {
    let weight =
        Initializer::lecun_normal().initialize(&rngs.params(), DType::F32, &[inputs, outputs]);
    Linear {
        weight,
        bias: Tensor::zeros(DType::F32, [outputs]),
    }
}

fn train(sizes: [usize; 4], seed: u64) -> (f32, f32) {
    let mut rngs = Rngs::new(seed);
    let layers = sizes
        .windows(2)
        .map(|pair| linear(pair[0], pair[1], &mut rngs))
        .collect();
    let mut model = Mlp {
        layers,
        activation: Tensor::tanh,
    };
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let x = Key::new(seed + 1).normal(DType::F32, [64, sizes[0]]);
    let y = x.sum_keep([-1]).sin().broadcast_to([64, sizes[3]]);

    let step = jit(
        |(mut model, mut optimizer, x, y): (Mlp, Optimizer<Mlp>, Tensor, Tensor)| {
            let (loss, gradient) =
                value_and_grad(|model: &Mlp| mse(&model.forward(&x), &y))(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer, loss)
        },
    );
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
