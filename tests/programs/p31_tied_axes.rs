//! Tied weights with named axes: two fields share one array, and each field has its own names for the axes.

use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Tied {
    #[param("vocabulary model")]
    embed: Shared<Tensor>,
    #[param("classes model")]
    head: Shared<Tensor>,
    #[param("classes")]
    bias: Tensor,
}

impl Tied {
    fn new(vocabulary: usize, model: usize) -> Self {
        let table = Shared::new(Key::new(3).normal(DType::F32, [vocabulary, model]));
        Self {
            embed: table.clone(),
            head: table,
            bias: Tensor::zeros(DType::F32, [vocabulary]),
        }
    }

    #[shapes(tokens = "int[*batch]", return = "*batch classes")]
    fn forward(&self, tokens: &Tensor) -> Tensor {
        self.embed.take(tokens, 0).tanh().matmul(&self.head.t()) + &self.bias
    }
}

#[test]
fn one_array_has_names_at_both_places() {
    let tied = Tied::new(5, 4);
    tied.check_shapes().unwrap();
    let tokens = Tensor::from([[1, 2, 3], [4, 0, 1]]);
    assert_eq!(tied.forward(&tokens).shape(), [2, 3, 5]);
    let loss = |tied: &Tied| softmax_cross_entropy(&tied.forward(&tokens), &tokens).mean();
    assert_eq!(grad(loss)(&tied).len(), 2);
}

#[test]
fn bias_of_another_length_names_the_classes() {
    let wrong = Tied {
        bias: Tensor::zeros(DType::F32, [4]),
        ..Tied::new(5, 4)
    };
    assert_eq!(
        wrong.check_shapes().unwrap_err().to_string(),
        "Tied: bias is f32[4], expected [classes] with classes = 5 (from head: f32[5,4] as [classes model]); \
         make bias and head with the same `classes`"
    );
    // A method checks the fields before its arguments.
    assert_eq!(
        panic_message(|| wrong.forward(&Tensor::from([1, 2]))),
        "Tied::forward: bias is f32[4], expected [classes] with classes = 5 (from head: f32[5,4] as [classes model]); \
         make bias and head with the same `classes`"
    );
}

#[test]
fn tokens_that_are_one_hot_are_reported() {
    let tied = Tied::new(5, 4);
    let hot = Tensor::from([1, 2]).one_hot(5, DType::F32);
    assert_eq!(
        panic_message(|| tied.forward(&hot)),
        "Tied::forward: tokens is f32[2,5], expected int[*batch]; convert tokens to an integer dtype"
    );
}

/// A mistake: the axes of the head are named in the order of the transposed array.
#[derive(Module, Clone, Debug)]
struct Transposed {
    #[param("vocabulary model")]
    embed: Shared<Tensor>,
    #[param("model vocabulary")]
    head: Shared<Tensor>,
}

#[test]
fn names_that_contradict_each_other_are_reported_at_the_second_place() {
    let Tied { embed, head, .. } = Tied::new(5, 4);
    assert_eq!(
        Transposed { embed, head }
            .check_shapes()
            .unwrap_err()
            .to_string(),
        "Transposed: head is f32[5,4], expected [model vocabulary] with \
         model = 4 (from embed: f32[5,4] as [vocabulary model]), vocabulary = 5 (from embed: f32[5,4] as [vocabulary model]); \
         make head and embed with the same `model`; make head and embed with the same `vocabulary`; \
         axis 1 of head has length 4: did you transpose head?"
    );
}
