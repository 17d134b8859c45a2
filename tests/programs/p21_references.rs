//! References: a mutable value at several places of a model, written inside of transformations.

use pytree::nn::{Mode, summary};
use pytree::prelude::*;

/// A layer that counts its calls. All layers with a handle to the same reference count together.
#[derive(Module, Clone, Debug)]
struct Counted {
    linear: Linear,
    #[state]
    calls: Ref<Tensor>,
}

/// Two layers that count their calls together. The fields `scale` and `again` are the same weight. The random streams
/// and the dropout are references.
#[derive(Module, Clone, Debug)]
struct Net {
    first: Counted,
    second: Counted,
    #[param]
    scale: Ref<Tensor>,
    #[param]
    again: Ref<Tensor>,
    rngs: Ref<Rngs>,
    dropout: Ref<Dropout>,
}

impl Counted {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.calls.update(|calls| calls + 1);
        self.linear.forward(x)
    }
}

impl Net {
    fn new(seed: u64) -> Self {
        let mut rngs = Rngs::new(seed);
        let calls = Ref::new(Tensor::from(0));
        let mut layer = |features: [usize; 2]| Counted {
            linear: Linear::new(features[0], features[1], &mut rngs),
            calls: calls.clone(),
        };
        let (first, second) = (layer([3, 4]), layer([4, 1]));
        let scale = Ref::new(Tensor::from(1.0_f32));
        Self {
            first,
            second,
            again: scale.clone(),
            scale,
            dropout: Ref::new(Dropout::new(0.5, &mut rngs)),
            rngs: Ref::new(rngs),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let noise = self.rngs.modify(|rngs| rngs.normal(DType::F32, x.shape())) * 0.01;
        let x = self.first.forward(&(x + noise));
        let x = self.dropout.modify(|dropout| dropout.forward(&x));
        self.second.forward(&(x.tanh() * self.scale.get())) * self.again.get()
    }
}

fn batch() -> (Tensor, Tensor) {
    let x = Key::new(1).normal(DType::F32, [16, 3]);
    let y = x.sum_axes([1]).reshape([16, 1]) * 0.5;
    (x, y)
}

type Step = (Net, Optimizer<Net>, Tensor, Tensor);

fn step((mut net, mut optimizer, x, y): Step) -> (Net, Optimizer<Net>, Tensor) {
    let (loss, gradient) = value_and_grad(|net: &Net| mse(&net.forward(&x), &y))(&net);
    optimizer.update(&mut net, &gradient);
    (net, optimizer, loss)
}

#[test]
fn a_net_with_references_is_trained() {
    let (x, y) = batch();
    let net = Net::new(0);
    let watched = net.clone();
    let key = || {
        watched
            .rngs
            .get()
            .streams()
            .next()
            .unwrap()
            .1
            .count()
            .item::<u32>()
    };
    let drawn = key();
    let mut optimizer = Optimizer::new(&net, adam(0.02));
    let train = jit(step);
    let mut net = net;
    let mut losses = Vec::new();
    for _ in 0..200 {
        let loss;
        (net, optimizer, loss) = train((net, optimizer, x.clone(), y.clone()));
        losses.push(loss.item::<f32>());
    }
    assert!(
        losses[199] < 0.5 * losses[0],
        "{} {}",
        losses[0],
        losses[199]
    );
    assert_eq!(train.traces(), 1);
    // Handles that existed before the training read the values that the compiled steps wrote.
    assert_eq!(watched.first.calls.get().item::<i32>(), 400);
    assert_eq!(key(), drawn + 200);
    assert!(watched.scale.get().item::<f32>() != 1.0);
    assert!(net.scale.same(&watched.again) && net.rngs.same(&watched.rngs));
    // The fields `scale` and `again` are one parameter, which has one gradient.
    let loss = |net: &Net| mse(&net.forward(&x), &y);
    let gradient = grad(loss)(&net);
    let at = |place| std::ptr::from_ref(gradient.get(place).unwrap());
    assert_eq!(at("scale"), at("again"));
    let paths: Vec<String> = summary(&net)
        .rows
        .iter()
        .map(|row| row.path.clone())
        .collect();
    assert!(
        paths.contains(&"scale".to_owned()) && !paths.contains(&"again".to_owned()),
        "{paths:?}"
    );
}

#[test]
fn evaluation_copies_the_references() {
    let (x, _) = batch();
    let net = Net::new(0);
    let quiet = eval(&net);
    assert!(!quiet.scale.same(&net.scale) && !quiet.dropout.same(&net.dropout));
    assert_eq!(quiet.dropout.get().mode, Mode::Eval);
    assert_eq!(
        net.dropout.get().mode,
        Mode::Train,
        "the model is as it was"
    );
    let before = net.first.calls.get().item::<i32>();
    let forward = jit(|(net, x): (Net, Tensor)| net.forward(&x));
    forward((quiet.clone(), x));
    // The places that share a reference in the model share one in the copy.
    assert_eq!(quiet.second.calls.get().item::<i32>(), before + 2);
    assert_eq!(net.second.calls.get().item::<i32>(), before);
    assert_eq!(train(&quiet).dropout.get().mode, Mode::Train);
}

#[test]
fn a_checkpoint_has_each_value_once() {
    let (x, y) = batch();
    let net = Net::new(0);
    let optimizer = Optimizer::new(&net, sgd(0.1));
    let (net, optimizer, _) = jit(step)((net, optimizer, x.clone(), y.clone()));
    let path = std::env::temp_dir().join(format!(
        "pytree-references-{}.safetensors",
        std::process::id()
    ));
    checkpoint::save(&path, &(net.clone(), optimizer.clone())).unwrap();
    let names: Vec<String> = checkpoint::inspect(&path)
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert!(
        names.iter().filter(|name| name.contains("calls")).count() == 1,
        "{names:?}"
    );
    let fresh = Net::new(7);
    let template = (fresh.clone(), Optimizer::new(&fresh, sgd(0.1)));
    let (loaded, resumed) = checkpoint::load(&path, &template).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(loaded.scale.same(&loaded.again) && loaded.first.calls.same(&loaded.second.calls));
    // The original and the loaded model compute the same bits in the next step.
    let (net, _, loss) = jit(step)((net, optimizer, x.clone(), y.clone()));
    let (loaded, _, same) = jit(step)((loaded, resumed, x, y));
    assert_eq!(loss, same);
    assert_eq!(net.scale.get(), loaded.scale.get());
    assert_eq!(net.rngs.get(), loaded.rngs.get());
}

#[test]
fn ensemble_members_have_own_references() {
    let (x, _) = batch();
    let members = stack(&[Net::new(0), Net::new(1)], 0);
    let before: Vec<i32> = members.first.calls.get().to_vec();
    assert_eq!(before, [0, 0]);
    let forward = vmap(|(net, x): (Net, Tensor)| net.forward(&x)).in_axes((0, None));
    let y = forward((members.clone(), x));
    assert_eq!(y.shape(), [2, 16, 1]);
    assert_eq!(members.second.calls.get().to_vec::<i32>(), [2, 2]);
}
