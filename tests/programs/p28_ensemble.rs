//! An ensemble: stacked models and stacked optimizers, which one step trains together.

use pytree::prelude::*;
use pytree::unstack;

#[derive(Module, Clone, Debug)]
struct Net {
    first: Linear,
    norm: BatchNorm,
    dropout: Dropout,
    last: Linear,
}

impl Net {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            first: Linear::new(2, 16, rngs),
            norm: BatchNorm::new(16, rngs),
            dropout: Dropout::new(0.1, rngs),
            last: Linear::new(16, 1, rngs),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let hidden = self.norm.forward(&self.first.forward(x)).tanh();
        self.last.forward(&self.dropout.forward(&hidden))
    }
}

fn optimizer(net: &Net, rate: &Tensor) -> Optimizer<Net> {
    let mut optimizer = Optimizer::new(net, adam(0.0));
    optimizer.set_learning_rate(rate.clone());
    optimizer
}

/// Trains one member for one step.
fn step((net, optimizer, x, y): (&mut Net, &mut Optimizer<Net>, Tensor, Tensor)) -> Tensor {
    let loss = |net: &mut Net| mse(&net.forward(&x), &y);
    let (loss, gradient) = value_and_grad_mut(loss)(net);
    optimizer.update(net, &gradient);
    loss
}

fn data() -> (Tensor, Tensor) {
    let x = Rngs::new(1).normal(DType::F32, [32, 2]);
    let y = x.square().sum_keep([-1]);
    (x, y)
}

const MEMBERS: usize = 3;

#[test]
fn ensemble_step_trains_each_member_as_alone() {
    let (x, y) = data();
    let rates = [3e-2_f32, 1e-2, 3e-3].map(Tensor::from);
    let mut rngs = Rngs::new(0);
    let mut alone: Vec<(Net, Optimizer<Net>)> = rates
        .iter()
        .map(|rate| {
            let net = Net::new(&mut rngs);
            let optimizer = optimizer(&net, rate);
            (net, optimizer)
        })
        .collect();
    let (mut nets, mut optimizers) = stack(&alone, 0);
    assert_eq!(nets.first.weight.shape(), [MEMBERS, 2, 16]);
    assert_eq!(optimizers.step().shape(), [MEMBERS]);

    let together = jit_mut(vmap_mut(step).in_axes((0, 0, None, None)));
    let single = jit_mut(step);
    let mut losses = Vec::new();
    for _ in 0..30 {
        let loss = together((&mut nets, &mut optimizers, x.clone(), y.clone()));
        losses.push(loss);
        let of_members = alone
            .iter_mut()
            .map(|(net, optimizer)| single((net, optimizer, x.clone(), y.clone())));
        let expected = stack(&of_members.collect::<Vec<Tensor>>(), 0);
        let found = losses.last().unwrap();
        let distance = (found - expected).abs().max().item::<f32>();
        assert!(distance < 1e-4, "off by {distance}");
    }
    assert_eq!((together.traces(), single.traces()), (1, 1));
    for (member, (net, optimizer)) in unstack(&(nets, optimizers)).iter().zip(&alone) {
        let difference = diff(&member.0, net);
        assert!(difference.within(1e-4), "{difference}");
        assert_eq!(member.1.step().item::<u32>(), 30);
        assert_eq!(member.1.learning_rate(), optimizer.learning_rate());
    }
    let improved = losses[29].less(&(&losses[0] * 0.9)).all().item::<bool>();
    assert!(improved, "{} to {}", losses[0], losses[29]);
}

#[test]
fn ensemble_is_created_by_vmap() {
    let rates = Tensor::from([3e-2_f32, 1e-2, 3e-3]);
    let create = |(mut rngs, rate): (Rngs, Tensor)| {
        let net = Net::new(&mut rngs);
        let optimizer = optimizer(&net, &rate);
        (net, optimizer)
    };
    let each = Rngs::new(0).split(MEMBERS);
    let members: Vec<(Net, Optimizer<Net>)> = unstack(&each)
        .into_iter()
        .zip(unstack(&rates))
        .map(create)
        .collect();
    let (nets, optimizers) = vmap(create)((each, rates));
    let difference = diff(&stack(&members, 0), &(nets.clone(), optimizers));
    assert!(difference.within(1e-6), "{difference}");

    // The predictions of the members differ.
    let (x, _) = data();
    let quiet = eval(&nets);
    let predict = vmap(|(mut net, x): (Net, Tensor)| net.forward(&x)).in_axes((0, None));
    let predictions = predict((quiet, x));
    assert_eq!(predictions.shape(), [MEMBERS, 32, 1]);
    assert!(predictions.standard_deviation_axes([0]).min().item::<f32>() > 0.0);
}
