//! The gradient of a table stays the rows that a compiled step reads, and the step computes the bits of the whole table.

use pytree::optim::*;
use pytree::prelude::*;

use crate::goldens::files::{read, tensor};

/// Enough rows that the gradient stays rows.
const LENGTH: usize = 22_000;

#[derive(Module, Clone, Debug, PartialEq)]
struct Model {
    #[param]
    table: Tensor,
    #[param]
    head: Tensor,
}

type State = (Model, Optimizer<Model>);
type Loss = fn(&Model, &Tensor, &Tensor) -> Tensor;

fn noise(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let number = |n: usize| (((n + seed * 77) * 7919 + n / 13) % 1009) as f32 * 0.003 - 1.5;
    Tensor::new(shape, (0..count).map(number).collect::<Vec<_>>())
}

/// Indices of rows, some of them equal, some negative, and some out of range.
fn indices(count: usize, seed: usize) -> Tensor {
    let index = |n: usize| ((n * 7_919_777 + seed + n / 7) % (LENGTH + 50)) as i32;
    let sign = |n: usize| if n.is_multiple_of(5) { -1 } else { 1 };
    Tensor::from((0..count).map(|n| index(n) * sign(n)).collect::<Vec<_>>())
}

fn model(width: usize, dtype: DType) -> Model {
    Model {
        table: noise(&[LENGTH, width], 1).convert(dtype),
        head: noise(&[width, 3], 2).convert(dtype),
    }
}

fn rows(model: &Model, indices: &Tensor) -> Tensor {
    model.table.at_indices(indices, 0).get()
}

fn squares(model: &Model, indices: &Tensor, targets: &Tensor) -> Tensor {
    let predicted = rows(model, indices).matmul(&model.head);
    (predicted - targets).square().mean()
}

/// Reads the table twice: the gradient is a sum of rows at different positions.
fn twice(model: &Model, indices: &Tensor, targets: &Tensor) -> Tensor {
    squares(model, indices, targets) + squares(model, &(indices + 5), targets) * 0.5
}

fn step_of(loss: Loss) -> impl Fn((State, Tensor, Tensor)) -> (State, Tensor) + Send + Sync {
    move |((mut model, mut optimizer), indices, targets): (State, Tensor, Tensor)| {
        let loss = |model: &Model| loss(model, &indices, &targets);
        let (value, gradient) = value_and_grad(loss)(&model);
        optimizer.update(&mut model, &gradient);
        ((model, optimizer), value)
    }
}

/// Returns whether a compiled function adds rows to zeros of the table's size.
fn is_dense(text: &str) -> bool {
    text.contains(&format!("scatter_add[axis=0 length={LENGTH}"))
}

fn clipped(clip: Chain, chain_: Chain) -> Chain {
    chain([clip, chain_])
}

/// Chains that keep rows.
fn chains() -> Vec<(&'static str, Chain)> {
    let table = || Filter::path("table");
    let groups_of = |of_table| groups([(table(), of_table), (Filter::everything(), adam(0.1))]);
    vec![
        ("sgd", sgd(0.1)),
        ("adagrad", adagrad(0.1)),
        (
            "global norm",
            clipped(clip_by_global_norm(0.1), adagrad(0.1)),
        ),
        ("value", clipped(clip_by_value(1e-4), sgd(0.1))),
        ("leaf norm", clipped(clip_by_leaf_norm(0.01), sgd(0.1))),
        ("block rms", clipped(clip_by_block_rms(1e-6), adagrad(0.1))),
        ("scaled", clipped(scale(0.5), sgd(Schedule::cosine(0.1, 5)))),
        ("lazy adam", lazy_adam(0.1)),
        (
            "groups",
            groups_of(clipped(clip_by_global_norm(0.1), adagrad(0.1))),
        ),
    ]
}

fn bits(state: &State) -> Vec<(DType, Vec<u64>)> {
    let leaves = graph::leaves::<Tensor, _>(state);
    let of = |leaf: &&Tensor| {
        let wide = leaf.convert(DType::F64).to_vec::<f64>();
        (leaf.dtype(), wide.iter().map(|x| x.to_bits()).collect())
    };
    leaves.iter().map(of).collect()
}

#[test]
fn rows_have_the_bits_of_the_whole_table() {
    for (name, chain) in chains() {
        for (dtype, loss, width) in [
            (DType::F32, squares as Loss, 17),
            (DType::F32, twice, 4),
            (DType::BF16, twice, 32),
            (DType::F64, squares, 3),
        ] {
            let model = model(width, dtype);
            let optimizer = Optimizer::new(&model, chain.clone());
            let step = step_of(loss);
            let compiled = jit(step_of(loss));
            let targets = noise(&[700, 3], 3).convert(dtype);
            let mut whole = (model, optimizer);
            let mut by_rows = whole.clone();
            let shown = compiled.lower(&(whole.clone(), indices(700, 0), targets.clone()));
            assert!(!is_dense(&shown.to_string()), "{name} {dtype}: {shown}");
            for seed in 0..3 {
                whole = step((whole, indices(700, seed), targets.clone())).0;
                by_rows = compiled((by_rows, indices(700, seed), targets.clone())).0;
                assert!(bits(&whole) == bits(&by_rows), "{name} {dtype} {width}");
            }
        }
    }
}

/// The rows that no step reads stay, and the others follow PyTorch.
#[test]
fn sparse_optimizers_of_torch_agree() {
    let array = tensor;
    for case in read("torch.json")["tables"].as_array().unwrap() {
        let places = Tensor::from([7_i32, 21_999, 0, 12_345, 12_346, 400]);
        let spread = |table: &Tensor| {
            let zeros = Tensor::zeros(DType::F64, [LENGTH, 3]);
            zeros.at_indices(&places, 0).set(table)
        };
        let name = case["name"].as_str().unwrap();
        let chain = match name {
            "sgd" => sgd(0.1),
            "adagrad" => adagrad_with(
                0.1,
                AdagradOptions {
                    initial_sum: 0.1,
                    epsilon: 0.0,
                },
            ),
            _ => chain([
                scale_by_lazy_adam(AdamOptions {
                    epsilon: 1e-16,
                    ..AdamOptions::default()
                }),
                scale_by_learning_rate(0.1),
            ]),
        };
        let model = Model {
            table: spread(&array(&case["table"])),
            head: Tensor::from([1.0_f64]),
        };
        let optimizer = Optimizer::with_filter(&model, chain, &Filter::path("table"));
        let product: Loss = |model, indices, cotangents| (rows(model, indices) * cotangents).sum();
        let step = jit(step_of(product));
        let mut state = (model, optimizer);
        for number in 0..case["ids"].as_array().unwrap().len() {
            let ids = places.take(&array(&case["ids"][number]), 0);
            state = step((state, ids, array(&case["cotangents"][number]))).0;
            let expected = spread(&array(&case["after"][number]));
            let error = (&state.0.table - expected).abs().max().item::<f64>();
            assert!(error <= 1e-12, "{name}: off by {error}");
        }
    }
}

#[test]
fn lazy_adam_leaves_rows_without_gradient() {
    let model = model(4, DType::F32);
    let optimizer = Optimizer::new(&model, lazy_adam(0.1));
    let step = step_of(squares);
    let targets = noise(&[2, 3], 3);
    let mut state = (model, optimizer);
    for at in [[1, 5], [5, 7], [1, 1]] {
        let before = state.0.table.clone();
        state = step((state, Tensor::from(at), targets.clone())).0;
        let changed = state.0.table.not_equal(&before).any_axes(1);
        let rows: Vec<bool> = changed.to_vec();
        let found: Vec<usize> = (0..LENGTH).filter(|row| rows[*row]).collect();
        let mut expected = at.map(|row: i32| row as usize).to_vec();
        expected.dedup();
        assert_eq!(found, expected);
    }
}

#[test]
fn example_of_a_batch_has_its_own_rows() {
    let model = model(4, DType::F32);
    let optimizer = Optimizer::new(&model, adagrad(0.1));
    let states: Vec<State> = (0..2).map(|_| (model.clone(), optimizer.clone())).collect();
    let targets = noise(&[2, 300, 3], 3);
    let at = stack(&[indices(300, 0), indices(300, 9)], 0);
    let ensemble = stack(&states, 0);
    let (ensemble, _) = jit(vmap(step_of(twice)))((ensemble, at.clone(), targets.clone()));
    let compiled = jit(step_of(twice));
    for (number, state) in states.into_iter().enumerate() {
        let of = |x: &Tensor| x.index(ix![number as isize]);
        let alone = compiled((state, of(&at), of(&targets))).0;
        let found = ensemble.0.table.index(ix![number as isize]);
        assert!((found - alone.0.table).abs().max().item::<f32>() <= 1e-6);
    }
}

/// A gradient of all elements is a table, to which rows are added.
#[test]
fn tied_table_has_the_same_bits() {
    let tied: Loss =
        |model, indices, targets| squares(model, indices, targets) + model.table.square().mean();
    let model = model(4, DType::F32);
    let optimizer = Optimizer::new(&model, clipped(clip_by_global_norm(0.1), adagrad(0.1)));
    let (at, targets) = (indices(700, 0), noise(&[700, 3], 3));
    let state = (model, optimizer);
    let whole = step_of(tied)((state.clone(), at.clone(), targets.clone())).0;
    let compiled = jit(step_of(tied));
    assert!(is_dense(
        &compiled
            .lower(&(state.clone(), at.clone(), targets.clone()))
            .to_string()
    ));
    assert!(bits(&whole) == bits(&compiled((state, at, targets)).0));
}

/// An update at indices adds the rows in the memory of the tensor, also in a loop.
#[test]
fn update_at_indices_adds_rows() {
    let add = |(x, at, updates): (Tensor, Tensor, Tensor)| x.at_indices(&at, 0).add(&updates);
    let (x, at) = (noise(&[LENGTH, 5], 1), indices(900, 3));
    let updates = noise(&[900, 5], 2);
    let compiled = jit(add);
    let arguments = || (x.clone(), at.clone(), updates.clone());
    assert!(
        compiled
            .lower(&arguments())
            .to_string()
            .contains("add_rows")
    );
    assert_eq!(compiled(arguments()), add(arguments()));
    let sum = jit(|(x, at, updates): (Tensor, Tensor, Tensor)| {
        pytree::control::fori_loop(0, 3, |_, x: Tensor| x.at_indices(&at, 0).add(&updates), x)
    });
    let expected = (0..3).fold(x.clone(), |x, _| add((x, at.clone(), updates.clone())));
    assert_eq!(sum(arguments()), expected);
}
