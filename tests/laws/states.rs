//! Laws of states: flat and nested forms, states laid over each other, what is popped, and flat dictionaries.

use proptest::collection::vec;
use proptest::prelude::*;
use pytree::{
    Dictionary, Filter, KeyPath, Module, Partition, Shared, Tree, graph, nodes, partition, tree,
};

use crate::laws::cases;
use crate::laws::dynamic::plans;
use crate::laws::typed::models;

/// Which of the leaves, by the bits of a number.
fn chosen(bits: u64, position: usize) -> bool {
    bits >> (position % 64) & 1 == 1
}

/// The part of the leaves whose bits are set.
fn part(tree: &Tree<i64>, bits: u64) -> Partition<Tree<i64>, i64> {
    partition::select(tree.treedef(), tree.leaves(), |position| {
        chosen(bits, position)
    })
}

/// Places that may each be empty, some of one node.
#[derive(Module, Clone, Debug)]
struct Places {
    #[param]
    items: Vec<Shared<f64>>,
    #[param]
    options: Vec<Option<Shared<f64>>>,
    #[param]
    inside: Shared<Vec<Shared<f64>>>,
    #[param]
    inside_too: Shared<Vec<Shared<f64>>>,
}

fn places() -> impl Strategy<Value = Places> {
    let numbers = || vec(0..6_usize, 0..6);
    (numbers(), numbers(), numbers(), any::<bool>()).prop_map(|(items, options, inside, same)| {
        let nodes: Vec<Shared<f64>> = (0..6_u8)
            .map(|number| Shared::new(f64::from(number)))
            .collect();
        let all = |numbers: &[usize]| -> Vec<Shared<f64>> {
            numbers
                .iter()
                .map(|&number| nodes[number].clone())
                .collect()
        };
        let inside = Shared::new(all(&inside));
        Places {
            items: all(&items),
            options: all(&options).into_iter().map(Some).collect(),
            inside_too: if same {
                inside.clone()
            } else {
                Shared::new(inside.to_vec())
            },
            inside,
        }
    })
}

/// The values of all places that hold one.
fn held(places: &Places) -> Vec<f64> {
    tree::leaves::<f64, _>(places)
        .into_iter()
        .copied()
        .collect()
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn flat_state_in_any_order_is_state(plan in plans(), bits in any::<u64>(), turn in any::<usize>()) {
        let tree = plan.tree();
        let mut flat = tree.to_flat();
        let turn = turn % flat.len().max(1);
        flat.rotate_left(turn);
        prop_assert_eq!(&Tree::from_flat(tree.treedef(), flat).unwrap(), &tree);

        let some = part(&tree, bits);
        let mut flat = some.to_flat();
        flat.reverse();
        prop_assert_eq!(&Partition::from_flat(tree.treedef(), flat).unwrap(), &some);
    }

    #[test]
    fn pure_dictionaries_round_trip(plan in plans(), bits in any::<u64>()) {
        let tree = plan.tree();
        let pure = tree.to_pure_dict().unwrap();
        prop_assert_eq!(pure.leaves().len(), tree.leaves().len());
        let zeros = tree.map(|_| 0);
        prop_assert_eq!(&zeros.replace_by_pure_dict(&pure).unwrap(), &tree);
        prop_assert_eq!(&pure.to_pure_dict().unwrap(), &pure, "pure dictionaries are pure");
        if !tree.leaves().is_empty() {
            prop_assert_eq!(&Tree::nested(tree.to_flat()).unwrap(), &pure, "by paths alone");
        }

        // Some of them replace some.
        let some = part(&tree, bits);
        prop_assume!(!some.is_empty());
        let replaced = zeros.replace_by_pure_dict(&some.to_pure_dict().unwrap()).unwrap();
        let expected: Vec<i64> = tree.leaves().iter().enumerate()
            .map(|(position, &leaf)| if chosen(bits, position) { leaf } else { 0 })
            .collect();
        prop_assert_eq!(replaced.leaves(), expected);
    }

    #[test]
    fn later_state_wins_a_merge(plan in plans(), first in any::<u64>(), second in any::<u64>()) {
        let tree = plan.tree();
        let (a, b) = (part(&tree, first), part(&tree.map(|leaf| leaf.wrapping_add(1)), second));
        let merged = partition::merge_state([a.clone(), b.clone()]).unwrap();
        let rest = a.without(&b);
        prop_assert_eq!(merged.len(), rest.len() + b.len());
        prop_assert_eq!(&partition::merge_state([b.clone(), rest.clone()]).unwrap(), &merged);
        prop_assert!(b.without(&merged).is_empty());

        // An update by what was merged is one update after the other.
        let (mut once, mut twice) = (tree.clone(), tree);
        partition::update(&mut once, &merged).unwrap();
        partition::update(&mut twice, &a).unwrap();
        partition::update(&mut twice, &b).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn removed_leaf_can_be_inserted_again(plan in plans(), at in any::<usize>()) {
        let tree = plan.tree();
        prop_assume!(!tree.leaves().is_empty());
        let path: KeyPath = tree.treedef().leaf_paths()[at % tree.leaves().len()].clone();
        let mut changed = tree.clone();
        let leaf = changed.remove(&path).unwrap();
        prop_assert_eq!(changed.leaves().len() + 1, tree.leaves().len());
        prop_assert!(changed.get(&path).is_err());
        prop_assert_eq!(changed.insert(&path, leaf).unwrap(), None);
        prop_assert_eq!(changed, tree);
    }

    #[test]
    fn pop_removes_only_selected_leaves(places in places(), bits in any::<u64>()) {
        let before = places.clone();
        let selected = move |value: f64| chosen(bits, value as usize);
        let filter = Filter::predicate(move |_, leaf| leaf.downcast_ref().is_some_and(|&value| selected(value)));
        let mut model = places;
        let popped = partition::pop(&mut model, &filter).unwrap();
        prop_assert!(popped.leaves().iter().all(|&value| selected(value)));
        prop_assert_eq!(&popped, &partition::filter(&before, &filter));
        let rest: Vec<f64> = held(&before).into_iter().filter(|&value| !selected(value)).collect();
        prop_assert_eq!(held(&model), rest);
        prop_assert_eq!(model.options.len(), before.options.len());
        prop_assert_eq!(model.inside.same(&model.inside_too), before.inside.same(&before.inside_too));
        let all = || model.items.iter().chain(model.options.iter().flatten()).chain(model.inside.iter());
        for left in all() {
            for right in all() {
                prop_assert_eq!(left.same(right), **left == **right, "what was shared is");
            }
        }
    }

    #[test]
    fn dictionaries_keep_sharing_and_tell_by_hash(places in places(), model in models()) {
        let flat = Dictionary::flatten(&places);
        let back: Places = flat.unflatten().unwrap();
        prop_assert_eq!(nodes::find_duplicates(&back), nodes::find_duplicates(&places));
        prop_assert_eq!(graph::structure(&back), graph::structure(&places));
        prop_assert_eq!(Dictionary::flatten(&back).content_hash(), flat.content_hash());
        prop_assert_eq!(Dictionary::flatten(&nodes::copy(&places)).to_string(), flat.to_string());
        for (path, leaf) in tree::leaves_with_path::<f64, _>(&places) {
            prop_assert_eq!(flat.get(&path).unwrap().downcast_ref::<f64>(), Some(leaf), "{}", path);
        }
        let back: crate::laws::typed::Model<String> = Dictionary::flatten(&model).unflatten().unwrap();
        prop_assert_eq!(back, model);
    }
}
