//! The two notations, and how trees are written down.

use pytree_core::shape::{DynamicShape, NodeKind, NodeShape};
use pytree_core::{Pytree, StaticBox, Tree, TreeBuilder, TreeError, Unflattener, Visitor, tree};

#[derive(Clone, Debug, PartialEq, Pytree)]
struct Line {
    from: i64,
    to: i64,
}

fn point(x: Tree<i64>, y: Tree<i64>) -> Tree<i64> {
    Tree::named_tuple("Point", vec![("x", x), ("y", y)]).unwrap()
}

#[test]
fn ordered_dictionaries_have_two_notations() {
    let tree = tree!(ordered {"b": 1, "a": [2, 3]});
    assert_eq!(tree.to_string(), "OrderedDict({'b': 1, 'a': [2, 3]})");
    assert_eq!(format!("{tree:?}"), "OrderedDict({'b': 1, 'a': [2, 3]})");
    assert_eq!(
        tree.treedef().to_string(),
        "PyTreeDef(CustomNode(OrderedDict[('b', 'a')], [*, [*, *]]))"
    );
    assert_eq!(
        tree!(ordered {"b": 1}).treedef().to_string(),
        "PyTreeDef(CustomNode(OrderedDict[('b',)], [*]))"
    );
    let empty: Tree = tree!(ordered {});
    assert_eq!(empty.to_string(), "OrderedDict()");
    assert_eq!(
        empty.treedef().to_string(),
        "PyTreeDef(CustomNode(OrderedDict[()], []))"
    );
}

#[test]
fn last_of_equal_keys_keeps_first_position() {
    let tree = tree!(ordered {"b": 1, 2: 3, "b": 4});
    assert_eq!(tree.to_string(), "OrderedDict({'b': 4, 2: 3})");
}

#[test]
fn named_tuples_have_two_notations() {
    let tree = tree!(Point(x = 1, y = Point(x = (2,), y = None)));
    assert_eq!(tree.to_string(), "Point(x=1, y=Point(x=(2,), y=None))");
    assert_eq!(
        tree.treedef().to_string(),
        "PyTreeDef(CustomNode(namedtuple[Point], [*, CustomNode(namedtuple[Point], [(*,), None])]))"
    );
    let empty = Tree::<i64>::named_tuple("Empty", Vec::new()).unwrap();
    assert_eq!(empty.to_string(), "Empty()");
    assert_eq!(
        empty.treedef().to_string(),
        "PyTreeDef(CustomNode(namedtuple[Empty], []))"
    );
}

#[test]
fn named_tuples_are_keyed_by_their_fields() {
    let tree = point(Tree::leaf(1), Tree::list(vec![Tree::leaf(2)]));
    let paths: Vec<String> = tree
        .treedef()
        .leaf_paths()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(paths, ["x", "y[0]"]);
    assert_eq!(tree.treedef().kind(), NodeKind::NamedTuple);
}

#[test]
fn macro_distinguishes_named_tuples_from_calls() {
    fn double(x: i64) -> i64 {
        2 * x
    }
    let tree = tree!([Point(x = 1, y = double(2)), {"k": Point(x = {"a": 3}, y = ordered {"z": 4},)}, double(5)]);
    assert_eq!(
        tree.to_string(),
        "[Point(x=1, y=4), {'k': Point(x={'a': 3}, y=OrderedDict({'z': 4}))}, 10]"
    );
}

#[test]
fn fields_with_equal_names_are_rejected() {
    let fields = vec![("x", Tree::leaf(1)), ("x", Tree::leaf(2))];
    let error = Tree::named_tuple("Point", fields).unwrap_err();
    assert!(matches!(error, TreeError::Build { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("`Point` has two fields with the name `x`"),
        "{error}"
    );
    let statics = vec![("x", StaticBox::new(1))];
    let error = Tree::named_struct("Layer", vec![("x", Tree::leaf(1))], statics).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`Layer` has two fields with the name `x`"),
        "{error}"
    );
}

#[test]
fn dynamic_structure_equals_type_with_same_fields() {
    let fields = vec![("from", Tree::leaf(1_i64)), ("to", Tree::leaf(2))];
    let tree = Tree::named_struct("Line", fields, Vec::new()).unwrap();
    let line = Line { from: 1, to: 2 };
    assert_eq!(*tree.treedef(), tree::structure(&line));
    assert_eq!(tree.to_value::<Line>().unwrap(), line);
    assert_eq!(tree.to_string(), "Line { from: 1, to: 2 }");
}

#[test]
fn dynamic_structure_has_static_values() {
    let statics = vec![("rate", StaticBox::new(0.5)), ("name", StaticBox::new("a"))];
    let tree = Tree::named_struct("Layer", vec![("w", Tree::leaf(1_i64))], statics).unwrap();
    assert_eq!(tree.to_string(), "Layer { w: 1, rate = 0.5, name = 'a' }");
    let node = tree.root().root();
    let statics: Vec<String> = node
        .statics()
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    assert_eq!(statics, ["rate: 0.5", "name: 'a'"]);
}

#[derive(Clone, Debug, Pytree)]
struct Empty();

#[derive(Clone, Debug, Pytree)]
struct Nothing {}

#[derive(Clone, Debug, Pytree)]
struct Size(#[r#static] i32, #[r#static] i32);

#[derive(Clone, Debug, Pytree)]
struct Scaled(f32, #[r#static] i32);

#[derive(Clone, Debug, Pytree)]
struct Settings {
    #[r#static]
    rate: i32,
    #[r#static]
    name: &'static str,
}

#[test]
fn structs_are_displayed_with_their_static_fields() {
    let shown = |text: &str| format!("PyTreeDef({text})");
    assert_eq!(tree::structure(&Empty()).to_string(), shown("Empty"));
    assert_eq!(tree::structure(&Nothing {}).to_string(), shown("Nothing"));
    assert_eq!(
        tree::structure(&Size(3, 4)).to_string(),
        shown("Size(0 = 3, 1 = 4)")
    );
    assert_eq!(
        tree::structure(&Scaled(1.0, 4)).to_string(),
        shown("Scaled(*, 1 = 4)")
    );
    let settings = Settings { rate: 1, name: "a" };
    assert_eq!(
        tree::structure(&settings).to_string(),
        shown("Settings { rate = 1, name = 'a' }")
    );
}

#[test]
fn bools_and_floats_are_written_as_by_python() {
    use ndarray::array;
    // The expected texts are from JAX and NumPy, except for the separators in arrays.
    let keys = tree!({false: 1, true: 2});
    assert_eq!(keys.treedef().to_string(), "PyTreeDef({False: *, True: *})");
    let floats = tree!({1e-7: 1, 1.5: 2, 1e16: 3});
    assert_eq!(
        floats.treedef().to_string(),
        "PyTreeDef({1e-07: *, 1.5: *, 1e+16: *})"
    );
    assert_eq!(
        tree!({(f64::NAN): 1}).treedef().to_string(),
        "PyTreeDef({nan: *})"
    );
    assert_eq!(
        tree!([
            true,
            1e-7,
            1e-7_f32,
            f64::NAN,
            -f64::INFINITY,
            100.0,
            'a',
            '\''
        ])
        .to_string(),
        "[True, 1e-07, 1e-07, nan, -inf, 100.0, 'a', \"'\"]"
    );
    let arrays = tree!([
        array![[true, false]],
        array![1e-7_f32, f32::NAN],
        array![1e16, 1.0]
    ]);
    assert_eq!(
        arrays.to_string(),
        "[[[True, False]], [1e-07, nan], [1e+16, 1.0]]"
    );
    let path = &tree!({1e-7: {true: 1}}).treedef().leaf_paths()[0];
    assert_eq!(path.to_string(), "[1e-07][True]");
    assert_eq!(path.to_string().parse(), Ok(path.clone()));
}

/// A tree with one node of a shape made at run time, which may have any number of children.
fn special(kind: NodeKind, name: &str, version: i64, children: usize) -> Tree<i64> {
    let shape = DynamicShape::new(kind, name, &[], &["version"]).unwrap();
    let mut builder = TreeBuilder::new();
    builder.begin_shape(shape, vec![StaticBox::new(version)]);
    for child in 0..children {
        builder.leaf(child as i64);
    }
    builder.end().finish().unwrap()
}

#[test]
fn containers_made_at_run_time_show_name_and_static_fields() {
    let shown = |kind, children| special(kind, "Special", 1, children).to_string();
    assert_eq!(shown(NodeKind::List, 2), "Special[0, 1, version = 1]");
    assert_eq!(shown(NodeKind::List, 0), "Special[version = 1]");
    assert_eq!(shown(NodeKind::Tuple, 2), "Special(0, 1, version = 1)");
    assert_eq!(shown(NodeKind::Tuple, 1), "Special(0, version = 1)");
    assert_eq!(shown(NodeKind::None, 0), "Special(version = 1)");
    let list = special(NodeKind::List, "Special", 1, 2);
    assert_eq!(
        list.treedef().to_string(),
        "PyTreeDef(Special[*, *, version = 1])"
    );
    assert_eq!(list["[1]"], 1);
    let others = [
        special(NodeKind::List, "Special", 2, 2),
        special(NodeKind::List, "Other", 1, 2),
        special(NodeKind::Tuple, "Special", 1, 2),
        Tree::list(vec![Tree::leaf(0), Tree::leaf(1)]),
    ];
    for other in others {
        assert_ne!(list.treedef(), other.treedef());
        assert_ne!(list.treedef().to_string(), other.treedef().to_string());
        let differences = list.treedef().differences(other.treedef());
        let [difference] = differences.as_slice() else {
            panic!("{differences:?}");
        };
        assert_ne!(difference.left, difference.right);
    }
    let shape = DynamicShape::new(NodeKind::Dict, "Table", &[], &[]).unwrap();
    let mut builder = TreeBuilder::new();
    builder.begin_shape(shape, Vec::new()).key("a").leaf(1);
    assert_eq!(builder.end().finish().unwrap().to_string(), "Table{'a': 1}");
}

/// A tuple written by hand, whose shape does not name its children.
struct Pair(f32, f32);

impl Pytree for Pair {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(Self::SHAPE, 2);
        self.0.visit(visitor);
        self.1.visit(visitor);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(Self::SHAPE, 2)?;
        Ok(Self(f32::unflatten(source)?, f32::unflatten(source)?))
    }
}

impl Pair {
    const SHAPE: &'static NodeShape =
        &NodeShape::of_container::<Self>(NodeKind::TupleStruct, "Pair");
}

#[test]
fn children_without_names_are_keyed_by_position() {
    let paths = tree::structure(&vec![Pair(1.0, 2.0)]).leaf_paths();
    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["[0][0]", "[0][1]"]);
    assert_eq!(Tree::of(&Pair(1.0, 2.0)).to_string(), "Pair(1.0, 2.0)");
}
