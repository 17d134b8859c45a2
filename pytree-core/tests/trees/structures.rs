//! The structure of a value is the same whether it is built, copied from equal items, or found again.

use std::collections::BTreeMap;
use std::fmt;

use pytree_core::{Module, Pytree, Shared, graph, tree};

#[derive(Pytree, Clone)]
struct Pair {
    weight: f32,
    rest: (f32, [f32; 2]),
}

fn pair(value: f32) -> Pair {
    Pair {
        weight: value,
        rest: (value, [value; 2]),
    }
}

/// Compares the functions that find structures again with `flatten_any`, which visits each node.
fn assert_same_structures<T: pytree_core::PytreeOf<f32>>(value: &T) {
    let (leaves, visited) = tree::flatten_any(value);
    let (found, structure) = tree::flatten::<f32, T>(value);
    assert_eq!(structure, visited);
    assert_eq!(structure.to_bytes(), visited.to_bytes());
    assert_eq!(tree::structure(value).to_bytes(), visited.to_bytes());
    let found: Vec<Option<&f32>> = found.iter().map(Some).collect();
    let leaves: Vec<Option<&f32>> = leaves.iter().map(|leaf| leaf.downcast_ref()).collect();
    assert_eq!(found, leaves);
    assert_eq!(structure.num_leaves(), leaves.len());
    assert_eq!(graph::structure(value), graph::flatten_any(value).1);
}

#[test]
fn items_of_equal_structure_are_copied() {
    for length in [0, 1, 2, 5, 17] {
        assert_same_structures(&vec![pair(1.0); length]);
        assert_same_structures(&vec![1.0; length]);
        assert_same_structures(&vec![vec![pair(2.0); length]; 3]);
    }
    assert_same_structures(&[[pair(1.0), pair(2.0)], [pair(3.0), pair(4.0)]]);
    assert_same_structures(&vec![(pair(1.0), Box::new(2.0)); 3]);
    assert_same_structures(&vec![Shared::new(pair(1.0)); 3]);
    assert_same_structures(&vec![Some(1.0), None, Some(2.0)]);
}

#[test]
fn later_value_of_other_structure_is_not_confused() {
    let values = [
        vec![vec![1.0], vec![]],
        vec![vec![], vec![2.0]],
        vec![vec![3.0]],
        vec![vec![1.0], vec![], vec![]],
    ];
    let kept: Vec<_> = values.iter().map(tree::flatten::<f32, _>).collect();
    for (value, (_, structure)) in values.iter().zip(&kept) {
        assert_same_structures(value);
        assert_eq!(tree::flatten::<f32, _>(value).1, *structure);
    }
    let maps = ["a", "b"].map(|key| BTreeMap::from([(key.to_owned(), 1.0)]));
    let kept = maps.each_ref().map(tree::flatten::<f32, _>);
    assert_ne!(kept[0].1, kept[1].1);
    maps.iter().for_each(assert_same_structures);
}

/// A static value that equals every other value of its type.
#[derive(Clone)]
struct Note(String);

impl PartialEq for Note {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Note")
    }
}

#[derive(Module)]
struct Noted {
    #[param]
    weight: f32,
    #[r#static]
    note: Note,
}

#[test]
fn equal_static_value_is_not_replaced() {
    let noted = |text: &str| Noted {
        weight: 1.0,
        note: Note(text.to_owned()),
    };
    let (_, kept) = tree::flatten::<f32, _>(&noted("first"));
    let (leaves, structure) = tree::flatten::<f32, _>(&noted("second"));
    assert_eq!(kept, structure);
    let rebuilt: Noted = tree::unflatten(&structure, leaves).unwrap();
    assert_eq!((rebuilt.note.0.as_str(), rebuilt.weight), ("second", 1.0));
}
