//! A leaf of a stranger that is not an array.

use pytree::prelude::*;
use pytree::{Collection, Leaf, LeafKind, nodes};

use crate::container::ByName;

#[derive(Leaf, Clone, Debug, PartialEq)]
pub struct Label(pub String);

/// Notes of people, which no program computes.
#[derive(Collection)]
pub struct Note;

/// A tensor and what is known of it.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Noted {
    #[param]
    value: Tensor,
    #[state(Note)]
    notes: ByName<Label>,
}

fn noted() -> Noted {
    let label = |text: &str| Label(text.to_owned());
    Noted {
        value: Tensor::from([1.0_f32, 2.0]),
        notes: ByName::new([("origin", label("lab")), ("unit", label("metre"))]),
    }
}

#[test]
fn labels_are_leaves_of_a_tree() {
    let notes = noted().notes;
    let labels: Vec<&Label> = tree::leaves(&notes);
    assert_eq!(
        labels,
        [&Label("lab".to_owned()), &Label("metre".to_owned())]
    );
    let loud = tree::map(&notes, |label: &Label| Label(label.0.to_uppercase()));
    assert_eq!(loud.get("unit").unwrap().0, "METRE");
    nodes::check_impl(&noted()).unwrap();
}

#[test]
fn collection_selects_labels_of_a_mixed_model() {
    assert_eq!(Note::NAME, "Note");
    let structure = tree::structure(&noted());
    let [value, note, _] = structure.leaf_kinds()[..] else {
        panic!("three leaves");
    };
    assert_eq!((value, note), (Some(LeafKind::Param), Some(Note::KIND)));
    assert_eq!(note.unwrap().to_string(), "Note");
}

#[test]
fn difference_shows_labels() {
    let mut other = noted();
    for label in other.notes.values_mut() {
        label.0.push('s');
    }
    let difference = diff(&noted(), &other).to_string();
    assert!(difference.contains("metres"), "{difference}");
}
