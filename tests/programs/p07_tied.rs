//! Tied weights: two fields share one leaf.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Tied {
    #[param]
    embed: Shared<Tensor>,
    #[param]
    head: Shared<Tensor>,
    #[param]
    bias: Tensor,
}

impl Tied {
    fn forward(&self, token: &Tensor) -> Tensor {
        self.embed.take(token, 0).tanh().matmul(&self.head.t()) + &self.bias
    }
}

fn tied() -> Tied {
    let table = Shared::new(Key::new(3).normal(DType::F32, [5, 4]));
    Tied {
        embed: table.clone(),
        head: table,
        bias: Tensor::zeros(DType::F32, [5]),
    }
}

fn loss(model: &Tied, token: &Tensor, target: &Tensor) -> Tensor {
    softmax_cross_entropy(&model.forward(token), target)
}

#[test]
fn tied_gradient_is_sum_over_its_places() {
    let (token, target) = (Tensor::from(1_i32), Tensor::from(3_i32));
    let model = tied();
    let gradient = grad(|m: &Tied| loss(m, &token, &target))(&model);
    assert_eq!(gradient.len(), 2);
    let apart = Tied {
        head: Shared::new((*model.head).clone()),
        ..model.clone()
    };
    let parts = grad(|m: &Tied| loss(m, &token, &target))(&apart);
    assert_eq!(parts.len(), 3);
    let sum = &parts["embed"] + &parts["head"];
    assert!((&gradient["embed"] - sum).abs().max().item::<f32>() < 1e-6);
}

#[test]
fn sharing_survives_jitted_step_and_checkpoint() {
    let step = jit(
        |(mut model, mut optimizer, token, target): (Tied, Optimizer<Tied>, Tensor, Tensor)| {
            assert!(model.embed.same(&model.head));
            let gradient = grad(|m: &Tied| loss(m, &token, &target))(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer)
        },
    );
    let model = tied();
    let optimizer = Optimizer::new(&model, sgd(0.1));
    let (model, _) = step((model, optimizer, Tensor::from(1_i32), Tensor::from(3_i32)));
    assert!(model.embed.same(&model.head));

    let path = std::env::temp_dir().join(format!("pytree-tied-{}.safetensors", std::process::id()));
    checkpoint::save(&path, &model).unwrap();
    let names: Vec<String> = checkpoint::inspect(&path)
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, ["bias", "embed"]);
    let loaded = checkpoint::load(&path, &tied()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(loaded.embed.same(&loaded.head));
    assert_eq!(*loaded.embed, *model.embed);
}
