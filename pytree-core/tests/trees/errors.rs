//! The checks that functions which return a `Result` return what a walk cannot pass as an error.
//!
//! The test program runs them, and so does the program `abort.rs`, which aborts at any unwinding.

use pytree_core::level::{LevelKind, TraceLevel};
use pytree_core::{
    DynamicModule, Filter, KeyPath, Module, Pytree, Ref, Shared, TreeError, Unflattener, Visitor,
    WeakShared, at, at_each, boundary, edit, graph, module_object, nodes, partition, ravel, refs,
    tree,
};

/// Runs all checks.
pub(crate) fn all() {
    deep_value_is_an_error();
    cycles_and_weak_edges_of_trees_are_errors();
    unreadable_reference_is_an_error();
    missing_type_is_an_error();
    leaf_of_another_type_is_an_error();
    disagreeing_impl_is_an_error();
    values_read_into_modules_are_errors();
    cycles_with_many_paths_end_at_once();
    refusal_of_a_handwritten_impl_is_an_error();
    siblings_of_an_obstacle_are_skipped();
}

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

#[derive(Pytree, Clone)]
pub(crate) struct Node {
    value: f32,
    next: Option<Box<Node>>,
}

pub(crate) fn deep() -> Node {
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

pub(crate) fn deep_value_is_an_error() {
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
}

pub(crate) fn cycles_and_weak_edges_of_trees_are_errors() {
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

pub(crate) fn unreadable_reference_is_an_error() {
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

pub(crate) fn missing_type_is_an_error() {
    let model = (1.0_f32, 2_i32);
    let error = quiet(|| edit::try_apply(model, |_: &mut String| ()));
    let TreeError::NoNodeOfType { expected, leaves } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (expected.as_str(), leaves.as_str()),
        ("String", "`f32`, `i32`")
    );
    let error = quiet(|| edit::try_apply_with_path(model, |_: &KeyPath, _: &mut String| ()));
    assert!(matches!(error, TreeError::NoNodeOfType { .. }));
    assert_eq!(
        edit::try_apply(model, |leaf: &mut i32| *leaf += 1).unwrap(),
        (1.0, 3)
    );
}

#[derive(Module, Clone, Debug)]
struct Double {
    #[param]
    weight: f64,
}
#[module_object]
pub(crate) trait Layer: Send + Sync {}
impl Layer for Double {}

/// Modules whose leaf is an `f64`.
pub(crate) fn doubles() -> Vec<Box<dyn Layer>> {
    vec![Box::new(Double { weight: 1.0 })]
}

pub(crate) fn leaf_of_another_type_is_an_error() {
    let layers = doubles();
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
        let text = error.to_string();
        assert!(text.contains("pass `&mixed(&value)`"), "{text}");
    }
}

/// A node that visits one child and builds two.
#[derive(Clone)]
pub(crate) struct Wrong(pub(crate) f32);

impl Pytree for Wrong {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.0.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let (first, _) = (f32::unflatten(source)?, f32::unflatten(source)?);
        Ok(Self(first))
    }
}

pub(crate) fn disagreeing_impl_is_an_error() {
    let error = quiet(|| nodes::try_copy(&Wrong(1.0)));
    assert!(matches!(&error, TreeError::NotRebuilt { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("make `visit` and `unflatten` in the impl of `Pytree` use the same nodes"),
        "{error}"
    );
    assert!(matches!(
        quiet(|| edit::try_paths_of::<f32>(&Wrong(1.0))),
        TreeError::NotRebuilt { .. }
    ));
    assert!(matches!(
        quiet(|| nodes::try_of_type::<f32>(&Wrong(1.0))),
        TreeError::NotRebuilt { .. }
    ));
}

/// Functions that read a value into a dynamic module, or find it by its address.
pub(crate) fn values_read_into_modules_are_errors() {
    let node = deep();
    let is_too_deep =
        |error: TreeError| assert!(error.to_string().contains("nested deeper than"), "{error}");
    is_too_deep(quiet(|| DynamicModule::<f32>::from_value(&node)));
    let mut module = DynamicModule::<f32>::typed("Layer").unwrap();
    is_too_deep(quiet(|| module.register_state("deep", deep())));
    let holder = (Some(Shared::new(1.0_f32)), 2.0_f32);
    is_too_deep(quiet(|| {
        edit::replace_at::<_, _>(&holder, "[0]", node.clone())
    }));
    is_too_deep(quiet(|| boundary::try_flatten_any_with_references(&node)));
    is_too_deep(quiet(|| {
        tree::transpose::<_, Node, f32>(&node, &tree::structure(&(1.0_f32,)), None)
    }));
}

/// A graph of `count` nodes in which each node leads to each other node.
#[derive(Pytree, Clone)]
struct Connected {
    value: f32,
    others: Vec<Ref<Connected>>,
}

/// As a tree, such a graph has more paths than a program can visit.
pub(crate) fn cycles_with_many_paths_end_at_once() {
    let alone = || Connected {
        value: 1.0,
        others: Vec::new(),
    };
    let nodes: Vec<Ref<Connected>> = (0..40).map(|_| Ref::new(alone())).collect();
    for node in &nodes {
        node.set(Connected {
            value: 1.0,
            others: nodes.clone(),
        });
    }
    assert!(matches!(
        quiet(|| tree::try_flatten_any(&nodes)),
        TreeError::Cycle { .. }
    ));
    assert_eq!(graph::try_flatten_any(&nodes).unwrap().0.len(), 40);
    nodes.iter().for_each(|node| node.set(alone()));
}

/// A value that cannot be visited.
struct Locked;

impl Pytree for Locked {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.refuse(TreeError::Build {
            node: "Locked",
            reason: "it is locked".to_owned(),
        });
    }
    fn unflatten(_: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Ok(Self)
    }
}

pub(crate) fn refusal_of_a_handwritten_impl_is_an_error() {
    let values = (1.0_f32, Locked, 2.0_f32);
    for error in [
        quiet(|| tree::try_structure(&values)),
        quiet(|| graph::try_flatten_any(&values)),
        quiet(|| nodes::try_copy(&values)),
        quiet(|| edit::replace_at(&values, "[0]", 2.0_f32)),
    ] {
        assert!(error.to_string().contains("it is locked"), "{error}");
    }
}

/// A list written by hand that ignores what `enter` answers.
struct Ignorant(Option<Box<Ignorant>>);

impl Pytree for Ignorant {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(&pytree_core::shape::LIST, usize::from(self.0.is_some()));
        if let Some(next) = &self.0 {
            Pytree::visit(&**next, visitor);
        }
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let arity = source.enter(&pytree_core::shape::LIST)?;
        let next = (arity == 1).then(|| Self::unflatten(source).map(Box::new));
        let next = next.transpose()?;
        Ok(source.exit(Self(next)))
    }
}

/// After an obstacle, no leaf is shown and no node is entered, whatever an impl does.
pub(crate) fn siblings_of_an_obstacle_are_skipped() {
    let mut shown = 0;
    let wide = (1.0_f32, deep(), vec![vec![2.0_f32]; 10_000]);
    let error = quiet(|| {
        graph::map2(&wide, &wide, |left: &f32, _: &f32| {
            shown += 1;
            *left
        })
    });
    assert!(matches!(error, TreeError::TooDeep { .. }), "{error}");
    assert_eq!(shown, 0);
    let list = (0..300).fold(Ignorant(None), |next, _| Ignorant(Some(Box::new(next))));
    assert!(matches!(
        quiet(|| tree::try_structure(&(list, wide))),
        TreeError::TooDeep { limit: 256, .. }
    ));
}
