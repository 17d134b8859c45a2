//! Leaves of a stranger: a label, which is not an array, and an array of another library.

use std::borrow::Cow;

use pytree::checkpoint::Bytes;
use pytree::core::leaf::{ArrayLeaf, LeafError, ReadRegion};
use pytree::core::{ArrayInfo, ElementType};
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

/// Half-precision numbers as their bits.
#[derive(Leaf, Clone, Debug, PartialEq)]
pub struct Halves(Vec<u16>, [usize; 2]);

impl ArrayLeaf for Halves {
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: ElementType::F16,
            shape: &self.1,
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        let bytes = self.0.iter().flat_map(|bits| bits.to_ne_bytes());
        Ok(Cow::Owned(bytes.collect()))
    }
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        let mut bytes = vec![0; 2 * self.0.len()];
        read(&[0..self.1[0], 0..self.1[1]], &mut bytes)?;
        let bits = bytes
            .chunks(2)
            .map(|bits| u16::from_ne_bytes([bits[0], bits[1]]));
        Ok(Box::new(Self(bits.collect(), self.1)))
    }
}

#[test]
fn array_of_another_library_is_stored() {
    let halves = Halves(vec![0x3c00, 0x4000], [1, 2]);
    let bytes = checkpoint::to_bytes(&vec![halves.clone()]).unwrap();
    let template = vec![Halves(vec![0, 0], [1, 2])];
    let loaded = checkpoint::load(Bytes(&bytes), &template).unwrap();
    assert_eq!(loaded, [halves]);
    let tensors =
        checkpoint::load(Bytes(&bytes), &vec![Tensor::zeros(DType::F16, [1, 2])]).unwrap();
    assert_eq!(tensors[0].convert(DType::F32).to_vec::<f32>(), [1.0, 2.0]);
    let other = vec![Halves(vec![0; 3], [1, 3])];
    let text = checkpoint::load(Bytes(&bytes), &other)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("[0] is f16[1,2] in the file, expected f16[1,3]"),
        "{text}"
    );
}
