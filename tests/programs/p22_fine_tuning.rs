//! Adapts a trained model. Each group of parameters has its own optimiser and schedule. The path of a weight decides
//! whether the weight gets a correction of low rank.

use pytree::edit;
use pytree::prelude::*;
use pytree::{Frozen, TreeError};

/// The weight of a layer. A weight with a correction of low rank is W + A B, where only A and B are trained (Hu et al.
/// 2021, "LoRA").
#[derive(Module, Clone, Debug)]
enum Weight {
    Full {
        #[param]
        weight: Tensor,
    },
    LowRank {
        #[state(Frozen)]
        weight: Tensor,
        #[param]
        a: Tensor,
        #[param]
        b: Tensor,
    },
}

impl Weight {
    fn value(&self) -> Tensor {
        match self {
            Self::Full { weight } => weight.clone(),
            Self::LowRank { weight, a, b } => weight + a.matmul(b),
        }
    }

    /// Returns the same weight with a correction, which is zero at first.
    fn adapted(&self, rank: usize, rngs: &mut Rngs) -> Self {
        let weight = self.value();
        let (inputs, outputs) = (weight.shape()[0], weight.shape()[1]);
        Self::LowRank {
            a: rngs.normal(DType::F32, [inputs, rank]),
            b: Tensor::zeros(DType::F32, [rank, outputs]),
            weight,
        }
    }
}

#[derive(Module, Clone, Debug)]
struct Net {
    body: Vec<Weight>,
    head: Weight,
}

impl Net {
    fn new(seed: u64) -> Self {
        let mut rngs = Rngs::new(seed);
        let mut weight = |inputs: usize, outputs: usize| Weight::Full {
            weight: rngs.normal(DType::F32, [inputs, outputs]) * 0.5,
        };
        Self {
            body: vec![weight(3, 4), weight(4, 4)],
            head: weight(4, 1),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let body = self.body.iter();
        let x = body.fold(x.clone(), |x, weight| x.matmul(&weight.value()).tanh());
        x.matmul(&self.head.value())
    }
}

fn data() -> (Tensor, Tensor) {
    let x = Rngs::new(1).normal(DType::F32, [16, 3]);
    let y = x.sum_keep([-1]).tanh();
    (x, y)
}

fn loss(net: &Net, x: &Tensor, y: &Tensor) -> Tensor {
    mse(&net.forward(x), y)
}

/// Returns a learning rate that rises for ten updates and is constant afterwards.
fn warm(step: &Tensor) -> Tensor {
    ((step.convert(DType::F32) + 1.0) / 10.0).minimum(1.0) * 0.1
}
fn falling(step: &Tensor) -> Tensor {
    0.2 / (step.convert(DType::F32) + 1.0)
}

type Groups = (Net, Optimizer<Net>, Optimizer<Net>);

fn step(((mut net, mut body, mut head), x, y): (Groups, Tensor, Tensor)) -> Groups {
    let gradient = grad(|net: &Net| loss(net, &x, &y))(&net);
    for (optimizer, rate, place) in [
        (&mut body, warm as fn(&Tensor) -> Tensor, "body"),
        (&mut head, falling, "head"),
    ] {
        optimizer.set_learning_rate(rate(optimizer.step()));
        let own = gradient
            .filter(&Filter::path(place))
            .expect("the place is there");
        optimizer.update(&mut net, &own);
    }
    (net, body, head)
}

#[test]
fn parameter_groups_have_own_optimizers() -> Result<(), TreeError> {
    let (x, y) = data();
    let net = Net::new(0);
    let optimizer = |place| Optimizer::with_filter(&net, sgd(0.0), &Filter::path(place));
    let mut groups = (net.clone(), optimizer("body"), optimizer("head"));
    let compiled = jit(step);

    let mut by_hand = net.clone();
    for count in 0..15_u32 {
        groups = compiled((groups, x.clone(), y.clone()));
        let gradient = grad(|net: &Net| loss(net, &x, &y))(&by_hand);
        let count = Tensor::from(count);
        let part = partition::filter(&by_hand, &Filter::param());
        let mut places = gradient.iter_with_path();
        let part = part.map(|weight| {
            let (path, slope) = places.next().expect("each weight has a gradient");
            let is_body = path.to_string().starts_with("body");
            let rate = if is_body {
                warm(&count)
            } else {
                falling(&count)
            };
            weight - rate * slope
        });
        partition::update(&mut by_hand, &part)?;
    }
    assert_eq!(compiled.traces(), 1);
    assert!(
        diff(&groups.0, &by_hand).within(1e-5),
        "{}",
        diff(&groups.0, &by_hand)
    );
    assert!(loss(&groups.0, &x, &y).item::<f32>() < 0.5 * loss(&net, &x, &y).item::<f32>());
    Ok(())
}

#[test]
fn matching_weights_become_low_rank() {
    let (x, y) = data();
    let net = Net::new(0);
    let mut rngs = Rngs::new(2);
    let mut adapted = edit::apply_with_path(net.clone(), |path, weight: &mut Weight| {
        if path.join("/").starts_with("body/") {
            *weight = weight.adapted(1, &mut rngs);
        }
    });
    assert_eq!(
        adapted.forward(&x),
        net.forward(&x),
        "it begins as what it was"
    );
    let trained = partition::filter(&adapted, &Filter::param());
    let names: Vec<String> = trained
        .iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(
        names,
        [
            "body[0].a",
            "body[0].b",
            "body[1].a",
            "body[1].b",
            "head.weight"
        ]
    );

    let mut optimizer = Optimizer::new(&adapted, adam(3e-2));
    for _ in 0..30 {
        let gradient = grad(|net: &Net| loss(net, &x, &y))(&adapted);
        optimizer.update(&mut adapted, &gradient);
    }
    let after = loss(&adapted, &x, &y).item::<f32>();
    assert!(after < 0.5 * loss(&net, &x, &y).item::<f32>());
    for (weight, before) in adapted.body.iter().zip(&net.body) {
        let Weight::LowRank { weight: frozen, .. } = weight else {
            panic!("{weight:?}");
        };
        assert_eq!(*frozen, before.value());
    }

    // Merge the corrections into the weights.
    let merged = edit::apply(adapted.clone(), |weight: &mut Weight| {
        *weight = Weight::Full {
            weight: weight.value(),
        };
    });
    assert_eq!(tree::structure(&merged), tree::structure(&net));
    assert_eq!(merged.forward(&x), adapted.forward(&x));
}
