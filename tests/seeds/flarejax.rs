//! References through flattening and unflattening, of `FlareJax`. Entries are in the order of the structure; there they
//! are in that of hashes.

use std::collections::BTreeMap;

use pytree::core::shape::NodeKind;
use pytree::core::{Unflattener, Visitor, Weak};
use pytree::{Dictionary, Pytree, Shared, Tensor, TreeError, jit, nodes, tree};

use crate::printed::{Printed, listed};

type Lists = BTreeMap<&'static str, Shared<Vec<i32>>>;

fn lists() -> Lists {
    let x = Shared::new(vec![1, 2]);
    BTreeMap::from([("a", x.clone()), ("b", x)])
}

#[test]
fn a_tree_is_leaves_and_a_structure() {
    let mut out = Printed::default();
    let x = tree!({"a": 1, "b": {"c": 2, "d": 3}});
    out.say(format_args!(
        "Data: {}, Structure: {}",
        listed(x.leaves()),
        x.treedef()
    ));
    out.expect("Data: [1, 2, 3], Structure: PyTreeDef({'a': *, 'b': {'c': *, 'd': *}})");
}

#[test]
fn trees_break_shared_references() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let y1 = lists();
    assert!(y1["a"].same(&y1["b"]));
    let (leaves, aux) = tree::flatten::<i32, _>(&y1);
    out.say(format_args!("Leaves: {leaves:?}, Structure {aux}"));
    let y2: Lists = tree::unflatten(&aux, vec![1, 2, 3, 2])?;
    out.say(format_args!(
        "Modified y2 {:?}",
        tree::leaves::<i32, _>(&y2)
    ));
    out.expect(
        "
        Leaves: [1, 2, 1, 2], Structure PyTreeDef({'a': [*, *], 'b': [*, *]})
        Modified y2 [1, 2, 3, 2]
        ",
    );
    Ok(())
}

#[test]
fn a_dictionary_of_places_keeps_them() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let mut flat = Dictionary::flatten(&lists());
    out.say(&flat);
    flat.set("['a'][0]", 4)?;
    let y2: Lists = flat.unflatten()?;
    assert!(y2["a"].same(&y2["b"]));
    out.say(format_args!(
        "Modified y2 {:?}",
        tree::leaves::<i32, _>(&y2)
    ));
    out.expect(
        "
        {obj.__class__: <class 'dict'>,
        obj[a].__class__: <class 'list'>,
        obj[a][0]: 1,
        obj[a][1]: 2,
        obj[b]: obj[a]}
        Modified y2 [4, 2, 4, 2]
        ",
    );
    Ok(())
}

/// A list of numbers that may hold itself: an item is no node, but what is in it.
enum Item {
    Number(i32),
    List(Weak<Vec<Item>>),
}

impl Pytree for Item {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        match self {
            Self::Number(number) => number.visit(visitor),
            Self::List(list) => list.visit(visitor),
        }
    }

    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        if source
            .peek()
            .is_some_and(|shape| shape.kind == NodeKind::Leaf)
        {
            return i32::unflatten(source).map(Self::Number);
        }
        Weak::unflatten(source).map(Self::List)
    }
}

#[test]
fn cycles_are_references_too() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let x =
        Shared::new_cyclic(|x| vec![Item::Number(1), Item::Number(2), Item::List(Weak::clone(x))]);
    let flat = Dictionary::flatten(&x);
    out.say(&flat);
    let y: Shared<Vec<Item>> = flat.unflatten()?;
    match &y[2] {
        Item::List(list) => assert!(list.upgrade().is_some_and(|list| list.same(&y))),
        Item::Number(number) => panic!("{number}"),
    }
    out.say(Dictionary::flatten(&y));
    out.expect(
        "
        {obj.__class__: <class 'list'>,
        obj[0]: 1,
        obj[1]: 2,
        obj[2]: obj}
        {obj.__class__: <class 'list'>,
        obj[0]: 1,
        obj[1]: 2,
        obj[2]: obj}
        ",
    );
    Ok(())
}

#[test]
fn a_compiled_function_keeps_them_too() {
    type Arrays = BTreeMap<&'static str, Shared<Vec<Tensor>>>;
    let x = Shared::new(vec![Tensor::from(0.0_f32)]);
    let y: Arrays = BTreeMap::from([("a", x.clone()), ("b", x)]);
    let func = jit(|v: Arrays| pytree::graph::map(&v, |leaf: &Tensor| leaf + 1.0));
    let y = func(y);
    assert_eq!(nodes::find_duplicates(&y).to_string(), "[[('a',), ('b',)]]");
    assert_eq!(y["b"][0], Tensor::from(1.0_f32));
}
