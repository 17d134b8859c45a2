//! FlareJax: references through flattening and unflattening. Entries are in the order of the structure; in FlareJax
//! they are in that of hashes.

use std::collections::BTreeMap;

use pytree::{Dictionary, Shared, Tensor, TreeError, jit, nodes, tree};

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

#[test]
fn a_compiled_function_keeps_them_too() {
    type Arrays = BTreeMap<&'static str, Shared<Vec<Tensor>>>;
    let x = Shared::new(vec![Tensor::from(0.0_f32)]);
    let y: Arrays = BTreeMap::from([("a", x.clone()), ("b", x)]);
    let func = jit(|v: Arrays| pytree::graph::map(&v, |leaf: &Tensor| leaf + 1.0));
    let y = func(y);
    assert_eq!(nodes::find_duplicates(&y).to_string(), "[[('a',), ('b',)]]");
    assert_eq!(y["b"][0].item::<f32>(), 1.0);
}
