//! A stack of layers: each layer has its own `in` and `out`, and neighbours must fit.

use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Layer {
    #[param("in out")]
    weight: Tensor,
    #[param("out")]
    bias: Option<Tensor>,
}

impl Layer {
    fn new(inputs: usize, outputs: usize, rngs: &mut Rngs) -> Self {
        Self {
            weight: rngs.normal(DType::F32, [inputs, outputs]),
            bias: Some(Tensor::zeros(DType::F32, [outputs])),
        }
    }

    #[shapes(x = "... in", return = "... out")]
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x.matmul(&self.weight);
        match &self.bias {
            Some(bias) => y + bias,
            None => y,
        }
    }
}

#[derive(Module, Clone, Debug)]
struct Stack {
    layers: Vec<Layer>,
    #[state(BatchStat, "features")]
    mean: Tensor,
}

impl Stack {
    fn new(sizes: &[(usize, usize)]) -> Self {
        let mut rngs = Rngs::new(0);
        let layers = sizes
            .iter()
            .map(|&(inputs, outputs)| Layer::new(inputs, outputs, &mut rngs));
        Self {
            layers: layers.collect(),
            mean: Tensor::zeros(DType::F32, [sizes[0].0]),
        }
    }

    #[shapes(x = "*batch features", return = "*batch _")]
    fn forward(&self, x: &Tensor) -> Tensor {
        let start = x - &self.mean;
        self.layers
            .iter()
            .fold(start, |x, layer| layer.forward(&x).tanh())
    }

    /// A mistake: the mean is added to the result, which has another width.
    #[shapes(x = "batch features", return = "batch _")]
    fn with_mean(&self, x: &Tensor) -> Tensor {
        self.forward(x) + &self.mean
    }
}

#[test]
fn each_layer_has_its_own_lengths() {
    let stack = Stack::new(&[(3, 8), (8, 5), (5, 2)]);
    stack.check_shapes().unwrap();
    let x = Tensor::ones(DType::F32, [7, 3]);
    assert_eq!(stack.forward(&x).shape(), [7, 2]);
    let step = jit(|(stack, x): (Stack, Tensor)| stack.forward(&x));
    assert_eq!(step((stack, x)).shape(), [7, 2]);
}

#[test]
fn neighbours_that_do_not_fit_name_both_lengths() {
    let stack = Stack::new(&[(3, 8), (6, 5), (5, 2)]);
    let x = Tensor::ones(DType::F32, [7, 3]);
    assert_eq!(
        panic_message(|| stack.forward(&x)),
        "Layer::forward: x is f32[7,8], expected [... in] with in = 6 (from weight: f32[6,5] as [in out]); \
         pass x with in = 6, or make the Layer with in = 8; in Stack::forward, features = 3 (from mean)"
    );
}

#[test]
fn a_wrong_bias_in_the_middle_has_its_path() {
    let mut stack = Stack::new(&[(3, 8), (8, 5), (5, 2)]);
    stack.layers[1].bias = Some(Tensor::zeros(DType::F32, [8]));
    assert_eq!(
        stack.check_shapes().unwrap_err().to_string(),
        "Stack: layers[1].bias is f32[8], expected [out] with out = 5 (from layers[1].weight: f32[8,5] as [in out]); \
         make layers[1].bias and layers[1].weight with the same `out`; \
         axis 0 of layers[1].weight has length 8: did you transpose layers[1].weight?"
    );
}

#[test]
fn input_of_another_width_names_the_axis_of_the_stack() {
    let stack = Stack::new(&[(3, 8), (8, 2)]);
    assert_eq!(
        panic_message(|| stack.forward(&Tensor::ones(DType::F32, [7, 4]))),
        "Stack::forward: x is f32[7,4], expected [*batch features] with features = 3 (from mean: f32[3] as [features]); \
         pass x with features = 3, or make the Stack with features = 4"
    );
}

#[test]
fn operation_inside_of_a_checked_method_shows_its_names() {
    let stack = Stack::new(&[(3, 8), (8, 2)]);
    let x = Tensor::ones(DType::F32, [7, 3]);
    assert_eq!(
        panic_message(|| stack.with_mean(&x)),
        "cannot add f32[7,2] and f32[3]: the shapes do not broadcast: counted from the last axis, lengths must be equal or 1; \
         reshape one of the tensors; in Stack::with_mean, features = 3 (from mean), batch = 7 (from x)"
    );
    // After the method has ended, its names are unknown.
    assert!(!panic_message(|| &x + &stack.mean.index(ix![..2])).contains("features"));
}
