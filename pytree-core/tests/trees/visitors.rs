//! Visitors and pytrees that are written by hand, and matching a value against a treedef.

use std::collections::BTreeMap;
use std::sync::Arc;

use pytree_core::shape::{ABSENT, DynamicShape, Field, NodeShape, TUPLE};
use pytree_core::{
    Filter, Leaf, Pytree, PytreeOf, Shared, StaticRef, Tree, TreeError, Unflattener, Visit,
    Visitor, edit, graph, match_structure, partition, tree,
};

/// Writes down what it is shown; of an absent place and of a dynamic tree by the defaults.
#[derive(Default)]
struct Record(Vec<String>);

impl<'a> Visitor<'a> for Record {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) -> Visit {
        self.0.push(format!("{} of {arity}", shape.name));
        Visit::Descend
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) -> Visit {
        self.0.push(format!("{} of {arity}", shape.name()));
        Visit::Descend
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if let Some(key) = value.downcast_ref::<i32>() {
            self.0.push(format!("key {key}"));
        }
    }
    fn leaf(&mut self, _: &'a dyn Leaf) {
        self.0.push("leaf".into());
    }
    fn exit(&mut self) {
        self.0.push("exit".into());
    }
}

/// As [`Record`], with a word of its own for absent places.
#[derive(Default)]
struct RecordAbsent(Record);

impl<'a> Visitor<'a> for RecordAbsent {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) -> Visit {
        self.0.enter(shape, arity)
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) -> Visit {
        self.0.enter_dynamic(shape, arity)
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        self.0.aux(value);
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        self.0.leaf(leaf);
    }
    fn absent(&mut self) {
        self.0.0.push("absent".into());
    }
    fn exit(&mut self) {
        self.0.exit();
    }
}

#[test]
fn dynamic_tree_is_visited_node_by_node() {
    let shown = [
        "list of 4",
        "dict of 1",
        "key 7",
        "leaf",
        "exit",
        "tuple of 1",
        "leaf",
        "exit",
        "None of 0",
        "exit",
        "Point of 1",
        "leaf",
        "exit",
        "exit",
    ];
    let mut record = Record::default();
    let tree: Tree = pytree_core::tree!([{ 7_i32: 1 }, (2,), None, Point(x = 3)]);
    tree.visit(&mut record);
    assert_eq!(record.0, shown);
    let mut record = Record::default();
    vec![BTreeMap::from([(7_i32, 1.0_f32)])].visit(&mut record);
    assert_eq!(
        record.0,
        ["list of 1", "dict of 1", "key 7", "leaf", "exit", "exit"]
    );
}

#[test]
fn absent_leaf_is_visited_as_node() {
    let filters = [Filter::path("[0]"), Filter::everything()];
    let [part, _] = partition::split::<_, f32, 2>(&(1.0_f32, 2.0_f32), filters).unwrap();
    let mut record = Record::default();
    part.visit(&mut record);
    assert_eq!(
        record.0,
        ["tuple of 2", "leaf", "absent of 0", "exit", "exit"]
    );
    let mut record = RecordAbsent::default();
    part.visit(&mut record);
    assert_eq!(record.0.0, ["tuple of 2", "leaf", "absent", "exit"]);
}

/// A leaf beside a place that is always absent.
#[derive(Clone, Debug, PartialEq)]
struct Gap(f32);

impl Pytree for Gap {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(&TUPLE, 2);
        visitor.absent();
        visitor.leaf(&self.0);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(&TUPLE, 2)?;
        source.enter_fixed(&ABSENT, 0)?;
        let leaf = source.leaf()?;
        Ok(source.exit(Self(leaf)))
    }
}

#[test]
fn pytree_may_have_absent_leaves() {
    let gaps = vec![Gap(1.0), Gap(2.0)];
    let treedef = tree::structure(&gaps);
    assert_eq!(treedef.to_string(), "PyTreeDef([(-, *), (-, *)])");
    let paths: Vec<String> = treedef
        .leaf_paths()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(paths, ["[0][1]", "[1][1]"]);
    let (leaves, treedef) = tree::flatten_any(&gaps);
    assert_eq!(
        tree::unflatten::<Vec<Gap>, _>(&treedef, leaves).unwrap(),
        gaps
    );
    let changed = edit::replace_at(&gaps, "[0][1]", 5.0_f32).unwrap();
    assert_eq!(changed, [Gap(5.0), Gap(2.0)]);
    let changed = edit::replace_at(&gaps, "[1]", Gap(5.0)).unwrap();
    assert_eq!(changed, [Gap(1.0), Gap(5.0)]);
    assert!(edit::replace_at(&gaps, "[1][0]", 5.0_f32).is_err());
}

#[derive(Clone, Debug, PartialEq, Pytree)]
struct Point {
    x: f32,
}

/// Leaves the walks over the leaves to the defaults.
struct Many {
    points: Vec<Point>,
    tree: Tree<f32>,
}

impl Pytree for Many {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter(&TUPLE, 2);
        self.points.visit(visitor);
        self.tree.visit(visitor);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(&TUPLE, 2)?;
        let points = Vec::unflatten(source)?;
        let tree = Tree::unflatten(source)?;
        Ok(source.exit(Self { points, tree }))
    }
}
impl PytreeOf<f32> for Many {}

#[test]
fn all_leaves_of_long_value_are_visited() {
    let many = Many {
        points: vec![Point { x: 1.0 }; 1000],
        tree: Tree::list(vec![Tree::leaf(2.0), Tree::leaf(3.0)]),
    };
    let leaves = tree::leaves::<f32, _>(&many);
    assert_eq!(leaves.len(), 1002);
    assert_eq!(leaves[999..], [&1.0, &2.0, &3.0]);
}

fn matches<T: PytreeOf<f32>, U: Pytree>(value: &T, of: &U) -> bool {
    match_structure::<f32, _>(value, &graph::structure(of), &mut Vec::new())
}

#[test]
fn long_value_matches_its_structure() {
    let points = vec![Point { x: 1.0 }; 1000];
    assert!(matches(&points, &points));
    let inside = (points.clone(),);
    assert!(matches(&inside, &inside));
    assert!(!matches(&points[1..].to_vec(), &points));
}

#[test]
fn keys_and_sharing_are_matched() {
    let map = |key: &str| BTreeMap::from([(key.to_owned(), 1.0_f32)]);
    assert!(matches(&map("a"), &map("a")));
    assert!(!matches(&map("b"), &map("a")));
    let (a, b) = (Shared::new(1.0_f32), Shared::new(2.0_f32));
    let tied = |last: &Shared<f32>| (a.clone(), b.clone(), last.clone());
    assert!(matches(&tied(&a), &tied(&a)));
    assert!(!matches(&tied(&a), &tied(&b)));
}

/// Shows its note only if it has one.
struct Noted {
    weight: f32,
    note: Option<String>,
}

impl Pytree for Noted {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        static SHAPE: NodeShape =
            NodeShape::of_struct::<Noted>("Noted", &[Field::plain("weight")], &["note"]);
        visitor.enter(&SHAPE, 1);
        if let Some(note) = &self.note {
            visitor.aux(StaticRef::new(note));
        }
        visitor.leaf(&self.weight);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Err(source.wrong_node("a value that can only be flattened"))
    }
}
impl PytreeOf<f32> for Noted {}

#[test]
fn number_of_static_values_is_compared() {
    let noted = |note: Option<&str>| Noted {
        weight: 1.0,
        note: note.map(str::to_owned),
    };
    let (with, without) = (noted(Some("a")), noted(None));
    assert!(matches(&with, &with) && matches(&without, &without));
    assert!(!matches(&with, &without));
    assert!(!matches(&without, &with));
    assert!(!matches(&with, &noted(Some("b"))));
}

#[test]
fn shapes_with_equal_descriptions_are_equal() {
    const FIELDS: &[Field] = &[Field::plain("x")];
    const OTHERS: &[Field] = &[Field::plain("y")];
    let point = NodeShape::of_struct::<Point>("Point", FIELDS, &[]);
    assert_eq!(point, NodeShape::of_struct::<Point>("Point", FIELDS, &[]));
    assert_eq!(point, NodeShape::of_struct::<Gap>("Point", FIELDS, &[]));
    for other in [
        NodeShape::of_struct::<Point>("Points", FIELDS, &[]),
        NodeShape::of_struct::<Point>("Point", OTHERS, &[]),
        NodeShape::of_struct::<Point>("Point", FIELDS, &["size"]),
        NodeShape::of_struct::<Point>("Point", &[], &[]),
    ] {
        assert_ne!(point, other);
    }
}

/// A pair whose walk over leaves, written by hand, visits the first one only or the second one twice.
#[derive(Clone)]
struct Miscounted {
    pair: (f64, f64),
    visits: usize,
}

impl Pytree for Miscounted {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.pair.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let pair = Pytree::unflatten(source)?;
        Ok(Self { pair, visits: 2 })
    }
}

impl PytreeOf<f64> for Miscounted {
    fn each_pair<'a, F: FnMut(&'a f64, &'a f64)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
        self.pair.each_pair(&other.pair, visit)
    }
    fn map_leaves<F: FnMut(&f64) -> f64>(&self, function: &mut F) -> Self {
        (0..self.visits).for_each(|_| {
            function(&self.pair.0);
        });
        self.clone()
    }
}

#[test]
fn map2_reports_walks_that_disagree() {
    for visits in [1, 3] {
        let miscounted = Miscounted {
            pair: (1.0, 2.0),
            visits,
        };
        let error = tree::map2(&miscounted, &miscounted, |left: &f64, _: &f64| *left).err();
        assert_eq!(
            error.unwrap().to_string(),
            format!(
                "`each_pair` visits 2 leaves of a `Miscounted`, and `map_leaves` visits {visits}; make both methods of the impl of `PytreeOf` visit each leaf once"
            )
        );
    }
}

/// A number that counts the walks over it.
#[derive(Debug, Default)]
struct Walked {
    value: f64,
    walks: std::cell::Cell<usize>,
}

impl Walked {
    fn count(&self) {
        self.walks.set(self.walks.get() + 1);
    }
}

impl Pytree for Walked {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.count();
        self.value.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let (value, walks) = (f64::unflatten(source)?, 1.into());
        Ok(Self { value, walks })
    }
}

impl PytreeOf<f64> for Walked {
    fn each_pair<'a, F: FnMut(&'a f64, &'a f64)>(&'a self, other: &'a Self, visit: &mut F) -> bool {
        self.count();
        other.count();
        self.value.each_pair(&other.value, visit)
    }
    fn map_leaves<F: FnMut(&f64) -> f64>(&self, function: &mut F) -> Self {
        self.count();
        let (value, walks) = (function(&self.value), 0.into());
        Self { value, walks }
    }
}

#[derive(Debug, Pytree)]
enum Walks {
    One(Walked),
    Several {
        all: Vec<Walked>,
        #[r#static]
        width: usize,
    },
}

#[test]
fn map2_walks_twice() {
    let several = |count, width| {
        let all = (0..count).map(|_| Walked::default()).collect();
        Walks::Several { all, width }
    };
    let (left, right) = (several(2, 3), several(2, 3));
    let sum = tree::map2(&left, &right, |left: &f64, right: &f64| left + right).unwrap();
    for (tree, expected) in [(&left, 2), (&right, 1), (&sum, 0)] {
        let Walks::Several { all, .. } = tree else {
            panic!("{tree:?}")
        };
        assert!(all.iter().all(|walked| walked.walks.get() == expected));
    }
    let others = [several(3, 3), several(2, 4), Walks::One(Walked::default())];
    for other in others {
        let error = tree::map2(&left, &other, |left: &f64, _: &f64| *left).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("cannot map two trees together"),
            "{message}"
        );
    }
}
