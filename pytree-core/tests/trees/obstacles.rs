//! Functions that return a `Result` return what a walk cannot pass as an error, and do not panic.

use pytree_core::level::{LevelKind, TraceLevel};
use pytree_core::{
    Filter, KeyPath, Module, Pytree, Ref, Shared, TreeError, Unflattener, Visitor, WeakShared, at,
    at_each, edit, graph, module_object, nodes, partition, ravel, refs, tree,
};

/// Runs `run`, during which no panic begins.
fn quiet<T>(run: impl FnOnce() -> Result<T, TreeError>) -> TreeError {
    std::thread_local! {
        static PANICS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
    let panics = PANICS.get();
    let Err(error) = run() else {
        panic!("no error");
    };
    assert_eq!(PANICS.get(), panics, "{error}");
    error
}

fn panics<T>(run: impl FnOnce() -> T) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .err()
        .unwrap();
    *payload.downcast::<String>().unwrap()
}

#[derive(Pytree, Clone)]
struct Node {
    value: f32,
    next: Option<Box<Node>>,
}

fn deep() -> Node {
    let last = Node {
        value: 0.0,
        next: None,
    };
    (0..400).fold(last, |next, _| Node {
        value: 1.0,
        next: Some(Box::new(next)),
    })
}

#[derive(Pytree, Clone)]
struct Looped {
    value: f32,
    back: Option<Ref<Looped>>,
}

fn looped() -> Ref<Looped> {
    let node = Ref::new(Looped {
        value: 1.0,
        back: None,
    });
    node.set(Looped {
        value: 1.0,
        back: Some(node.clone()),
    });
    node
}

/// Breaks the cycle, so that it is freed.
fn freed(node: Ref<Looped>) {
    node.set(Looped {
        value: 0.0,
        back: None,
    });
}

#[test]
fn deep_value_is_an_error() {
    let node = deep();
    let is_too_deep = |error: TreeError| {
        assert!(
            matches!(error, TreeError::TooDeep { limit: 256, .. }),
            "{error}"
        )
    };
    is_too_deep(quiet(|| tree::try_leaves::<f32, _>(&node)));
    is_too_deep(quiet(|| tree::try_any_leaves(&node)));
    is_too_deep(quiet(|| tree::try_structure(&node)));
    is_too_deep(quiet(|| tree::try_flatten::<f32, _>(&node)));
    is_too_deep(quiet(|| graph::try_flatten_any(&node)));
    is_too_deep(quiet(|| {
        tree::map2(&node, &node, |left: &f32, right: &f32| left + right)
    }));
    is_too_deep(quiet(|| edit::try_apply(node.clone(), |_: &mut f32| ())));
    is_too_deep(quiet(|| edit::try_apply_any(node.clone(), |_, _| ())));
    is_too_deep(quiet(|| edit::try_paths_of::<f32>(&node)));
    is_too_deep(quiet(|| nodes::try_of_type::<f32>(&node)));
    is_too_deep(quiet(|| nodes::try_copy(&node)));
    is_too_deep(quiet(|| {
        partition::try_filter::<_, f32>(&node, &Filter::everything())
    }));
    is_too_deep(quiet(|| {
        partition::split::<_, f32, 1>(&node, [Filter::everything()])
    }));
    is_too_deep(quiet(|| refs::try_deref::<f32, _>(&node)));
    is_too_deep(quiet(|| edit::replace_at(&node, "value", 1.0_f32)));
    is_too_deep(quiet(|| at(|node: &Node| &node.value).path(&node)));
    is_too_deep(quiet(|| {
        at_each(|node: &Node| vec![&node.value]).replace(&node, [1.0])
    }));
    is_too_deep(quiet(|| {
        edit::set_static(&node, &Filter::everything(), true)
    }));
    is_too_deep(quiet(|| ravel::ravel::<f32, _>(&node)));
    let mut model = node.clone();
    is_too_deep(quiet(|| {
        partition::pop::<_, f32>(&mut model, &Filter::everything())
    }));
    // The panic has the message of the error.
    assert_eq!(
        panics(|| nodes::copy(&node)),
        quiet(|| nodes::try_copy(&node)).to_string()
    );
}

#[test]
fn cycles_and_weak_edges_of_trees_are_errors() {
    let node = looped();
    let error = quiet(|| tree::try_flatten::<f32, _>(&node));
    let TreeError::Cycle { path, back } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (path.to_string(), back.to_string()),
        ("back".to_owned(), String::new())
    );
    assert!(
        error
            .to_string()
            .starts_with("cannot visit a value as a tree: back leads back to the root"),
        "{error}"
    );
    assert_eq!(graph::try_flatten::<f32, _>(&node).unwrap().0, [1.0]);
    assert!(matches!(
        quiet(|| graph::try_leaves::<f32, _>(&node)),
        TreeError::BehindReference { .. }
    ));
    freed(node);

    let shared = Shared::new(1.0_f32);
    let edges: (Shared<f32>, WeakShared<f32>) = (shared.clone(), Shared::downgrade(&shared));
    let error = quiet(|| tree::try_structure(&edges));
    assert!(
        matches!(&error, TreeError::WeakEdge { path } if path.to_string() == "[1]"),
        "{error}"
    );
    assert_eq!(graph::try_leaves::<f32, _>(&edges).unwrap(), [&1.0]);
}

#[test]
fn unreadable_reference_is_an_error() {
    let inside = {
        let _level = TraceLevel::begin("jit", LevelKind::Running);
        Ref::new(1.0_f32)
    };
    let mut model = vec![inside];
    let is_reference =
        |error: TreeError| assert!(matches!(error, TreeError::Reference(_)), "{error}");
    is_reference(quiet(|| graph::try_flatten::<f32, _>(&model)));
    is_reference(quiet(|| edit::try_apply(model.clone(), |_: &mut f32| ())));
    is_reference(quiet(|| nodes::try_copy(&model)));
    is_reference(quiet(|| {
        partition::pop::<_, f32>(&mut model, &Filter::everything())
    }));
    let part = partition::filter::<_, f32>(&vec![Ref::new(1.0_f32)], &Filter::everything());
    is_reference(quiet(|| partition::update(&mut model, &part)));
    is_reference(quiet(|| partition::replace(&model, &part)));
    is_reference(quiet(|| refs::update_refs(&model, &part)));
}

#[test]
fn missing_type_is_an_error() {
    let model = (1.0_f32, 2_i32);
    let error = quiet(|| edit::try_apply(model, |_: &mut String| ()));
    let TreeError::NoNodeOfType { expected, leaves } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (expected.as_str(), leaves.as_str()),
        ("String", "`f32`, `i32`")
    );
    assert_eq!(
        panics(|| edit::apply(model, |_: &mut String| ())),
        error.to_string()
    );
    let error = quiet(|| edit::try_apply_with_path(model, |_: &KeyPath, _: &mut String| ()));
    assert!(matches!(error, TreeError::NoNodeOfType { .. }));
    assert_eq!(
        edit::try_apply(model, |leaf: &mut i32| *leaf += 1).unwrap(),
        (1.0, 3)
    );
}

#[test]
fn leaf_of_another_type_is_an_error() {
    #[derive(Module, Clone, Debug)]
    struct Double {
        #[param]
        weight: f64,
    }
    #[module_object]
    trait Layer: Send + Sync {}
    impl Layer for Double {}
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(Double { weight: 1.0 })];
    let errors = [
        quiet(|| graph::try_flatten::<f32, _>(&layers)),
        quiet(|| tree::try_leaves::<f32, _>(&layers)),
        quiet(|| partition::try_filter::<_, f32>(&layers, &Filter::everything())),
        quiet(|| tree::map2(&layers, &layers, |left: &f32, _: &f32| *left)),
    ];
    for error in errors {
        let TreeError::LeafType { expected, found } = &error else {
            panic!("{error}");
        };
        assert_eq!((expected.as_str(), found.as_str()), ("f32", "f64"));
        assert_eq!(
            panics(|| graph::flatten::<f32, _>(&layers)),
            error.to_string()
        );
    }
}

/// A node that visits one child and builds two.
#[derive(Clone)]
struct Wrong(f32);

impl Pytree for Wrong {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.0.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let (first, _) = (f32::unflatten(source)?, f32::unflatten(source)?);
        Ok(Self(first))
    }
}

#[test]
fn disagreeing_impl_is_an_error() {
    let error = quiet(|| nodes::try_copy(&Wrong(1.0)));
    assert!(matches!(&error, TreeError::NotRebuilt { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("make `visit` and `unflatten` in the impl of `Pytree` use the same nodes"),
        "{error}"
    );
    assert_eq!(panics(|| nodes::copy(&Wrong(1.0))), error.to_string());
    assert!(matches!(
        quiet(|| edit::try_paths_of::<f32>(&Wrong(1.0))),
        TreeError::NotRebuilt { .. }
    ));
    assert!(matches!(
        quiet(|| nodes::try_of_type::<f32>(&Wrong(1.0))),
        TreeError::NotRebuilt { .. }
    ));
}

#[test]
fn panic_of_users_code_is_not_an_error() {
    #[derive(Module, Clone, Debug)]
    struct Layer {
        #[param]
        weight: f32,
    }
    let layers = vec![Layer { weight: 1.0 }];
    let node = deep();
    let run = || {
        edit::try_apply(layers.clone(), |_: &mut f32| {
            drop(tree::leaves::<f32, _>(&node))
        })
    };
    assert!(panics(run).starts_with("typed values are nested deeper than 256 nodes"));
    let run = || {
        tree::map2(&layers, &layers, |_: &f32, _: &f32| {
            f32::from(tree::leaves::<f32, _>(&node).len() as u8)
        })
    };
    assert!(panics(run).starts_with("typed values are nested deeper than 256 nodes"));
}
