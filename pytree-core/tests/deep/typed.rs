//! Recursive types: within the limit they work on a thread of 2 MiB, beyond it they are an error.

use pytree_core::shape::{DynamicShape, NONE, SOME};
use pytree_core::{Pytree, Tree, TreeBuilder, TreeDef, TreeError, graph, match_structure, tree};

use crate::deep::on_stack;

const LIMIT: usize = 256;
const TOO_DEEP: usize = 10_000;

/// The length of the longest chain: a node counts 8 eighths, a `Some` 1 and the `None` at the end 8.
const DEEPEST: usize = (8 * LIMIT - 8 + 1) / 9;

#[derive(Clone, Debug, PartialEq, Pytree)]
struct Node {
    value: i64,
    next: Option<Box<Node>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut node) = next {
            next = node.next.take();
        }
    }
}

/// So many nodes, of which each but the last has a `Some` below it.
fn chain(length: usize) -> Node {
    let last = Node {
        value: 0,
        next: None,
    };
    (1..length).fold(last, |node, value| Node {
        value: value as i64,
        next: Some(Box::new(node)),
    })
}

/// A chain's tree, built from shapes that know the names only.
fn dynamic_chain(length: usize) -> Tree<i64> {
    let fields = [("value", None), ("next", None)];
    let shape =
        DynamicShape::new(pytree_core::shape::NodeKind::Struct, "Node", &fields, &[]).unwrap();
    let mut builder = TreeBuilder::new();
    for value in (0..length).rev() {
        builder.begin_shape(&shape, vec![]).leaf(value as i64);
        builder.begin_shape(if value == 0 { &NONE } else { &SOME }, vec![]);
    }
    for _ in 0..2 * length {
        builder.end();
    }
    builder.finish().unwrap()
}

/// On a thread as large as those that tests and `std::thread::spawn` have.
fn fails<T: Send>(run: impl FnOnce() -> T + Send) -> String {
    match on_stack(2048, run) {
        Ok(_) => panic!("a value too deep was accepted"),
        Err(text) => text,
    }
}

const FIX: &str = ": use a dynamic `Tree`, whose depth is not limited, or put the parts of a recursive type into a `Vec`; if the parts are `Ref` or `Shared`, put the innermost part first and use the functions of `graph`; or use the value in a thread with a larger stack, inside of `depth::with_stack`";

fn message(path: &str) -> String {
    format!("typed values are nested deeper than 256 nodes at {path}{FIX}")
}

#[test]
fn too_deep_value_is_rejected_with_path() {
    let node = chain(TOO_DEEP);
    let expected = message("next.next.next.next.next.next…");
    assert_eq!(fails(|| tree::flatten::<i64, _>(&node)), expected);
    assert_eq!(fails(|| graph::flatten::<i64, _>(&node)), expected);
    assert_eq!(fails(|| tree::structure(&node)), expected);
    assert_eq!(fails(|| tree::flatten_any(&node)), expected);
    assert_eq!(fails(|| tree::any_leaves(&node).len()), expected);
    assert_eq!(
        fails(|| tree::leaves_with_path::<i64, _>(&node).len()),
        expected
    );
    assert_eq!(fails(|| tree::map_to(&node, |leaf: &i64| *leaf)), expected);
    assert_eq!(
        on_stack(2048, || tree::map2(&node, &node, |left: &i64, _: &i64| {
            *left
        }))
        .unwrap()
        .err()
        .unwrap()
        .to_string(),
        expected
    );
    assert_eq!(fails(|| Tree::from_value(&node)), expected);
    assert_eq!(fails(|| Tree::of(&node)), expected);
}

#[test]
fn leaf_walks_reject_too_deep_value() {
    let node = chain(TOO_DEEP);
    for text in [
        fails(|| tree::leaves::<i64, _>(&node).len()),
        fails(|| graph::leaves::<i64, _>(&node).len()),
        fails(|| tree::map(&node, |leaf: &i64| *leaf)),
        fails(|| tree::reduce(&node, 0, |sum, leaf: &i64| sum + leaf)),
    ] {
        assert!(
            text.starts_with("typed values are nested deeper than 256 nodes at "),
            "{text}"
        );
        assert!(text.ends_with(FIX), "{text}");
    }
}

#[test]
fn match_rejects_too_deep_value() {
    let node = chain(TOO_DEEP);
    // A walk ends at the first difference, or at the node that is too deep.
    for treedef in [
        dynamic_chain(TOO_DEEP).treedef(),
        &tree::structure(&chain(DEEPEST)),
        &tree::structure(&chain(2)),
        &TreeDef::leaf(),
    ] {
        let matched = || match_structure::<i64, _>(&node, treedef, &mut Vec::new());
        assert_eq!(on_stack(2048, matched), Ok(false));
    }
}

#[test]
fn too_deep_treedef_is_not_built() {
    let tree = dynamic_chain(TOO_DEEP);
    let error = on_stack(2048, || tree.to_value::<Node>())
        .unwrap()
        .unwrap_err();
    let TreeError::TooDeep { limit, path } = &error else {
        panic!("{error}");
    };
    assert_eq!((*limit, path.keys().len()), (LIMIT, DEEPEST + 1));
    assert_eq!(error.to_string(), message("next.next.next.next.next.next…"));
    let read = TreeDef::from_bytes(&tree.treedef().to_bytes()).unwrap();
    let leaves = tree.leaves().to_vec();
    assert_eq!(
        on_stack(2048, || tree::unflatten::<Node, i64>(&read, leaves)).unwrap(),
        Err(error)
    );
}

#[test]
fn depth_limit_counts_nodes() {
    // 226 nodes and a `None` count as 227, and 225 `Some` as 28 and an eighth.
    let node = chain(DEEPEST);
    let treedef = on_stack(2048, || tree::structure(&node)).unwrap();
    assert_eq!(treedef, *dynamic_chain(DEEPEST).treedef());
    assert_eq!(
        on_stack(2048, || tree::map(&node, |leaf: &i64| *leaf)).unwrap(),
        node
    );
    assert_eq!(dynamic_chain(DEEPEST).to_value::<Node>().unwrap(), node);
    let mut leaves = Vec::new();
    assert!(match_structure::<i64, _>(&node, &treedef, &mut leaves));
    assert_eq!(leaves.len(), DEEPEST);
    assert_eq!(tree::leaves::<i64, _>(&node), leaves);
    let longer = chain(DEEPEST + 1);
    assert!(fails(|| tree::structure(&longer)).starts_with("typed values"));
    let matches = || match_structure::<i64, _>(&longer, &treedef, &mut Vec::new());
    assert_eq!(on_stack(2048, matches), Ok(false));
    assert!(matches!(
        dynamic_chain(DEEPEST + 1).to_value::<Node>(),
        Err(TreeError::TooDeep { limit: LIMIT, .. })
    ));
}

/// A node without children, whose static value is compared.
#[derive(Clone, Debug, PartialEq, Pytree)]
struct Size {
    #[r#static]
    size: usize,
}

/// Compares `(other, chain)` with the structure of `(stored, chain)`. The tuple counts as a node around the chain.
fn check_depth_after_difference<T>(stored: T, other: T)
where
    T: pytree_core::PytreeOf<i64> + Clone + Sync,
{
    let treedef = tree::structure(&(stored, chain(2)));
    let value = |length| (other.clone(), chain(length));
    let (deepest, longer) = (value(DEEPEST - 1), value(DEEPEST));
    let matches = |value: &(T, Node)| match_structure::<i64, _>(value, &treedef, &mut Vec::new());
    assert_eq!(on_stack(2048, || matches(&deepest)), Ok(false));
    assert_eq!(on_stack(2048, || matches(&longer)), Ok(false));
}

#[test]
fn depth_limit_holds_after_first_difference() {
    check_depth_after_difference(Size { size: 1 }, Size { size: 2 });
    check_depth_after_difference(vec![vec![1], vec![]], vec![vec![1], vec![2]]);
    check_depth_after_difference(vec![Some(Size { size: 1 })], vec![Some(Size { size: 2 })]);
    // The nodes of a dynamic tree do not count, even if the difference is inside of the tree.
    check_depth_after_difference(dynamic_chain(20), dynamic_chain(19));
}

/// A type with several fields, whose frames are larger than most.
#[derive(Clone, Debug, PartialEq, Pytree)]
#[allow(clippy::large_enum_variant, reason = "large frames are what it is for")]
enum Wide {
    End,
    Level {
        weights: [f64; 16],
        name: String,
        pair: (f32, Option<i32>),
        table: std::collections::BTreeMap<String, f64>,
        size: Vec<u8>,
        next: Box<Wide>,
    },
}

#[test]
fn wide_type_at_depth_limit_fits_thread() {
    // The last level holds a `Some` in a tuple.
    const LEVELS: usize = LIMIT - 2;
    // Less than the 2 MiB of a thread: a third is left for its other work, and for wider types.
    on_stack(1400, || {
        let wide = (0..LEVELS).fold(Wide::End, |next, level| Wide::Level {
            weights: [level as f64; 16],
            name: "name".into(),
            pair: (1.0, Some(1)),
            table: std::collections::BTreeMap::from([("key".to_owned(), 1.0)]),
            size: vec![1, 2],
            next: Box::new(next),
        });
        let (leaves, treedef) = tree::flatten_any(&wide);
        let built: Wide = tree::unflatten(&treedef, leaves).unwrap();
        assert_eq!(built, wide);
        assert_eq!(tree::any_leaves(&wide).len(), LEVELS * 22);
    })
    .unwrap();
}

/// The dynamic tree inside of a typed value is no part of its depth.
#[test]
fn dynamic_tree_does_not_count_as_depth() {
    #[derive(Clone, Debug, PartialEq, Pytree)]
    struct Holder {
        tree: Tree<i64>,
    }
    let holder = Holder {
        tree: dynamic_chain(TOO_DEEP),
    };
    let (leaves, treedef) = tree::flatten::<i64, _>(&holder);
    assert_eq!(tree::leaves::<i64, _>(&holder).len(), TOO_DEEP);
    let mut matched = Vec::new();
    assert!(match_structure::<i64, _>(&holder, &treedef, &mut matched));
    assert_eq!(matched.len(), TOO_DEEP);
    assert_eq!(
        tree::unflatten::<Holder, i64>(&treedef, leaves).unwrap(),
        holder
    );
}

/// A leaf in so many nodes without keys.
struct Wrapped(usize);
impl Pytree for Wrapped {
    fn visit<'a>(&'a self, visitor: &mut dyn pytree_core::Visitor<'a>) {
        for _ in 0..self.0 {
            visitor.enter(&NONE, 1);
        }
        visitor.leaf(&1_i64);
        (0..self.0).for_each(|_| visitor.exit());
    }
    fn unflatten(source: &mut pytree_core::Unflattener<'_>) -> Result<Self, TreeError> {
        Err(source.wrong_node("a value that can only be flattened"))
    }
}

#[test]
fn depth_error_shows_six_keys() {
    let six = vec![vec![vec![vec![vec![vec![Wrapped(LIMIT)]]]]]];
    assert_eq!(fails(|| tree::structure(&six)), message(&"[0]".repeat(6)));
    let seven = vec![six];
    assert_eq!(
        fails(|| tree::structure(&seven)),
        message(&format!("{}…", "[0]".repeat(6)))
    );
}

#[test]
fn depth_limit_holds_for_read_treedefs() {
    let read = |length| {
        let tree = dynamic_chain(length);
        let treedef = TreeDef::from_bytes(&tree.treedef().to_bytes()).unwrap();
        let leaves = tree.leaves().to_vec();
        on_stack(2048, move || tree::unflatten::<Node, i64>(&treedef, leaves)).unwrap()
    };
    assert_eq!(read(DEEPEST).unwrap(), chain(DEEPEST));
    assert!(matches!(
        read(DEEPEST + 1),
        Err(TreeError::TooDeep { limit: LIMIT, .. })
    ));
}

#[test]
fn nodes_that_count_little_have_a_limit_too() {
    struct Optional;
    impl Pytree for Optional {
        fn visit<'a>(&'a self, visitor: &mut dyn pytree_core::Visitor<'a>) {
            for _ in 0..2_000 {
                visitor.enter(&SOME, 1);
            }
        }
        fn unflatten(source: &mut pytree_core::Unflattener<'_>) -> Result<Self, TreeError> {
            Err(source.wrong_node("a value that can only be flattened"))
        }
    }
    assert!(fails(|| tree::structure(&Optional)).contains("deeper than 1024 nodes at the root"));
}
