//! Frequent mistakes that a program finds when it runs, with the whole message of each. `tools/gallery` writes them into
//! `docs/reference/mistakes.md`, and says which form a test has for this.

use std::fmt::Debug;

use pytree::checkpoint::Bytes;
use pytree::prelude::*;

use crate::panics::catch;

/// Returns a message with another place of this file, because a message names the line of the user.
fn without_lines(message: &str) -> String {
    match message.split_once(concat!(file!(), ":")) {
        Some((before, after)) => {
            let after =
                after.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ':');
            format!("{before}src/main.rs:…{after}")
        }
        None => message.to_owned(),
    }
}

/// Asserts that a program panics with a message of these lines.
fn panics<T>(program: impl FnOnce() -> T, lines: &[&str]) {
    let panic = catch(|| drop(program())).unwrap_err();
    assert_eq!(without_lines(&panic.message), lines.join("\n"));
}

/// Asserts that a program returns an error with a message of these lines.
fn fails<T: Debug, E: std::error::Error>(program: impl FnOnce() -> Result<T, E>, lines: &[&str]) {
    assert_eq!(program().unwrap_err().to_string(), lines.join("\n"));
}

// gallery 14: An input of the wrong width
/// The message has the names of the layer's axes: `... in` are any axes, and then the axis `in`.
#[test]
fn input_of_the_wrong_width() {
    panics(
        || {
            let layer = Linear::new(4, 3, &mut Rngs::new(0));
            let forward = jit(|(layer, x): (&Linear, &Tensor)| layer.forward(x));
            forward((&layer, &Tensor::ones(DType::F32, [8, 5])))
        },
        &[
            "Linear::forward: x is f32[8,5], expected T[... in] with in = 4 (from weight: f32[4,3] as T[in out]); pass x with in = 4, or make the Linear with in = 5",
        ],
    );
}

// gallery 15: A loss that is not one number
/// A gradient is that of one number. Here the loss has a number for each element.
#[test]
fn loss_of_several_numbers() {
    panics(
        || {
            let x = Tensor::from([1.0_f32, 2.0, 3.0]);
            grad(|x: &Tensor| x.square())(&x)
        },
        &[
            "cannot take the gradient of an f32[3]: the loss must be a floating-point scalar; reduce the loss, for instance with `.mean()`, or convert integers to floats (gradient taken at src/main.rs:…)",
        ],
    );
}

// gallery 16: A value that is read in a compiled function
/// `jit` records a function once, for all values of its arguments. So no value is known while it records.
#[test]
fn value_read_under_jit() {
    panics(
        || {
            let flip = jit(|x: Tensor| if x.sum().item::<f32>() > 0.0 { x } else { -x });
            flip(Tensor::from([1.0_f32, -2.0]))
        },
        &[
            "cannot read the value of a traced f32[]: inside jit, a tensor represents a value that is known only when the compiled function runs; use `select` to choose between values, `cond` to choose between computations, or `while_loop` to repeat a computation, or make the deciding value a static field, or move this code out of the compiled function",
        ],
    );
}

// gallery 17: A model under `vmap`
/// `vmap` maps the first axis of every leaf, that of the weights, too. The model is the same for all examples.
#[test]
fn model_mapped_by_vmap() {
    panics(
        || {
            let layer = Linear::new(4, 3, &mut Rngs::new(0));
            let x = Tensor::ones(DType::F32, [8, 4]);
            vmap(|(layer, x): (Linear, Tensor)| layer.forward(&x))((layer, x))
        },
        &[
            "cannot vmap: the mapped axes differ in length:",
            "  4: axis 0 of [0].weight (f32[4,3])",
            "  3: axis 0 of [0].bias (f32[3])",
            "  8: axis 0 of [1] (f32[8,4])",
            "use equal lengths, or map only some of the leaves: `.in_axes((None, 0))` maps only the second of two arguments (vmap at src/main.rs:…)",
        ],
    );
}

// gallery 18: A misspelt path in a filter
/// The paths of a model are those of its fields. A filter with a path that no leaf has is an error.
#[test]
fn misspelt_path() {
    panics(
        || {
            let model = Mlp::new(&[4, 8, 3], Activation::Relu, &mut Rngs::new(0));
            let last = Filter::param() & Filter::path("layer[1]");
            Optimizer::with_filter(&model, adam(1e-3), &last)
        },
        &["cannot choose the leaves to train: no leaf at layer[1]; did you mean `layers[1]`?"],
    );
}

// gallery 19: A parameter that the loss does not use
/// An update of a part of the parameters would go unnoticed.
#[test]
fn parameter_without_gradient() {
    panics(
        || {
            #[derive(Module, Clone, Debug)]
            struct Net {
                body: Linear,
                head: Linear,
            }

            let mut rngs = Rngs::new(0);
            let body = Linear::new(4, 3, &mut rngs);
            let head = Linear::new(3, 1, &mut rngs);
            let mut net = Net { body, head };
            let x = Tensor::ones(DType::F32, [8, 4]);
            let gradient = grad(|net: &Net| net.body.forward(&x).mean())(&net);
            Optimizer::new(&net, adam(1e-3)).update(&mut net, &gradient);
        },
        &[
            "cannot update the model:",
            "  head.weight received no gradient",
            "  head.bias received no gradient",
            "a parameter has no gradient if the loss does not depend on it, or if `.wrt(filter)` excludes it: use the parameter in the loss, freeze it with `Optimizer::with_filter(&model, …, &filter)`, or set its gradient to zero with `.with_missing_gradients(MissingGradients::Zero)`",
        ],
    );
}

// gallery 20: A checkpoint of another model
/// The second argument of `load` is a template. The report has each leaf that does not fit.
#[test]
fn checkpoint_of_another_model() {
    fails(
        || {
            let wide = Mlp::new(&[4, 16, 3], Activation::Relu, &mut Rngs::new(0));
            let narrow = Mlp::new(&[4, 8, 3], Activation::Relu, &mut Rngs::new(0));
            let file = checkpoint::to_bytes(&wide).unwrap();
            checkpoint::load(Bytes(&file), &narrow)
        },
        &[
            "cannot load the checkpoint `the bytes in memory`:",
            "  layers[0].weight is f32[4,16] in the file, expected [in out] = f32[4,8]: out is 16 in the file and 8 in the model",
            "  layers[0].bias is f32[16] in the file, expected [out] = f32[8]: out is 16 in the file and 8 in the model",
            "  layers[1].weight is f32[16,3] in the file, expected [in out] = f32[8,3]: in is 16 in the file and 8 in the model",
            "load it into a model with the saved structure, rename leaves with `LoadOptions::rename_with`, name the library that wrote the file with `LoadOptions::names`, or list the leaves of the file with `inspect`",
        ],
    );
}
