//! Random dynamic trees, beside a plain description of each: what the laws compare them with.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use pytree::Tree;

/// A description of a tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    Leaf(i64),
    None,
    List(Vec<Plan>),
    Tuple(Vec<Plan>),
    Dict(BTreeMap<String, Plan>),
    Numbered(BTreeMap<i32, Plan>),
    /// Each key once.
    Ordered(Vec<(String, Plan)>),
}

impl Plan {
    /// The tree.
    pub fn tree(&self) -> Tree<i64> {
        let all = |plans: &[Self]| plans.iter().map(Self::tree).collect();
        match self {
            Self::Leaf(leaf) => Tree::leaf(*leaf),
            Self::None => Tree::none(),
            Self::List(children) => Tree::list(all(children)),
            Self::Tuple(children) => Tree::tuple(all(children)),
            Self::Dict(entries) => Tree::dict(
                entries
                    .iter()
                    .map(|(key, plan)| (key.clone(), plan.tree()))
                    .collect(),
            ),
            Self::Numbered(entries) => Tree::dict(
                entries
                    .iter()
                    .map(|(key, plan)| (*key, plan.tree()))
                    .collect(),
            ),
            Self::Ordered(entries) => Tree::ordered_dict(
                entries
                    .iter()
                    .map(|(key, plan)| (key.clone(), plan.tree()))
                    .collect(),
            ),
        }
    }

    /// The leaves in order.
    pub fn leaves(&self) -> Vec<i64> {
        match self {
            Self::Leaf(leaf) => vec![*leaf],
            Self::None => Vec::new(),
            Self::List(children) | Self::Tuple(children) => {
                children.iter().flat_map(Self::leaves).collect()
            }
            Self::Dict(entries) => entries.values().flat_map(Self::leaves).collect(),
            Self::Numbered(entries) => entries.values().flat_map(Self::leaves).collect(),
            Self::Ordered(entries) => entries.iter().flat_map(|(_, plan)| plan.leaves()).collect(),
        }
    }

    /// The same with all leaves 0: equal for two plans exactly if their trees have one structure.
    pub fn structure(&self) -> Self {
        let all = |plans: &[Self]| plans.iter().map(Self::structure).collect();
        match self {
            Self::Leaf(_) => Self::Leaf(0),
            Self::None => Self::None,
            Self::List(children) => Self::List(all(children)),
            Self::Tuple(children) => Self::Tuple(all(children)),
            Self::Dict(entries) => Self::Dict(
                entries
                    .iter()
                    .map(|(key, plan)| (key.clone(), plan.structure()))
                    .collect(),
            ),
            Self::Numbered(entries) => Self::Numbered(
                entries
                    .iter()
                    .map(|(key, plan)| (*key, plan.structure()))
                    .collect(),
            ),
            Self::Ordered(entries) => Self::Ordered(
                entries
                    .iter()
                    .map(|(key, plan)| (key.clone(), plan.structure()))
                    .collect(),
            ),
        }
    }
}

/// Texts of characters that a path must quote or that look like its punctuation.
pub fn texts() -> impl Strategy<Value = String> {
    let character = prop::sample::select(vec![
        'a', 'B', '7', ' ', '.', '[', ']', '(', ')', '\'', '"', '\\', '\n', '\t', '\r', 'é',
    ]);
    vec(character, 0..4).prop_map(|characters| characters.into_iter().collect())
}

fn plans_of(
    depth: u32,
    nodes: u32,
    leaves: impl Strategy<Value = i64> + 'static,
) -> impl Strategy<Value = Plan> {
    let end = prop_oneof![4 => leaves.prop_map(Plan::Leaf), 1 => Just(Plan::None)];
    end.prop_recursive(depth, nodes, 4, |inner| {
        let inner = inner.boxed();
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Plan::List),
            vec(inner.clone(), 0..4).prop_map(Plan::Tuple),
            btree_map(texts(), inner.clone(), 0..4).prop_map(Plan::Dict),
            // A dictionary without entries has no key type.
            btree_map(any::<i32>(), inner.clone(), 1..4).prop_map(Plan::Numbered),
            btree_map(texts(), inner, 0..4)
                .prop_map(|entries| Plan::Ordered(entries.into_iter().rev().collect())),
        ]
    })
}

/// Descriptions of trees of up to some dozens of nodes.
pub fn plans() -> impl Strategy<Value = Plan> {
    plans_of(4, 32, any::<i64>())
}

/// Descriptions of trees so small that two of them are often alike.
pub fn small_plans() -> impl Strategy<Value = Plan> {
    plans_of(2, 4, 0..2_i64)
}
