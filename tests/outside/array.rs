//! A stranger's array as a leaf, with public items only.

use std::borrow::Cow;

use pytree::checkpoint::Bytes;
use pytree::core::leaf::{ArrayLeaf, LeafError, ReadRegion};
use pytree::core::{ArrayInfo, ElementType};
use pytree::prelude::*;
use pytree::{Leaf, lint, mixed};

/// A matrix or a row of numbers.
#[derive(Leaf, Clone, Debug, PartialEq)]
#[leaf(param)]
pub struct Grid {
    pub shape: Vec<usize>,
    pub elements: Vec<f32>,
}

impl ArrayLeaf for Grid {
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: ElementType::F32,
            shape: &self.shape,
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        let bytes = self.elements.iter().flat_map(|it| it.to_ne_bytes());
        Ok(Cow::Owned(bytes.collect()))
    }
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        let whole: Vec<_> = self.shape.iter().map(|&length| 0..length).collect();
        let mut bytes = vec![0; 4 * self.elements.len()];
        read(&whole, &mut bytes)?;
        let elements = bytes.as_chunks().0.iter();
        Ok(Box::new(Self {
            shape: self.shape.clone(),
            elements: elements.map(|&it| f32::from_ne_bytes(it)).collect(),
        }))
    }
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Scale {
    #[param("rows columns")]
    factors: Grid,
    #[state]
    steps: i64,
}

fn scale(elements: [f32; 4]) -> Scale {
    let factors = Grid {
        shape: vec![2, 2],
        elements: elements.to_vec(),
    };
    Scale { factors, steps: 3 }
}

#[test]
fn array_is_listed_and_compared() {
    let model = scale([1.0, 2.0, 3.0, 4.0]);
    let table = summary(&model).to_string();
    assert!(
        table.contains("│ factors │ Param │ f32[rows=2,columns=2] │"),
        "{table}"
    );
    let other = scale([1.0, 2.0, 3.0, 4.5]);
    let difference = diff(&model, &other);
    let (leaf, values) = difference.largest().unwrap();
    assert_eq!((&*leaf.path.to_string(), values.absolute), ("factors", 0.5));
    assert!(difference.within(0.5) && !difference.within(0.4));
    assert_eq!(lint(&scale([1.0, 2.0, f32::NAN, 0.0])).len(), 1);
    let mut wrong = model;
    wrong.factors.shape = vec![4];
    let text = wrong.check_shapes().unwrap_err().to_string();
    assert!(
        text.contains("factors is f32[4], expected [rows columns]"),
        "{text}"
    );
}

#[test]
fn array_is_mapped_and_selected() {
    let model = scale([1.0, 2.0, 3.0, 4.0]);
    let doubled = mixed(&model).map_of(|grid: &Grid| Grid {
        shape: grid.shape.clone(),
        elements: grid.elements.iter().map(|it| it * 2.0).collect(),
    });
    let doubled: Scale = doubled.to_value().unwrap();
    assert_eq!(doubled, scale([2.0, 4.0, 6.0, 8.0]));
    let params = partition::filter(&mixed(&doubled), &Filter::param());
    let merged = partition::replace(&mixed(&model), &params).unwrap();
    assert_eq!(merged.into_model().unwrap(), doubled);
}

#[test]
fn array_is_stored() {
    let model = scale([1.0, 2.0, 3.0, 4.0]);
    let file = checkpoint::to_bytes(&model).unwrap();
    assert_eq!(
        checkpoint::load(Bytes(&file), &scale([0.0; 4])).unwrap(),
        model
    );
    let mut wrong = scale([0.0; 4]);
    wrong.factors.shape = vec![4, 1];
    let text = checkpoint::load(Bytes(&file), &wrong)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("factors is f32[2,2] in the file, expected [rows columns] = f32[4,1]"),
        "{text}"
    );
}
