//! Equality and hashes of shared nodes, and functions of references that return errors.

use std::collections::HashSet;

use pytree_core::level::{LevelKind, TraceLevel};
use pytree_core::{Pytree, Ref, Shared, graph};

#[allow(
    clippy::mutable_key_type,
    reason = "the value of a shared node is never changed"
)]
#[test]
fn shared_nodes_with_equal_values_are_equal() {
    let (one, other) = (Shared::new(vec![1, 2]), Shared::new(vec![1, 2]));
    assert_eq!(one, other);
    assert!(!one.same(&other) && one.same(&one.clone()));
    assert_ne!(one, Shared::new(vec![1]));
    let nan = Shared::new(f64::NAN);
    assert_ne!(nan, nan.clone());
    let distinct: HashSet<Shared<Vec<i32>>> = [one.clone(), other, one].into();
    assert_eq!(distinct.len(), 1);
    assert!(distinct.contains(&Shared::new(vec![1, 2])));
}

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Tied {
    embed: Shared<Vec<f64>>,
    head: Shared<Vec<f64>>,
}

#[test]
fn rebuilt_model_equals_its_original() {
    let table = Shared::new(vec![1.0, 2.0]);
    let tied = Tied {
        embed: table.clone(),
        head: table.clone(),
    };
    let (leaves, treedef) = graph::flatten::<f64, _>(&tied);
    let rebuilt: Tied = graph::unflatten(&treedef, leaves).unwrap();
    assert_eq!(rebuilt, tied);
    assert!(rebuilt.embed.same(&rebuilt.head) && !rebuilt.embed.same(&table));
    // Equality does not tell whether nodes are shared; the structure does.
    let apart = Tied {
        embed: table.clone(),
        head: Shared::new(vec![1.0, 2.0]),
    };
    assert_eq!(apart, tied);
    assert_ne!(graph::structure(&apart), treedef);
}

#[test]
fn forbidden_changes_are_errors() {
    let count = Ref::new(1);
    assert_eq!(count.try_update(|count| count + 1), Ok(()));
    assert_eq!(count.try_modify(|count| std::mem::replace(count, 7)), Ok(2));
    let level = TraceLevel::begin("jit", LevelKind::Recording);
    let expected = count.try_set(3).unwrap_err();
    assert_eq!(count.try_update(|count| count + 1), Err(expected.clone()));
    assert_eq!(count.try_modify(|count| *count += 1), Err(expected));
    drop(level);
    assert_eq!(count.get(), 7);
}
