//! A model of ndarrays opens the file of an `Mlp`, and the other way round.

use ndarray::{Array1, Array2};
use pytree::checkpoint::Bytes;
use pytree::prelude::*;

/// The paths, kinds and axes are those of `Linear`.
#[derive(Module, Clone, Debug, PartialEq)]
struct Dense {
    #[param("in out")]
    weight: Array2<f32>,
    #[param("out")]
    bias: Option<Array1<f32>>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Network {
    layers: Vec<Dense>,
}

fn network(widths: &[usize], element: impl Fn(usize) -> f32) -> Network {
    let dense = |widths: &[usize]| Dense {
        weight: Array2::from_shape_fn((widths[0], widths[1]), |(i, j)| element(widths[1] * i + j)),
        bias: Some(Array1::from_shape_fn(widths[1], &element)),
    };
    Network {
        layers: widths.windows(2).map(dense).collect(),
    }
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec()
}

#[test]
fn mlp_and_model_of_ndarrays_open_each_others_files() {
    let widths = [3, 4, 2];
    let saved = network(&widths, |at| (at as f32).sin());
    let bytes = checkpoint::to_bytes(&saved).unwrap();
    let mlp = Mlp::new(&widths, Activation::Tanh, &mut Rngs::new(0));
    let loaded = checkpoint::load(Bytes(&bytes), &mlp).unwrap();
    for (dense, linear) in saved.layers.iter().zip(&loaded.layers) {
        assert_eq!(numbers(&linear.weight), dense.weight.as_slice().unwrap());
        let (found, expected) = (linear.bias.as_ref(), dense.bias.as_ref());
        assert_eq!(
            numbers(found.unwrap()),
            expected.unwrap().as_slice().unwrap()
        );
    }
    // The same file, byte for byte.
    assert_eq!(checkpoint::to_bytes(&loaded).unwrap(), bytes);
    let again = checkpoint::load(Bytes(&bytes), &network(&widths, |_| 0.0)).unwrap();
    assert_eq!(again, saved);

    // A model of both.
    let both = (saved.clone(), loaded);
    let bytes = checkpoint::to_bytes(&both).unwrap();
    let template = (network(&widths, |_| 0.0), mlp);
    assert_eq!(checkpoint::load(Bytes(&bytes), &template).unwrap(), both);
}

#[test]
fn other_width_is_one_error_with_all_differences() {
    let bytes = checkpoint::to_bytes(&network(&[3, 4, 2], |_| 1.0)).unwrap();
    let mlp = Mlp::new(&[3, 5, 2], Activation::Tanh, &mut Rngs::new(0));
    let text = checkpoint::load(Bytes(&bytes), &mlp)
        .unwrap_err()
        .to_string();
    assert_eq!(text.matches("in the file, expected [").count(), 3, "{text}");
    assert!(
        text.contains("layers[0].weight is f32[3,4] in the file, expected [in out] = f32[3,5]: out is 4 in the file and 5 in the model"),
        "{text}"
    );
}
