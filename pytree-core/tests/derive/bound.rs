//! A function with arguments bound is a struct: the function is static, and the arguments are leaves.

use std::hash::{Hash, Hasher};

use pytree_core::{Module, Pytree, tree};

use crate::derive::{rebuilt, shown};

#[derive(Clone, Debug, Pytree)]
struct Bound<A> {
    #[pytree(static)]
    function: fn(i64, i64) -> i64,
    arguments: A,
}

fn power(base: i64, exponent: i64) -> i64 {
    base.pow(u32::try_from(exponent).unwrap())
}

fn quotient(left: i64, right: i64) -> i64 {
    left / right
}

#[test]
fn bound_function_keeps_its_arguments() {
    let bound = Bound {
        function: power,
        arguments: (2, 3),
    };
    assert_eq!(tree::leaves::<i64, _>(&bound), [&2, &3]);
    let again = rebuilt(&bound);
    assert_eq!((again.function)(again.arguments.0, again.arguments.1), 8);
    assert_eq!(tree::structure(&again), tree::structure(&bound));
    let nothing = Bound {
        function: power,
        arguments: (),
    };
    assert_eq!(tree::structure(&nothing).num_leaves(), 0);
    assert_eq!((rebuilt(&nothing).function)(3, 2), 9);
}

#[test]
fn bound_function_is_static_with_leaf_arguments() {
    let with = |function, argument: i64| {
        tree::structure(&Bound {
            function,
            arguments: vec![argument],
        })
    };
    let hash = |treedef: &pytree_core::TreeDef| {
        let mut hasher = std::hash::DefaultHasher::new();
        treedef.hash(&mut hasher);
        hasher.finish()
    };
    assert_eq!(with(power, 1), with(power, 2));
    assert_eq!(hash(&with(power, 1)), hash(&with(power, 2)));
    assert_ne!(with(power, 1), with(quotient, 1));
}

/// A function that has another inside is not taken for it.
#[test]
fn nested_bound_function_stays_bound() {
    let inner = Bound {
        function: power,
        arguments: 2,
    };
    let outer = Bound {
        function: quotient,
        arguments: (inner.clone(), 3),
    };
    assert_eq!(tree::leaves::<i64, _>(&outer), [&2, &3]);
    let paths = tree::structure(&outer).leaf_paths();
    assert_eq!(paths[0].to_string(), "arguments[0].arguments");
    let again = rebuilt(&outer).arguments.0;
    assert_eq!((again.function)(again.arguments, 2), 4);
    assert_eq!(tree::structure(&again), tree::structure(&inner));
}

/// A setting that never makes a difference, because its own equality says so.
#[derive(Clone, Debug)]
struct Note(&'static str);

impl PartialEq for Note {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Note {}
impl Hash for Note {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[derive(Module, Clone, Debug)]
struct Noted {
    #[param]
    weight: f32,
    #[r#static]
    note: Note,
}

#[test]
fn static_equality_follows_custom_impl() {
    let noted = |note| Noted {
        weight: 1.0,
        note: Note(note),
    };
    let (left, right) = (tree::structure(&noted("a")), tree::structure(&noted("b")));
    assert_eq!(left, right);
    assert!(left.differences(&right).is_empty());
    assert_eq!(left.broadcast_to_common_suffix(&right).unwrap(), left);
    assert_eq!(rebuilt(&noted("b")).note.0, "b");
    assert!(shown(&noted("a")).contains("note = Note(\"a\")"));
}
