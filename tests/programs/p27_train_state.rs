//! One value that contains everything that a training run changes: the model, its optimizer, a counter, and a moving
//! average of the parameters.

use pytree::Collection;
use pytree::Partition;
use pytree::nn::summary;
use pytree::optim::Chain;
use pytree::prelude::*;

/// The collection of the moving averages of parameters.
#[derive(Collection)]
struct Average;

#[derive(Module, Clone, Debug)]
struct TrainState<M: Model> {
    model: M,
    optimizer: Optimizer<M>,
    #[state]
    step: Tensor,
    #[state(Average)]
    average: Partition<M>,
}

impl<M: Model> TrainState<M> {
    fn new(model: M, transformation: Chain) -> Self {
        Self {
            optimizer: Optimizer::new(&model, transformation),
            step: Tensor::from(0),
            average: partition::filter(&model, &Filter::param()),
            model,
        }
    }

    /// Trains for one step. The average changes faster at the beginning, so that the initial parameters soon have
    /// little weight.
    fn train(&mut self, loss: impl Fn(&M) -> Tensor + Send + Sync) -> Tensor {
        let (loss, gradient) = value_and_grad(loss)(&self.model);
        self.optimizer.update(&mut self.model, &gradient);
        self.step = &self.step + 1;
        let count = self.step.convert(DType::F32);
        let decay = ((&count + 1.0) / (&count + 10.0)).minimum(0.95);
        let params = partition::filter(&self.model, &Filter::param());
        let follow =
            |average: &Tensor, param: &Tensor| average + (param - average) * (1.0 - &decay);
        self.average = self
            .average
            .map2(&params, follow)
            .expect("the average has the parameters of the model");
        loss
    }

    /// Returns the model with the averaged parameters.
    fn averaged(&self) -> M {
        partition::replace(&self.model, &self.average).expect("the average is of this model")
    }
}

fn start() -> TrainState<Mlp> {
    let model = Mlp::new(&[2, 8, 1], Activation::Tanh, &mut Rngs::new(0));
    TrainState::new(model, adam(3e-2))
}

fn data() -> (Tensor, Tensor) {
    let x = Rngs::new(1).normal(DType::F32, [32, 2]);
    let y = x.square().sum_keep([-1]);
    (x, y)
}

fn step((state, x, y): (&mut TrainState<Mlp>, Tensor, Tensor)) -> Tensor {
    state.train(|model| mse(&model.forward(&x), &y))
}

#[test]
fn train_state_is_compiled_once_and_averages() {
    let (x, y) = data();
    let compiled = jit_mut(step);
    let mut state = start();
    let mut by_hand = state.model.layers[0].weight.clone();
    let first = mse(&state.model.forward(&x), &y).item::<f32>();
    for count in 1..=50_u8 {
        compiled((&mut state, x.clone(), y.clone()));
        let count = f64::from(count);
        let decay = ((count + 1.0) / (count + 10.0)).min(0.95);
        by_hand = &by_hand * decay + &state.model.layers[0].weight * (1.0 - decay);
    }
    assert_eq!(compiled.traces(), 1);
    assert_eq!(state.step.item::<i32>(), 50);
    assert_eq!(state.optimizer.step().item::<u32>(), 50);
    let distance = (&state.average["layers[0].weight"] - by_hand).abs().max();
    assert!(distance.item::<f32>() < 1e-5, "off by {distance}");
    let averaged = mse(&state.averaged().forward(&x), &y).item::<f32>();
    assert!(averaged < 0.5 * first, "{first} before, {averaged} after");
}

#[test]
fn train_state_resumes_from_checkpoint() {
    let (x, y) = data();
    let compiled = jit_mut(step);
    let mut state = start();
    let advance = |state: &mut TrainState<Mlp>| {
        for _ in 0..5 {
            compiled((&mut *state, x.clone(), y.clone()));
        }
    };
    advance(&mut state);
    let name = format!("pytree-train-state-{}.safetensors", std::process::id());
    let path = std::env::temp_dir().join(name);
    checkpoint::save(&path, &state).unwrap();
    let resumed = checkpoint::load(&path, &start());
    let names: Vec<String> = checkpoint::inspect(&path)
        .unwrap()
        .into_iter()
        .map(|entry| format!("{} {}", entry.name, entry.dtype))
        .collect();
    std::fs::remove_file(&path).unwrap();
    assert!(names.contains(&"step i32".to_owned()), "{names:?}");
    assert!(
        names.contains(&"average.layers[0].weight f32".to_owned()),
        "{names:?}"
    );

    let mut resumed: TrainState<Mlp> = resumed.unwrap();
    advance(&mut state);
    advance(&mut resumed);
    assert_eq!(resumed.step.item::<i32>(), 10);
    assert!(
        diff(&resumed, &state).is_empty(),
        "{}",
        diff(&resumed, &state)
    );
}

#[test]
fn parts_of_train_state_have_own_collections() {
    let state = start();
    let averages = partition::filter(&state, &Filter::state::<Average>());
    assert_eq!(averages.len(), 4);
    assert!(averages.get("average.layers[1].bias").is_ok());
    let params = partition::filter(&state, &Filter::param());
    assert_eq!(params.len(), 4, "the average is not trained");
    let table = summary(&state).to_string();
    assert!(table.contains("Average"), "{table}");
}
