//! Implements `Pytree` for the standard containers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::base::error::TreeError;
use crate::contract::pytree::{Pytree, PytreeOf, Single, Visit, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::node::insertion::InsertionOrder;
use crate::node::leaf::Leaf;
use crate::node::shape::{self, NodeKind, Shape};
use crate::node::statics::{StaticRef, StaticValue};
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;
use crate::trees::select_part::{SelectPart, select_partition};

/// Implements [`PytreeOf`] and [`SelectPart`] for containers. Selected leaves of a container are a [`Partition`].
macro_rules! part_is_partition {
    ($([$($generics:tt)*] $type:ty { $($walks:tt)* })*) => {$(
        impl<L: Leaf + Clone, $($generics)*> PytreeOf<L> for $type { $($walks)* }
        impl<L: Leaf + Clone, $($generics)*> SelectPart<L> for $type {
            type Part = Partition<Self, L>;
            fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
                select_partition(tree)
            }
        }
    )*};
}

/// Generates the methods of [`PytreeOf`], which walk over the leaves, for a sequence.
macro_rules! walk_items {
    (|$items:ident, $function:ident| $mapped:expr) => {
        #[inline]
        fn __is_plain() -> bool {
            T::__is_plain()
        }
        fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
            self.iter().for_each(|item| item.each_leaf(visit));
        }
        fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
            self.len() == other.len()
                && self
                    .iter()
                    .zip(other)
                    .all(|(left, right)| left.each_pair(right, visit))
        }
        fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
            let ($items, $function) = (self, function);
            $mapped
        }
    };
}

/// Generates the methods of [`PytreeOf`], which walk over the leaves, for a map. `$entries` iterates in the order of the leaves.
macro_rules! walk_entries {
    (|$map:ident| $entries:expr) => {
        #[inline]
        fn __is_plain() -> bool {
            T::__is_plain()
        }
        fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
            let $map = self;
            $entries.for_each(|(_, value)| value.each_leaf(visit));
        }
        fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
            let entries = |$map: &'a Self| $entries;
            pair_entries(entries(self), entries(other), visit)
        }
        fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
            let $map = self;
            $entries
                .map(|(key, value)| (key.clone(), value.map_leaves(function)))
                .collect()
        }
    };
}

part_is_partition! {
    [T: PytreeOf<L>] Vec<T> {
        walk_items!(|items, function| items.iter().map(|item| item.map_leaves(function)).collect());
    }
    [T: PytreeOf<L>] VecDeque<T> {
        walk_items!(|items, function| items.iter().map(|item| item.map_leaves(function)).collect());
    }
    [T: PytreeOf<L>, const N: usize] [T; N] {
        walk_items!(|items, function| items.each_ref().map(|item| item.map_leaves(function)));
    }
    [T: PytreeOf<L>] Option<T> {
        #[inline]
        fn __is_plain() -> bool {
            T::__is_plain()
        }
        fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
            self.iter().for_each(|value| value.each_leaf(visit));
        }
        fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
            match (self, other) {
                (Some(left), Some(right)) => left.each_pair(right, visit),
                (None, None) => true,
                _ => false,
            }
        }
        fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
            self.as_ref().map(|value| value.map_leaves(function))
        }
    }
    [T: PytreeOf<L> + Send + Sync] crate::references::shared::Shared<T> {
        fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
            (**self).each_leaf(visit);
        }
        fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
            (**self).each_pair(&**other, visit)
        }
        fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
            Self::new((**self).map_leaves(function))
        }
    }
    [T: PytreeOf<L> + Send + Sync] crate::references::shared::WeakShared<T> {}
    [T: PytreeOf<L> + Send + Sync] crate::references::reference::Ref<T> {}
    [T: PytreeOf<L> + Send + Sync] crate::references::reference::WeakRef<T> {}
    [K: StaticValue + Ord, T: PytreeOf<L>] BTreeMap<K, T> { walk_entries!(|map| map.iter()); }
    [K: StaticValue + Ord + Hash, T: PytreeOf<L>, S: BuildHasher + Default + 'static] HashMap<K, T, S> {
        walk_entries!(|map| sorted(map).into_iter());
    }
    [K: StaticValue + Eq + Hash, T: PytreeOf<L>, S: BuildHasher + Default + 'static] IndexMap<K, T, S> {
        walk_entries!(|map| map.iter());
    }
    [T: ?Sized + 'static] PhantomData<T> {
        #[inline]
        fn __is_plain() -> bool {
            true
        }
        fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, _: &mut F) {}
        fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, _: &'a Self, _: &mut F) -> bool {
            true
        }
        fn map_leaves<F: FnMut(&L) -> L>(&self, _: &mut F) -> Self {
            Self
        }
    }
}

/// Visits the pairs of leaves of two maps; see [`PytreeOf::each_pair`].
fn pair_entries<'a, L: Leaf + Clone, K: StaticValue, T: PytreeOf<L>>(
    left: impl ExactSizeIterator<Item = (&'a K, &'a T)>,
    right: impl ExactSizeIterator<Item = (&'a K, &'a T)>,
    visit: &mut impl FnMut(&'a L, &'a L),
) -> bool {
    left.len() == right.len()
        && left.zip(right).all(|(left, right)| {
            StaticRef::new(left.0) == StaticRef::new(right.0) && left.1.each_pair(right.1, visit)
        })
}

/// Returns the entries of a map in the order of their keys.
fn sorted<K: Ord, T, S>(map: &HashMap<K, T, S>) -> Vec<(&K, &T)> {
    let mut entries: Vec<(&K, &T)> = map.iter().collect();
    entries.sort_unstable_by(|left, right| left.0.cmp(right.0));
    entries
}

/// Visits the items of a sequence. If all items have the same structure, the visitor may ask for only one of them.
fn visit_items<'a, T: Pytree>(
    mut items: impl ExactSizeIterator<Item = &'a T>,
    visitor: &mut dyn Visitor<'a>,
) {
    if visitor.enter(&shape::LIST, items.len()) == Visit::Skip {
        return;
    }
    if T::__is_uniform()
        && let Some(first) = items.next()
    {
        first.visit(visitor);
        if visitor.__repeat(items.len()) {
            return visitor.exit();
        }
    }
    items.for_each(|item| item.visit(visitor));
    visitor.exit();
}

impl<T: Pytree> Pytree for Vec<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visit_items(self.iter(), visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let arity = source.enter(&shape::LIST)?;
        let mut items = Self::with_capacity(arity);
        for _ in 0..arity {
            items.push(T::unflatten(source)?);
        }
        Ok(source.exit(items))
    }
}

impl<T: Pytree> Pytree for VecDeque<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visit_items(self.iter(), visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let arity = source.enter(&shape::LIST)?;
        let items = (0..arity)
            .map(|_| T::unflatten(source))
            .collect::<Result<Self, TreeError>>()?;
        Ok(source.exit(items))
    }
}

impl<T: Pytree, const N: usize> Pytree for [T; N] {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visit_items(self.iter(), visitor);
    }
    #[inline]
    fn __is_uniform() -> bool {
        T::__is_uniform()
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(&shape::LIST, N)?;
        let items = (0..N)
            .map(|_| T::unflatten(source))
            .collect::<Result<Vec<T>, TreeError>>()?;
        match items.try_into() {
            Ok(array) => Ok(source.exit(array)),
            Err(_) => Err(source.wrong_node("array")),
        }
    }
}

impl<T: Pytree> Pytree for Option<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        match self {
            Some(value) => {
                if visitor.enter(&shape::SOME, 1) == Visit::Skip {
                    return;
                }
                value.visit(visitor);
            }
            None => {
                visitor.enter(&shape::NONE, 0);
            }
        }
        visitor.exit();
    }
    #[inline]
    fn __single(&self) -> Single<'_> {
        self.as_ref().map_or(Single::Leaf(None), Pytree::__single)
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        if source.peek() == Some(Shape::Static(&shape::NONE)) {
            source.enter(&shape::NONE)?;
            return Ok(source.exit(None));
        }
        if !source.is_next(&shape::SOME) {
            // A tree of Python's form has no `Some`: an optional value is the value itself or `None`.
            return T::unflatten(source).map(Some);
        }
        source.enter_fixed(&shape::SOME, 1)?;
        let value = T::unflatten(source)?;
        Ok(source.exit(Some(value)))
    }
}

/// Implements `Pytree` for a pointer. The target is visited at each of its paths, and a separate value is rebuilt at
/// each path.
macro_rules! pointers {
    ($($(#[$doc:meta])* $pointer:ident)*) => {$(
        $(#[$doc])*
        impl<T: Pytree> Pytree for $pointer<T> {
            fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
                (**self).visit(visitor);
            }
            fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
                T::unflatten(source).map(Self::new)
            }
            #[inline]
            fn __is_uniform() -> bool {
                T::__is_uniform()
            }
        }
        impl<L: Leaf + Clone, T: PytreeOf<L>> PytreeOf<L> for $pointer<T> {
            #[inline]
            fn __is_plain() -> bool {
                T::__is_plain()
            }
            fn each_leaf<'a, F: FnMut(&'a L)>(&'a self, visit: &mut F) {
                (**self).each_leaf(visit);
            }
            fn each_pair<'a, F: FnMut(&'a L, &'a L)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
                (**self).each_pair(&**other, visit)
            }
            fn map_leaves<F: FnMut(&L) -> L>(&self, function: &mut F) -> Self {
                Self::new((**self).map_leaves(function))
            }
        }
        impl<L: Leaf + Clone, T: SelectPart<L>> SelectPart<L> for $pointer<T> {
            type Part = T::Part;
            fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError> {
                T::select_part(tree)
            }
        }
    )*};
}
pointers! {
    Box
    /// Treats an `Arc` like a `Box`: the target is visited at each of its paths, and a separate value is rebuilt at
    /// each path. Use [`Shared`](crate::Shared) for a node that must stay a single node at several paths.
    Arc
}

impl<T: ?Sized + 'static> Pytree for PhantomData<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(&shape::TUPLE, 0);
        visitor.exit();
    }
    #[inline]
    fn __is_uniform() -> bool {
        true
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(&shape::TUPLE, 0)?;
        Ok(source.exit(Self))
    }
}

/// Visits the entries of a map: first the keys, then the insertion order if the keys are sorted, then the children.
fn visit_map<'a, K: StaticValue, T: Pytree>(
    shape: &'static shape::NodeShape,
    entries: impl ExactSizeIterator<Item = (&'a K, &'a T)> + Clone,
    visitor: &mut dyn Visitor<'a>,
) {
    if visitor.enter(shape, entries.len()) == Visit::Skip {
        return;
    }
    entries
        .clone()
        .for_each(|(key, _)| visitor.aux(StaticRef::new(key)));
    if shape.kind == NodeKind::Dict {
        visitor.aux(StaticRef::new(InsertionOrder::SORTED));
    }
    entries.for_each(|(_, child)| child.visit(visitor));
    visitor.exit();
}

/// Builds a map of the shape `shape`. The node of the treedef may have sorted keys or keys in insertion order,
/// regardless of `shape`.
fn unflatten_map<K: StaticValue, T: Pytree, M: FromIterator<(K, T)> + 'static>(
    shape: &'static shape::NodeShape,
    source: &mut Unflattener<'_>,
) -> Result<M, TreeError> {
    let other = if shape.kind == NodeKind::Dict {
        &shape::ORDERED_DICT
    } else {
        &shape::DICT
    };
    let shape = if source.peek() == Some(Shape::Static(other)) {
        other
    } else {
        shape
    };
    let arity = source.enter(shape)?;
    let keys = (0..arity)
        .map(|_| source.aux())
        .collect::<Result<Vec<K>, TreeError>>()?;
    let order: InsertionOrder = if shape.kind == NodeKind::Dict {
        source.aux()?
    } else {
        InsertionOrder::default()
    };
    let entries = keys
        .into_iter()
        .map(|key| Ok((key, T::unflatten(source)?)))
        .collect::<Result<Vec<(K, T)>, TreeError>>()?;
    Ok(source.exit(order.restore(entries).into_iter().collect()))
}

impl<K: StaticValue + Ord, T: Pytree> Pytree for BTreeMap<K, T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visit_map(&shape::DICT, self.iter(), visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        unflatten_map(&shape::DICT, source)
    }
}

impl<K: StaticValue + Ord + Hash, T: Pytree, S: BuildHasher + Default + 'static> Pytree
    for HashMap<K, T, S>
{
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visit_map(&shape::DICT, sorted(self).into_iter(), visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        unflatten_map(&shape::DICT, source)
    }
}

impl<K: StaticValue + Eq + Hash, T: Pytree, S: BuildHasher + Default + 'static> Pytree
    for IndexMap<K, T, S>
{
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visit_map(&shape::ORDERED_DICT, self.iter(), visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        unflatten_map(&shape::ORDERED_DICT, source)
    }
}

macro_rules! tuples {
    ($($arity:literal ($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Pytree),*> Pytree for ($($name,)*) {
            fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
                if visitor.enter(&shape::TUPLE, $arity) == Visit::Descend {
                    $(self.$index.visit(visitor);)*
                    visitor.exit();
                }
            }
            fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
                source.enter_fixed(&shape::TUPLE, $arity)?;
                let built = ($($name::unflatten(source)?,)*);
                Ok(source.exit(built))
            }
            #[inline]
            fn __is_uniform() -> bool {
                true $(&& $name::__is_uniform())*
            }
        }
        impl<Leaf_: Leaf + Clone, $($name: PytreeOf<Leaf_>),*> PytreeOf<Leaf_> for ($($name,)*) {
            #[inline]
            fn __is_plain() -> bool {
                true $(&& $name::__is_plain())*
            }
            fn each_leaf<'a, F_: FnMut(&'a Leaf_)>(&'a self, _visit: &mut F_) {
                $(self.$index.each_leaf(_visit);)*
            }
            fn each_pair<'a, F_: FnMut(&'a Leaf_, &'a Leaf_)>(
                &'a self,
                _other: &'a Self,
                _visit: &mut F_,
            ) -> bool {
                true $(&& self.$index.each_pair(&_other.$index, _visit))*
            }
            #[allow(clippy::unused_unit, reason = "the empty tuple is one of them")]
            fn map_leaves<F_: FnMut(&Leaf_) -> Leaf_>(&self, _function: &mut F_) -> Self {
                ($(self.$index.map_leaves(_function),)*)
            }
        }
        impl<Leaf_: Leaf + Clone, $($name: SelectPart<Leaf_>),*> SelectPart<Leaf_> for ($($name,)*) {
            type Part = ($($name::Part,)*);
            fn select_part(tree: Tree<Leaf_>) -> Result<Self::Part, TreeError> {
                let mut children = tree.into_children().into_iter();
                let mut next = || children.next().ok_or(TreeError::Arity {
                    path: crate::base::path::KeyPath::root(),
                    node: "tuple",
                    expected: $arity,
                    found: 0,
                });
                let _ = &mut next;
                Ok(($($name::select_part(next()?)?,)*))
            }
        }
    )*};
}

tuples! {
    0 ()
    1 (A 0)
    2 (A 0, B 1)
    3 (A 0, B 1, C 2)
    4 (A 0, B 1, C 2, D 3)
    5 (A 0, B 1, C 2, D 3, E 4)
    6 (A 0, B 1, C 2, D 3, E 4, F 5)
    7 (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    8 (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    9 (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    10 (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    11 (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    12 (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11)
}
