//! A tour of the functions on trees: flatten, unflatten, map, key paths, parts, prefixes, and a container with a
//! handwritten implementation.
//!
//! Run it with `cargo run --example tree_tour`. It prints:
//!
//!     # flatten and unflatten
//!     [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
//!     PyTreeDef([(Point { x: *, y: * }, *), (Point { x: *, y: * }, *)])
//!     [(Point { x: 2.0, y: 4.0 }, 6.0), (Point { x: 8.0, y: 10.0 }, 12.0)]
//!     [1, 'a', {'c': (Red, 2.5), 'k': None}]
//!     PyTreeDef([*, *, {'c': (*, *), 'k': None}]) with 4 leaves
//!     # map and reduce
//!     {"apple": [4.5], "pear": [1.5, 3.0]}
//!     {'apple': ['$3'], 'pear': ['$1', '$2']}
//!     {"apple": [90.0], "pear": [10.0, 40.0]}
//!     140
//!     cannot map two trees together: the trees differ in 2 places:
//!       number of children at ['apple']: 1 against 2
//!       number of children at ['pear']: 2 against 1
//!     # key paths
//!     [0].x = 1.0, or 0/x
//!     [0].y = 2.0, or 0/y
//!     [1]['a'][0] = 3.0, or 1/a/0
//!     3 at [1]['a'][0]
//!     no leaf at [1]['b'][0]; did you mean `[1]['a'][0]`?
//!     # parts
//!     [Point { x: 1.0, y: - }, Point { x: 3.0, y: - }] and [Point { x: -, y: 2.0 }, Point { x: -, y: 4.0 }]
//!     [Point { x: -1.0, y: 2.0 }, Point { x: -3.0, y: 4.0 }]
//!     # prefixes
//!     [42. 86.]
//!     [42. 86.]
//!     # registered by hand
//!     Named { name: "pair", left: -1.0, right: -2.0 }
//!     PyTreeDef(Named { left: *, right: *, name = 'pair' })
//!     static value at the root: name = 'pair' against name = 'couple'

use std::collections::BTreeMap;

use pytree::core::shape::{Field, NodeShape};
use pytree::core::{StaticRef, Unflattener, Visitor};
use pytree::prelude::*;
use pytree::{KeyPath, TreeError};
use pytree::{Leaf, PytreeOf};

/// A named tuple: a plain container, whose fields have no kind.
#[derive(Pytree, Clone, Debug, PartialEq)]
struct Point {
    x: f64,
    y: f64,
}

/// A type whose values are leaves.
#[derive(Leaf, Clone, Debug)]
enum Colour {
    Red,
}

fn flatten_and_unflatten() -> Result<(), TreeError> {
    println!("# flatten and unflatten");
    let value = vec![
        (Point { x: 1.0, y: 2.0 }, 3.0),
        (Point { x: 4.0, y: 5.0 }, 6.0),
    ];
    let (leaves, treedef) = tree::flatten(&value);
    println!("{leaves:?}");
    println!("{treedef}");
    let doubled: Vec<f64> = leaves.iter().map(|leaf| leaf * 2.0).collect();
    let doubled: Vec<(Point, f64)> = tree::unflatten(&treedef, doubled)?;
    println!("{doubled:?}");

    // Leaves may have different types, and `None` is a node without leaves.
    let mixed = tree!([1, "a", {"k": None, "c": (Colour::Red, 2.5)}]);
    println!("{mixed}");
    println!("{} with {} leaves", mixed.treedef(), mixed.leaves().len());
    Ok(())
}

fn map_and_reduce() -> Result<(), TreeError> {
    println!("# map and reduce");
    let prices = BTreeMap::from([("pear", vec![1.0, 2.0]), ("apple", vec![3.0])]);
    let counts = BTreeMap::from([("pear", vec![10, 20]), ("apple", vec![30])]);
    // A map to the same leaf type returns the same type. A map to another leaf type returns a tree.
    println!("{:?}", tree::map(&prices, |price: &f64| price * 1.5));
    println!(
        "{}",
        tree::map_to(&prices, |price: &f64| format!("${price}"))
    );
    let spent = tree::map2(&prices, &counts, |price: &f64, count: &i32| {
        price * f64::from(*count)
    })?;
    println!("{spent:?}");
    println!("{}", tree::reduce(&spent, 0.0, |sum, x: &f64| sum + x));

    // If two trees have different structures, the error lists all differences.
    let other = BTreeMap::from([("pear", vec![10]), ("apple", vec![30, 40])]);
    if let Err(error) = tree::map2(&prices, &other, |price: &f64, _: &i32| *price) {
        println!("{error}");
    }
    Ok(())
}

fn key_paths() -> Result<(), TreeError> {
    println!("# key paths");
    let value = (Point { x: 1.0, y: 2.0 }, BTreeMap::from([("a", vec![3.0])]));
    for (path, leaf) in tree::leaves_with_path::<f64, _>(&value) {
        println!("{path} = {leaf:?}, or {}", path.join("/"));
    }
    let path: KeyPath = "[1]['a'][0]".parse()?;
    println!("{} at {path}", Tree::from_value(&value).get(&path)?);
    if let Err(error) = Tree::<f64>::from_value(&value).get("[1]['b'][0]") {
        println!("{error}");
    }
    Ok(())
}

fn parts() -> Result<(), TreeError> {
    println!("# parts");
    let whole = vec![Point { x: 1.0, y: 2.0 }, Point { x: 3.0, y: 4.0 }];
    let filters = [Filter::path_contains("x"), Filter::everything()];
    let [xs, rest] = partition::split(&whole, filters)?;
    println!("{xs} and {rest}");
    println!("{:?}", partition::merge([xs.map(|x: &f64| -x), rest])?);
    Ok(())
}

fn prefixes() {
    println!("# prefixes");
    let scores = |(weights, x): (Tensor, (Tensor, Tensor))| (weights * (x.0 + x.1)).sum();
    let weights = Tensor::from([1.0_f32, 10.0]);
    let rows = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    let columns = Tensor::from([[1.0_f32, 3.0], [2.0, 4.0]]);
    // `None` means that no leaf of an argument is mapped. A number is the mapped axis of all leaves of an argument. A
    // tuple has an entry for each element of a tuple.
    let by_row = vmap(scores).in_axes((None, 0));
    println!(
        "{}",
        by_row((weights.clone(), (rows.clone(), rows.clone())))
    );
    let by_both = vmap(scores).in_axes((None, (0, 1)));
    println!("{}", by_both((weights, (rows, columns))));
}

/// A container with a handwritten implementation: two children, and a name that is part of the treedef.
#[derive(Clone, Debug)]
struct Named<T> {
    name: String,
    left: T,
    right: T,
}

impl<T> Named<T> {
    const SHAPE: &'static NodeShape = &NodeShape::of_struct::<Named<()>>(
        "Named",
        &[Field::plain("left"), Field::plain("right")],
        &["name"],
    );
}

impl<T: Pytree> Pytree for Named<T> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(Self::SHAPE, 2);
        visitor.aux(StaticRef::new(&self.name));
        self.left.visit(visitor);
        self.right.visit(visitor);
        visitor.exit();
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(Self::SHAPE, 2)?;
        Ok(Self {
            name: source.aux()?,
            left: T::unflatten(source)?,
            right: T::unflatten(source)?,
        })
    }
}
impl<L: Leaf + Clone, T: PytreeOf<L>> PytreeOf<L> for Named<T> {}

fn registered_by_hand() {
    println!("# registered by hand");
    let named = |name: &str| Named {
        name: name.to_owned(),
        left: 1.0,
        right: 2.0,
    };
    let negated = tree::map(&named("pair"), |leaf: &f64| -leaf);
    println!("{negated:?}");
    let (left, right) = (
        tree::structure(&named("pair")),
        tree::structure(&named("couple")),
    );
    println!("{left}");
    for difference in left.differences(&right) {
        println!("{difference}");
    }
}

fn main() -> Result<(), TreeError> {
    flatten_and_unflatten()?;
    map_and_reduce()?;
    key_paths()?;
    parts()?;
    prefixes();
    registered_by_hand();
    Ok(())
}
