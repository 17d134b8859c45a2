//! Values of a forward pass, stored in a field of the model.
//!
//! In a tree, the values of one field are a tuple, as in NNX: `y_mean[0]`, `y_mean[1]`.

use std::fmt;
use std::ops::Deref;

use pytree_core::field::{HoldsArrays, StateField};
use pytree_core::{
    Leaf, Partition, Pytree, PytreeOf, SelectPart, Tree, TreeError, Unflattener, Visit, Visitor,
    shape,
};
use pytree_transform::Tensor;

/// Stores values of a forward pass, in the order of the calls of [`sow`](Self::sow).
///
/// A field of this type is a state, usually of the collection [`Intermediate`](pytree_core::kind::Intermediate).
/// Each value adds a leaf to the tree, so a function compiled by `jit` is compiled again. Remove the values after
/// each run with [`partition::pop`](pytree_core::partition::pop), or use [`capture`](crate::capture), which
/// removes them. `Sown` dereferences to a slice. In a layer that is shared by [`Shared`](pytree_core::Shared), use a
/// field of type [`Ref<Sown>`](pytree_core::Ref).
///
/// # Examples
/// ```
/// use pytree_core::{Module, kind::Intermediate};
/// use pytree_nn::Sown;
/// use pytree_transform::Tensor;
/// #[derive(Module, Clone, Debug)]
/// struct Double {
///     #[state(Intermediate)]
///     mean: Sown,
/// }
/// impl Double {
///     fn forward(&mut self, x: &Tensor) -> Tensor {
///         let y = x * 2.0;
///         self.mean.sow(y.mean());
///         y
///     }
/// }
/// let mut double = Double { mean: Sown::new() };
/// let y = double.forward(&Tensor::from([1.0_f32, 2.0]));
/// double.forward(&y);
/// assert_eq!(double.mean.len(), 2);
/// assert_eq!(double.mean[1].item::<f32>(), 6.0);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sown<T = Tensor>(Vec<T>);

impl<T> Sown<T> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a value, like `nnx.Module.sow`.
    #[doc(alias("nnx.Module.sow", "nn.Module.register_forward_hook"))]
    pub fn sow(&mut self, value: T) {
        self.0.push(value);
    }

    /// Replaces the stored value by `reduce(stored, value)`. If no value is stored, stores `reduce(init(), value)`.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Sown;
    /// use pytree_transform::Tensor;
    /// let mut sum = Sown::new();
    /// for x in [1.0_f32, 2.0, 4.0] {
    ///     sum.sow_with(&Tensor::from(x), || Tensor::from(0.0_f32), |sum, x| sum + x);
    /// }
    /// assert_eq!(sum.len(), 1);
    /// assert_eq!(sum[0].item::<f32>(), 7.0);
    /// ```
    ///
    /// # Panics
    /// If [`sow`](Self::sow) has appended more than one value.
    #[track_caller]
    pub fn sow_with<V>(
        &mut self,
        value: V,
        init: impl FnOnce() -> T,
        reduce: impl FnOnce(T, V) -> T,
    ) {
        let count = self.len();
        assert!(
            count <= 1,
            "cannot reduce sown values: `sow_with` expects at most one stored value, found {count} values that `sow` appended; use only one of `sow` and `sow_with` for each field"
        );
        let before = self.0.pop().unwrap_or_else(init);
        self.0.push(reduce(before, value));
    }

    /// Removes and returns the values.
    pub fn take(&mut self) -> Vec<T> {
        std::mem::take(&mut self.0)
    }
}

impl<T> Default for Sown<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T> Deref for Sown<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}
impl<'a, T> IntoIterator for &'a Sown<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
impl<T> FromIterator<T> for Sown<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
impl<T: fmt::Debug> fmt::Debug for Sown<T> {
    /// Displays the values as a tuple: `(1.0,)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("()");
        }
        let mut tuple = f.debug_tuple("");
        for value in self {
            tuple.field(value);
        }
        tuple.finish()
    }
}

impl<T: Pytree> Pytree for Sown<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.enter(&shape::TUPLE, self.len()) == Visit::Descend {
            self.iter().for_each(|value| value.visit(visitor));
            visitor.exit();
        }
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let arity = source.enter(&shape::TUPLE)?;
        let values = (0..arity)
            .map(|_| T::unflatten(source))
            .collect::<Result<Self, TreeError>>()?;
        Ok(source.exit(values))
    }
}
impl<T: PytreeOf<L>, L: Leaf + Clone> PytreeOf<L> for Sown<T> {
    fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
        self.iter().for_each(|value| value.each_leaf(visit));
    }
    fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
        self.iter()
            .map(|value| value.map_leaves(function))
            .collect()
    }
}
impl<T: PytreeOf<L>, L: Leaf + Clone> SelectPart<L> for Sown<T> {
    type Part = Partition<Self, L>;
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
        Ok(Partition::from_tree(tree))
    }
}
#[diagnostic::do_not_recommend]
impl<T: StateField> StateField for Sown<T> {}
impl<T> HoldsArrays for Sown<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_a_tuple() {
        let mut sown = Sown::new();
        assert_eq!(format!("{sown:?}"), "()");
        sown.sow(1);
        assert_eq!(format!("{sown:?}"), "(1,)");
        sown.sow(2);
        assert_eq!(format!("{sown:?}"), "(1, 2)");
    }

    #[test]
    fn a_reduction_sees_the_value_before() {
        let mut names = Sown::new();
        names.sow_with('a', String::new, |text, letter| format!("{text}{letter}"));
        names.sow_with('b', String::new, |text, letter| format!("{text}{letter}"));
        assert_eq!(names.take(), ["ab"]);
        assert!(names.is_empty());
    }

    #[test]
    #[should_panic(
        expected = "found 2 values that `sow` appended; use only one of `sow` and `sow_with`"
    )]
    fn a_field_is_appended_to_or_reduced() {
        let mut sown: Sown<i32> = [1, 2].into_iter().collect();
        sown.sow_with(3, || 0, |sum, x| sum + x);
    }
}
