//! Equality of structures is an equivalence: of those of typed values, of those made at run time, and of those that
//! were read from bytes.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use pytree::core::kind::{BatchStat, CollectionId, FieldKind};
use pytree::core::shape::{DynamicShape, NodeKind};
use pytree::core::statics::StaticBox;
use pytree::{Module, Tree, TreeBuilder, TreeDef, tree};

use crate::laws::cases;
use crate::laws::dynamic::plans;
use crate::laws::typed::models;

/// Types of one name in several modules, which differ in a field, in a kind, in a static field, or in nothing.
mod namesakes {
    macro_rules! namesake {
        ($($module:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* })*) => {$(
            pub mod $module {
                use super::super::*;

                #[derive(Module, Clone, Debug)]
                pub struct Point {
                    $($(#[$attribute])* pub $field: $type,)*
                }
            }
        )*};
    }
    namesake! {
        plain { #[param] x: f32, #[r#static] size: i64, }
        moved { #[param] x: f32, #[r#static] size: i64, }
        narrow { #[param] x: f32, #[r#static] size: i32, }
        state { #[state] x: f32, #[r#static] size: i64, }
        statistic { #[state(BatchStat)] x: f32, #[r#static] size: i64, }
        renamed { #[param] y: f32, #[r#static] size: i64, }
        marked { #[param] x: f32, #[r#static] size: Marked, }
    }

    /// Known to a treedef by equality and debug text only.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Marked(pub f64);
}

use namesakes::{Marked, marked, moved, narrow, plain, renamed, state, statistic};

/// The structure of a point, made in one of many ways.
fn points() -> impl Strategy<Value = TreeDef> {
    let ways: Vec<fn(i32) -> TreeDef> = vec![
        |size| {
            tree::structure(&plain::Point {
                x: 1.0,
                size: size.into(),
            })
        },
        |size| {
            tree::structure(&moved::Point {
                x: 1.0,
                size: size.into(),
            })
        },
        |size| tree::structure(&narrow::Point { x: 1.0, size }),
        |size| {
            tree::structure(&state::Point {
                x: 1.0,
                size: size.into(),
            })
        },
        |size| {
            tree::structure(&statistic::Point {
                x: 1.0,
                size: size.into(),
            })
        },
        |size| {
            tree::structure(&renamed::Point {
                y: 1.0,
                size: size.into(),
            })
        },
        |size| {
            tree::structure(&marked::Point {
                x: 1.0,
                size: Marked(size.into()),
            })
        },
        |_| {
            tree::structure(&marked::Point {
                x: 1.0,
                size: Marked(f64::NAN),
            })
        },
        |size| at_run_time(Some(FieldKind::Param), size),
        |size| {
            at_run_time(
                Some(FieldKind::State(CollectionId::named("BatchStat").unwrap())),
                size,
            )
        },
        |size| {
            at_run_time(
                Some(FieldKind::State(CollectionId::of::<BatchStat>())),
                size,
            )
        },
        |size| at_run_time(None, size),
    ];
    (select(ways), 0..2_i32, any::<bool>()).prop_map(|(way, size, is_read)| {
        let made = way(size);
        if is_read { read(&made) } else { made }
    })
}

fn at_run_time(kind: Option<FieldKind>, size: i32) -> TreeDef {
    let shape = DynamicShape::new(NodeKind::Struct, "Point", &[("x", kind)], &["size"]).unwrap();
    let tree: Tree<f32> = TreeBuilder::new()
        .begin_shape(shape, vec![StaticBox::new(size)])
        .leaf(1.0)
        .end()
        .finish()
        .unwrap();
    tree.treedef().clone()
}

fn read(treedef: &TreeDef) -> TreeDef {
    TreeDef::from_bytes(&treedef.to_bytes()).unwrap()
}

fn hash(treedef: &TreeDef) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(treedef)
}

fn check(all: &[TreeDef]) -> Result<(), TestCaseError> {
    for a in all {
        prop_assert_eq!(a, a);
        prop_assert_eq!(a, &a.clone());
        for b in all {
            prop_assert_eq!(a == b, b == a, "symmetry of {} and {}", a, b);
            if a == b {
                prop_assert_eq!(hash(a), hash(b), "hashes of {} and {}", a, b);
            }
            for c in all.iter().filter(|_| a == b) {
                prop_assert_eq!(a == c, b == c, "transitivity of {}, {} and {}", a, b, c);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn equality_of_namesakes_is_an_equivalence(all in vec(points(), 1..12)) {
        check(&all)?;
        // The same below other nodes.
        let pairs: Vec<TreeDef> = all.iter().map(|below| tree::structure(&[1, 2]).compose(below)).collect();
        check(&pairs)?;
    }

    #[test]
    fn equality_of_models_is_an_equivalence(models in vec(models(), 1..5)) {
        let made: Vec<TreeDef> = models.iter().map(|model| tree::structure(model)).collect();
        let read: Vec<TreeDef> = made.iter().map(read).collect();
        prop_assert_eq!(&made, &read);
        check(&[made, read].concat())?;
    }

    #[test]
    fn equality_of_dynamic_trees_is_an_equivalence(plans in vec(plans(), 1..5)) {
        let made: Vec<TreeDef> = plans.iter().map(|plan| plan.tree().treedef().clone()).collect();
        let read: Vec<TreeDef> = made.iter().map(read).collect();
        prop_assert_eq!(&made, &read);
        check(&[made, read].concat())?;
    }
}

#[test]
fn types_of_one_description_have_equal_structures() {
    let here = tree::structure(&plain::Point { x: 1.0, size: 3 });
    let there = tree::structure(&moved::Point { x: 1.0, size: 3 });
    assert_eq!(here, there);
    assert_eq!(here, tree::structure(&narrow::Point { x: 1.0, size: 3 }));
    for other in [
        tree::structure(&plain::Point { x: 1.0, size: 4 }),
        tree::structure(&state::Point { x: 1.0, size: 3 }),
        tree::structure(&statistic::Point { x: 1.0, size: 3 }),
        tree::structure(&renamed::Point { y: 1.0, size: 3 }),
        tree::structure(&marked::Point {
            x: 1.0,
            size: Marked(3.0),
        }),
    ] {
        assert_ne!(here, other);
    }
}

#[test]
fn values_unflatten_from_their_own_structures() {
    let there = tree::structure(&moved::Point { x: 1.0, size: 3 });
    let error = tree::unflatten::<plain::Point, f32>(&there, vec![1.0]).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("moved::Point") && message.contains("plain::Point"),
        "{message}"
    );
    // What was stored knows the description only.
    let built = tree::unflatten::<plain::Point, f32>(&read(&there), vec![2.0]).unwrap();
    assert_eq!((built.x, built.size), (2.0, 3));
}
