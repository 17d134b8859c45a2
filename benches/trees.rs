//! Tree operations on the trees A1 to A4 of the peers' benchmarks, beside the walk one would write by
//! hand: `cargo bench --bench trees`. Times are nanoseconds a leaf.
//!
//! Prints one JSON object a line, as `peer_trees.py` does, with the peer `pytree` or `by hand`.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[path = "support/models.rs"]
mod models;
mod support;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::black_box;

use pytree::prelude::*;
use pytree::{PytreeOf, match_structure};

use models::{A1, A2, A3, Attention, Block, Feed, Lin, leaf};

/// What one would write by hand.
trait Walk: Sized {
    fn references<'a>(&'a self, out: &mut Vec<&'a Tensor>);
    fn handles(&self, out: &mut Vec<Tensor>);
    fn rebuild(&self, leaves: &mut std::vec::IntoIter<Tensor>) -> Self;
    fn map(&self, function: &mut impl FnMut(&Tensor) -> Tensor) -> Self;
    fn map2(&self, other: &Self, function: &mut impl FnMut(&Tensor, &Tensor) -> Tensor) -> Self;
    fn split_kinds(&self, state: bool, out: &mut [Vec<Tensor>; 2]);
    fn merge(&self, state: bool, from: &mut [std::vec::IntoIter<Tensor>; 2]) -> Self;
    fn hash_structure(&self, hasher: &mut DefaultHasher);
}

impl Walk for Tensor {
    fn references<'a>(&'a self, out: &mut Vec<&'a Tensor>) {
        out.push(self);
    }
    fn handles(&self, out: &mut Vec<Tensor>) {
        out.push(self.clone());
    }
    fn rebuild(&self, leaves: &mut std::vec::IntoIter<Tensor>) -> Self {
        leaves.next().unwrap()
    }
    fn map(&self, function: &mut impl FnMut(&Tensor) -> Tensor) -> Self {
        function(self)
    }
    fn map2(&self, other: &Self, function: &mut impl FnMut(&Tensor, &Tensor) -> Tensor) -> Self {
        function(self, other)
    }
    fn split_kinds(&self, state: bool, out: &mut [Vec<Tensor>; 2]) {
        out[usize::from(state)].push(self.clone());
    }
    fn merge(&self, state: bool, from: &mut [std::vec::IntoIter<Tensor>; 2]) -> Self {
        from[usize::from(state)].next().unwrap()
    }
    fn hash_structure(&self, hasher: &mut DefaultHasher) {
        hasher.write_u8(1);
    }
}

impl<T: Walk> Walk for Vec<T> {
    fn references<'a>(&'a self, out: &mut Vec<&'a Tensor>) {
        self.iter().for_each(|item| item.references(out));
    }
    fn handles(&self, out: &mut Vec<Tensor>) {
        self.iter().for_each(|item| item.handles(out));
    }
    fn rebuild(&self, leaves: &mut std::vec::IntoIter<Tensor>) -> Self {
        self.iter().map(|item| item.rebuild(leaves)).collect()
    }
    fn map(&self, function: &mut impl FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|item| item.map(function)).collect()
    }
    fn map2(&self, other: &Self, function: &mut impl FnMut(&Tensor, &Tensor) -> Tensor) -> Self {
        assert_eq!(self.len(), other.len());
        let pairs = self.iter().zip(other);
        pairs
            .map(|(item, other)| item.map2(other, function))
            .collect()
    }
    fn split_kinds(&self, state: bool, out: &mut [Vec<Tensor>; 2]) {
        self.iter().for_each(|item| item.split_kinds(state, out));
    }
    fn merge(&self, state: bool, from: &mut [std::vec::IntoIter<Tensor>; 2]) -> Self {
        self.iter().map(|item| item.merge(state, from)).collect()
    }
    fn hash_structure(&self, hasher: &mut DefaultHasher) {
        self.len().hash(hasher);
        self.iter().for_each(|item| item.hash_structure(hasher));
    }
}

impl<T: Walk> Walk for BTreeMap<String, T> {
    fn references<'a>(&'a self, out: &mut Vec<&'a Tensor>) {
        self.values().for_each(|item| item.references(out));
    }
    fn handles(&self, out: &mut Vec<Tensor>) {
        self.values().for_each(|item| item.handles(out));
    }
    fn rebuild(&self, leaves: &mut std::vec::IntoIter<Tensor>) -> Self {
        self.iter()
            .map(|(key, item)| (key.clone(), item.rebuild(leaves)))
            .collect()
    }
    fn map(&self, function: &mut impl FnMut(&Tensor) -> Tensor) -> Self {
        self.iter()
            .map(|(key, item)| (key.clone(), item.map(function)))
            .collect()
    }
    fn map2(&self, other: &Self, function: &mut impl FnMut(&Tensor, &Tensor) -> Tensor) -> Self {
        assert!(self.keys().eq(other.keys()));
        let pairs = self.iter().zip(other.values());
        pairs
            .map(|((key, item), other)| (key.clone(), item.map2(other, function)))
            .collect()
    }
    fn split_kinds(&self, state: bool, out: &mut [Vec<Tensor>; 2]) {
        self.values().for_each(|item| item.split_kinds(state, out));
    }
    fn merge(&self, state: bool, from: &mut [std::vec::IntoIter<Tensor>; 2]) -> Self {
        self.iter()
            .map(|(key, item)| (key.clone(), item.merge(state, from)))
            .collect()
    }
    fn hash_structure(&self, hasher: &mut DefaultHasher) {
        self.len().hash(hasher);
        for (key, item) in self {
            key.hash(hasher);
            item.hash_structure(hasher);
        }
    }
}

macro_rules! walk {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl Walk for $name {
            fn references<'a>(&'a self, out: &mut Vec<&'a Tensor>) {
                $(self.$field.references(out);)*
            }
            fn handles(&self, out: &mut Vec<Tensor>) {
                $(self.$field.handles(out);)*
            }
            fn rebuild(&self, leaves: &mut std::vec::IntoIter<Tensor>) -> Self {
                Self { $($field: self.$field.rebuild(leaves)),* }
            }
            fn map(&self, function: &mut impl FnMut(&Tensor) -> Tensor) -> Self {
                Self { $($field: self.$field.map(function)),* }
            }
            fn map2(&self, other: &Self, function: &mut impl FnMut(&Tensor, &Tensor) -> Tensor) -> Self {
                Self { $($field: self.$field.map2(&other.$field, function)),* }
            }
            fn split_kinds(&self, state: bool, out: &mut [Vec<Tensor>; 2]) {
                $(self.$field.split_kinds(state || stringify!($field) == "b", out);)*
            }
            fn merge(&self, state: bool, from: &mut [std::vec::IntoIter<Tensor>; 2]) -> Self {
                Self { $($field: self.$field.merge(state || stringify!($field) == "b", from)),* }
            }
            fn hash_structure(&self, hasher: &mut DefaultHasher) {
                hasher.write(stringify!($name).as_bytes());
                $(self.$field.hash_structure(hasher);)*
            }
        }
    )*};
}
walk! {
    Lin { w, b }
    A1 { l0, l1, l2 }
    Attention { qkv, proj }
    Feed { fc, proj }
    Block { ln1, attn, ln2, mlp }
    A2 { wte, wpe, h, lnf }
    A3 { layers }
}

fn measure<T: Walk + PytreeOf<Tensor>>(name: &str, model: &T) {
    let (leaves, treedef) = tree::flatten::<Tensor, T>(model);
    let other = tree::structure(model);
    let count = leaves.len() as f64;
    let [params, states] =
        partition::split(model, [Filter::param(), Filter::everything()]).unwrap();
    let mut split_leaves = [Vec::new(), Vec::new()];
    model.split_kinds(false, &mut split_leaves);
    let mut matched = Vec::with_capacity(leaves.len());
    type Timed<'a> = (&'static str, Box<dyn FnMut() + 'a>);
    let mut timed: Vec<Timed<'_>> = vec![
        (
            "flatten to references, by hand",
            Box::new(|| {
                let mut out = Vec::new();
                model.references(&mut out);
                black_box(out);
            }),
        ),
        (
            "flatten to references",
            Box::new(|| {
                black_box(tree::leaves::<Tensor, T>(model));
            }),
        ),
        (
            "flatten to handles, by hand",
            Box::new(|| {
                let mut out = Vec::new();
                model.handles(&mut out);
                black_box(out);
            }),
        ),
        (
            "flatten to handles",
            Box::new(|| {
                black_box(tree::flatten::<Tensor, T>(model));
            }),
        ),
        (
            "unflatten, by hand",
            Box::new(|| {
                black_box(model.rebuild(&mut leaves.clone().into_iter()));
            }),
        ),
        (
            "unflatten",
            Box::new(|| {
                black_box(tree::unflatten::<T, Tensor>(&treedef, leaves.clone()).unwrap());
            }),
        ),
        (
            "map identity, by hand",
            Box::new(|| {
                black_box(model.map(&mut Tensor::clone));
            }),
        ),
        (
            "map identity",
            Box::new(|| {
                black_box(tree::map::<Tensor, T>(model, Tensor::clone));
            }),
        ),
        (
            "map first of two trees, by hand",
            Box::new(|| {
                black_box(model.map2(model, &mut |left, _| left.clone()));
            }),
        ),
        (
            "map first of two trees",
            Box::new(|| {
                black_box(
                    tree::map2::<Tensor, T, Tensor, T>(model, model, |left, _| left.clone())
                        .unwrap(),
                );
            }),
        ),
        (
            "partition by kind, by hand",
            Box::new(|| {
                let mut out = [Vec::new(), Vec::new()];
                model.split_kinds(false, &mut out);
                black_box(out);
            }),
        ),
        (
            "partition by kind",
            Box::new(|| {
                black_box(
                    partition::split(model, [Filter::param(), Filter::everything()]).unwrap(),
                );
            }),
        ),
        (
            "merge, by hand",
            Box::new(|| {
                black_box(model.merge(false, &mut split_leaves.clone().map(Vec::into_iter)));
            }),
        ),
        (
            "merge",
            Box::new(|| {
                black_box(partition::merge([params.clone(), states.clone()]).unwrap());
            }),
        ),
        (
            "structure equality",
            Box::new(|| {
                assert!(black_box(&treedef) == black_box(&other));
            }),
        ),
        (
            "match a stored treedef",
            Box::new(|| {
                matched.clear();
                let mut borrowed: Vec<&Tensor> = Vec::with_capacity(leaves.len());
                assert!(match_structure(model, &treedef, &mut borrowed));
                black_box(borrowed);
                matched.push(());
            }),
        ),
        (
            "structure and its hash, by hand",
            Box::new(|| {
                let mut hasher = DefaultHasher::new();
                model.hash_structure(&mut hasher);
                black_box(hasher.finish());
            }),
        ),
        (
            "structure and its hash",
            Box::new(|| {
                black_box(tree::structure(model));
            }),
        ),
        (
            "graph: flatten to handles",
            Box::new(|| {
                black_box(graph::flatten::<Tensor, T>(model));
            }),
        ),
        (
            "flatten with path",
            Box::new(|| {
                black_box(tree::leaves_with_path::<Tensor, T>(model));
            }),
        ),
    ];
    let times = support::medians(&mut timed);
    let report = |peer: &str, operation: &str, unit: &str, value: f64| {
        support::report(["A", name, operation, peer], unit, value, value);
    };
    let mut by_hand = Vec::new();
    model.handles(&mut by_hand);
    report("pytree", "leaves", "", count);
    report("by hand", "leaves", "", by_hand.len() as f64);
    for ((label, _), time) in timed.iter().zip(times) {
        match label.strip_suffix(", by hand") {
            Some(operation) => report("by hand", operation, "ns a leaf", time / count),
            None => report("pytree", label, "ns a leaf", time / count),
        }
    }
}

fn main() {
    measure("A1", &models::a1());
    measure("A2", &models::a2());
    measure("A3", &models::a3());
    let leaves = || (0..10).map(|_| leaf()).collect::<Vec<_>>();
    let inner = || {
        (0..10)
            .map(|key| (format!("k{key}"), leaves()))
            .collect::<BTreeMap<_, _>>()
    };
    let outer = (0..10).map(|key| (format!("d{key}"), (0..100).map(|_| inner()).collect()));
    measure::<BTreeMap<String, Vec<BTreeMap<String, Vec<Tensor>>>>>("A4", &outer.collect());
}
