//! Values that hold parts of other values: split and merged, compared, and passed to transformations.

use pytree_core::kind::BatchStat;
use pytree_core::{
    Filter, Module, Partition, PytreeOf, Shared, TreeDef, diff, graph, partition, tree,
};
use pytree_nn::{
    Activation, BatchNorm, Linear, Mlp, Momentum, Optimizer, ParameterAverage, Quantized, Rngs,
    adafactor, adam, groups, masked, sgd, sgd_momentum,
};
use pytree_transform::{DType, Tensor, custom_vjp, grad, jit, value_and_grad};

/// A layer whose running statistics are states, so its optimizer and its average hold parts of it.
#[derive(Module, Clone, Debug, PartialEq)]
struct Net {
    hidden: Mlp,
    norm: BatchNorm,
}

fn net() -> Net {
    let mut rngs = Rngs::new(0);
    Net {
        hidden: Mlp::new(&[3, 4, 4], Activation::Tanh, &mut rngs),
        norm: BatchNorm::new(4, &mut rngs),
    }
}

fn part(filter: Filter) -> Partition<Net, Tensor> {
    partition::filter(&net(), &filter)
}

/// Checks all functions on parts with a value that may itself hold parts.
#[track_caller]
fn check<V>(name: &str, value: &V)
where
    V: PytreeOf<Tensor> + Clone + pytree_transform::Traceable,
{
    let (leaves, treedef) = graph::flatten::<Tensor, V>(value);
    let same = |found: &V, how: &str| {
        let (found, structure) = graph::flatten::<Tensor, V>(found);
        assert_eq!(structure, treedef, "{name}, {how}");
        assert_eq!(found, leaves, "{name}, {how}");
    };
    let paths = treedef.leaf_paths();
    let first = paths[0].to_string();
    let filters = move || [Filter::path(first.clone()), Filter::everything()];
    let merge = |parts: Vec<Partition<V, Tensor>>| partition::merge(parts).unwrap();

    let [first, rest] = partition::split(value, filters()).unwrap();
    same(&merge(vec![first.clone(), rest.clone()]), "split and merge");
    same(
        &merge(vec![rest.clone(), first.clone()]),
        "in another order",
    );
    let missing = partition::merge([first.clone()]).map(drop);
    if leaves.len() > 1 {
        let error = missing.unwrap_err().to_string();
        assert!(error.contains(&paths[1].or_root()), "{name}: {error}");
    }
    same(
        &merge(partition::split_all(value, &filters()).unwrap()),
        "split_all",
    );
    same(
        &merge(
            first
                .clone()
                .split(filters())
                .unwrap()
                .into_iter()
                .chain([rest.clone()])
                .collect(),
        ),
        "a part that is split again",
    );
    let flags = tree::map_to(value, |leaf: &Tensor| leaf.shape().len() == 1);
    if !treedef.to_string().contains("alias") {
        same(
            &merge(partition::split_by_flags(value, &flags).unwrap().into()),
            "flags",
        );
    }

    // The constructors of the transformations of an optimizer cannot be read from bytes.
    let stores_constructors = format!("{:?}", treedef).contains("transformation");
    // The parts are values too: they pass through functions, bytes and other parts.
    let through = |part: &Partition<V, Tensor>| {
        let (leaves, treedef) = graph::flatten::<Tensor, _>(part);
        let treedef = TreeDef::from_bytes(&treedef.to_bytes()).unwrap();
        if stores_constructors {
            return part.clone();
        }
        graph::unflatten::<Partition<V, Tensor>, Tensor>(&treedef, leaves).unwrap()
    };
    same(&merge(vec![through(&first), through(&rest)]), "bytes");
    let again = filters.clone();
    let compiled = jit(
        |(first, rest): (Partition<V, Tensor>, Partition<V, Tensor>)| {
            partition::merge([first, rest]).unwrap()
        },
    );
    same(&compiled((first.clone(), rest.clone())), "jit of merge");
    let compiled = jit(move |value: &V| partition::split(value, again()).unwrap());
    let [first, rest] = compiled(value);
    same(&merge(vec![first.clone(), rest.clone()]), "jit of split");
    for part in [&first, &rest] {
        let [a, b] = partition::split(
            part,
            [
                Filter::path(part.tree().treedef().leaf_paths()[0].to_string()),
                Filter::everything(),
            ],
        )
        .unwrap();
        let joined: Partition<V, Tensor> = partition::merge([a, b]).unwrap();
        assert_eq!(joined, *part, "{name}: a part of a part");
    }

    same(&partition::replace(value, &first).unwrap(), "replace");
    let mut updated = value.clone();
    partition::update(&mut updated, &first).unwrap();
    same(&updated, "update");
    let merged = partition::merge_state([first.clone(), rest.clone()]).unwrap();
    same(&merge(vec![merged]), "merge_state");
    assert!(
        diff(value, value).is_empty(),
        "{name}: {}",
        diff(value, value)
    );
}

#[test]
fn value_that_holds_a_part_round_trips() {
    let model = net();
    let biases = Filter::path("hidden.layers[0].bias");
    check("model", &model);
    check("adam", &Optimizer::new(&model, adam(0.1)));
    check(
        "sgd",
        &Optimizer::new(&model, sgd_momentum(0.1, 0.9, Momentum::Classical)),
    );
    check("adafactor", &Optimizer::new(&model, adafactor(0.1)));
    check(
        "with_filter",
        &Optimizer::with_filter(&model, adam(0.1), &biases),
    );
    check(
        "mask",
        &Optimizer::new(&model, masked(biases.clone(), adam(0.1))),
    );
    let grouped = groups([
        (biases.clone(), adam(0.1)),
        (Filter::everything(), sgd(0.1)),
    ]);
    check("groups", &Optimizer::new(&model, grouped));
    check("average", &ParameterAverage::new(&model, 0.9));
    let chosen = Filter::state::<BatchStat>();
    check(
        "average of states",
        &ParameterAverage::with_filter(&model, 0.9, &chosen),
    );
    check("part", &part(Filter::param()));
    let quantized = Quantized::new(&model.hidden, &Filter::param());
    check("quantized", &quantized);
    check(
        "optimizer of a quantized model",
        &Optimizer::new(&quantized, adam(0.1)),
    );
    check(
        "model and optimizer",
        &(model.clone(), Optimizer::new(&model, adam(0.1))),
    );
    let gradient = grad(|model: &Net| {
        model
            .hidden
            .forward(&Tensor::ones(DType::F32, [2, 3]))
            .sum()
    })(&model);
    check("gradient", &gradient);
    check("tree", &gradient.tree().clone());
}

#[test]
fn part_of_one_value_does_not_fill_another() {
    let optimizer = Optimizer::new(&net(), adam(0.1));
    let everything = partition::filter(&optimizer, &Filter::everything());
    // The structure of the value is not that of its parts: the value has no leaf that another part could hold.
    let value: Partition<_, Tensor> =
        Partition::from_tree(pytree_core::Tree::from_value(&optimizer));
    let error = partition::merge([everything.clone(), value])
        .map(drop)
        .unwrap_err();
    assert!(error.to_string().contains("an absent leaf"), "{error}");
    assert_eq!(partition::merge([everything]).unwrap(), optimizer);
}

/// A model beside an average of its parameters, which is a part of it.
#[derive(Module, Clone, Debug)]
struct Lagged {
    net: Net,
    #[state]
    average: Partition<Net, Tensor>,
}

#[test]
fn custom_vjp_takes_the_cotangent_of_an_argument_that_holds_a_part() {
    let lagged = Lagged {
        net: net(),
        average: part(Filter::path("hidden.layers[0]")),
    };
    let x = Tensor::ones(DType::F32, [2, 3]);
    let apply = |lagged: &Lagged, x: &Tensor| {
        let y = lagged.net.hidden.forward(x);
        (y * &lagged.average["hidden.layers[0].bias"]).sin().sum()
            + lagged.average["hidden.layers[0].weight"].sum()
    };
    type Arguments = (Lagged, Partition<Net, Tensor>, Tensor);
    let function = move |(lagged, moments, x): &Arguments| {
        apply(lagged, x) * moments["hidden.layers[1].weight"].sum()
    };
    let custom = custom_vjp(
        function,
        move |arguments: &Arguments| (function(arguments), arguments.clone()),
        move |arguments, cotangent: Tensor| {
            let (_, pullback) = pytree_transform::vjp(function, &arguments);
            pullback.call(&cotangent)
        },
    );
    let arguments = (lagged, part(Filter::path("hidden.layers[1]")), x);
    let expected = grad(function)(&arguments);
    // The cotangents of the leaves that the rule does not return are zeros.
    let check = |found: (Partition<Lagged, Tensor>, Partition<Net, Tensor>, Tensor)| {
        assert_eq!(found.2, expected.2);
        for (path, leaf) in found.0.iter_with_path() {
            let zeros = Tensor::zeros_like(leaf);
            assert_eq!(leaf, expected.0.get(&path).unwrap_or(&zeros), "{path}");
        }
        for (path, leaf) in found.1.iter_with_path() {
            let zeros = Tensor::zeros_like(leaf);
            assert_eq!(leaf, expected.1.get(&path).unwrap_or(&zeros), "{path}");
        }
    };
    check(grad(&custom)(&arguments));
    check(jit(move |arguments: &Arguments| grad(&custom)(arguments))(
        &arguments,
    ));
    assert!(expected.0.len() == 4 && expected.1.len() == 1);
}

#[test]
fn optimizer_trains_a_model_that_holds_a_part() {
    let x = Tensor::ones(DType::F32, [2, 3]);
    let loss = |lagged: &Lagged| lagged.net.hidden.forward(&x).square().sum();
    let mut lagged = Lagged {
        net: net(),
        average: part(Filter::path("hidden.layers[0]")),
    };
    let mut plain = net();
    // The norm takes no part in the loss.
    let zero = pytree_nn::MissingGradients::Zero;
    let mut optimizers = (
        Optimizer::new(&lagged, adam(0.1)).with_missing_gradients(zero),
        Optimizer::new(&plain, adam(0.1)).with_missing_gradients(zero),
    );
    for _ in 0..3 {
        let gradient = grad(loss)(&lagged);
        optimizers.0.update(&mut lagged, &gradient);
        let gradient = grad(|net: &Net| net.hidden.forward(&x).square().sum())(&plain);
        optimizers.1.update(&mut plain, &gradient);
    }
    assert_eq!(lagged.net, plain);
}

/// Two layers with one weight.
#[derive(Module, Clone, Debug)]
struct Tied {
    first: Shared<Linear>,
    second: Shared<Linear>,
    norm: BatchNorm,
}

#[test]
fn value_does_not_differ_from_itself() {
    let mut rngs = Rngs::new(0);
    let linear = Shared::new(Linear::new(4, 4, &mut rngs));
    let model = Tied {
        first: linear.clone(),
        second: linear,
        norm: BatchNorm::new(4, &mut rngs),
    };
    let x = Tensor::ones(DType::F32, [2, 4]);
    let loss = |model: &Tied| model.second.forward(&model.first.forward(&x)).sum();
    let optimizer = Optimizer::new(&model, adam(0.1));
    let average = ParameterAverage::new(&model, 0.9);
    let (_, gradient) = value_and_grad(loss)(&model);
    #[track_caller]
    fn same<V: pytree_core::Pytree>(value: &V) {
        assert!(diff(value, value).is_empty(), "{}", diff(value, value));
    }
    same(&model);
    same(&optimizer);
    same(&(model.clone(), optimizer.clone()));
    same(&(optimizer, model.clone()));
    same(&(model.clone(), average));
    same(&(gradient.clone(), model.clone()));
    let one = (model.clone(), gradient.clone());
    let other = (model.clone(), gradient.map(|leaf: &Tensor| leaf + 1.0));
    let found = diff(&one, &other);
    assert!(
        found.structural().is_empty() && found.leaves().len() == gradient.len(),
        "{found}"
    );
    assert!(
        diff(&(model.clone(), gradient.clone()), &(gradient, model))
            .structural()
            .len()
            > 1
    );
}

/// A layer whose forward pass changes the structure of its states.
#[derive(Module, Clone, Debug, PartialEq)]
struct Observed {
    linear: Linear,
    #[state]
    last: Option<Tensor>,
    #[state(pytree_core::kind::Intermediate)]
    means: pytree_nn::Sown,
    #[state(pytree_core::kind::Perturbation)]
    zeros: pytree_nn::Perturbed,
    out: Linear,
}

impl Observed {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let y = self.zeros.perturb(&self.linear.forward(x));
        self.means.sow(y.mean());
        self.last = Some(y.clone());
        self.out.forward(&y)
    }
}

#[test]
fn quantized_model_keeps_states_that_change_their_structure() {
    let mut rngs = Rngs::new(0);
    let model = Observed {
        linear: Linear::new(3, 4, &mut rngs),
        last: None,
        means: pytree_nn::Sown::new(),
        zeros: pytree_nn::Perturbed::new(),
        out: Linear::new(4, 2, &mut rngs),
    };
    let x = rngs.normal(DType::F32, [2, 3]);
    let mut quantized = Quantized::new(&model, &Filter::param());
    // The slow reference is the widened model itself.
    let mut widened = quantized.model();
    let integers = quantized.integers.leaves().to_vec();
    for _ in 0..3 {
        let y = quantized.with_model(|model| model.forward(&x));
        assert_eq!(y, widened.forward(&x));
        assert_eq!(quantized.model(), widened);
        assert_eq!(quantized.integers.leaves(), integers);
    }
    let intermediate = Filter::state::<pytree_core::kind::Intermediate>();
    let captured = quantized.with_model(|model| partition::pop(model, &intermediate).unwrap());
    assert_eq!(captured.len(), 3);
    let popped = quantized.with_model(|model| model.means.len());
    assert_eq!(popped, 0);
    let run = pytree_transform::jit_mut(|(quantized, x): (&mut Quantized<Observed>, Tensor)| {
        quantized.with_model(|model| model.forward(&x))
    });
    for calls in 1..3 {
        assert_eq!(run((&mut quantized, x.clone())).shape(), [2, 2]);
        assert_eq!(quantized.model().means.len(), calls);
    }
}

#[test]
fn quantized_model_is_quantized_again() {
    let model = net().hidden;
    let first = Quantized::new(&model, &Filter::path("layers[0]"));
    let both = Quantized::new(&model, &Filter::param()).model();
    let second = Quantized::new(&first, &Filter::path("rest.layers[1]"));
    assert_eq!(tree::structure(&second.model()), tree::structure(&first));
    let widened: Mlp = second.model().model();
    assert_eq!(widened, both);
}
