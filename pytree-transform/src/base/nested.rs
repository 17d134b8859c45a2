//! Nested arrays, vectors and slices of numbers: the shapes, and the numbers in row-major order.

use pytree_base::for_each_dtype;
use pytree_core::Element;
use pytree_kernels::base::dtype::{AbstractArray, ArrayElement, DType};

use crate::base::error::TensorError;

/// A Rust type that can be the element of a tensor.
pub trait TensorElement: Element + ArrayElement + NestedArray<Number = Self> {
    /// The dtype of this Rust type.
    const DTYPE: DType;
}

/// A number, or arrays and vectors of numbers nested to any depth, such as `[[1.0, 2.0], [3.0, 4.0]]`.
pub trait NestedArray: Sized {
    /// The type of the numbers.
    type Number: TensorElement;

    /// Appends the length of each level of nested lists. The first item of each level determines the length. `value` is
    /// `None` inside an empty vector, which has no first item.
    #[doc(hidden)]
    fn push_shape(value: Option<&Self>, shape: &mut Vec<usize>);

    /// Appends the numbers of `items` in row-major order. Each item must have the shape `shape`. `place` is the path of
    /// the items in the outermost list, and is used in error messages.
    #[doc(hidden)]
    fn push_numbers(
        items: &[Self],
        shape: &[usize],
        place: &mut Vec<usize>,
        numbers: &mut Vec<Self::Number>,
    ) -> Result<(), TensorError>;

    /// Returns the numbers of `items` by value. The default implementation copies the numbers.
    #[doc(hidden)]
    fn into_numbers(items: Vec<Self>, shape: &[usize]) -> Result<Vec<Self::Number>, TensorError> {
        numbers_of(&items, shape)
    }
}

/// Appends the numbers of lists, which must have the given shape.
fn push_lists<'a, T: NestedArray + 'a>(
    lists: impl Iterator<Item = &'a [T]>,
    shape: &[usize],
    place: &mut Vec<usize>,
    numbers: &mut Vec<T::Number>,
) -> Result<(), TensorError> {
    let (expected, of_items) = (shape[0], &shape[1..]);
    for (position, list) in lists.enumerate() {
        place.push(position);
        if list.len() != expected {
            return Err(TensorError::Ragged {
                place: place.clone(),
                expected,
                found: list.len(),
            });
        }
        T::push_numbers(list, of_items, place, numbers)?;
        place.pop();
    }
    Ok(())
}

impl<T: NestedArray, const N: usize> NestedArray for [T; N] {
    type Number = T::Number;
    fn push_shape(value: Option<&Self>, shape: &mut Vec<usize>) {
        shape.push(N);
        T::push_shape(value.and_then(|items| items.first()), shape);
    }
    fn push_numbers(
        items: &[Self],
        shape: &[usize],
        place: &mut Vec<usize>,
        numbers: &mut Vec<T::Number>,
    ) -> Result<(), TensorError> {
        push_lists(items.iter().map(<[T; N]>::as_slice), shape, place, numbers)
    }
}

impl<T: NestedArray> NestedArray for Vec<T> {
    type Number = T::Number;
    fn push_shape(value: Option<&Self>, shape: &mut Vec<usize>) {
        shape.push(value.map_or(0, Vec::len));
        T::push_shape(value.and_then(|items| items.first()), shape);
    }
    fn push_numbers(
        items: &[Self],
        shape: &[usize],
        place: &mut Vec<usize>,
        numbers: &mut Vec<T::Number>,
    ) -> Result<(), TensorError> {
        push_lists(items.iter().map(Vec::as_slice), shape, place, numbers)
    }
}

macro_rules! numbers {
    ($([$kind:ident $dtype:ident $number:ty])*) => {$(
        impl TensorElement for $number {
            const DTYPE: DType = DType::$dtype;
        }

        impl NestedArray for $number {
            type Number = Self;
            fn push_shape(_: Option<&Self>, _: &mut Vec<usize>) {}
            fn push_numbers(
                items: &[Self],
                _: &[usize],
                _: &mut Vec<usize>,
                numbers: &mut Vec<Self>,
            ) -> Result<(), TensorError> {
                if numbers.try_reserve(items.len()).is_err() {
                    let all = [numbers.len() + items.len()];
                    let found = AbstractArray::new(DType::$dtype, all);
                    return Err(TensorError::too_large("Tensor::from", &found));
                }
                numbers.extend_from_slice(items);
                Ok(())
            }
            fn into_numbers(items: Vec<Self>, _: &[usize]) -> Result<Vec<Self>, TensorError> {
                Ok(items)
            }
        }
    )*};
}
for_each_dtype!([numbers]);

/// Copies the numbers of items. Each item must have the given shape.
pub(crate) fn numbers_of<T: NestedArray>(
    items: &[T],
    shape: &[usize],
) -> Result<Vec<T::Number>, TensorError> {
    let mut numbers = Vec::new();
    let count = shape
        .iter()
        .fold(items.len(), |count, &length| count.saturating_mul(length));
    // If the lists differ in length, `count` may be far too large. So ignore an error here. The next call reports the
    // difference.
    let _ = numbers.try_reserve_exact(count);
    T::push_numbers(items, shape, &mut Vec::new(), &mut numbers)?;
    Ok(numbers)
}

/// Returns the shape of nested lists: the length of `items`, followed by the shape of the first item.
pub(crate) fn shape_of<T: NestedArray>(items: &[T]) -> Vec<usize> {
    let mut shape = vec![items.len()];
    T::push_shape(items.first(), &mut shape);
    shape
}
