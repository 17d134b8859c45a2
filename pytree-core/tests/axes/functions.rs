//! Functions, methods and closures with named axes.

use ndarray::{Array1, Array2, Array3, ArrayD, IxDyn};
use pytree_core::{Module, Pytree, ShapeError, axes, shaped, shapes};

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param("in out")]
    weight: Array2<f32>,
    #[param("out")]
    bias: Option<Array1<f32>>,
}

impl Linear {
    fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            weight: Array2::zeros((inputs, outputs)),
            bias: Some(Array1::zeros(outputs)),
        }
    }

    #[shapes(x = "batch in", return = "batch out")]
    fn forward(&self, x: &Array2<f32>) -> Array2<f32> {
        let y = x.dot(&self.weight);
        match &self.bias {
            Some(bias) => y + bias,
            None => y,
        }
    }

    #[shapes(x = "batch in", return = "batch out")]
    fn try_forward(&self, x: &Array2<f32>) -> Result<Array2<f32>, ShapeError> {
        Ok(x.dot(&self.weight))
    }

    #[shapes(return = "batch out")]
    fn wrong(&self, batch: usize) -> Array2<f32> {
        Array2::zeros((batch, self.weight.nrows()))
    }

    #[shapes(weight = "in out")]
    fn set_weight(&mut self, weight: Array2<f32>) {
        self.weight = weight;
    }
}

/// Returns the message of a panic.
fn panic_of<R>(function: impl FnOnce() -> R) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(function));
    let payload = outcome.err().unwrap();
    match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_owned(),
        None => payload.downcast_ref::<String>().unwrap().clone(),
    }
}

#[test]
fn a_matching_call_runs() {
    let mut linear = Linear::new(3, 4);
    assert_eq!(linear.forward(&Array2::zeros((2, 3))).dim(), (2, 4));
    linear.bias = None;
    assert_eq!(linear.forward(&Array2::zeros((5, 3))).dim(), (5, 4));
    linear.set_weight(Array2::ones((3, 4)));
}

#[test]
fn a_wrong_argument_names_the_field_that_gave_the_length() {
    let linear = Linear::new(64, 128);
    assert_eq!(
        panic_of(|| linear.forward(&Array2::zeros((32, 65)))),
        "Linear::forward: x is f32[32,65], expected [batch in] with in = 64 (from weight: f32[64,128] as [in out]); \
         pass x with in = 64, or make the Linear with in = 65"
    );
    assert_eq!(
        linear
            .try_forward(&Array2::zeros((32, 65)))
            .unwrap_err()
            .to_string(),
        panic_of(|| linear.forward(&Array2::zeros((32, 65))))
    );
}

#[test]
fn a_wrong_result_is_a_mistake_of_the_function() {
    let linear = Linear::new(3, 4);
    let message = panic_of(|| linear.wrong(2));
    assert!(
        message.starts_with(
            "Linear::wrong: the result is f32[2,3], expected [batch out] with out = 4 (from weight as [in out]); \
             this is a mistake in `wrong` itself, at "
        ),
        "{message}"
    );
    assert!(message.contains("functions.rs:"), "{message}");
}

#[shapes(
    logits = "float[batch classes]",
    labels = "i32[batch]",
    return = "f32[]"
)]
fn loss(logits: &Array2<f32>, labels: &Array1<i32>) -> f32 {
    logits.sum() + labels.len() as f32
}

#[test]
fn a_free_function_compares_its_arguments() {
    assert!((loss(&Array2::zeros((2, 3)), &Array1::zeros(2)) - 2.0).abs() < 1e-6);
    assert_eq!(
        panic_of(|| loss(&Array2::zeros((2, 3)), &Array1::zeros(3))),
        "loss: labels is i32[3], expected i32[batch] with batch = 2 (from logits: f32[2,3] as float[batch classes]); \
         pass labels and logits with the same `batch`"
    );
}

#[shapes(x = "*batch length", return = "*batch (length-kernel)/stride+1")]
fn windows(x: &ArrayD<f32>, kernel: usize, stride: usize) -> ArrayD<f32> {
    let mut shape = x.shape().to_vec();
    let last = shape.len() - 1;
    shape[last] = (shape[last] - kernel) / stride + 1;
    ArrayD::zeros(shape)
}

#[test]
fn lengths_are_computed_from_integer_arguments() {
    assert_eq!(
        windows(&ArrayD::zeros(IxDyn(&[2, 3, 10])), 3, 2).shape(),
        [2, 3, 4]
    );
}

#[derive(Module, Clone, Debug)]
struct Attention {
    #[param("in heads*head_dim")]
    query: Array2<f32>,
    #[r#static]
    heads: usize,
    #[r#static]
    head_dim: usize,
}

impl Attention {
    #[shapes(x = "... in", return = "... heads head_dim")]
    fn forward(&self, x: &Array2<f32>) -> Array3<f32> {
        let batch = x.nrows();
        let y = x.dot(&self.query);
        y.into_shape_with_order((batch, self.heads, self.head_dim))
            .unwrap()
    }
}

#[test]
fn static_fields_are_lengths() {
    let attention = Attention {
        query: Array2::zeros((6, 8)),
        heads: 2,
        head_dim: 4,
    };
    assert_eq!(attention.forward(&Array2::zeros((5, 6))).dim(), (5, 2, 4));
    let broken = Attention {
        heads: 3,
        ..attention
    };
    assert_eq!(
        broken.check_shapes().unwrap_err().to_string(),
        "Attention: query is f32[6,8], expected [in heads*head_dim] with heads*head_dim = 12 (heads = 3 from the static `heads`, head_dim = 4 from the static `head_dim`); \
         make query with heads*head_dim = 12, or set the static `heads` to 2"
    );
}

#[derive(Pytree, Clone)]
struct Batch {
    #[pytree("batch features")]
    images: Array2<f32>,
}

#[test]
fn closures_and_tuples_are_compared() {
    let step = shaped!(
        carry = ("hidden", "hidden"),
        x = "hidden",
        return = (("hidden", "hidden"), _),
        |carry: (Array1<f32>, Array1<f32>), x: &Array1<f32>| {
            let (a, b) = carry;
            ((a + x, b), 1_usize)
        }
    );
    let zeros = || Array1::<f32>::zeros(3);
    step((zeros(), zeros()), &zeros());
    let message = panic_of(|| step((zeros(), Array1::zeros(4)), &Array1::zeros(5)));
    assert_eq!(
        message,
        "the closure: 2 shapes do not match:\n  \
         carry.1 is f32[4], expected [hidden] with hidden = 3 (from carry.0: f32[3] as [hidden]); pass carry.1 and carry.0 with the same `hidden`\n  \
         x is f32[5], expected [hidden] with hidden = 3 (from carry.0: f32[3] as [hidden]); pass x and carry.0 with the same `hidden`"
    );
    let batch = Batch {
        images: Array2::zeros((2, 3)),
    };
    let _ = batch.images;
}

#[shapes(x = "T: float[*shape]", y = "T[*shape]", return = "int[1]")]
#[track_caller]
fn line_of_the_caller<E: pytree_core::Element>(x: &Array1<E>, y: &Array1<E>) -> Array1<u32> {
    let line = std::panic::Location::caller().line();
    Array1::from(vec![line + u32::try_from(x.len() - y.len()).unwrap()])
}

#[test]
fn a_dtype_may_have_a_name_and_a_family() {
    assert_eq!(
        panic_of(|| line_of_the_caller(&Array1::<i32>::zeros(2), &Array1::zeros(2))),
        "line_of_the_caller: x is i32[2], expected T: float[*shape]; convert x to a float dtype"
    );
}

#[test]
fn a_body_without_early_return_knows_its_caller() {
    let x = Array1::<f32>::zeros(2);
    assert_eq!(line_of_the_caller(&x, &x)[0], line!());
}

#[shapes(x = "n")]
fn line_in_the_body(x: &Array1<f32>) -> (u32, u32) {
    let here = std::panic::Location::caller().line();
    (here, line!() - u32::try_from(x.len()).unwrap())
}

#[test]
fn a_panic_in_a_body_has_its_own_line() {
    let (found, expected) = line_in_the_body(&Array1::zeros(1));
    assert_eq!(found, expected);
}

impl Linear {
    #[shapes(bias = "out")]
    fn bias_mut(&mut self, bias: Array1<f32>) -> &mut Array1<f32> {
        self.bias.insert(bias)
    }

    #[shapes(bias = "out", return = "out")]
    fn set_bias(&mut self, bias: Array1<f32>) -> &mut Array1<f32> {
        self.bias.insert(bias)
    }
}

#[test]
fn a_body_may_return_what_it_borrows_mutably() {
    let mut linear = Linear::new(3, 4);
    linear.bias_mut(Array1::ones(4)).fill(2.0);
    linear.set_bias(Array1::ones(4))[0] = 5.0;
    assert_eq!(linear.bias.unwrap().to_vec(), [5.0, 1.0, 1.0, 1.0]);
}

#[shapes(xs = "n", return = "n")]
#[track_caller]
fn coerced(xs: &[Array1<f32>; 2]) -> &[Array1<f32>] {
    xs
}

#[test]
fn a_body_is_coerced_to_the_result() {
    assert_eq!(coerced(&[Array1::zeros(2), Array1::zeros(2)]).len(), 2);
    assert!(
        panic_of(|| coerced(&[Array1::zeros(2), Array1::zeros(3)]).len())
            .starts_with("coerced: xs[1]")
    );
}

#[shapes(x = "n", return = "n")]
fn early(x: &Array1<f32>) -> Option<Array1<f32>> {
    let first = x.first()?;
    if *first > 0.0 {
        return Some(Array1::zeros(1));
    }
    Some(x.clone())
}

#[test]
fn an_early_result_is_compared_too() {
    assert!(early(&Array1::zeros(0)).is_none());
    assert!(early(&Array1::zeros(2)).is_some());
    let message = panic_of(|| early(&Array1::ones(2)));
    assert!(
        message.contains("the result is f32[1], expected [n] with n = 2"),
        "{message}"
    );
}

#[shapes(x = "length")]
fn inner(x: &Array1<f32>) -> String {
    assert!(x.len() != 7, "seven");
    axes::describe_running().unwrap()
}

#[shapes(x = "rows _")]
fn outer(x: &Array2<f32>, times: usize) -> (String, String, String) {
    let before = axes::describe_running().unwrap();
    let inside = inner(&Array1::zeros(times));
    (before, inside, axes::describe_running().unwrap())
}

#[test]
fn running_function_knows_its_own_names() {
    let x = Array2::zeros((2, 3));
    let (before, inside, after) = outer(&x, 5);
    assert_eq!(before, "in outer, rows = 2 (from x)");
    assert_eq!(inside, "in inner, length = 5 (from x)");
    assert_eq!(after, before);
    assert_eq!(axes::describe_running(), None);
}

#[test]
fn panic_ends_the_functions_that_run() {
    assert_eq!(panic_of(|| outer(&Array2::zeros((2, 3)), 7)), "seven");
    assert_eq!(axes::describe_running(), None);
}
