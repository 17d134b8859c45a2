//! "Pytrees" of JAX: containers and leaves, prefixes as parameters, and types registered by hand.

use std::collections::BTreeMap;

use pytree::Leaf;
use pytree::core::shape::{Field, NodeShape};
use pytree::core::{Unflattener, Visitor};
use pytree::prelude::*;
use pytree::{AnyLeaf, TreeDef, TreeError};

use crate::seeds::printed::{Printed, listed};

/// A value that is not a container: Python's `object()`.
#[derive(Leaf, Clone, Debug)]
struct Object;

#[test]
fn example_leaf_counts_match_the_document() {
    assert_eq!(tree!([1, "a", Object]).leaves().len(), 3);
    assert_eq!(tree!((1, (2, 3), ())).leaves().len(), 3);
    assert_eq!(tree!([1, {"k1": 2, "k2": (3, 4)}, 5]).leaves().len(), 5);
    assert_eq!(
        tree::structure(&7),
        TreeDef::leaf(),
        "a single leaf is a pytree too"
    );
}

type Arguments = (Tensor, BTreeMap<&'static str, Tensor>);

fn arguments(a1: Tensor) -> Arguments {
    let a2 = Tensor::from([1.0_f32, 2.0, 3.0]);
    let a3 = Tensor::from([10.0_f32, 20.0, 30.0]);
    (a1, BTreeMap::from([("k1", a2), ("k2", a3)]))
}

fn weighted((a1, dictionary): Arguments) -> Tensor {
    a1.sum() + (&dictionary["k1"] * &dictionary["k2"]).sum()
}

#[test]
fn axes_of_vmap_are_prefix_of_arguments() {
    let a1 = Tensor::from([100.0_f32, 200.0, 300.0]);
    // `(None, 0)`: the dictionary is mapped, the first argument is the same for all.
    let second = vmap(weighted).in_axes((None, 0))(arguments(a1.clone()));
    assert_eq!(second.to_vec::<f32>(), [610.0, 640.0, 690.0]);
    // `0` for everything, which is the default.
    let all = vmap(weighted).in_axes(0)(arguments(a1.clone()));
    assert_eq!(all.to_vec::<f32>(), [110.0, 240.0, 390.0]);
    let default = vmap(weighted)(arguments(a1.clone()));
    assert_eq!(default, all);
    // One leaf below the second argument; a tuple replaces the dictionary.
    let (a1, mut dictionary) = arguments(a1);
    let (a2, a3) = (
        dictionary.remove("k1").expect("k1 is there"),
        dictionary.remove("k2").expect("k2 is there"),
    );
    let of_tuples = |(a1, (a2, a3)): (Tensor, (Tensor, Tensor))| a1.sum() + (a2 * a3).sum();
    let third = vmap(of_tuples).in_axes((None, (None, 0)))((a1, (a2, a3)));
    assert_eq!(third.to_vec::<f32>(), [660.0, 720.0, 780.0]);
}

#[test]
fn value_is_transformed_by_its_leaves() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let value_structured = tree!([1.0, (2.0, 3.0)]);
    let (value_flat, value_tree) = tree::flatten_any(&value_structured);
    out.say(format_args!(
        "value_flat={}\nvalue_tree={value_tree}",
        listed(&value_flat)
    ));
    let transformed_flat: Vec<f64> = value_flat
        .iter()
        .filter_map(|v| v.downcast_ref::<f64>().map(|v| v * 2.0))
        .collect();
    out.say(format_args!("transformed_flat={transformed_flat:?}"));
    let transformed_structured: Tree<f64> = tree::unflatten(&value_tree, transformed_flat)?;
    out.say(format_args!(
        "transformed_structured={transformed_structured}"
    ));
    // The treedef in the notation that JAX prints today, not in that of the document.
    out.expect(
        "
        value_flat=[1.0, 2.0, 3.0]
        value_tree=PyTreeDef([*, (*, *)])
        transformed_flat=[2.0, 4.0, 6.0]
        transformed_structured=[2.0, (4.0, 6.0)]
        ",
    );
    Ok(())
}

/// Prints a value, its leaves and treedef, and what they make together.
fn show_example<T: Pytree>(out: &mut Printed, structured: &T) -> Result<(), TreeError> {
    let (flat, treedef) = tree::flatten_any(structured);
    let leaves = listed(&flat);
    let unflattened: T = tree::unflatten::<T, AnyLeaf>(&treedef, flat)?;
    out.say(format_args!("structured={}", Tree::of(structured)));
    out.say(format_args!("  flat={leaves}"));
    out.say(format_args!("  tree={treedef}"));
    out.say(format_args!("  unflattened={}", Tree::of(&unflattened)));
    Ok(())
}

/// The named tuple of the document: a struct is one.
#[derive(Pytree, Clone, Debug)]
struct Point {
    x: f64,
    y: f64,
}

#[test]
fn the_example_containers_come_back() -> Result<(), TreeError> {
    let mut out = Printed::default();
    show_example(&mut out, &(1.0, vec![2.0, 3.0]))?;
    show_example(&mut out, &(1.0, BTreeMap::from([("b", 2.0), ("a", 3.0)])))?;
    show_example(&mut out, &1.0)?;
    show_example(&mut out, &None::<f64>)?;
    show_example(&mut out, &Tensor::zeros(DType::F32, [2]))?;
    show_example(&mut out, &Point { x: 1.0, y: 2.0 })?;
    // A map prints in the order of its keys, which is that of its leaves.
    out.expect(
        "
        structured=(1.0, [2.0, 3.0])
          flat=[1.0, 2.0, 3.0]
          tree=PyTreeDef((*, [*, *]))
          unflattened=(1.0, [2.0, 3.0])
        structured=(1.0, {'a': 3.0, 'b': 2.0})
          flat=[1.0, 3.0, 2.0]
          tree=PyTreeDef((*, {'a': *, 'b': *}))
          unflattened=(1.0, {'a': 3.0, 'b': 2.0})
        structured=1.0
          flat=[1.0]
          tree=PyTreeDef(*)
          unflattened=1.0
        structured=None
          flat=[]
          tree=PyTreeDef(None)
          unflattened=None
        structured=Tensor([0., 0.], dtype=f32)
          flat=[Tensor([0., 0.], dtype=f32)]
          tree=PyTreeDef(*)
          unflattened=Tensor([0., 0.], dtype=f32)
        structured=Point { x: 1.0, y: 2.0 }
          flat=[1.0, 2.0]
          tree=PyTreeDef(Point { x: *, y: * })
          unflattened=Point { x: 1.0, y: 2.0 }
        ",
    );
    Ok(())
}

/// A type that is not a node: in Python any class that is not registered, here a type with a derive.
#[derive(Leaf, Clone, Debug)]
struct Special {
    x: f64,
    y: f64,
}

/// The same two numbers, registered by hand as a node with two children and no static data.
#[derive(Clone, Debug)]
struct RegisteredSpecial {
    x: f64,
    y: f64,
}

impl RegisteredSpecial {
    const SHAPE: &'static NodeShape = &NodeShape::of_struct::<Self>(
        "RegisteredSpecial",
        &[Field::plain("x"), Field::plain("y")],
        &[],
    );
}

impl Pytree for RegisteredSpecial {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(Self::SHAPE, 2);
        self.x.visit(visitor);
        self.y.visit(visitor);
        visitor.exit();
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(Self::SHAPE, 2)?;
        Ok(Self {
            x: f64::unflatten(source)?,
            y: f64::unflatten(source)?,
        })
    }
}

#[test]
fn type_is_leaf_until_it_is_registered() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let special = Special { x: 1.0, y: 2.0 };
    show_example(&mut out, &special)?;
    let Special { x, y } = special;
    show_example(&mut out, &RegisteredSpecial { x, y })?;
    out.expect(
        "
        structured=Special { x: 1.0, y: 2.0 }
          flat=[Special { x: 1.0, y: 2.0 }]
          tree=PyTreeDef(*)
          unflattened=Special { x: 1.0, y: 2.0 }
        structured=RegisteredSpecial { x: 1.0, y: 2.0 }
          flat=[1.0, 2.0]
          tree=PyTreeDef(RegisteredSpecial { x: *, y: * })
          unflattened=RegisteredSpecial { x: 1.0, y: 2.0 }
        ",
    );
    Ok(())
}

/// The document ends with a pointer to the functions on trees.
#[test]
fn functions_map_reduce_and_list_the_leaves() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let points = vec![Point { x: 1.0, y: 2.0 }, Point { x: 3.0, y: 4.0 }];
    out.say(tree::reduce(&points, 0.0, |sum, leaf: &f64| sum + leaf));
    out.say(Tree::of(&tree::map(&points, |leaf: &f64| leaf * 10.0)));
    let names = tree::map_to(&points, |leaf: &f64| format!("{leaf:.1}"));
    out.say(&names);
    let only_x = tree::map_with_path(&points, |path, leaf: &f64| {
        if path.join("/").ends_with('x') {
            *leaf
        } else {
            0.0
        }
    });
    out.say(Tree::of(&only_x));
    let sums = tree::map2(&points, &only_x, |left: &f64, right: &f64| left + right)?;
    for (path, leaf) in tree::leaves_with_path::<f64, _>(&sums) {
        out.say(format_args!("{path} = {leaf}"));
    }
    for child in tree::structure(&sums).children() {
        let (leaves, nodes) = (child.num_leaves(), child.num_nodes());
        out.say(format_args!("{child}: {leaves} leaves, {nodes} nodes"));
    }
    out.expect(
        "
        10
        [Point { x: 10.0, y: 20.0 }, Point { x: 30.0, y: 40.0 }]
        [Point { x: '1.0', y: '2.0' }, Point { x: '3.0', y: '4.0' }]
        [Point { x: 1.0, y: 0.0 }, Point { x: 3.0, y: 0.0 }]
        [0].x = 2
        [0].y = 2
        [1].x = 6
        [1].y = 4
        PyTreeDef(Point { x: *, y: * }): 2 leaves, 3 nodes
        PyTreeDef(Point { x: *, y: * }): 2 leaves, 3 nodes
        ",
    );
    Ok(())
}
