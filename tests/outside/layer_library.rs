//! A stranger's library of layers, which is generic over the tensors. The package `pytree-candle` uses it, too.

use pytree::checkpoint::{self, Bytes};
use pytree::prelude::{Activation, Filter, Rngs, Tensor};
use pytree::{Leaf, Module, Partition, Pytree as _, SelectPart, graph, nn, partition, tree};

/// What the layers need of a tensor.
pub trait Array: Leaf + Clone {
    /// Returns a tensor with a shape.
    fn new(shape: &[usize], elements: Vec<f32>) -> Self;
    /// Returns the product of two matrices.
    fn matmul(&self, other: &Self) -> Self;
    /// Returns the sum of each row of a matrix and another row.
    fn add_row(&self, row: &Self) -> Self;
    /// Returns the hyperbolic tangent of each element.
    fn tanh(&self) -> Self;
}

#[derive(Module, Clone, Debug)]
pub struct Linear<T> {
    #[param("in out")]
    pub weight: T,
    #[param("out")]
    pub bias: T,
}

#[derive(Module, Clone, Debug)]
pub struct Mlp<T> {
    pub layers: Vec<Linear<T>>,
}

impl<T: Array> Mlp<T> {
    /// Returns layers of the given widths, with some numbers times `scale` as weights.
    pub fn new(widths: &[usize], scale: f32) -> Self {
        let numbers = |count| (0..count).map(|at| scale * (at as f32 * 0.7).sin());
        let linear = |pair: &[usize]| Linear {
            weight: T::new(pair, numbers(pair[0] * pair[1]).collect()),
            bias: T::new(&pair[1..], numbers(pair[1]).collect()),
        };
        Self {
            layers: widths.windows(2).map(linear).collect(),
        }
    }

    /// Applies the layers, with `tanh` between them: `x: [examples, in]`.
    pub fn forward(&self, x: &T) -> T {
        let apply = |x: &T, layer: &Linear<T>| x.matmul(&layer.weight).add_row(&layer.bias);
        let [first, rest @ ..] = &self.layers[..] else {
            return x.clone();
        };
        let first = apply(x, first);
        rest.iter().fold(first, |x, layer| apply(&x.tanh(), layer))
    }
}

/// Returns the elements of a tensor.
fn elements(tensor: &impl Leaf) -> Vec<f64> {
    tensor.values().unwrap()
}

/// Checks the layers with a library of tensors.
pub fn check<T: Array>()
where
    Mlp<T>: SelectPart<T, Part = Partition<Mlp<T>, T>>,
{
    let widths = [3, 4, 2];
    let model = Mlp::<T>::new(&widths, 1.0);
    model.check_shapes().unwrap();
    let table = nn::summary(&model).to_string();
    assert!(
        table.contains("│ layers[1].weight │ Param │ f32[in=4,out=2] │"),
        "{table}"
    );

    // A part by its path, and the average of two models.
    let head = partition::filter(&model, &Filter::path("layers[1]"));
    assert_eq!(head.len(), 2);
    let other = Mlp::<T>::new(&widths, 3.0);
    let mean = |a: &T, b: &T| {
        let sum = elements(a)
            .into_iter()
            .zip(elements(b))
            .map(|(a, b)| (a + b) as f32 / 2.0);
        T::new(a.array_info().unwrap().shape, sum.collect())
    };
    let average = tree::map2(&model, &other, mean).unwrap();
    let expected = Mlp::<T>::new(&widths, 2.0);
    assert!(pytree::diff(&average, &expected).within(1e-6));

    // The file opens in the layers of `pytree`, which compute the same, and the weights go back.
    let file = checkpoint::to_bytes(&model).unwrap();
    let ours = nn::Mlp::new(&widths, Activation::Tanh, &mut Rngs::new(0));
    let ours = checkpoint::load(Bytes(&file), &ours).unwrap();
    let x: Vec<f32> = (0..6).map(|at| (at as f32).cos()).collect();
    let expected = ours.forward(&Tensor::from(x.clone()).reshape([2, 3]));
    let found = model.forward(&T::new(&[2, 3], x));
    for (found, expected) in elements(&found).iter().zip(elements(&expected)) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
    let back = graph::convert(&ours, &other).unwrap();
    assert!(pytree::diff(&back, &model).is_empty());
}
