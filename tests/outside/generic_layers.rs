//! Layers of a stranger with three libraries of tensors: its own, ndarray, and `pytree`.

use ndarray::{Array2, ArrayD, Ix2};
use pytree::prelude::Tensor;

use crate::array::Grid;
use crate::layer_library::{Array, check};

impl Array for Grid {
    fn new(shape: &[usize], elements: Vec<f32>) -> Self {
        let shape = shape.to_vec();
        Self { shape, elements }
    }
    fn matmul(&self, other: &Self) -> Self {
        let (inner, columns) = (other.shape[0], other.shape[1]);
        let rows = self.elements.chunks(inner);
        let product = |row: &[f32], column: usize| -> f32 {
            let column = other.elements[column..].iter().step_by(columns);
            row.iter().zip(column).map(|(a, b)| a * b).sum()
        };
        let elements = rows.flat_map(|row| (0..columns).map(move |column| product(row, column)));
        Self::new(&[self.shape[0], columns], elements.collect())
    }
    fn add_row(&self, row: &Self) -> Self {
        let row = row.elements.iter().cycle();
        let elements = self.elements.iter().zip(row).map(|(a, b)| a + b);
        Self::new(&self.shape, elements.collect())
    }
    fn tanh(&self) -> Self {
        let elements = self.elements.iter().map(|it| it.tanh());
        Self::new(&self.shape, elements.collect())
    }
}

impl Array for ArrayD<f32> {
    fn new(shape: &[usize], elements: Vec<f32>) -> Self {
        Self::from_shape_vec(shape, elements).unwrap()
    }
    fn matmul(&self, other: &Self) -> Self {
        let matrix =
            |array: &Self| -> Array2<f32> { array.clone().into_dimensionality::<Ix2>().unwrap() };
        matrix(self).dot(&matrix(other)).into_dyn()
    }
    fn add_row(&self, row: &Self) -> Self {
        self + row
    }
    fn tanh(&self) -> Self {
        self.mapv(f32::tanh)
    }
}

impl Array for Tensor {
    fn new(shape: &[usize], elements: Vec<f32>) -> Self {
        Tensor::from(elements).reshape(shape)
    }
    fn matmul(&self, other: &Self) -> Self {
        Tensor::matmul(self, other)
    }
    fn add_row(&self, row: &Self) -> Self {
        self + row
    }
    fn tanh(&self) -> Self {
        Tensor::tanh(self)
    }
}

#[test]
fn layers_work_with_three_libraries() {
    check::<Grid>();
    check::<ArrayD<f32>>();
    check::<Tensor>();
}
