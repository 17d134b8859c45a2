//! A container type with a handwritten implementation, and a dynamic tree that a macro builds.

use pytree::Leaf;
use pytree::core::shape::{Field, NodeShape};
use pytree::core::{StaticRef, Unflattener, Visitor};
use pytree::prelude::*;
use pytree::{PytreeOf, TreeError};

/// Two children and a name that is part of the structure.
#[derive(Clone, Debug, PartialEq)]
struct Special<T> {
    x: T,
    y: T,
    name: String,
}

impl<T> Special<T> {
    const SHAPE: &'static NodeShape = &NodeShape::of_struct::<Special<()>>(
        "Special",
        &[Field::plain("x"), Field::plain("y")],
        &["name"],
    );
}

impl<T: Pytree> Pytree for Special<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(Self::SHAPE, 2);
        visitor.aux(StaticRef::new(&self.name));
        self.x.visit(visitor);
        self.y.visit(visitor);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(Self::SHAPE, 2)?;
        Ok(Self {
            name: source.aux()?,
            x: T::unflatten(source)?,
            y: T::unflatten(source)?,
        })
    }
}
impl<L: Leaf + Clone, T: PytreeOf<L>> PytreeOf<L> for Special<T> {}

#[test]
fn container_registered_by_hand_is_pytree() {
    let special = Special {
        x: 1.0_f64,
        y: 2.0,
        name: "pair".to_owned(),
    };
    let (leaves, treedef) = tree::flatten(&special);
    assert_eq!(leaves, [1.0, 2.0]);
    assert_eq!(
        treedef.to_string(),
        "PyTreeDef(Special { x: *, y: *, name = 'pair' })"
    );
    assert_eq!(
        tree::unflatten::<Special<f64>, f64>(&treedef, leaves).unwrap(),
        special
    );
    let too_many = tree::unflatten::<Special<f64>, f64>(&treedef, vec![1.0, 2.0, 3.0])
        .unwrap_err()
        .to_string();
    assert!(
        too_many.contains("expected 2 leaves, found 3"),
        "{too_many}"
    );
    let too_few = tree::unflatten::<Special<f64>, f64>(&treedef, vec![1.0])
        .unwrap_err()
        .to_string();
    assert!(
        too_few.contains("expected 2 leaves, found 1") && too_few.contains('y'),
        "{too_few}"
    );

    let tensors = Special {
        x: Tensor::from(2.0_f32),
        y: Tensor::from(3.0_f32),
        name: "t".to_owned(),
    };
    let product = jit(|s: Special<Tensor>| Special {
        x: &s.x * &s.y,
        y: &s.x + &s.y,
        name: s.name,
    });
    assert_eq!(product(tensors).x.item::<f32>(), 6.0);
}

#[test]
fn a_dynamic_tree_is_written_by_macro() {
    let tree = tree!([(1, 2), "123", {"1": 1, "2": [4, 5]}]);
    assert_eq!(tree.to_string(), "[(1, 2), '123', {'1': 1, '2': [4, 5]}]");
    assert_eq!(
        tree.treedef().to_string(),
        "PyTreeDef([(*, *), *, {'1': *, '2': [*, *]}])"
    );
    let leaves: Vec<String> = tree
        .leaves()
        .iter()
        .map(|leaf| format!("{leaf:?}"))
        .collect();
    assert_eq!(leaves, ["1", "2", "\"123\"", "1", "4", "5"]);
    let paths: Vec<String> = tree
        .iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect();
    assert_eq!(
        paths,
        [
            "[0][0]",
            "[0][1]",
            "[1]",
            "[2]['1']",
            "[2]['2'][0]",
            "[2]['2'][1]"
        ]
    );
    let back: Tree = tree::unflatten(tree.treedef(), tree.leaves().to_vec()).unwrap();
    assert_eq!(back.to_string(), tree.to_string());
}
