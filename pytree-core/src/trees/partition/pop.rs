//! Removes leaves from a model, for instance leaves that a forward pass has added.
//!
//! The model is flattened as a graph, nodes with the selected leaves are cut, and a model is built from the rest.
//! `plan` chooses the nodes, and this file cuts them.

mod plan;

use std::collections::BTreeMap;

use pytree_base::bug::{LEAVES, bug, expect_at, expect_next};

use self::plan::{Cut, Plan};
use super::{NO_PART, Partition, assign, select};
use crate::base::error::TreeError;
use crate::contract::handles::References;
use crate::contract::pytree::PytreeOf;
use crate::contract::unflatten::{Contents, fixed_nodes, unflatten_unchecked};
use crate::node::insertion::InsertionOrder;
use crate::node::leaf::Leaf;
use crate::node::shape::{self, NodeKind};
use crate::node::statics::StaticBox;
use crate::references::boundary;
use crate::treedef::{Builder, TreeDef};
use crate::trees::filter::Filter;

/// Removes from a model the leaves that a filter accepts. Returns these leaves as a part of the original model.
///
/// A `Some` becomes `None`, an item is removed from its `Vec` or from a tuple of variable length (as in sown values),
/// and an entry is removed from its map. If several of these enclose a leaf inside of one field with a kind, the
/// outermost `Some` whose leaves are all selected becomes `None`: so an `Option<Vec<_>>` becomes `None`, not an empty
/// `Vec`. Without such a `Some`, the outermost such item or entry is removed. A shared node is removed at all its
/// paths, and a weak edge to the node loses its target. If nothing is selected, the part is empty. To get several
/// parts, [`split`](Partition::split) the result.
///
/// # Examples
/// ```
/// use pytree_core::kind::Intermediate;
/// use pytree_core::{Filter, Module, partition};
///
/// #[derive(Module, Clone)]
/// struct Block {
///     #[param]
///     weight: f32,
///     #[state(Intermediate)]
///     mean: Option<f32>,
/// }
///
/// let mut blocks = vec![Block { weight: 2.0, mean: Some(0.5) }, Block { weight: 3.0, mean: None }];
/// let captured = partition::pop(&mut blocks, &Filter::state::<Intermediate>())?;
/// assert_eq!(captured["[0].mean"], 0.5);
/// assert_eq!(blocks[0].mean, None);
///
/// // A leaf in a plain field cannot be removed.
/// let mistake = partition::pop(&mut blocks, &Filter::param()).unwrap_err();
/// assert!(mistake.to_string().contains("[1].weight"));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// - [`TreeError::Held`] with every selected leaf that must be present, as in a plain field, a tuple or an array.
/// - [`TreeError::NoLeaf`] if a path of the filter does not exist.
/// - [`TreeError::Reference`] if a reference may not be read or written here.
///
/// If there is an error, nothing is changed.
#[doc(alias = "nnx.pop")]
#[track_caller]
pub fn pop<M: PytreeOf<L>, L: Leaf + Clone>(
    model: &mut M,
    filter: &Filter,
) -> Result<Partition<M, L>, TreeError> {
    boundary::repeated(|| pop_once(model, filter))
}

/// Pops like [`pop`], but returns a conflict error if another thread writes a reference of the model during the call.
#[track_caller]
fn pop_once<M: PytreeOf<L>, L: Leaf + Clone>(
    model: &mut M,
    filter: &Filter,
) -> Result<Partition<M, L>, TreeError> {
    let (leaves, treedef, references) = boundary::try_flatten_with_references::<L, M>(model)?;
    let (assigned, _) = assign(&treedef, &leaves, std::slice::from_ref(filter))?;
    let selected: Vec<bool> = assigned.iter().map(|&part| part != NO_PART).collect();
    let popped = select(&treedef.as_whole(), &leaves, |position| selected[position]);
    if popped.is_empty() {
        return Ok(popped);
    }
    let mut plan = Plan::new(&treedef, &selected);
    loop {
        plan.make();
        let rest = rest_of(&treedef, &leaves, &plan);
        match unflatten_unchecked::<M, L>(&rest.treedef, rest.leaves.clone()) {
            Ok(_) if !plan.held.is_empty() => {
                let nodes: Vec<usize> = plan.held.iter().copied().collect();
                let paths = treedef.node_paths(&nodes);
                return Err(TreeError::Held { paths });
            }
            Ok(built) if references.num_nodes() == 0 => {
                *model = built;
                return Ok(popped);
            }
            Ok(_) => {
                let (left, changed) = rest.references(&plan, &references);
                let contents = Contents::WrittenAt(&changed);
                let used = (&left, contents);
                let built = boundary::unflatten_part(&rest.treedef, rest.leaves, used, &references);
                *model = built?;
                return Ok(popped);
            }
            // In a treedef, an array looks like a list, and a tuple looks like sown values. Building the model shows
            // which nodes have a fixed number of children.
            Err(TreeError::Arity { .. }) if plan.fixed.is_empty() => {
                plan.fixed.extend(fixed_nodes::<M, L>(&treedef, &leaves)?);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A model without the removed leaves.
struct Rest<L> {
    treedef: TreeDef,
    leaves: Vec<L>,
    /// For each node of `treedef`, its position in the original treedef.
    old: Vec<usize>,
}

impl<L> Rest<L> {
    /// Returns the remaining references and shared nodes, and for each of them whether its value has changed.
    fn references(&self, plan: &Plan<'_>, references: &References) -> (References, Vec<bool>) {
        let before = plan.treedef;
        let numbered = before.numbered_nodes();
        let changed = before.numbered_changes(|node| {
            let lost = node
                .target()
                .is_some_and(|target| plan.is_cut(numbered[target]));
            lost || plan.cuts.contains_key(&node.position())
        });
        let numbers: BTreeMap<usize, usize> = numbered
            .iter()
            .enumerate()
            .map(|(number, &at)| (at, number))
            .collect();
        let expected = "the original position of each remaining node";
        let was = |&at: &usize| match numbers.get(expect_at(&self.old, at, expected)) {
            Some(number) => *number,
            None => bug("each remaining shared node to be a node of the original model"),
        };
        let was: Vec<usize> = self.treedef.numbered_nodes().iter().map(was).collect();
        let left = references.only(was.iter().copied());
        (
            left,
            was.into_iter().map(|number| changed[number]).collect(),
        )
    }
}

/// Returns the model without the nodes that the plan cuts.
fn rest_of<L: Clone>(treedef: &TreeDef, leaves: &[L], plan: &Plan<'_>) -> Rest<L> {
    let mut builder = Builder::default();
    let mut kept = Vec::with_capacity(leaves.len());
    let mut old = Vec::new();
    // For each shared node or reference, at its old index: its new index, or `None` if it was removed.
    let mut left = 0;
    let numbers: Vec<Option<usize>> = treedef
        .numbered_nodes()
        .iter()
        .map(|&at| {
            let is_left = !plan.is_cut(at);
            left += usize::from(is_left);
            is_left.then(|| left - 1)
        })
        .collect();
    let mut leaf = leaves.iter();
    // For each open node of `builder`, from the root down: the end of the node in the old treedef.
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(node) = treedef.node(at) {
        while open.last().is_some_and(|&end| end <= at) {
            open.pop();
            builder.exit();
        }
        let end = node.end();
        if let Some(cut) = plan.cuts.get(&at) {
            for _ in 0..node.num_leaves() {
                leaf.next();
            }
            if *cut == Cut::None {
                old.push(at);
                builder.enter(&shape::NONE, 0);
                builder.exit();
            }
            at = end;
            continue;
        }
        old.push(at);
        match node.kind() {
            NodeKind::Leaf => {
                builder.leaf_of(node);
                kept.push(expect_next(&mut leaf, LEAVES).clone());
            }
            NodeKind::Absent => builder.absent(node.splits()),
            NodeKind::Alias => {
                let number = node
                    .target()
                    .and_then(|old| numbers.get(old).copied().flatten());
                builder.alias(number);
            }
            kind => {
                let kept: Vec<bool> = node
                    .children()
                    .map(|child| plan.cuts.get(&child.position()) != Some(&Cut::Item))
                    .collect();
                builder.enter_shape(node.shape(), kept.iter().filter(|&&kept| kept).count());
                keys(kind, node.aux(), &kept)
                    .into_iter()
                    .for_each(|value| builder.aux(value));
                open.push(end);
            }
        }
        at += 1;
    }
    open.iter().for_each(|_| builder.exit());
    Rest {
        treedef: builder.finish(),
        leaves: kept,
        old,
    }
}

/// Returns the static values of a node after some of its children were removed; `kept` has a flag for each old child.
/// For a map, the result contains the remaining keys, followed by their insertion order if the keys are sorted.
fn keys(kind: NodeKind, aux: &[StaticBox], kept: &[bool]) -> Vec<StaticBox> {
    if !matches!(kind, NodeKind::Dict | NodeKind::OrderedDict) {
        return aux.to_vec();
    }
    let mut keys: Vec<StaticBox> = aux
        .iter()
        .zip(kept)
        .filter(|(_, kept)| **kept)
        .map(|(key, _)| key.clone())
        .collect();
    if kind == NodeKind::Dict {
        let order: InsertionOrder = aux.last().and_then(StaticBox::to_value).unwrap_or_default();
        let inserted = order.restore((0..kept.len()).collect());
        let mut ranks = Vec::with_capacity(kept.len());
        let mut rank = 0;
        for &kept in kept {
            ranks.push(rank);
            rank += usize::from(kept);
        }
        let positions: Vec<usize> = inserted
            .into_iter()
            .filter(|&position| *expect_at(kept, position, "a flag for each entry of a map"))
            .map(|position| ranks[position])
            .collect();
        keys.push(StaticBox::new(InsertionOrder::of_positions(&positions)));
    }
    keys
}
