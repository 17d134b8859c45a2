//! A tuple struct: attributes precede the types.

use pytree_core::{FieldKind, Module, ModuleType};

#[derive(Module)]
struct Scale(#[param] f32);

#[derive(Module)]
struct Scales(
    Scale,
    #[param] Vec<f64>,
    #[state] i32,
    #[r#static] usize,
    #[module(static)] &'static str,
);

#[test]
fn attributes_stand_before_types() {
    let _ = Scales(Scale(1.0), Vec::new(), 0, 1, "scales");
    assert_eq!(Scales::REGISTRY[3], ("3", FieldKind::Static));
}
