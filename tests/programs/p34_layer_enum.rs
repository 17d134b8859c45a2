//! An enum of several kinds of layers: each variant names the axes of its fields.

use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
enum Layer {
    Dense {
        #[param("in out")]
        weight: Tensor,
        #[param("out")]
        bias: Tensor,
    },
    Scale(#[param("in")] Tensor),
    LowRank {
        #[param("in rank")]
        down: Tensor,
        #[param("rank out")]
        up: Tensor,
    },
    Tanh,
}

impl Layer {
    #[shapes(x = "*batch in", return = "*batch out")]
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Self::Dense { weight, bias } => x.matmul(weight) + bias,
            Self::Scale(scale) => x * scale,
            Self::LowRank { down, up } => x.matmul(down).matmul(up),
            Self::Tanh => x.tanh(),
        }
    }
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(DType::F32, shape)
}

fn dense(inputs: usize, outputs: usize) -> Layer {
    Layer::Dense {
        weight: ones(&[inputs, outputs]),
        bias: ones(&[outputs]),
    }
}

#[test]
fn each_variant_is_checked_by_its_own_names() {
    let layers = vec![
        dense(3, 4),
        Layer::Tanh,
        Layer::Scale(ones(&[4])),
        Layer::LowRank {
            down: ones(&[4, 1]),
            up: ones(&[1, 2]),
        },
    ];
    let y = layers
        .iter()
        .fold(ones(&[5, 3]), |x, layer| layer.forward(&x));
    assert_eq!(y.shape(), [5, 2]);
    layers.check_shapes().unwrap();
}

#[test]
fn wrong_argument_names_the_field_of_the_variant() {
    assert_eq!(
        panic_message(|| dense(3, 4).forward(&ones(&[5, 2]))),
        "Layer::forward: x is f32[5,2], expected [*batch in] with in = 3 (from weight: f32[3,4] as [in out]); \
         pass x with in = 3, or make the Layer with in = 2"
    );
    assert_eq!(
        panic_message(|| Layer::Scale(ones(&[4])).forward(&ones(&[5, 2]))),
        "Layer::forward: x is f32[5,2], expected [*batch in] with in = 4 (from field 0: f32[4] as [in]); \
         pass x with in = 4, or make the Layer with in = 2"
    );
}

#[test]
fn ranks_that_differ_are_reported_with_the_path() {
    let wrong = vec![
        dense(3, 4),
        Layer::LowRank {
            down: ones(&[4, 2]),
            up: ones(&[1, 2]),
        },
    ];
    assert_eq!(
        wrong.check_shapes().unwrap_err().to_string(),
        "list: [1].up is f32[1,2], expected [rank out] with rank = 2 (from [1].down: f32[4,2] as [in rank]); \
         make [1].up and [1].down with the same `rank`; axis 1 of [1].up has length 2: did you transpose [1].up?"
    );
}
