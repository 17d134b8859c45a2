//! Tests the code that is generated for items without mistakes.

use super::{derive, derive_for, implemented, mistakes, object, text};
use crate::paths::Entry;

const OF_MODULE: [&str; 9] = [
    "NodeShapes",
    "Pytree",
    "PytreeOf",
    "SelectPart",
    "NamedAxes",
    "ModuleField",
    "HoldsArrays",
    "Module",
    "ModuleType",
];
const OF_PYTREE: [&str; 9] = [
    "NodeShapes",
    "Pytree",
    "PytreeOf",
    "SelectPart",
    "NamedAxes",
    "ModuleField",
    "ParamField",
    "StateField",
    "HoldsArrays",
];

fn implements(name: &str, item: &str, traits: &[&str]) {
    let expanded = derive(name, item);
    assert_eq!(mistakes(&expanded), [], "{item}");
    // There is one implementation for each name that has a length.
    let mut implemented = implemented(&expanded);
    implemented.retain(|name| name != "BindsAxis");
    assert_eq!(implemented, traits, "{item}");
}

#[test]
fn every_form_of_item_is_accepted() {
    for item in [
        "struct Unit;",
        "struct Braces {}",
        "struct Parentheses();",
        "struct Tuple(Linear, #[param] f32, #[r#static] usize);",
        "struct Named { #[param] factor: f32 }",
        "pub(crate) struct Raw { #[state(r#use)] r#fn: f32 }",
        "enum Never {}",
        "enum One { Only(#[param] f32) }",
        "enum Layer { Unit, Braces {}, Tuple(Linear), Named { #[param] factor: f32 } }",
        "struct Generic<T, const N: usize = 2>([T; N]) where T: Clone;",
        "struct Recursive { next: Option<Box<Self>>, #[module(recursive)] others: Vec<Other> }",
        "#[doc = \"A module.\"] #[module(crate = renamed)] struct Named { #[doc(hidden)] inner: Linear }",
        "#[pytree(crate = renamed)] struct Named { #[pytree(static)] size: usize }",
        "struct Trailing { #[module(static,)] size: usize }",
    ] {
        implements("Module", item, &OF_MODULE);
    }
}

#[test]
fn plain_containers_have_static_fields_only() {
    for item in [
        "struct Batch { input: f32, #[r#static] size: usize, #[pytree(static)] split: String }",
        "enum Input { Text(String), Nothing }",
        "struct Pair<A, B>(A, B);",
    ] {
        implements("Pytree", item, &OF_PYTREE);
    }
}

#[test]
fn the_other_derives_implement_one_trait() {
    implements("Static", "struct Setting<T> { rate: T }", &["StaticValue"]);
    implements("Static", "enum Never {}", &["StaticValue"]);
    implements("Collection", "struct Average;", &["Collection"]);
    implements("Collection", "struct r#use;", &["Collection"]);
    let leaf = derive(
        "Leaf",
        "struct Key<T: Copy = u8, const N: usize = 1>([T; N]);",
    );
    assert_eq!(mistakes(&leaf), []);
    assert_eq!(implemented(&leaf), ["Leaf", "StateField", "HoldsArrays"]);
    assert!(text(&leaf).contains(
        "impl<T:'static+Copy,constN:usize,>::pytree_core::__derive_0_1::LeafforKey<T,N,>"
    ));
    assert!(text(&derive("Collection", "struct r#use;")).contains("=\"use\";"));
}

#[test]
fn the_boxes_of_a_trait_are_modules() {
    let expanded = object("", "pub trait Layer { fn forward(&self); }");
    assert_eq!(mistakes(&expanded), []);
    assert_eq!(
        implemented(&expanded),
        [
            "__LayerObject",
            "Pytree",
            "Module",
            "ModuleField",
            "HoldsArrays",
            "PytreeOf",
            "SelectPart",
            "Clone",
            "Debug",
        ]
    );
    assert!(text(&expanded).contains("pubtraitLayer:__LayerObject{"));
    let shown = object("crate = renamed", "trait Shown: std::fmt::Debug { }");
    assert!(!implemented(&shown).contains(&"Debug".to_owned()));
    assert!(text(&shown).contains("renamed::__derive_0_1::Module"));
    assert!(!text(&shown).contains("::pytree_core"));
}

#[test]
fn crate_path_is_default_or_given() {
    for name in ["Module", "Pytree", "Static", "Leaf", "Collection"] {
        let item = "struct Unit;";
        let of_core = text(&derive_for(name, item, Entry::Core));
        assert!(of_core.contains("::pytree_core::__derive_0_1"), "{name}");
        assert!(!of_core.contains("::pytree::"), "{name}");
        let of_facade = text(&derive_for(name, item, Entry::Facade));
        assert!(of_facade.contains("::pytree::core::"), "{name}");
        assert!(!of_facade.contains("pytree_core"), "{name}");
        let renamed = "#[pytree(crate = crate::renamed)] struct Unit;";
        let of_core = text(&derive_for(name, renamed, Entry::Core));
        assert!(of_core.contains("crate::renamed::"), "{name}");
        assert!(!of_core.contains("pytree_core"), "{name}");
        let of_facade = text(&derive_for(name, renamed, Entry::Facade));
        assert!(of_facade.contains("crate::renamed::core::"), "{name}");
        assert!(!of_facade.contains("pytree::"), "{name}");
    }
}

#[test]
fn each_kind_has_its_own_checks() {
    let checks = [
        (
            "inner: Field",
            vec![
                "ArrayNeedsKind",
                "NumberNeedsKind",
                "LeafNeedsKind",
                "IntegerNeedsKind",
                "StaticNeedsKind",
                "CountedNeedsShared",
                "CellNeedsRef",
                "FieldMixesKinds",
                "TypeNeedsDerive",
            ],
        ),
        (
            "#[param] p: Field",
            vec![
                "ParamOfModule",
                "ParamNotFloat",
                "ParamNotLeaf",
                "CountedNeedsShared",
                "CellNeedsRef",
            ],
        ),
        (
            "#[state] s: Field",
            vec![
                "StateOfModule",
                "StateOfSize",
                "StateNotLeaf",
                "CountedNeedsShared",
                "CellNeedsRef",
            ],
        ),
        (
            "#[r#static] c: Field",
            vec!["StaticOfModule", "StaticOfArrays", "StaticNotComparable"],
        ),
    ];
    for (field, names) in checks {
        let expanded = text(&derive("Module", &format!("struct Model {{ {field} }}")));
        let listed = expanded
            .split_once("Field[")
            .and_then(|(_, rest)| rest.split_once(']'));
        assert_eq!(
            listed.map(|(listed, _)| listed),
            Some(&*names.concat()),
            "{field}"
        );
    }
    let child = text(&derive("Pytree", "struct Batch(Field);"));
    assert!(child.contains("check_field!{Pytree1usize:0usizePlain0usizeField["));
    let fixed = text(&derive("Static", "struct Setting(Box<dyn Fn()>);"));
    assert!(fixed.contains(
        "0usizeBoxedClosure0usizeBox<dynFn()>[StaticOfModuleStaticTypeOfArraysFieldOfClosure]"
    ));
}

#[test]
fn generic_fields_are_bounded_by_kind() {
    let expanded = text(&derive(
        "Module",
        "struct Model<M, P, S, C, O> { m: M, #[param] p: Vec<P>, #[state] s: S, #[r#static] c: C, o: Other }",
    ));
    for bound in [
        "M:'static,P:'static,S:'static,C:'static,O:'static,",
        "M:__core::field::ModuleField,",
        "Vec<P>:__core::field::ParamField,",
        "S:__core::field::StateField,",
        "C:__core::StaticValue,",
        "for<'__a>Other:__core::PytreeOf<__L>,",
    ] {
        assert!(expanded.contains(bound), "{bound}");
    }
    assert!(!expanded.contains("Other:__core::field::ModuleField"));
    let container = text(&derive("Pytree", "struct Pair<A>(A);"));
    assert!(container.contains("A:__core::Pytree,"));
    let setting = text(&derive("Static", "struct Setting<A>(A);"));
    assert!(setting.contains("A:__core::StaticValue,"));
}

#[test]
fn recursive_generic_field_is_checked_in_function() {
    let expanded = text(&derive(
        "Module",
        "struct Node<T> where T: Copy, { #[param] value: T, children: Vec<Self> }",
    ));
    assert!(expanded.contains("fn__is<__T:__core::field::ModuleField>(){}"));
    assert!(expanded.contains("fn__check<T>()whereT:Copy,T:'static,T:__core::field::ParamField,{"));
    assert!(expanded.contains("__is::<Vec<Node<T>>>();"));
    assert!(!expanded.contains("Vec<Node<T>>:"));
}

#[test]
fn names_of_raw_identifiers_have_no_prefix() {
    let expanded = text(&derive("Module", "struct r#struct { #[param] r#fn: f32 }"));
    assert!(expanded.contains("name:\"struct\""));
    assert!(expanded.contains("Field::new(\"fn\""));
    let expanded = text(&derive("Module", "enum r#enum { r#if(#[param] f32) }"));
    assert!(expanded.contains("name:\"enum::if\""));
    assert!(expanded.contains("Field::new(\"0\""));
    let expanded = text(&derive("Static", "enum r#enum { r#if { r#let: f32 } }"));
    assert!(expanded.contains("\"if\""));
    assert!(expanded.contains("\"let\""));
}
