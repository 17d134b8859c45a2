//! Compositions of jit, vmap, grad and jvp up to depth three, of functions of different character.

use std::sync::Arc;

use pytree::indexing::Step;
use pytree::nn::softmax_cross_entropy;
use pytree::{Tensor, grad, ix, jit, jvp, vmap};
use serde_json::Value;

use crate::goldens::files::{read, tensor};
use crate::goldens::tolerance::assert_close;
use crate::stablehlo::record::Group;

type Function = Arc<dyn Fn(Tensor) -> Tensor + Send + Sync>;

/// A function by its name in the file; `w` is 3 by 4 and `square` 3 by 3.
fn function(name: &str, w: Tensor, square: Tensor) -> Function {
    match name {
        "tanh of a product" => Arc::new(move |x| x.matmul(&w).tanh().square().sum()),
        "cross entropy" => Arc::new(move |x| {
            softmax_cross_entropy(&(x.expand_dims(1) * &w), &Tensor::from([0, 3, 2]))
        }),
        "selection with ties" => Arc::new(|x| {
            let chosen = x.greater(0.25).select(x.powi(3), x.sin());
            chosen * x.max() + x.square().maximum(x.index(ix![Step(.., -1)]))
        }),
        "positions" => Arc::new(|x| {
            let taken = x.exp().take(&Tensor::from([2, 0, 0, 1]), 0);
            let all = Tensor::concatenate(&[taken, x.square()], 0);
            all.index(ix![Step(.., 3)]) * x.index(ix![0])
        }),
        "reductions" => Arc::new(move |x| {
            let spread = x.reshape([3, 1, 1]).broadcast_to([3, 2, 2]) * w.reshape([3, 2, 2]);
            let turned = spread.transpose([2, 0, 1]).sin();
            turned.sum_axes([0, 2]) * turned.reshape([4, 3]).square().mean_axes([0])
        }),
        "elementwise" => Arc::new(|x| x.sin() * (-&x).exp() * (2.0 * &x).cos()),
        "normalization" => Arc::new(|x| {
            let centered = &x - x.mean();
            centered * (x.variance_axes([0]) + 0.125).rsqrt() * x.square()
        }),
        "powers" => Arc::new(|x| {
            [2, 3].into_iter().fold(x.clone(), |y, power| {
                let denominator = y.square();
                x.powi(power) / (1.0 + &denominator) + (2.0 + denominator).powi(-2)
            })
        }),
        "outer product" => Arc::new(move |x| {
            let matrix = x.outer(&x.sin()) + &square;
            matrix.matmul(&matrix.t()).trace() * matrix.matmul(&x)
        }),
        "loop" => Arc::new(move |x| (0..3).fold(x, |x, _| square.matmul(&x).sin())),
        "order with ties" => Arc::new(|x| x.sort(0).powi(3).cumsum(0) * x.exp()),
        other => panic!("function {other}"),
    }
}

fn compiled(f: Function) -> Function {
    let compiled = jit(move |x: Tensor| f(x));
    #[allow(
        clippy::redundant_closure,
        reason = "a `Jit` derefs to a function and is none itself"
    )]
    Arc::new(move |x| compiled(x))
}

/// Applies a transformation, named as in the file, to a function of one tensor. Of the directions of jvp
/// the one of the argument's rank is taken.
fn transform(name: &str, f: Function, directions: &[Tensor]) -> Function {
    match name {
        "jit" => compiled(f),
        "vmap" => Arc::new(move |x| vmap(|x: Tensor| f(x))(x)),
        "grad" => Arc::new(move |x| grad(|x: &Tensor| f(x.clone()).sum())(&x)),
        "jvp" => {
            let directions = directions.to_vec();
            Arc::new(move |x| jvp(|x: &Tensor| f(x.clone()), &x, &directions[x.rank() - 1]).1)
        }
        other => panic!("transformation {other}"),
    }
}

fn tensors(values: &Value) -> Vec<Tensor> {
    values.as_array().unwrap().iter().map(tensor).collect()
}

#[test]
fn compositions_to_depth_three_match_jax() {
    let file = read("compositions.json");
    let (w, square) = (tensor(&file["w"]), tensor(&file["square"]));
    let directions = tensors(&file["directions"]);
    let chains = file["chains"].as_array().unwrap();
    assert_eq!(chains.len(), 1 + 4 + 4 * 4 + 4 * 4 * 4);
    let functions = file["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 11);
    for case in functions {
        let name = case["name"].as_str().unwrap();
        let (inputs, outputs) = (tensors(&case["inputs"]), tensors(&case["outputs"]));
        assert_eq!(outputs.len(), chains.len());
        let mut group = Group::new(85);
        for (chain, expected) in chains.iter().zip(&outputs) {
            let chain: Vec<&str> = chain.as_str().unwrap().split_whitespace().collect();
            let base = function(name, w.clone(), square.clone());
            let f = chain
                .iter()
                .rev()
                .fold(base, |f, name| transform(name, f, &directions));
            let input = &inputs[chain.iter().filter(|name| **name == "vmap").count()];
            let what = format!("{chain:?} of {name}");
            assert_close(&what, &f(input.clone()), expected);
            let recorded = Arc::clone(&f);
            let known = vec![expected.clone()];
            group.add_known(&what, std::slice::from_ref(input), known, move |x| {
                vec![recorded(x[0].clone())]
            });
            let compiled = compiled(f);
            assert_close(
                &format!("jit of {what}"),
                &compiled(input.clone()),
                expected,
            );
        }
    }
}
