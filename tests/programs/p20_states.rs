//! States as data: parts of a model used outside of training, and metadata that every function keeps.

use pytree::kind::Intermediate;
use pytree::prelude::*;
use pytree::{Annotated, Metadata};

#[derive(Module, Clone, Debug)]
struct Dense {
    #[param]
    kernel: Annotated<Tensor>,
    #[param]
    bias: Tensor,
    #[state(Intermediate)]
    output: Option<Tensor>,
}

impl Dense {
    fn new(key: &Key) -> Self {
        let kernel = key.normal(DType::F32, [3, 2]);
        Self {
            kernel: Annotated::new(kernel).with("sharding", ("data", "model")),
            bias: Tensor::zeros(DType::F32, [2]),
            output: None,
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let output = x.matmul(&self.kernel) + &self.bias;
        self.output = Some(output.mean());
        output
    }
}

fn said<T: Pytree>(value: &T) -> Vec<String> {
    let all = graph::structure(value).leaf_metadata();
    all.iter().map(ToString::to_string).collect()
}

#[test]
fn metadata_survives_training_and_checkpoints() {
    let model = Dense::new(&Key::new(0));
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let expected = ["sharding=('data', 'model')", ""];
    let x = Tensor::ones(DType::F32, [4, 3]);

    let step = jit(|(mut model, x): (Dense, Tensor)| {
        let gradient =
            grad(|model: &Dense| (x.matmul(&model.kernel) + &model.bias).square().mean())(&model);
        model.bias = &model.bias + 1.0;
        (model, gradient)
    });
    let (mut model, gradient) = step((model, x.clone()));
    assert_eq!(said(&model), expected);
    assert_eq!(said(&gradient), expected);
    assert_eq!(
        gradient.tree().metadata().map(Metadata::len).leaves(),
        [1, 0]
    );
    optimizer.update(&mut model, &gradient);
    assert_eq!(said(&model), expected);

    // Another sharding is another structure, so the function is traced again. The reason is reported.
    model.kernel.metadata_mut().set("sharding", "model");
    let (model, _) = step((model, x));
    assert_eq!(
        step.why_retraced().unwrap(),
        "static value at [0].kernel: metadata = (sharding=('data', 'model')) against metadata = (sharding='model')"
    );

    let path =
        std::env::temp_dir().join(format!("pytree-states-{}.safetensors", std::process::id()));
    checkpoint::save(&path, &model).unwrap();
    let loaded: Dense = checkpoint::load(&path, &model).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(said(&loaded), ["sharding='model'", ""]);
    assert_eq!(*loaded.kernel, *model.kernel);
}

#[test]
fn intermediates_are_popped_and_states_updated() {
    let mut model = vec![Dense::new(&Key::new(0)), Dense::new(&Key::new(1))];
    let x = Tensor::ones(DType::F32, [4, 3]);
    let outputs: Vec<Tensor> = model.iter_mut().map(|dense| dense.forward(&x)).collect();
    let popped = partition::pop(&mut model, &Filter::state::<Intermediate>()).unwrap();
    assert_eq!(popped.len(), 2);
    assert_eq!(popped["[1].output"], outputs[1].mean());
    assert!(model.iter().all(|dense| dense.output.is_none()));

    let params = partition::filter(&model, &Filter::param());
    let pure = params.to_pure_dict().unwrap();
    assert_eq!(
        pure.treedef().to_string(),
        "PyTreeDef({0: {'bias': *, 'kernel': *}, 1: {'bias': *, 'kernel': *}})"
    );
    let zeros = params
        .replace_by_pure_dict(&pure.map(|leaf| (leaf * 0.0).abs()))
        .unwrap();
    partition::update(&mut model, &zeros).unwrap();
    assert_eq!(model[1].kernel.sum().item::<f32>(), 0.0);
    assert_eq!(
        zeros
            .filter(&Filter::path("[0].kernel"))
            .unwrap()
            .state()
            .to_string(),
        "\
State({
  0: {
    'kernel': Param( # 6 (24 B)
      value=Tensor([[0., 0.],
              [0., 0.],
              [0., 0.]], dtype=f32),
      sharding=('data', 'model')
    )
  }
})"
    );
}
