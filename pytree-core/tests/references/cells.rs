//! A reference is one value at several places.

use pytree_core::kind::{BatchStat, CollectionId};
use pytree_core::{Filter, LeafKind, Module, Pytree, Ref, Shared, graph, partition, tree};

#[derive(Pytree, Debug)]
struct Pair {
    a: Vec<Ref<i32>>,
    b: Ref<i32>,
}

fn pair() -> Pair {
    let (r1, r2) = (Ref::new(1), Ref::new(2));
    Pair {
        a: vec![r1.clone(), r1, r2.clone()],
        b: r2,
    }
}

#[test]
fn written_value_is_read_through_all_handles() {
    let pair = pair();
    pair.a[0].set(10);
    assert_eq!(pair.a[1].get(), 10);
    pair.b.update(|value| value * 50);
    assert_eq!(pair.a[2].get(), 100);
}

#[test]
fn trees_repeat_references_and_graphs_do_not() {
    let pair = pair();
    assert_eq!(graph::flatten::<i32, _>(&pair).0, [1, 2]);
    assert_eq!(tree::flatten::<i32, _>(&pair).0, [1, 1, 2, 2]);
    assert_eq!(
        graph::structure(&pair).to_string(),
        "PyTreeDef(Pair { a: [*, alias 0, *], b: alias 1 })"
    );
    assert_eq!(
        tree::structure(&pair).to_string(),
        "PyTreeDef(Pair { a: [*, *, *], b: * })"
    );
    let paths = graph::structure(&pair).leaf_paths();
    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["a[0]", "a[2]"]);
}

#[test]
fn unflattened_graph_has_new_references() {
    let before = pair();
    let (leaves, treedef) = graph::flatten::<i32, _>(&before);
    let after: Pair = graph::unflatten(&treedef, leaves).unwrap();
    assert!(after.a[0].same(&after.a[1]) && after.a[2].same(&after.b));
    assert!(!after.a[0].same(&before.a[0]));
    after.b.set(7);
    assert_eq!((after.a[2].get(), before.b.get()), (7, 2));
    let apart: Pair = tree::map(&before, |leaf: &i32| leaf + 1);
    assert!(!apart.a[0].same(&apart.a[1]));
    assert_eq!(apart.b.get(), 3);
}

#[derive(Module, Debug)]
struct Counter {
    #[param]
    weight: Ref<f32>,
    #[state(BatchStat)]
    count: Ref<f32>,
}

#[test]
fn field_kind_precedes_reference_kind() {
    let shared = Ref::state::<BatchStat>(1.0_f32);
    let stat = Some(LeafKind::State(CollectionId::of::<BatchStat>()));
    assert_eq!(shared.kind(), stat);
    assert_eq!(Ref::new(1.0_f32).kind(), None);
    let counter = Counter {
        weight: shared,
        count: Ref::param(0.0),
    };
    let kinds = graph::structure(&counter).leaf_kinds();
    assert_eq!(kinds, [Some(LeafKind::Param), stat]);
    let loose = (
        Ref::param(1.0_f32),
        Ref::new(2.0_f32),
        Ref::state::<BatchStat>(3.0_f32),
    );
    let kinds = graph::structure(&loose).leaf_kinds();
    assert_eq!(kinds, [Some(LeafKind::Param), None, stat]);
    let [params, rest] =
        partition::split::<_, f32, 2>(&loose, [Filter::param(), Filter::everything()]).unwrap();
    assert_eq!(
        (params.leaves(), rest.leaves()),
        ([1.0].as_slice(), [2.0, 3.0].as_slice())
    );
}

#[test]
fn leaves_behind_reference_cannot_be_borrowed() {
    let counter = Counter {
        weight: Ref::new(1.0),
        count: Ref::new(2.0),
    };
    let ways: [(fn(&Counter) -> usize, &str); 3] = [
        (|counter| tree::leaves::<f32, _>(counter).len(), ""),
        (
            |counter| graph::leaves::<f32, _>(counter).len(),
            " at weight",
        ),
        (|counter| tree::any_leaves(counter).len(), " at weight"),
    ];
    for (lend, place) in ways {
        let error = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lend(&counter)));
        let text = *error.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(
            text,
            format!(
                "cannot borrow the leaves{place}: they are in a reference, whose value may be replaced at any time; use `flatten`, which copies the leaves"
            )
        );
    }
}

#[test]
fn reference_may_contain_nodes_and_references() {
    let inner = Ref::new(1.0_f64);
    let outer = Ref::new(vec![inner.clone(), inner.clone()]);
    let both = (outer.clone(), inner);
    let (leaves, treedef) = graph::flatten::<f64, _>(&both);
    assert_eq!(leaves, [1.0]);
    assert_eq!(treedef.to_string(), "PyTreeDef(([*, alias 1], alias 1))");
    let (outer, inner): (Ref<Vec<Ref<f64>>>, Ref<f64>) =
        graph::unflatten(&treedef, leaves).unwrap();
    assert!(outer.get().iter().all(|item| item.same(&inner)));
    outer.update(|mut items| {
        items.push(Ref::new(9.0));
        items
    });
    assert_eq!(graph::flatten::<f64, _>(&outer).0, [1.0, 9.0]);
}

#[test]
fn shared_node_in_reference_stays_shared() {
    let node = Shared::new(4_i32);
    let value = (node.clone(), Ref::new(node));
    let (leaves, treedef) = graph::flatten::<i32, _>(&value);
    assert_eq!(leaves, [4]);
    let (node, held): (Shared<i32>, Ref<Shared<i32>>) = graph::unflatten(&treedef, leaves).unwrap();
    assert!(held.get().same(&node));
}

#[test]
fn update_function_cannot_write_its_reference() {
    let (count, other) = (Ref::new(1), Ref::new(10));
    let inside = |write: &dyn Fn()| {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            count.update(|value| {
                write();
                value + 1
            });
        }));
        *outcome.unwrap_err().downcast::<String>().unwrap()
    };
    let text = "cannot write a reference inside of its own `update` or `modify`: the result of the function would replace the written value; change the argument of the function instead";
    assert_eq!(inside(&|| count.set(5)), text);
    assert_eq!(inside(&|| count.update(|value| value)), text);
    assert_eq!(inside(&|| count.modify(|value| *value = 3)), text);
    assert_eq!(count.get(), 1);
    // Reading it is fine, and so is writing others; afterwards it is written again.
    count.update(|value| {
        other.set(value + count.get());
        value + 1
    });
    count.modify(|value| *value += 1);
    assert_eq!((count.get(), other.get()), (3, 2));
}
