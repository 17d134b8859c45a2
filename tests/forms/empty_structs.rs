//! Structs without fields, in each way to write them.

use pytree_core::{Module, Pytree, Static, tree};

#[derive(Module)]
struct Unit;

#[derive(Module)]
struct Braces {}

#[derive(Module)]
struct Parentheses();

#[derive(Pytree)]
struct Nothing;

#[derive(Static, Clone)]
struct Fixed;

#[derive(Module)]
struct Model(Unit, Braces, Parentheses, #[r#static] Fixed);

#[test]
fn structs_without_fields_have_no_leaves() {
    let model = Model(Unit, Braces {}, Parentheses(), Fixed);
    assert!(tree::any_leaves(&model).is_empty());
    assert!(tree::any_leaves(&Nothing).is_empty());
}
