//! Laws of optimizers, and the mistakes that they report.

use pytree_core::{Filter, Module, Partition, Tree};
use pytree_nn::{
    AdamOptions, Chain, GradientTransformation, Linear, Momentum, Optimizer, OptimizerError, Rngs,
    Schedule, WeightDecay, accumulate, adafactor, adam, adam_with, adamw, apply_if_finite, chain,
    clip_by_global_norm, groups, groups_by_label, lamb, masked, rmsprop, scale_by_adam,
    set_to_zero, sgd, sgd_momentum,
};
use pytree_transform::{DType, Tensor, grad, jit, vmap};

use crate::optimizers::{Parameters, updated};

fn parameters() -> Parameters {
    vec![
        Tensor::from([[1.0_f32, -2.0], [0.5, 3.0]]),
        Tensor::from([0.25_f32, -1.0]),
    ]
}

fn gradients(step: u8) -> Parameters {
    let factor = f64::from(step) + 1.0;
    parameters()
        .iter()
        .map(|parameter| (parameter * factor).sin())
        .collect()
}

/// Returns the parameters after some steps with the given gradients.
fn trained(transformation: Chain, steps: impl Iterator<Item = Parameters>) -> Parameters {
    let mut state = (Optimizer::new(&parameters(), transformation), parameters());
    for gradients in steps {
        state = updated((state.0, state.1, gradients));
    }
    state.1
}

#[test]
fn accumulated_equal_gradients_are_one_step() {
    // The mean of equal gradients is exact.
    let each = (0..4).flat_map(|step| std::iter::repeat_n(gradients(step), 3));
    let accumulated = trained(accumulate(3, adam(Schedule::cosine(0.1, 5))), each);
    let single = trained(adam(Schedule::cosine(0.1, 5)), (0..4).map(gradients));
    assert_eq!(accumulated, single);
}

#[test]
fn unfinished_accumulation_changes_nothing() {
    let two = (0..2).map(gradients);
    assert_eq!(trained(accumulate(3, adamw(0.1, 0.1)), two), parameters());
}

#[test]
fn group_of_all_parameters_is_its_chain() {
    let all = groups([(Filter::everything(), adam(0.1))]);
    let found = trained(all, (0..5).map(gradients));
    assert_eq!(found, trained(adam(0.1), (0..5).map(gradients)));
}

#[test]
fn finite_gradients_are_applied() {
    let guarded = apply_if_finite(1, rmsprop(0.1));
    let found = trained(guarded, (0..5).map(gradients));
    assert_eq!(found, trained(rmsprop(0.1), (0..5).map(gradients)));
}

#[test]
fn group_of_zeros_is_frozen() {
    let first_only = groups([
        (Filter::path("[0]"), adam(0.1)),
        (Filter::everything(), set_to_zero()),
    ]);
    let found = trained(first_only, (0..5).map(gradients));
    assert_ne!(found[0], parameters()[0]);
    assert_eq!(found[1], parameters()[1]);
}

#[test]
fn labels_and_filters_make_the_same_groups() {
    let by_filter = groups([
        (Filter::path("[0]"), lamb(0.1)),
        (Filter::path("[1]"), sgd(0.1)),
    ]);
    let label = |path: &pytree_core::KeyPath| path.to_string();
    let chains = [("[1]".to_owned(), sgd(0.1)), ("[0]".to_owned(), lamb(0.1))];
    let by_label = groups_by_label(label, chains);
    let found = trained(by_label, (0..5).map(gradients));
    assert_eq!(found, trained(by_filter, (0..5).map(gradients)));
}

#[test]
fn parameters_without_group_are_named() {
    let some = groups([(Filter::path("[0]"), adam(0.1))]);
    let all = Filter::everything();
    let error = Optimizer::try_with_filter(&parameters(), some, &all).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot divide the parameters into groups: no filter accepts [1]; add the group `(Filter::everything(), set_to_zero())` at the end, or exclude the parameters with `Optimizer::with_filter`"
    );
}

#[test]
fn misspelt_filters_are_named() {
    let wrong = || Filter::path_contains("bais");
    let decay = WeightDecay::new(0.1).only(wrong());
    let model = Linear::new(2, 3, &mut Rngs::new(0));
    for transformation in [
        adamw(0.1, decay),
        masked(wrong(), sgd(0.1)),
        accumulate(2, groups([(wrong(), sgd(0.1))])),
    ] {
        let all = Filter::everything();
        let error = Optimizer::try_with_filter(&model, transformation, &all).unwrap_err();
        assert!(matches!(error, OptimizerError::Mask(_)));
        let text = error.to_string();
        assert!(
            text.starts_with("cannot choose the parameters of a transformation"),
            "{text}"
        );
        assert!(text.contains("did you mean `bias`?"), "{text}");
    }
}

#[test]
fn rate_of_two_numbers_is_refused() {
    let rate = Tensor::from([0.1_f32, 0.2]);
    for transformation in [adam(&rate), groups([(Filter::everything(), sgd(&rate))])] {
        let all = Filter::everything();
        let error = Optimizer::try_with_filter(&parameters(), transformation, &all).unwrap_err();
        assert!(
            matches!(error, OptimizerError::LearningRate { .. }),
            "{error}"
        );
    }
}

#[test]
fn changed_shape_is_reported_inside_groups() {
    let all = groups([
        (Filter::path("[1]"), adam(0.1)),
        (Filter::everything(), adafactor(0.1)),
    ]);
    let mut optimizer = Optimizer::new(&parameters(), all);
    let mut other = parameters();
    other[1] = Tensor::zeros(DType::F32, [3]);
    let gradients = Partition::from_tree(Tree::from_value(&other));
    let error = optimizer.try_update(&mut other, &gradients).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("[1] is f32[3], but the optimizer was made for f32[2]"),
        "{error}"
    );
}

#[test]
fn groups_compile_once() {
    let both = groups([
        (Filter::path("[0]"), adam(Schedule::cosine(0.1, 10))),
        (Filter::everything(), sgd(0.1)),
    ]);
    let compiled = jit(updated);
    let mut state = (Optimizer::new(&parameters(), both), parameters());
    for count in 0..5 {
        state = compiled((state.0, state.1, gradients(count)));
    }
    assert_eq!(compiled.traces(), 1);
}

#[test]
fn gradient_reaches_numbers_of_a_schedule() {
    let loss = |schedule: &Schedule| {
        let three = (0..3).map(|_| gradients(0));
        let trained = trained(sgd(schedule.clone()), three);
        trained[0].sum() + trained[1].sum()
    };
    let schedule = Schedule::cosine(0.5, 4);
    let found = grad(loss).wrt(Filter::path_contains("init"))(&schedule);
    // Each update subtracts the rate times the gradient, and the rate is proportional to its first value.
    let rates: f64 = (0..3)
        .map(|count| schedule.value(count).item::<f64>() / 0.5)
        .sum();
    let total = gradients(0)
        .iter()
        .map(|gradient| f64::from(gradient.sum().item::<f32>()))
        .sum::<f64>();
    let found = found.leaves()[0].item::<f64>();
    assert!((found + rates * total).abs() < 1e-5, "{found}");
}

#[test]
fn gradient_through_adam_needs_an_epsilon_in_the_root() {
    let slope = |epsilon_root: f64| {
        let options = AdamOptions {
            epsilon_root,
            ..AdamOptions::default()
        };
        let loss = move |gradient: &Tensor| {
            let mut step = scale_by_adam(options);
            let parameters = vec![Tensor::zeros_like(gradient)];
            step.init(&Tree::from_value(&parameters));
            step.update(vec![gradient.clone()], &parameters)[0].sum()
        };
        grad(loss)(&Tensor::from([0.0_f32])).to_vec::<f32>()[0]
    };
    assert!(!slope(0.0).is_finite());
    // The update of the first step is g / √(g² + ε').
    assert!((slope(1e-4) - 100.0).abs() < 0.1, "{}", slope(1e-4));
}

/// Parameters after three updates with the gradient 2 x, for the hyper-parameters of one run.
fn swept(transformation: Chain) -> Tensor {
    let mut x = Tensor::from([1.0_f32, -0.5]);
    let mut optimizer = Optimizer::new(&x, transformation);
    for _ in 0..3 {
        let gradient = grad(|x: &Tensor| x.square().sum())(&x);
        optimizer.update(&mut x, &gradient);
    }
    x
}

#[test]
fn hyperparameters_are_swept_by_vmap() {
    type Made = fn(&Tensor) -> Chain;
    type Fixed = fn(f64) -> Chain;
    let cases: [(&str, Made, Fixed, [f64; 2]); 6] = [
        (
            "beta1",
            |beta| adam(0.1).with_hyperparameter("beta1", beta),
            |beta1| {
                adam_with(
                    0.1,
                    AdamOptions {
                        beta1,
                        ..AdamOptions::default()
                    },
                )
            },
            [0.5, 0.9],
        ),
        (
            "beta2",
            |beta| adam(0.1).with_hyperparameter("beta2", beta),
            |beta2| {
                adam_with(
                    0.1,
                    AdamOptions {
                        beta2,
                        ..AdamOptions::default()
                    },
                )
            },
            [0.9, 0.999],
        ),
        (
            "epsilon",
            |epsilon| adam(0.1).with_hyperparameter("epsilon", epsilon),
            |epsilon| {
                adam_with(
                    0.1,
                    AdamOptions {
                        epsilon,
                        ..AdamOptions::default()
                    },
                )
            },
            [0.1, 1.0],
        ),
        (
            "decay",
            |decay| sgd_momentum(0.1, 0.0, Momentum::Nesterov).with_hyperparameter("decay", decay),
            |decay| sgd_momentum(0.1, decay, Momentum::Nesterov),
            [0.5, 0.9],
        ),
        (
            "longest",
            |longest| {
                let clipped = chain([clip_by_global_norm(1.0), sgd(0.1)]);
                accumulate(1, clipped).with_hyperparameter("longest", longest)
            },
            |longest| chain([clip_by_global_norm(longest), sgd(0.1)]),
            [0.5, 100.0],
        ),
        ("rate", |rate| sgd(rate), |rate| sgd(rate), [0.1, 0.2]),
    ];
    for (name, made, fixed, values) in cases {
        // In f64, so that a number and a tensor are the same number.
        let sweep = vmap(|value: Tensor| swept(made(&value)))(Tensor::from(values));
        for (row, value) in values.into_iter().enumerate() {
            let found = sweep.index(pytree_transform::ix![row]);
            let difference = (found - swept(fixed(value))).abs().max().item::<f32>();
            assert!(difference < 1e-6, "{name} = {value}: off by {difference}");
        }
    }
}

#[test]
fn new_tensor_of_hyperparameter_needs_no_retrace() {
    let x = vec![Tensor::from([1.0_f32, -0.5])];
    let chain = adam(0.1).with_hyperparameter("beta1", Tensor::from(0.5));
    let mut optimizer = Optimizer::new(&x, chain);
    let compiled = jit(updated);
    let first = compiled((optimizer.clone(), x.clone(), x.clone())).1;
    optimizer.set_hyperparameter("beta1", Tensor::from(0.25));
    let second = compiled((optimizer, x.clone(), x.clone())).1;
    assert_eq!(compiled.traces(), 1);
    // The first update of Adam is the sign of the gradient, whatever β₁ is.
    assert_eq!(first, second);
}

#[test]
fn wrong_hyperparameters_are_refused() {
    let x = vec![Tensor::from([1.0_f32])];
    let mut optimizer = Optimizer::new(&x, chain([clip_by_global_norm(1.0), adam(0.1)]));
    let mut message = |name: &str, value: pytree_nn::Hyperparameter| {
        let error = optimizer.try_set_hyperparameter(name, value).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        message("b1", 0.5.into()),
        "cannot set the hyper-parameter `b1`: expected one of the hyper-parameters of the chain (`beta1`, `beta2`, `epsilon`, `epsilon_root`, `longest`), found `b1`"
    );
    assert_eq!(
        message("beta1", 1.0.into()),
        "cannot set the hyper-parameter `beta1`: expected a number from 0.0 to 0.9999999999999999, found 1"
    );
    assert_eq!(
        message("longest", Tensor::from(f64::NAN).into()),
        "cannot set the hyper-parameter `longest`: expected a number from 2.2250738585072014e-308 to 1.7976931348623157e308, found NaN"
    );
    assert_eq!(
        message("beta2", Tensor::from([0.5]).into()),
        "cannot set the hyper-parameter `beta2`: expected a number or a scalar of floats, found f64[1]"
    );
}

/// The weight of an attention's queries, whose heads are columns.
#[derive(Module, Clone, Debug)]
struct Heads {
    #[param("in heads head_dim", roles(input, output_head, output))]
    weight: Tensor,
    #[param("heads head_dim", roles(output_head, output))]
    bias: Tensor,
}

/// The same numbers as a matrix and a vector, for which the goldens of optax hold.
#[derive(Module, Clone, Debug)]
struct Matrix {
    #[param("in out", roles(input, output))]
    weight: Tensor,
    #[param("out", roles(output))]
    bias: Tensor,
}

#[test]
fn heads_are_factored_like_the_columns_of_a_matrix() {
    let rngs = &mut Rngs::new(0);
    let flat = |tensors: (Tensor, Tensor)| Matrix {
        weight: tensors.0,
        bias: tensors.1,
    };
    let divided = |matrix: &Matrix| Heads {
        weight: matrix.weight.reshape([130, 8, 16]),
        bias: matrix.bias.reshape([8, 16]),
    };
    let mut draw = || {
        flat((
            rngs.normal(DType::F32, [130, 128]),
            rngs.normal(DType::F32, [128]),
        ))
    };
    let mut matrix = draw();
    let mut heads = divided(&matrix);
    let mut of_matrix = Optimizer::new(&matrix, adafactor(0.1));
    let mut of_heads = Optimizer::new(&heads, adafactor(0.1));
    // The mean square of a matrix is a row of 128 and a column of 130 numbers; that of the bias is whole.
    let lengths = |optimizer: &Optimizer<Heads>| -> Vec<usize> {
        let leaves = pytree_core::graph::flatten::<Tensor, _>(optimizer).0;
        leaves
            .iter()
            .map(Tensor::len)
            .filter(|length| *length > 1)
            .collect()
    };
    assert_eq!(lengths(&of_heads), [128, 130, 128]);
    for _ in 0..3 {
        let gradient = draw();
        let gradients = Partition::from_tree(Tree::from_value(&divided(&gradient)));
        of_heads.update(&mut heads, &gradients);
        let gradients = Partition::from_tree(Tree::from_value(&gradient));
        of_matrix.update(&mut matrix, &gradients);
    }
    let difference = heads.weight.reshape([130, 128]) - &matrix.weight;
    assert!(difference.abs().max().item::<f32>() < 1e-6);
    assert_eq!(heads.bias.reshape([128]), matrix.bias);
}

#[test]
fn factored_optimizer_needs_roles_of_large_arrays() {
    let small = vec![
        Tensor::zeros(DType::F32, [127, 500]),
        Tensor::zeros(DType::F32, [500]),
    ];
    assert!(Optimizer::try_with_filter(&small, adafactor(0.1), &Filter::everything()).is_ok());
    let large = vec![Tensor::zeros(DType::F32, [128, 128])];
    let error = Optimizer::try_with_filter(&large, adafactor(0.1), &Filter::everything());
    let text = error.unwrap_err().to_string();
    assert!(
        text.starts_with(
            "cannot factor the mean squares of matrices: cannot distinguish the inputs from the outputs of [0]: f32[128,128] \
             is in no field of a module"
        ),
        "{text}"
    );
    assert!(text.ends_with("`min_factored_length: None`"), "{text}");
}
