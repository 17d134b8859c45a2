//! References through flattening and unflattening, of `FlareJax`. A list that is changed at one place and read at
//! another is a `Ref<Vec<_>>`. Entries are in the order of the structure; there they are in that of hashes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree::prelude::*;
use pytree::{Dictionary, TreeError, nodes};

use crate::seeds::printed::{Printed, listed};
use crate::seeds::shared::{Item, Lists, at_two_places, set_first};

#[test]
fn a_tree_is_leaves_and_a_structure() {
    let mut out = Printed::default();
    let x = tree!({"a": 1, "b": {"c": 2, "d": 3}});
    let (flat, aux) = tree::flatten_any(&x);
    out.say(format_args!("Data: {}, Structure: {aux}", listed(&flat)));
    out.expect("Data: [1, 2, 3], Structure: PyTreeDef({'a': *, 'b': {'c': *, 'd': *}})");
}

#[test]
fn trees_break_shared_references() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let y1 = at_two_places(vec![1, 2]);
    assert!(y1["a"].same(&y1["b"]));
    let (leaves, aux) = tree::flatten::<i32, _>(&y1);
    out.say(format_args!("Leaves: {leaves:?}, Structure {aux}"));
    let y2: Lists<i32> = tree::unflatten(&aux, leaves)?;
    assert!(!y2["a"].same(&y2["b"]));

    set_first(&y1, &3);
    out.say(format_args!("Modified y1 {}", Tree::of(&y1)));
    set_first(&y2, &3);
    out.say(format_args!("Modified y2 {}", Tree::of(&y2)));
    out.expect(
        "
        Leaves: [1, 2, 1, 2], Structure PyTreeDef({'a': [*, *], 'b': [*, *]})
        Modified y1 {'a': [3, 2], 'b': [3, 2]}
        Modified y2 {'a': [3, 2], 'b': [1, 2]}
        ",
    );
    Ok(())
}

#[test]
fn a_dictionary_of_places_keeps_them() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let y1 = at_two_places(vec![1, 2]);
    let flat = Dictionary::flatten(&y1);
    out.say(&flat);
    let y2: Lists<i32> = flat.unflatten()?;
    assert!(y2["a"].same(&y2["b"]) && !y2["a"].same(&y1["a"]));
    set_first(&y2, &4);
    out.say(format_args!("Modified y2 {}", Tree::of(&y2)));
    out.expect(
        "
        {obj.__class__: <class 'dict'>,
        obj[a].__class__: <class 'list'>,
        obj[a][0]: 1,
        obj[a][1]: 2,
        obj[b]: obj[a]}
        Modified y2 {'a': [4, 2], 'b': [4, 2]}
        ",
    );
    assert_eq!(y1["a"].get(), [1, 2]);
    Ok(())
}

/// `[1, 2]` with itself appended.
fn inside_of_itself() -> Ref<Vec<Item>> {
    let x = Ref::new(vec![Item::Number(1), Item::Number(2)]);
    x.update(|mut list| {
        list.push(Item::Around(x.downgrade()));
        list
    });
    x
}

#[test]
#[cfg_attr(target_family = "wasm", ignore = "catches a panic")]
fn a_tree_has_no_cycles() {
    let mut out = Printed::default();
    let x = inside_of_itself();
    out.say(format_args!("{:?}", x.get()));
    let error = catch_unwind(AssertUnwindSafe(|| tree::flatten_any(&x)));
    let error = error.expect_err("it panics").downcast::<String>();
    out.say(format_args!("Error: {}", error.expect("it says why")));
    out.expect(
        "
        [1, 2, [...]]
        Error: cannot visit a value as a tree: the weak edge at [2] leads to another node, and trees have no weak edges; use a function of `graph`, such as `graph::flatten_any`, which keeps the edge
        ",
    );
}

#[test]
fn cycles_are_references_too() -> Result<(), TreeError> {
    let mut out = Printed::default();
    let x = inside_of_itself();
    let flat = Dictionary::flatten(&x);
    out.say(&flat);
    let y: Ref<Vec<Item>> = flat.unflatten()?;
    out.say(format_args!("{:?}", y.get()));
    out.expect(
        "
        {obj.__class__: <class 'list'>,
        obj[0]: 1,
        obj[1]: 2,
        obj[2]: obj}
        [1, 2, [...]]
        ",
    );
    match &y.get()[2] {
        Item::Around(list) => assert!(list.upgrade().is_some_and(|list| list.same(&y))),
        Item::Number(number) => panic!("{number}"),
    }
    assert!(!y.same(&x));
    Ok(())
}

#[test]
fn a_compiled_function_keeps_them_too() {
    let mut out = Printed::default();
    let func = jit(|v: Lists<Tensor>| {
        let one_more = &v["a"].get()[0] + 1.0;
        set_first(&v, &one_more);
        v
    });
    let y = at_two_places(vec![Tensor::zeros(DType::F32, [])]);
    // A tree has a copy of the list at each place.
    let apart = tree::map(&y, Tensor::clone);
    out.say(Tree::of(&func(apart)));

    let back = func(y.clone());
    out.say(Tree::of(&back));
    // The list that comes back is the one that went in.
    assert!(back["b"].same(&y["a"]));
    assert_eq!(
        nodes::find_duplicates(&back).to_string(),
        "[[('a',), ('b',)]]"
    );
    set_first(&back, &(&back["a"].get()[0] + 1.0));
    out.say(Tree::of(&back));
    out.expect(
        "
        {'a': [Tensor(1., dtype=f32)], 'b': [Tensor(0., dtype=f32)]}
        {'a': [Tensor(1., dtype=f32)], 'b': [Tensor(1., dtype=f32)]}
        {'a': [Tensor(2., dtype=f32)], 'b': [Tensor(2., dtype=f32)]}
        ",
    );
}
