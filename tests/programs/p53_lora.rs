//! A trained network is adapted to another task: only adapters of low rank are trained, and at the end they are merged.

use pytree::nn::{Flatten, Lora, LoraParam};
use pytree::prelude::*;

use crate::programs::panic_message;

fn network(rngs: &mut Rngs) -> Sequential {
    sequential![
        Conv::new(1, 4, [3, 3], rngs),
        BatchNorm::new(4, rngs),
        Activation::Relu,
        Flatten::default(),
        Linear::new(4 * 4 * 4, 16, rngs),
        Activation::Tanh,
        Linear::new(16, 3, rngs),
    ]
}

fn data() -> (Tensor, Tensor) {
    let mut rngs = Rngs::new(1);
    let x = rngs.normal(DType::F32, [12, 4, 4, 1]);
    (x, Tensor::from([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]))
}

fn loss(lora: &Lora<Sequential>, (x, y): &(Tensor, Tensor)) -> Tensor {
    softmax_cross_entropy(&lora.adapted().forward(x), y).mean()
}

#[test]
fn adapters_of_layers_are_trained_alone_and_merged() {
    let mut rngs = Rngs::new(0);
    let model = eval(&network(&mut rngs));
    let data = data();
    let mut lora = Lora::new(&model, &Filter::param(), 2, &mut rngs);
    let paths: Vec<&str> = lora
        .adapters
        .iter()
        .map(|adapter| adapter.path.as_str())
        .collect();
    assert_eq!(
        paths,
        ["layers[0].weight", "layers[4].weight", "layers[6].weight"]
    );
    assert_eq!(
        lora.adapted().forward(&data.0),
        model.clone().forward(&data.0)
    );

    let adapters = Filter::collection::<LoraParam>();
    let mut optimizer = Optimizer::with_filter(&lora, adam(3e-2), &adapters);
    let step = jit_mut(
        move |(lora, optimizer, data): (
            &mut Lora<Sequential>,
            &mut Optimizer<_>,
            (Tensor, Tensor),
        )| {
            let of_lora = value_and_grad(|lora: &Lora<Sequential>| loss(lora, &data));
            let (loss, gradient) = of_lora.wrt(adapters.clone())(lora);
            assert_eq!(gradient.iter_with_path().count(), 6);
            optimizer.update(lora, &gradient);
            loss
        },
    );
    let losses: Vec<f32> = (0..60)
        .map(|_| step((&mut lora, &mut optimizer, data.clone())).item())
        .collect();
    assert!(losses[59] < 0.1 * losses[0], "{losses:?}");
    assert_eq!(step.traces(), 1);

    // The weights that were trained before are unchanged, and the merged model has no adapters.
    let weights = |model: &Sequential| -> Partition<Sequential> {
        partition::filter(model, &Filter::everything())
    };
    assert_eq!(weights(&lora.model), weights(&model));
    let mut merged = lora.adapted();
    assert_eq!(merged.layers.len(), 7);
    let logits = merged.forward(&data.0);
    let merged_loss = softmax_cross_entropy(&logits, &data.1).mean();
    assert_eq!(merged_loss, loss(&lora, &data));
    assert_eq!(
        weights(&merged)["layers[0].bias"],
        weights(&model)["layers[0].bias"]
    );
    for path in ["layers[0].weight", "layers[4].weight"] {
        assert_ne!(weights(&merged)[path], weights(&model)[path]);
    }
}

#[test]
fn adapters_of_chosen_layers_are_saved_alone() {
    let mut rngs = Rngs::new(0);
    let model = network(&mut rngs);
    let mut lora = Lora::new(&model, &Filter::path("layers[4]"), 2, &mut rngs);
    lora.adapters[0].b = rngs.normal(DType::F32, [2, 16]);
    let path = std::env::temp_dir().join(format!("pytree-lora-{}", std::process::id()));
    checkpoint::save(&path, &lora.adapters).unwrap();
    let mut other = Lora::new(&model, &Filter::path("layers[4]"), 2, &mut rngs);
    assert_ne!(other.adapters, lora.adapters);
    other.adapters = checkpoint::load(&path, &other.adapters).unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!(other.adapters, lora.adapters);
}

#[test]
fn adapters_without_matrices_are_refused() {
    let model = network(&mut Rngs::new(0));
    let norm = Filter::path("layers[1]");
    assert_eq!(
        panic_message(move || Lora::new(&model, &norm, 2, &mut Rngs::new(0))),
        "cannot add adapters: the filter selects layers[1].scale: f32[4], layers[1].bias: f32[4], expected weights with inputs and outputs; \
         choose a filter that selects some of the weights layers[0].weight, layers[4].weight, layers[6].weight, \
         for instance `Filter::path(\"layers[0].weight\")`"
    );
}
