//! Tensors from nested arrays, vectors and slices of numbers.

use pytree_kernels::base::array::Array;

use crate::base::error::{TensorError, or_panic};
use crate::base::nested::{NestedArray, numbers_of, shape_of};
use crate::tensor::handle::Tensor;

impl Tensor {
    /// Makes a tensor from nested vectors or arrays, like [`Tensor::from`]. Each level of nesting becomes one axis.
    ///
    /// # Errors
    /// Returns [`TensorError::Ragged`] if two vectors of the same level differ in length.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let rows = vec![vec![1.0_f32, 2.0], vec![3.0, 4.0]];
    /// assert_eq!(Tensor::try_from_nested(rows)?.shape(), [2, 2]);
    /// let error = Tensor::try_from_nested(vec![vec![1, 2], vec![3]]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "cannot make a tensor of nested lists: the list at [1] has length 1, but the first list at the same depth has length 2; \
    ///      give all lists at one depth the same length"
    /// );
    /// # Ok::<(), pytree_transform::TensorError>(())
    /// ```
    #[doc(alias("jnp.array", "torch.tensor"))]
    pub fn try_from_nested<T: NestedArray>(items: Vec<T>) -> Result<Self, TensorError> {
        let shape = shape_of(&items);
        let numbers = T::into_numbers(items, &shape[1..])?;
        Ok(Self::from_array(Array::new(shape, numbers)))
    }
}

impl<T: NestedArray> From<Vec<T>> for Tensor {
    /// # Panics
    /// Panics if two vectors of the same level differ in length; see [`try_from_nested`](Tensor::try_from_nested).
    #[track_caller]
    fn from(items: Vec<T>) -> Self {
        or_panic(Self::try_from_nested(items))
    }
}

impl<T: NestedArray> From<&[T]> for Tensor {
    /// # Panics
    /// Panics if two vectors of the same level differ in length.
    #[track_caller]
    fn from(items: &[T]) -> Self {
        let shape = shape_of(items);
        let numbers = or_panic(numbers_of(items, &shape[1..]));
        Self::from_array(Array::new(shape, numbers))
    }
}

impl<T: NestedArray, const N: usize> From<[T; N]> for Tensor {
    /// # Panics
    /// Panics if two vectors of the same level differ in length.
    #[track_caller]
    fn from(array: [T; N]) -> Self {
        Self::from(array.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_lists_are_tensors() {
        let expected = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
        assert_eq!(
            Tensor::from(vec![vec![1.0_f32, 2.0], vec![3.0, 4.0]]),
            expected
        );
        assert_eq!(Tensor::from(vec![[1.0_f32, 2.0], [3.0, 4.0]]), expected);
        assert_eq!(Tensor::from([vec![1.0_f32, 2.0], vec![3.0, 4.0]]), expected);
        assert_eq!(Tensor::from(&[[1.0_f32, 2.0], [3.0, 4.0]][..]), expected);
        assert_eq!(expected.shape(), [2, 2]);
        let deep = vec![vec![vec![1, 2, 3]], vec![vec![4, 5, 6]]];
        assert_eq!(Tensor::from(deep).shape(), [2, 1, 3]);
        assert_eq!(Tensor::from(Vec::<f32>::new()).shape(), [0]);
        assert_eq!(Tensor::from(Vec::<Vec<f32>>::new()).shape(), [0, 0]);
        assert_eq!(Tensor::from(Vec::<[f32; 3]>::new()).shape(), [0, 3]);
        assert_eq!(Tensor::from([[0.0; 3]; 0]).shape(), [0, 3]);
        assert_eq!(Tensor::from(vec![Vec::<f32>::new(); 2]).shape(), [2, 0]);
    }

    #[test]
    fn vector_of_numbers_is_moved() {
        let numbers = vec![1.0_f32, 2.0];
        let address = numbers.as_ptr();
        let tensor = Tensor::from(numbers);
        assert_eq!(tensor.read::<f32>().unwrap().as_ptr(), address);
    }

    #[test]
    fn ragged_lists_name_the_place() {
        let ragged = vec![vec![vec![1, 2], vec![3, 4]], vec![vec![5, 6], vec![7]]];
        let error = Tensor::try_from_nested(ragged).unwrap_err().to_string();
        assert!(error.contains("the list at [1][1] has length 1"), "{error}");
        let ragged = vec![vec![1, 2], vec![]];
        let error = Tensor::try_from_nested(ragged).unwrap_err().to_string();
        assert!(error.contains("the list at [1] has length 0"), "{error}");
        let panic = std::panic::catch_unwind(|| Tensor::from([vec![1, 2, 3], vec![4]]));
        let message = panic.unwrap_err().downcast::<String>().unwrap();
        assert!(
            message.contains("but the first list at the same depth has length 3"),
            "{message}"
        );
    }
}
