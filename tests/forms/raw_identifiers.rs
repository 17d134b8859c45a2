//! Raw identifiers as names of items, variants, fields and parameters; displays omit their prefix.

#![allow(
    non_camel_case_types,
    reason = "keywords are in lower case, and types are named by them here"
)]

use pytree_core::{Collection, Module, ModuleType, Static, tree};

#[derive(Module)]
struct r#struct<r#type> {
    #[param]
    r#fn: r#type,
    #[state(r#use)]
    r#match: f32,
    #[r#static]
    r#static: r#enum,
}

#[derive(Static, Clone)]
enum r#enum {
    r#if(u8),
    r#else { r#let: u8 },
}

#[derive(Collection)]
struct r#use;

#[test]
fn raw_identifiers_show_without_prefix() {
    let value = r#struct {
        r#fn: 1.0_f32,
        r#match: 2.0,
        r#static: r#enum::r#if(1),
    };
    assert_eq!(r#struct::<f32>::REGISTRY[0].0, "fn");
    assert_eq!(<r#use as Collection>::NAME, "use");
    assert_eq!(
        tree::structure(&value).to_string(),
        "PyTreeDef(struct { fn: *, match: *, static = if(1) })"
    );
    let _ = r#enum::r#else { r#let: 1 };
}
