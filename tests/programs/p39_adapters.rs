//! Adapters of low rank. The collection of their parameters is a child of the collection of all parameters. So the
//! adapters are trained with the other parameters or alone.

use pytree::kind::Param;
use pytree::prelude::*;

/// The parameters of an adapter (Hu et al. 2021, "LoRA").
#[derive(pytree::Collection)]
#[collection(parent = Param)]
struct LoraParam;

/// The scale of an adapter, which is also a parameter of the adapter.
#[derive(pytree::Collection)]
#[collection(parent = LoraParam)]
struct LoraScale;

#[derive(Module, Clone, Debug)]
struct Adapted {
    #[param]
    weight: Tensor,
    #[param(LoraParam)]
    down: Tensor,
    #[param(LoraParam)]
    up: Tensor,
    #[param(LoraScale)]
    scale: Tensor,
    #[state(BatchStat)]
    mean: Tensor,
}

impl Adapted {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            weight: rngs.normal(DType::F32, [3, 2]),
            down: rngs.normal(DType::F32, [3, 1]),
            up: Tensor::zeros(DType::F32, [1, 2]),
            scale: Tensor::from(1.0_f32),
            mean: Tensor::zeros(DType::F32, [3]),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x - &self.mean;
        x.matmul(&self.weight) + x.matmul(&self.down).matmul(&self.up) * &self.scale
    }
}

fn paths<L: pytree::Leaf + Clone>(part: &pytree::core::Partition<Adapted, L>) -> Vec<String> {
    part.iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect()
}

#[test]
fn adapters_are_parameters() {
    let mut rngs = Rngs::new(0);
    let mut model = Adapted::new(&mut rngs);
    let x = rngs.normal(DType::F32, [8, 3]);
    const ALL: [&str; 4] = ["weight", "down", "up", "scale"];
    assert_eq!(paths(&partition::filter(&model, &Filter::param())), ALL);

    // Without a filter, all parameters are differentiated and trained, including the adapters.
    let mut optimizer = Optimizer::new(&model, sgd(0.1));
    let step = jit_mut(
        |(model, optimizer, x): (&mut Adapted, &mut Optimizer<Adapted>, Tensor)| {
            let (loss, gradient) =
                value_and_grad(|model: &Adapted| model.forward(&x).square().mean())(model);
            assert_eq!(paths(&gradient), ALL);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let before = model.clone();
    let losses: Vec<f32> = (0..20)
        .map(|_| step((&mut model, &mut optimizer, x.clone())).item::<f32>())
        .collect();
    assert!(losses[19] < 0.9 * losses[0], "{losses:?}");
    assert_eq!(step.traces(), 1);
    for (path, leaf) in partition::filter(&model, &Filter::param()).iter_with_path() {
        let old = partition::filter(&before, &Filter::param());
        assert_ne!(leaf, old.get(&path).unwrap(), "{path}");
    }
    assert_eq!(model.mean, before.mean);
}

#[test]
fn adapters_are_trained_alone() {
    let mut rngs = Rngs::new(0);
    let mut model = Adapted::new(&mut rngs);
    let x = rngs.normal(DType::F32, [8, 3]);
    let adapters = Filter::collection::<LoraParam>();
    assert_eq!(
        paths(&partition::filter(&model, &adapters)),
        ["down", "up", "scale"]
    );
    let scales = Filter::collection::<LoraScale>();
    assert_eq!(paths(&partition::filter(&model, &scales)), ["scale"]);
    let others = Filter::param() & !adapters.clone();
    assert_eq!(paths(&partition::filter(&model, &others)), ["weight"]);

    let before = model.clone();
    let mut optimizer = Optimizer::with_filter(&model, sgd(0.1), &adapters);
    for _ in 0..3 {
        let gradient =
            grad(|model: &Adapted| model.forward(&x).square().mean()).wrt(adapters.clone())(&model);
        optimizer.update(&mut model, &gradient);
    }
    assert_eq!(model.weight, before.weight);
    assert_ne!(model.up, before.up);
    assert_ne!(model.scale, before.scale);
}

#[test]
fn collections_show_their_own_names() {
    let mut rngs = Rngs::new(0);
    let model = Adapted::new(&mut rngs);
    let summary = summary(&model).to_string();
    for kind in ["Param", "LoraParam", "LoraScale", "BatchStat"] {
        assert!(summary.contains(&format!("│ {kind}")), "{summary}");
    }
    let state = partition::filter(&model, &Filter::collection::<LoraScale>());
    assert!(
        state
            .state()
            .to_string()
            .contains("'scale': LoraScale( # 1 (4 B)")
    );

    let path = std::env::temp_dir().join("pytree-p29-adapters.safetensors");
    checkpoint::save(&path, &model).unwrap();
    let loaded = checkpoint::load(&path, &Adapted::new(&mut Rngs::new(1))).unwrap();
    assert_eq!(loaded.down, model.down);
    std::fs::remove_file(path).unwrap();
}
