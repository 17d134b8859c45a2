//! Arguments and results of functions cross the boundary with their references.

use std::collections::BTreeMap;

use pytree_core::Contents::{Same, Written};
use pytree_core::boundary::{
    Outcome, References, Visited, copy, flatten_as, flatten_visited, flatten_with_references,
    unflatten_with_new_references, unflatten_with_references,
};
use pytree_core::shape::TUPLE;

use pytree_core::{Pytree, Ref, Shared, TreeDef, Visitor, WeakRef, graph};

#[derive(Pytree, Debug)]
struct Cells {
    left: Ref<i32>,
    right: Ref<i32>,
    other: Ref<Vec<i32>>,
}

fn cells() -> Cells {
    let left = Ref::new(1);
    Cells {
        right: left.clone(),
        left,
        other: Ref::new(vec![2, 3]),
    }
}

/// Calls a function as a transformation does.
fn cross<R: pytree_core::PytreeOf<i32>>(
    cells: &Cells,
    all: bool,
    function: impl FnOnce(Cells) -> R,
) -> (R, Outcome) {
    let (leaves, treedef, outside) = flatten_with_references::<i32, _>(cells);
    let (inner, inside): (Cells, References) =
        unflatten_with_new_references(&treedef, leaves).unwrap();
    assert_eq!(inside.len(), 2);
    assert!(inside.written().is_empty());
    let result = function(inner);
    let written = if all { vec![0, 1] } else { inside.written() };
    let (leaves, outcome) = Outcome::of::<i32, R>(&result, &inside, written);
    drop(result);
    (outcome.unflatten_result(leaves, &outside).unwrap(), outcome)
}

#[test]
fn written_values_reach_the_outer_references() {
    let outer = cells();
    let ((other, left, fresh), outcome) = cross(&outer, false, |cells| {
        cells.right.set(cells.left.get() + 10);
        (cells.other, cells.left, Ref::new(5))
    });
    assert_eq!((outer.left.get(), outer.right.get()), (11, 11));
    assert!(other.same(&outer.other) && left.same(&outer.left));
    assert_eq!(fresh.get(), 5);
    assert_eq!(
        outcome.result().to_string(),
        "PyTreeDef((node 1 of the argument, node 0 of the argument, *))"
    );
    assert_eq!(
        outcome.num_leaves(),
        2,
        "the new reference, and what was written to one of two"
    );
}

#[test]
fn unwritten_values_are_not_returned() {
    let outer = cells();
    let (result, outcome) = cross(&outer, false, |cells| cells.left.get());
    assert_eq!(
        (result, outcome.num_leaves(), outcome.written().count()),
        (1, 1, 0)
    );
    let (_, outcome) = cross(&outer, true, |cells| cells.left.get());
    let written: Vec<(usize, String)> = outcome
        .written()
        .map(|(at, value)| (at, value.to_string()))
        .collect();
    assert_eq!(
        written,
        [
            (0, "PyTreeDef(*)".to_owned()),
            (1, "PyTreeDef([*, *])".to_owned())
        ]
    );
}

#[test]
fn written_value_may_change_structure_and_share() {
    let outer = Ref::new(Vec::<Shared<i32>>::new());
    let (leaves, treedef, outside) = flatten_with_references::<i32, _>(&outer);
    let (inner, inside): (Ref<Vec<Shared<i32>>>, References) =
        unflatten_with_new_references(&treedef, leaves).unwrap();
    let node = Shared::new(4);
    inner.set(vec![node.clone(), node.clone()]);
    let (leaves, outcome) = Outcome::of::<i32, _>(&node, &inside, inside.written());
    assert_eq!(leaves, [4]);
    let node: Shared<i32> = outcome.unflatten_result(leaves, &outside).unwrap();
    assert!(outer.get().iter().all(|item| item.same(&node)) && outer.get().len() == 2);
}

#[test]
fn weak_handles_of_the_argument_are_returned() {
    let outer = cells();
    let (weak, _): (WeakRef<i32>, _) = cross(&outer, false, |cells| cells.left.downgrade());
    assert!(weak.upgrade().unwrap().same(&outer.left));
}

#[test]
fn given_references_are_reused() {
    let outer = cells();
    let (leaves, treedef, references) = flatten_with_references::<i32, _>(&outer);
    assert_eq!(leaves, [1, 2, 3]);
    let back: Cells =
        unflatten_with_references(&treedef, vec![7, 8, 9], &references, Written).unwrap();
    assert!(back.left.same(&outer.right) && back.other.same(&outer.other));
    assert_eq!((outer.left.get(), outer.other.get()), (7, vec![8, 9]));
    let back: Cells = unflatten_with_references(&treedef, vec![0; 3], &references, Same).unwrap();
    assert_eq!(back.right.get(), 7);
    assert!(copy::<i32, _>(&outer).other.same(&outer.other));
    // A failure writes nothing.
    let wrong: Result<(Ref<i32>, Ref<i32>, Ref<i32>), _> =
        unflatten_with_references(&treedef, vec![0, 0, 0], &references, Written);
    assert!(wrong.is_err());
    assert_eq!(outer.left.get(), 7);
    let swapped = (outer.other.clone(), outer.left.clone());
    let (_, treedef, _) = flatten_with_references::<i32, _>(&swapped);
    let error = unflatten_with_references::<i32, (Ref<Vec<i32>>, Ref<i32>)>(
        &treedef,
        vec![0; 3],
        &references,
        Written,
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("a reference of the same type")
    );
    assert_eq!(outer.left.get(), 7);
}

#[test]
fn stored_structure_matches_value_with_references() {
    let outer = cells();
    let treedef = graph::structure(&outer);
    let (leaves, references) =
        flatten_as::<i32, _>(&outer, &treedef, |leaves| leaves.len() == 3).unwrap();
    assert_eq!((leaves, references.len()), (vec![1, 2, 3], 2));
    assert!(flatten_as::<i32, _>(&outer, &treedef, |_| false).is_none());
    outer.other.set(vec![2]);
    assert!(flatten_as::<i32, _>(&outer, &treedef, |_| true).is_none());
    let apart = Cells {
        left: Ref::new(1),
        ..cells()
    };
    assert!(flatten_as::<i32, _>(&apart, &treedef, |_| true).is_none());
    let kinds = Cells {
        other: Ref::param(vec![2, 3]),
        ..cells()
    };
    assert!(flatten_as::<i32, _>(&kinds, &treedef, |_| true).is_none());
}

/// Values of one type and of different structures: the nodes that they share, static values, the number of leaves.
fn structures() -> Vec<(
    BTreeMap<String, Vec<Shared<i32>>>,
    Vec<WeakRef<i32>>,
    Ref<i32>,
)> {
    let value = |keys: &[&str], pattern: &[usize], weak: Option<usize>| {
        let nodes: Vec<Shared<i32>> = (0..4).map(Shared::new).collect();
        let (own, other) = (Ref::new(7), Ref::new(8));
        let list: Vec<Shared<i32>> = pattern.iter().map(|&at| nodes[at].clone()).collect();
        let all = keys.iter().map(|key| (String::from(*key), list.clone()));
        let weak = weak.map(|at| [&own, &other][at].downgrade());
        (all.collect(), weak.into_iter().collect(), own)
    };
    let patterns: [&[usize]; 6] = [&[], &[0], &[0, 1, 2], &[0, 1, 0], &[0, 1, 1], &[0, 0, 1]];
    let keys: [&[&str]; 4] = [&["a"], &["b"], &["a", "b"], &["a", "c"]];
    let mut values = Vec::new();
    for pattern in patterns {
        for keys in keys {
            values.push(value(keys, pattern, None));
            values.push(value(keys, pattern, Some(0)));
        }
    }
    values
}

#[test]
fn value_is_found_among_several_structures() {
    let values = structures();
    let structures: Vec<TreeDef> = values.iter().map(graph::structure).collect();
    let (_, nothing) = Outcome::of::<i32, _>(&(), &References::default(), Vec::new());
    for shift in 0..values.len() {
        let at = |position: usize| (position + shift) % values.len();
        for count in [1, 5, values.len()] {
            let known =
                |position| (position < count).then(|| (&structures[at(position)], &nothing));
            for (number, value) in values.iter().enumerate() {
                let (leaves, treedef, _) = flatten_with_references::<i32, _>(value);
                let choose = |position: usize, found: &[&i32]| {
                    assert!(found.iter().copied().eq(&leaves));
                    Some(position)
                };
                let found = Outcome::flatten_argument::<i32>(&value, &known, &choose);
                let expected = (0..count).find(|&position| structures[at(position)] == treedef);
                assert_eq!(
                    found.map(|found| found.0),
                    expected,
                    "{number} among {count} at {shift}"
                );
            }
        }
    }
}

#[test]
fn chosen_outcome_determines_kept_handles() {
    type Pair = (Shared<i32>, Shared<i32>);
    let argument: Pair = (Shared::new(1), Shared::new(2));
    let (leaves, treedef, outside) = flatten_with_references::<i32, _>(&argument);
    let outcome = |result: fn(Pair) -> Shared<i32>| {
        let (inner, inside) = unflatten_with_new_references(&treedef, leaves.clone()).unwrap();
        Outcome::of::<i32, _>(&result(inner), &inside, Vec::new()).1
    };
    let outcomes = [outcome(|pair| pair.0), outcome(|pair| pair.1)];
    drop(outside);
    let known = |at: usize| outcomes.get(at).map(|outcome| (&treedef, outcome));
    for (chosen, expected) in [&argument.0, &argument.1].into_iter().enumerate() {
        let choose = |_, _: &[&i32]| Some(chosen);
        let found = Outcome::flatten_argument::<i32>(&&argument, &known, &choose);
        let (at, leaves, references) = found.unwrap();
        assert_eq!((at, leaves), (chosen, vec![1, 2]));
        let result: Shared<i32> = outcomes[at]
            .unflatten_result::<i32, _>(Vec::new(), &references)
            .unwrap();
        assert!(result.same(expected));
    }
}

/// Two values at different places.
struct Both<'b>(&'b mut Cells, Vec<Ref<i32>>);

impl Visited<i32> for Both<'_> {
    fn visit<'v>(&'v self, visitor: &mut dyn Visitor<'v>) {
        visitor.enter(&TUPLE, 2);
        self.0.visit(visitor);
        self.1.visit(visitor);
        visitor.exit();
    }
}

#[test]
fn members_at_two_places_are_flattened_together() {
    let mut outer = cells();
    let left = vec![outer.left.clone()];
    let (leaves, treedef, references) = flatten_visited(&Both(&mut outer, left));
    assert_eq!((leaves, references.len()), (vec![1, 2, 3], 2));
    let ((cells, items), _): ((Cells, Vec<Ref<i32>>), _) =
        unflatten_with_new_references(&treedef, vec![4, 5, 6]).unwrap();
    assert!(items[0].same(&cells.right));
}

#[test]
fn references_are_found_in_a_structure() {
    let treedef = graph::structure(&(vec![0_i32], cells()));
    let places: Vec<(String, std::ops::Range<usize>, usize)> = treedef
        .references()
        .into_iter()
        .map(|place| {
            (
                place.path.to_string(),
                place.leaves,
                place.value.num_leaves(),
            )
        })
        .collect();
    let expected = [("[1].left", 1..2, 1), ("[1].other", 2..4, 2)];
    assert_eq!(
        places,
        expected.map(|(path, leaves, count)| (path.to_owned(), leaves, count))
    );
}

#[test]
fn all_paths_of_shared_node_are_shown() {
    let node = Shared::new(vec![1_i32, 2]);
    let inner = Ref::new(5_i32);
    let value = (node.clone(), inner.clone(), (node, 7_i32), inner);
    let treedef = graph::structure(&value);
    let (all, leaves) = treedef.with_all_places().unwrap();
    assert_eq!(all.to_string(), "PyTreeDef(([*, *], *, ([*, *], *), *))");
    assert_eq!(leaves, [0, 1, 2, 0, 1, 3, 2]);
    assert!(graph::structure(&(1, 2)).with_all_places().is_none());
}
