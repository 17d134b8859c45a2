//! Values stored by a forward pass, and gradients with respect to intermediate values.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use pytree_core::kind::{Intermediate, Perturbation};
use pytree_core::{Collection, Filter, Module, Partition, PytreeOf, Ref, Shared, graph, partition};
use pytree_nn::{
    Activation, Intermediates, Linear, Mlp, Optimizer, Perturbed, Rngs, Sown, TransformerBlock,
    adam, capture, capture_outputs, gelu, relu, sequential, try_capture,
};
use pytree_transform::{
    Axes, DType, Tensor, eval_shape, grad, jit, scan, value_and_grad, value_and_grad_mut, vmap,
    vmap_mut,
};

/// A layer that keeps the mean of what it gives.
#[derive(Module, Clone, Debug)]
struct Block {
    linear: Linear,
    #[state(Intermediate)]
    y_mean: Sown,
}

impl Block {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            linear: Linear::new(2, 2, rngs),
            y_mean: Sown::new(),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let y = relu(&self.linear.forward(x));
        self.y_mean.sow(y.mean());
        y
    }
}

/// Several of them.
#[derive(Module, Clone, Debug)]
struct Blocks {
    blocks: Vec<Block>,
}

impl Blocks {
    fn new() -> Self {
        let mut rngs = Rngs::new(0);
        Self {
            blocks: (0..3).map(|_| Block::new(&mut rngs)).collect(),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for block in &mut self.blocks {
            x = block.forward(&x);
        }
        x
    }
}

fn x() -> Tensor {
    Tensor::from([[1.0_f32, -2.0], [0.5, 3.0], [2.0, 1.0]])
}

/// The intermediates of a model, which no longer has them.
fn pop<M: PytreeOf<Tensor>>(model: &mut M) -> Partition<M, Tensor> {
    partition::pop(model, &Filter::state::<Intermediate>()).unwrap()
}

#[test]
fn each_run_appends_until_values_are_popped() {
    let mut model = Blocks::new();
    let y = model.forward(&x());
    let _ = model.forward(&x());
    assert!(model.blocks.iter().all(|block| block.y_mean.len() == 2));
    let popped = pop(&mut model);
    let paths: Vec<String> = popped
        .iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(paths[..2], ["blocks[0].y_mean[0]", "blocks[0].y_mean[1]"]);
    assert_eq!(popped["blocks[2].y_mean[0]"], y.mean());
    assert_eq!(popped["blocks[2].y_mean[1]"], y.mean());
    assert!(model.blocks.iter().all(|block| block.y_mean.is_empty()));
}

#[test]
fn popped_model_is_compiled_once() {
    let mut model = Blocks::new();
    let run = jit(|(mut model, x): (Blocks, Tensor)| {
        let y = model.forward(&x);
        (model, y)
    });
    for _ in 0..3 {
        let y;
        (model, y) = run((model, x()));
        assert_eq!(pop(&mut model)["blocks[2].y_mean[0]"], y.mean());
    }
    assert_eq!(run.traces(), 1);
    // Inside of the function it is compiled once as well.
    let inside = jit(|(mut model, x): (Blocks, Tensor)| {
        let _ = model.forward(&x);
        let popped = pop(&mut model);
        (model, popped)
    });
    for _ in 0..3 {
        let popped;
        (model, popped) = inside((model, x()));
        assert_eq!(popped.len(), 3);
    }
    assert_eq!(inside.traces(), 1);
    // A model that is not popped grows, and says so.
    (model, _) = run((model, x()));
    (_, _) = run((model, x()));
    assert_eq!(run.traces(), 2);
    let why = run.why_retraced().unwrap().to_string();
    assert!(why.contains("[0].blocks[0].y_mean"), "{why}");
}

#[test]
fn what_one_run_leaves_is_captured() {
    let mut model = Blocks::new();
    let _ = model.forward(&x());
    let sown = Filter::state::<Intermediate>();
    let (y, captured) = capture(&mut model, &sown, |model| model.forward(&x()));
    // That of the run before is not among it, and the model has none of it.
    assert_eq!(captured.len(), 3);
    assert_eq!(captured["blocks[2].y_mean[0]"], y.mean());
    assert!(model.blocks.iter().all(|block| block.y_mean.is_empty()));
    // A path that is there only after the run may choose.
    let first = Filter::path("blocks[0].y_mean");
    let (_, captured) = capture(&mut model, &first, |model| model.forward(&x()));
    assert_eq!(captured.len(), 1);
    assert_eq!(model.blocks[1].y_mean.len(), 1);
    // Compiled and differentiated.
    let step = jit(move |(mut model, x): (Blocks, Tensor)| {
        let loss = |model: &mut Blocks| model.forward(&x).mean();
        let ((loss, gradient), captured) =
            capture(&mut model, &sown, |model| value_and_grad_mut(loss)(model));
        (model, loss, gradient, captured)
    });
    let _ = pop(&mut model);
    for _ in 0..2 {
        let (loss, captured);
        (model, loss, _, captured) = step((model, x()));
        assert_eq!(captured["blocks[2].y_mean[0]"], loss);
    }
    assert_eq!(step.traces(), 1);
    let held = try_capture(&mut model, &Filter::param(), |_| ()).unwrap_err();
    assert!(
        held.to_string().contains("blocks[0].linear.weight"),
        "{held}"
    );
    let absent = try_capture(&mut model, &Filter::path("blocks[7]"), |_| ()).unwrap_err();
    assert!(
        absent.to_string().contains("no leaf at blocks[7]"),
        "{absent}"
    );
}

#[test]
fn gradient_returns_sown_values() {
    let mut model = Blocks::new();
    let (y_mean, gradient) =
        value_and_grad_mut(|model: &mut Blocks| model.forward(&x()).mean())(&mut model);
    assert_eq!(gradient.len(), 6);
    let popped = pop(&mut model);
    assert_eq!(popped["blocks[2].y_mean[0]"], y_mean);
    // As an auxiliary result, of a function that reads the model.
    let loss = |model: &Blocks| {
        let mut model = model.clone();
        let loss = model.forward(&x()).mean();
        (loss, pop(&mut model))
    };
    let ((_, again), _) = value_and_grad(loss)(&model);
    assert_eq!(again, popped);
    // The gradient of a value that is sown is that of the value.
    let of_sown = grad(|model: &Blocks| {
        let mut model = model.clone();
        let _ = model.forward(&x());
        model.blocks[2].y_mean[0].clone()
    });
    assert_eq!(of_sown(&model), gradient);
}

#[test]
fn values_sown_under_vmap_are_stacked() {
    let mut model = Blocks::new();
    let y = vmap_mut(|(model, x): (&mut Blocks, Tensor)| model.forward(&x)).in_axes((
        Axes::filter([
            (Filter::state::<Intermediate>(), Some(0)),
            (Filter::everything(), None),
        ]),
        0,
    ))((&mut model, x()));
    let sown = &model.blocks[2].y_mean[0];
    assert_eq!(sown, &y.mean_axes([-1]));
    assert_eq!(sown.shape(), [3]);
    // Given back as a result, they need no axes of the model's.
    let model = Blocks::new();
    let (_, popped) = vmap(|x: Tensor| {
        let mut model = model.clone();
        let y = model.forward(&x);
        (y, pop(&mut model))
    })(x());
    assert_eq!(&popped["blocks[2].y_mean[0]"], sown);
}

#[test]
fn values_sown_in_a_loop_are_returned() {
    let step = |mut model: Blocks, x: Tensor| {
        let y = model.forward(&x);
        let popped = pop(&mut model);
        (model, (y, popped))
    };
    let (model, (y, popped)) = scan(step, Blocks::new(), x());
    assert_eq!(popped["blocks[2].y_mean[0]"], y.mean_axes([-1]));
    assert!(model.blocks[2].y_mean.is_empty());
}

/// A shared layer, whose only written state is its sown values.
#[derive(Module, Debug)]
struct Common {
    linear: Linear,
    #[state(Intermediate)]
    y_mean: Ref<Sown>,
}

impl Common {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.linear.forward(x);
        self.y_mean.update(|mut sown| {
            sown.sow(y.mean());
            sown
        });
        y
    }
}

#[test]
fn a_shared_layer_sows_into_a_reference() {
    let common = Shared::new(Common {
        linear: Linear::new(2, 2, &mut Rngs::new(0)),
        y_mean: Ref::new(Sown::new()),
    });
    let mut layers = vec![common.clone(), common];
    let forward = |layers: &mut Vec<Shared<Common>>| {
        let hidden = layers[0].forward(&x());
        layers[1].forward(&hidden)
    };
    let run = jit(move |mut layers: Vec<Shared<Common>>| {
        let (y, captured) = capture(&mut layers, &Filter::state::<Intermediate>(), forward);
        (layers, y, captured)
    });
    for _ in 0..2 {
        let (y, captured);
        (layers, y, captured) = run(layers);
        assert_eq!(captured.len(), 2);
        assert_eq!(captured["[0].y_mean[1]"], y.mean());
        assert!(layers[1].y_mean.get().is_empty());
        assert!(layers[0].same(&layers[1]));
    }
    assert_eq!(run.traces(), 1);
    let y = forward(&mut layers);
    assert_eq!(layers[1].y_mean.get()[1], y.mean());
}

#[test]
fn shapes_are_known_without_a_run() {
    let shapes = eval_shape(
        |model: &Blocks| {
            let mut model = model.clone();
            let _ = model.forward(&x());
            model
        },
        &Blocks::new(),
    );
    assert_eq!(
        shapes.get("blocks[2].y_mean[0]").unwrap().to_string(),
        "f32[]"
    );
}

/// Sums what it is given.
#[derive(Module, Clone, Debug)]
struct Summing {
    #[state(Intermediate)]
    sum: Sown,
    #[state(Intermediate)]
    pairs: Sown<(Tensor, Vec<Tensor>)>,
}

#[test]
fn sown_pytrees_can_be_reduced() {
    let run = jit(|(mut model, x): (Summing, Tensor)| {
        let zero = || Tensor::zeros(DType::F32, []);
        for _ in 0..3 {
            model.sum.sow_with(x.sum(), zero, |sum, x| sum + x);
        }
        model.pairs.sow((x.max(), vec![x.min()]));
        model
    });
    let empty = Summing {
        sum: Sown::new(),
        pairs: Sown::new(),
    };
    let model = run((empty, Tensor::from([1.0_f32, 2.0])));
    assert_eq!(model.sum.len(), 1);
    assert_eq!(model.sum[0], Tensor::from(9.0_f32));
    assert_eq!(model.pairs[0].1[0], Tensor::from(1.0_f32));
    let paths: Vec<String> = graph::leaves_with_path::<Tensor, _>(&model)
        .into_iter()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(paths, ["sum[0]", "pairs[0][0]", "pairs[0][1][0]"]);
}

/// A collection of the user's.
#[derive(Collection)]
struct Norms;

/// Keeps norms under names that are known at run time.
#[derive(Module, Clone, Debug)]
struct Named {
    linear: Linear,
    #[state(Norms)]
    norms: Intermediates,
}

#[test]
fn custom_collection_has_names_at_run_time() {
    let mut model = Named {
        linear: Linear::new(2, 2, &mut Rngs::new(0)),
        norms: Intermediates::new(),
    };
    let run = jit(|(mut model, x): (Named, Tensor)| {
        for name in ["b", "a", "b"] {
            let y = model.linear.forward(&x);
            model.norms.sow(name, y.square().sum());
        }
        model
    });
    model = run((model, x()));
    assert_eq!(model.norms["b"].len(), 2);
    assert_eq!(model.norms["b"][0], model.norms["a"][0]);
    assert_eq!(model.norms.len(), 2);
    let norms: Partition<_, Tensor> = partition::filter(&model, &Filter::state::<Norms>());
    let paths: Vec<String> = norms
        .iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(paths, ["norms['a'][0]", "norms['b'][0]", "norms['b'][1]"]);
    for _ in 0..2 {
        let norms = partition::pop(&mut model, &Filter::state::<Norms>()).unwrap();
        assert_eq!(norms.len(), 3);
        assert!(model.norms.is_empty());
        model = run((model, x()));
    }
    assert_eq!(run.traces(), 1);
    let other: Partition<_, Tensor> = partition::filter(&model, &Filter::state::<Intermediate>());
    assert!(other.is_empty());
    assert_eq!(Norms::NAME, "Norms");
}

/// A model whose hidden values have gradients.
#[derive(Module, Clone, Debug)]
struct Perturbable {
    first: Linear,
    second: Linear,
    #[state(Perturbation)]
    hidden: Perturbed,
}

impl Perturbable {
    fn new() -> Self {
        let mut rngs = Rngs::new(0);
        Self {
            first: Linear::new(2, 3, &mut rngs),
            second: Linear::new(3, 1, &mut rngs),
            hidden: Perturbed::new(),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let hidden = gelu(&self.first.forward(x));
        let hidden = self.hidden.perturb(&hidden);
        self.second.forward(&hidden)
    }
}

#[test]
fn gradient_of_perturbation_is_that_of_value() {
    let mut model = Perturbable::new();
    let before = model.forward(&x());
    assert_eq!(model.forward(&x()), before);
    let wrt = Filter::param() | Filter::state::<Perturbation>();
    let loss = |model: &mut Perturbable| model.forward(&x()).square().mean();
    let (_, gradient) = value_and_grad_mut(loss).wrt(wrt.clone())(&mut model);
    let hidden = gelu(&model.first.forward(&x()));
    let second = model.second.clone();
    let expected = grad(|hidden: &Tensor| second.forward(hidden).square().mean())(&hidden);
    let off = (&gradient["hidden"] - &expected).abs().max();
    assert!(off.item::<f32>() <= 1e-6, "{off}");
    assert_eq!(gradient.len(), 5);
    // The same under `jit`.
    let compiled = jit(move |mut model: Perturbable| {
        let (loss, gradient) = value_and_grad_mut(loss).wrt(wrt.clone())(&mut model);
        (model, loss, gradient)
    });
    let (_, _, under_jit) = compiled(model.clone());
    let off = (&under_jit["hidden"] - &expected).abs().max();
    assert!(off.item::<f32>() <= 1e-6, "{off}");
}

#[test]
fn perturbation_gradients_are_per_example() {
    let mut model = Perturbable::new();
    let _ = model.forward(&x().index(pytree_transform::ix![0]));
    let wrt = Filter::state::<Perturbation>();
    let each = vmap(|x: Tensor| {
        let loss = |model: &Perturbable| model.clone().forward(&x).square().sum();
        grad(loss).wrt(wrt.clone())(&model)
    })(x());
    assert_eq!(each["hidden"].shape(), [3, 3]);
    let mut whole = Perturbable::new();
    let _ = whole.forward(&x());
    let loss = |model: &Perturbable| model.clone().forward(&x()).square().sum();
    let expected = grad(loss).wrt(wrt.clone())(&whole);
    let off = (&each["hidden"] - &expected["hidden"]).abs().max();
    assert!(off.item::<f32>() <= 1e-6, "{off}");
}

#[test]
fn the_first_run_may_be_compiled() {
    let first = jit(|(mut model, x): (Perturbable, Tensor)| {
        let _ = model.forward(&x);
        model
    });
    let model = first((Perturbable::new(), x()));
    assert_eq!(
        model.hidden.perturbation(),
        Some(&Tensor::zeros(DType::F32, [3, 3]))
    );
}

#[test]
fn changed_shape_is_refused() {
    let mut perturbed = Perturbed::new();
    let _ = perturbed.perturb(&x());
    let other = Tensor::zeros(DType::F64, [1, 2]);
    assert_eq!(
        perturbed.try_perturb(&other).unwrap_err().to_string(),
        "cannot perturb a value whose shape differs from the first run: expected f32[3,2], found f64[1,2]; before a run with other shapes, pop the stored zeros with `partition::pop(&mut model, &Filter::state::<Perturbation>())`"
    );
    let mut several = Perturbed::new();
    let _ = several.perturb(&vec![x(), other.clone(), x()]);
    let message = several.try_perturb(&vec![other.clone(), other.clone(), other.clone()]);
    let message = message.unwrap_err().to_string();
    assert!(
        message.contains("at [0] expected f32[3,2], found f64[1,2]; at [2] expected f32[3,2]"),
        "{message}"
    );
    let message = several.try_perturb(&vec![other]).unwrap_err().to_string();
    assert!(
        message.contains("expected PyTreeDef([*, *, *]), found PyTreeDef([*])"),
        "{message}"
    );
}

#[test]
#[should_panic(expected = "run the model once before, for instance `let _ = model.forward(&x);`")]
fn first_run_under_gradient_is_refused() {
    let loss = |model: &mut Perturbable| model.forward(&x()).square().mean();
    let wrt = Filter::param() | Filter::state::<Perturbation>();
    let _ = value_and_grad_mut(loss).wrt(wrt)(&mut Perturbable::new());
}

/// Sows and perturbs, and is trained.
#[derive(Module, Clone, Debug)]
struct Watched {
    block: Block,
    body: Perturbable,
}

#[test]
fn optimizer_survives_the_first_run() {
    let mut rngs = Rngs::new(1);
    let mut model = Watched {
        block: Block::new(&mut rngs),
        body: Perturbable::new(),
    };
    let mut optimizer = Optimizer::new(&model, adam(1e-2));
    let loss = |model: &mut Watched| {
        let hidden = model.block.forward(&x());
        model.body.forward(&hidden).square().mean()
    };
    let first = loss(&mut model).item::<f32>();
    let mut last = first;
    for _ in 0..20 {
        let (loss, gradient) = value_and_grad_mut(loss)(&mut model);
        optimizer.update(&mut model, &gradient);
        last = loss.item();
    }
    assert!(last < 0.9 * first, "{first} {last}");
    assert_eq!(model.block.y_mean.len(), 21);
    // A parameter more or less is another model still.
    model.block.linear.bias = None;
    let gradient = value_and_grad_mut(loss)(&mut model).1;
    let error = optimizer.try_update(&mut model, &gradient).unwrap_err();
    assert!(
        error.to_string().contains("made for a model with 6 leaves"),
        "{error}"
    );
}

/// The names of the captured outputs, each with the number of calls.
fn names(outputs: &Intermediates) -> Vec<(&str, usize)> {
    let names = outputs.iter();
    names.map(|(name, values)| (name, values.len())).collect()
}

#[test]
fn library_layers_are_captured_by_path() {
    let mut rngs = Rngs::new(0);
    let blocks = vec![
        TransformerBlock::new(8, 2, &mut rngs),
        TransformerBlock::new(8, 2, &mut rngs),
    ];
    let head = sequential![
        Linear::new(8, 4, &mut rngs),
        Activation::Tanh,
        Linear::new(4, 2, &mut rngs)
    ];
    let mut model = (blocks, head);
    let x = rngs.normal(DType::F32, [3, 5, 8]);
    let ((residual, y), outputs) = capture_outputs(&mut model, |(blocks, head)| {
        let x = blocks
            .iter_mut()
            .fold(x.clone(), |x, block| block.forward(&x));
        let y = head.forward(&x);
        (x, y)
    });
    let (blocks, head) = &mut model;
    assert_eq!(outputs["[0][1]"][0], residual);
    let first = blocks[0].forward(&x);
    assert_eq!(outputs["[0][0]"][0], first);
    let normed = blocks[1].attention_norm.forward(&first);
    assert_eq!(outputs["[0][1].attention_norm"][0], normed);
    assert_eq!(
        outputs["[0][1].attention"][0],
        blocks[1].attention.forward(&normed)
    );
    let hidden = head.layers[0].forward(&residual);
    assert_eq!(outputs["[1].layers[0]"][0], hidden);
    assert_eq!(outputs["[1].layers[2]"][0], y);
    assert_eq!(outputs["[0][0].mlp.layers[0]"].len(), 1);
    // Nothing is captured outside of the call, and the model has no more leaves than before.
    let (_, nothing) = capture_outputs(&mut model, |_| ());
    assert!(nothing.is_empty());
}

#[test]
fn shared_layer_is_captured_at_each_call() {
    let layer = Shared::new(Linear::new(2, 2, &mut Rngs::new(0)));
    let mut model = (layer.clone(), layer);
    let x = Tensor::ones(DType::F32, [2]);
    let (y, outputs) = capture_outputs(&mut model, |(first, second)| {
        second.forward(&first.forward(&x))
    });
    assert_eq!(names(&outputs), [("[0]", 2)]);
    assert_eq!(outputs["[0]"][1], y);
}

#[test]
fn outputs_are_captured_under_jit_and_grad() {
    let model = Mlp::new(&[2, 3, 1], Activation::Tanh, &mut Rngs::new(0));
    let x = Tensor::ones(DType::F32, [4, 2]);
    let expected = model.layers[0].forward(&x);
    let compiled = jit(|(mut model, x): (Mlp, Tensor)| {
        capture_outputs(&mut model, |model| model.forward(&x)).1
    });
    let outputs = compiled((model.clone(), x.clone()));
    assert_eq!(outputs["layers[0]"][0], expected);
    // The loss returns the outputs beside its value.
    let loss = |model: &Mlp| {
        let (y, outputs) = capture_outputs(&mut model.clone(), |model| model.forward(&x));
        (y.square().mean(), outputs)
    };
    let ((_, outputs), _) = value_and_grad(loss)(&model);
    assert_eq!(outputs["layers[0]"][0], expected);
    // Values that would be invalid outside of their transformation are not captured.
    let mut model = model;
    let (_, outputs) = capture_outputs(&mut model, |model| {
        let model = &*model;
        vmap(|x: Tensor| model.layers[0].forward(&x))(x.clone())
    });
    assert!(outputs.is_empty());
}

#[test]
fn outputs_of_stacked_layers_are_stacked_by_scan() {
    let layers = vmap(|mut rngs: Rngs| Mlp::new(&[2, 3, 2], Activation::Tanh, &mut rngs))(
        Rngs::new(0).split(4),
    );
    let x = Tensor::from([1.0_f32, -1.0]);
    let step = |x: Tensor, mut layer: Mlp| capture_outputs(&mut layer, |layer| layer.forward(&x));
    let (last, outputs) = scan(step, x.clone(), layers.clone());
    assert_eq!(names(&outputs), [("layers[0]", 1), ("layers[1]", 1)]);
    // Layer by layer.
    let (hidden, ys) = (&outputs["layers[0]"][0], &outputs["layers[1]"][0]);
    assert_eq!((hidden.shape(), ys.shape()), (&[4, 3][..], &[4, 2][..]));
    let mut x = x;
    for position in 0..4_usize {
        let layer = graph::map(&layers, |leaf: &Tensor| {
            leaf.index(pytree_transform::ix![position])
        });
        let own = layer.layers[0].forward(&x);
        let difference = |left: &Tensor, right: &Tensor| (left - right).abs().max().item::<f32>();
        assert!(difference(&own, &hidden.index(pytree_transform::ix![position])) < 1e-6);
        x = layer.forward(&x);
        assert!(difference(&x, &ys.index(pytree_transform::ix![position])) < 1e-6);
    }
    assert!((last - x).abs().max().item::<f32>() < 1e-6);
}
