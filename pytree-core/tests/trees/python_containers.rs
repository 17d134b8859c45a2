//! The nodes for `deque` and `defaultdict` of Python. The expected texts are those of optree 0.20.0 and jax 0.10.2, for
//! the Python value in the comment above each case.

use pytree_core::shape;
use pytree_core::{
    Filter, Pytree, PytreeOf, StaticBox, StaticRef, Tree, TreeBuilder, TreeDef, TreeError,
    Unflattener, Visit, Visitor, partition, tree,
};

fn leaves(range: std::ops::Range<i32>) -> Vec<Tree<i32>> {
    range.map(Tree::leaf).collect()
}

fn deque(maxlen: Option<usize>, length: i32) -> Tree<i32> {
    Tree::deque(maxlen, leaves(1..length + 1)).unwrap()
}

fn counts(factory: Option<&str>, keys: &[&'static str]) -> Tree<i32> {
    let entries = keys.iter().copied().zip(leaves(1..9)).collect();
    Tree::default_dict(factory, Tree::dict(entries)).unwrap()
}

fn ordered(factory: Option<&str>, keys: &[&'static str]) -> Tree<i32> {
    let entries = keys.iter().copied().zip(leaves(1..9)).collect();
    Tree::default_dict(factory, Tree::ordered_dict(entries)).unwrap()
}

const LIST: Option<&str> = Some("<class 'list'>");

#[test]
fn containers_are_displayed_as_in_python() {
    // The tree, its treedef and its `repr`.
    let cases = [
        // deque([1, 2, 3], maxlen=5)
        (
            deque(Some(5), 3),
            "deque([*, *, *], maxlen=5)",
            "deque([1, 2, 3], maxlen=5)",
        ),
        // deque([1, 2])
        (deque(None, 2), "deque([*, *])", "deque([1, 2])"),
        // deque([])
        (deque(None, 0), "deque()", "deque([])"),
        // deque([], maxlen=2)
        (deque(Some(2), 0), "deque(maxlen=2)", "deque([], maxlen=2)"),
        // defaultdict(list, {'a': 1, 'b': 2})
        (
            counts(LIST, &["a", "b"]),
            "CustomNode(defaultdict[(<class 'list'>, ('a', 'b'))], [*, *])",
            "defaultdict(<class 'list'>, {'a': 1, 'b': 2})",
        ),
        // defaultdict(None, {'b': 1})
        (
            counts(None, &["b"]),
            "CustomNode(defaultdict[(None, ('b',))], [*])",
            "defaultdict(None, {'b': 1})",
        ),
        // defaultdict(int)
        (
            counts(Some("<class 'int'>"), &[]),
            "CustomNode(defaultdict[(<class 'int'>, ())], [])",
            "defaultdict(<class 'int'>, {})",
        ),
        // defaultdict(list, {'b': 1, 'a': 2}) in the insertion-ordered mode
        (
            ordered(LIST, &["b", "a"]),
            "CustomNode(defaultdict[(<class 'list'>, ('b', 'a'))], [*, *])",
            "defaultdict(<class 'list'>, {'b': 1, 'a': 2})",
        ),
        // [deque([1]), {'x': defaultdict(list, {'k': [1]})}]
        (
            Tree::list(vec![
                deque(None, 1),
                Tree::dict(vec![(
                    "x",
                    Tree::default_dict(LIST, Tree::dict(vec![("k", Tree::list(leaves(1..2)))]))
                        .unwrap(),
                )]),
            ]),
            "[deque([*]), {'x': CustomNode(defaultdict[(<class 'list'>, ('k',))], [[*]])}]",
            "[deque([1]), {'x': defaultdict(<class 'list'>, {'k': [1]})}]",
        ),
    ];
    for (tree, structure, value) in cases {
        assert_eq!(
            tree.treedef().to_string(),
            format!("PyTreeDef({structure})")
        );
        assert_eq!(tree.to_string(), value);
        let read = TreeDef::from_bytes(&tree.treedef().to_bytes()).unwrap();
        assert_eq!(read, *tree.treedef());
        assert_eq!(read.to_string(), tree.treedef().to_string());
        assert_eq!(read.content_hash(), tree.treedef().content_hash());
    }
}

#[test]
fn leaves_and_paths_are_in_the_order_of_python() {
    let paths = |tree: &Tree<i32>| -> Vec<String> {
        tree.iter_with_path()
            .map(|(path, leaf)| format!("{path} {leaf}"))
            .collect()
    };
    assert_eq!(paths(&deque(Some(5), 3)), ["[0] 1", "[1] 2", "[2] 3"]);
    // optree and JAX sort the keys, and keep the order of insertion beside them.
    let sorted = counts(LIST, &["b", "a"]);
    assert_eq!(paths(&sorted), ["['a'] 2", "['b'] 1"]);
    let entries = sorted.treedef().child(0).unwrap();
    let order = Tree::new(entries, vec![0, 0])
        .unwrap()
        .root()
        .root()
        .insertion_order();
    assert_eq!(order, [1, 0]);
    assert_eq!(paths(&ordered(LIST, &["b", "a"])), ["['b'] 1", "['a'] 2"]);
    assert_eq!(sorted["['b']"], 1);
}

#[test]
fn bounds_and_factories_are_compared() {
    // The results of `==` of optree's `PyTreeSpec`.
    let same = |left: Tree<i32>, right: Tree<i32>| left.treedef() == right.treedef();
    assert!(!same(deque(Some(2), 1), deque(Some(3), 1)));
    assert!(!same(deque(None, 1), deque(Some(3), 1)));
    assert!(!same(deque(None, 1), Tree::list(leaves(1..2))));
    assert!(same(deque(Some(3), 1), deque(Some(3), 1)));
    assert!(!same(
        counts(LIST, &["a"]),
        counts(Some("<class 'int'>"), &["a"])
    ));
    assert!(!same(
        counts(LIST, &["a"]),
        Tree::dict(vec![("a", Tree::leaf(1))])
    ));
    assert!(same(counts(LIST, &["a", "b"]), counts(LIST, &["b", "a"])));
    assert!(!same(
        ordered(LIST, &["a", "b"]),
        ordered(LIST, &["b", "a"])
    ));

    let found = deque(Some(2), 1)
        .map2(&deque(Some(3), 1), |a, b| a + b)
        .unwrap_err();
    assert!(found.to_string().contains("maxlen = Some(2)"), "{found}");
    let found = counts(LIST, &["a"])
        .map2(&counts(None, &["a"]), |a, b| a + b)
        .unwrap_err();
    assert!(found.to_string().contains("default_factory = "), "{found}");
    let found = counts(LIST, &["a"]).map2(&Tree::dict(vec![("a", Tree::leaf(1))]), |a, b| a + b);
    assert!(
        found
            .unwrap_err()
            .to_string()
            .contains("a defaultdict against a dict of 1")
    );
    assert_eq!(
        counts(LIST, &["a", "b"])
            .map2(&counts(LIST, &["b", "a"]), |a, b| a * 10 + b)
            .unwrap()
            .leaves(),
        [12, 21]
    );
}

#[test]
fn wrong_containers_are_rejected() {
    let error = Tree::deque(Some(1), leaves(0..2)).unwrap_err().to_string();
    assert!(
        error.contains("at most maxlen = 1 children, found 2"),
        "{error}"
    );
    let error = Tree::default_dict(LIST, deque(None, 1))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("expected a dictionary as the entries, found `deque` of 1"),
        "{error}"
    );
}

#[test]
fn builder_begins_containers() {
    let mut builder = TreeBuilder::new();
    builder
        .begin_list()
        .begin_shape(&shape::DEQUE, vec![StaticBox::new(Some(2_usize))])
        .leaf(1)
        .end()
        .begin_shape(
            &shape::DEFAULT_DICT,
            vec![StaticBox::new(Some("list".to_owned()))],
        )
        .begin_dict()
        .key("b")
        .leaf(1)
        .key("a")
        .leaf(2)
        .end()
        .end()
        .end();
    let built = builder.finish().unwrap();
    assert_eq!(
        built,
        Tree::list(vec![deque(Some(2), 1), counts(Some("list"), &["b", "a"])])
    );
}

/// A type with the structure of a `deque`.
#[derive(Clone, Debug, PartialEq)]
struct Recent {
    maxlen: Option<usize>,
    items: Vec<f32>,
}

impl Pytree for Recent {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.enter(&shape::DEQUE, self.items.len()) == Visit::Skip {
            return;
        }
        visitor.aux(StaticRef::new(&self.maxlen));
        self.items.iter().for_each(|item| item.visit(visitor));
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let arity = source.enter(&shape::DEQUE)?;
        let maxlen = source.aux()?;
        let items = (0..arity)
            .map(|_| f32::unflatten(source))
            .collect::<Result<_, _>>()?;
        Ok(source.exit(Self { maxlen, items }))
    }
}
impl PytreeOf<f32> for Recent {}

/// A type with the structure of a `defaultdict`, under a name of its own.
#[derive(Clone, Debug, PartialEq)]
struct Counter {
    factory: String,
    counts: indexmap::IndexMap<String, f32>,
}

impl Pytree for Counter {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        if visitor.enter(&shape::DEFAULT_DICT, 1) == Visit::Skip {
            return;
        }
        visitor.aux(StaticRef::new(&self.factory));
        self.counts.visit(visitor);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter(&shape::DEFAULT_DICT)?;
        let factory = source.aux()?;
        let counts = Pytree::unflatten(source)?;
        Ok(source.exit(Self { factory, counts }))
    }
}
impl PytreeOf<f32> for Counter {}

#[test]
fn registered_types_have_the_structure_of_containers() {
    let recent = Recent {
        maxlen: Some(4),
        items: vec![1.0, 2.0],
    };
    let counts = [("b".to_owned(), 3.0), ("a".to_owned(), 4.0)];
    let counter = Counter {
        factory: "float".to_owned(),
        counts: counts.into(),
    };
    let value = (recent, counter);
    let tree = Tree::<f32>::from_value(&value);
    assert_eq!(
        tree.to_string(),
        "(deque([1.0, 2.0], maxlen=4), defaultdict(float, {'b': 3.0, 'a': 4.0}))"
    );
    assert_eq!(tree.to_value::<(Recent, Counter)>().unwrap(), value);
    let read = TreeDef::from_bytes(&tree.treedef().to_bytes()).unwrap();
    let again: (Recent, Counter) = tree::unflatten(&read, tree.leaves().to_vec()).unwrap();
    assert_eq!(again, value);
    let parts = partition::split(&value, [Filter::path("[1]['a']"), Filter::everything()]).unwrap();
    assert_eq!(partition::merge(parts).unwrap(), value);
    let built: Recent = Tree::deque(None, vec![Tree::leaf(1.0_f32)])
        .unwrap()
        .to_value()
        .unwrap();
    assert_eq!(
        built,
        Recent {
            maxlen: None,
            items: vec![1.0]
        }
    );
}
