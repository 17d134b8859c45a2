//! Handwritten impls of `Pytree` that do something else than they say are errors that name the type.

use std::sync::Arc;

use pytree_core::shape::{DynamicShape, Field, NodeKind, NodeShape};
use pytree_core::{
    Pytree, PytreeOf, StaticRef, TreeError, Unflattener, Visitor, edit, graph, nodes, tree,
};

/// What a [`Liar`] does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lie {
    Nothing,
    NoExit,
    TwoExits,
    Announces(usize),
    SwapsLeaves,
    IgnoresStatic,
}

/// Two leaves and a static value.
#[derive(Clone, Debug, PartialEq)]
struct Liar {
    lie: Lie,
    leaves: (f32, f32),
}

const SHAPE: &NodeShape =
    &NodeShape::of_struct::<Liar>("Liar", &[Field::plain("a"), Field::plain("b")], &["lie"]);

impl Pytree for Liar {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        let announced = match self.lie {
            Lie::Announces(children) => children,
            _ => 2,
        };
        visitor.enter(SHAPE, announced);
        visitor.aux(StaticRef::new(match self.lie {
            Lie::SwapsLeaves => &2_usize,
            Lie::IgnoresStatic => &1_usize,
            _ => &0_usize,
        }));
        self.leaves.0.visit(visitor);
        self.leaves.1.visit(visitor);
        let exits = match self.lie {
            Lie::NoExit => 0,
            Lie::TwoExits => 2,
            _ => 1,
        };
        (0..exits).for_each(|_| visitor.exit());
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(SHAPE, 2)?;
        let lie = match LIE.get() {
            Lie::IgnoresStatic => Lie::IgnoresStatic,
            lie => {
                source.aux::<usize>()?;
                lie
            }
        };
        let (first, second) = (f32::unflatten(source)?, f32::unflatten(source)?);
        let leaves = match lie {
            Lie::SwapsLeaves => (second, first),
            _ => (first, second),
        };
        Ok(source.exit(Self { lie, leaves }))
    }
}

std::thread_local! {
    /// What `unflatten` does wrong, because it has no `self`.
    static LIE: std::cell::Cell<Lie> = const { std::cell::Cell::new(Lie::Nothing) };
}

fn liar(lie: Lie) -> Liar {
    LIE.set(lie);
    Liar {
        lie,
        leaves: (1.0, 2.0),
    }
}

/// Returns the message of all functions that walk over the value.
fn message(value: &impl Pytree) -> String {
    let errors = [
        tree::try_structure(value).map(drop),
        graph::try_structure(value).map(drop),
        tree::try_flatten_any(value).map(drop),
        graph::try_flatten_any(value).map(drop),
        nodes::try_copy(value).map(drop),
        nodes::check_impl(value),
        edit::try_paths_of::<f32>(value).map(drop),
    ];
    let messages = errors.map(|error| error.unwrap_err().to_string());
    assert!(
        messages.iter().all(|text| *text == messages[0]),
        "{messages:?}"
    );
    messages[0].clone()
}

#[test]
fn honest_impl_is_accepted() {
    let honest = (1.0_f32, vec![liar(Lie::Nothing)], 3.0_f32);
    nodes::check_impl(&honest).unwrap();
    assert_eq!(nodes::copy(&honest), honest);
}

const FIX: &str = "`Liar`, pass `enter` the number of children, and call `exit` once after them";

#[test]
fn wrong_number_of_children_names_the_type() {
    for (announced, shown) in [(1, "1"), (3, "3"), (0, "0"), (usize::MAX, "4294967295")] {
        for (text, path) in [
            (
                message(&(1.0_f32, liar(Lie::Announces(announced)), 2.0_f32)),
                "[1]",
            ),
            (message(&vec![(liar(Lie::Announces(announced)),)]), "[0][0]"),
        ] {
            assert_eq!(
                text,
                format!(
                    "cannot visit the value at {path}: `enter` announces {shown} children, and `visit` visits 2; in the impl of `Pytree` for {FIX}"
                )
            );
        }
    }
}

#[test]
fn wrong_number_of_exits_names_the_type() {
    let values: [fn(Lie) -> Box<dyn Fn() -> String>; 3] = [
        |lie| Box::new(move || message(&liar(lie))),
        |lie| Box::new(move || message(&(1.0_f32, vec![liar(lie)], 2.0_f32))),
        |lie| Box::new(move || message(&vec![vec![liar(Lie::Nothing), liar(lie)]])),
    ];
    for value in values {
        for lie in [Lie::NoExit, Lie::TwoExits] {
            let text = value(lie)();
            assert!(text.starts_with("cannot visit the value at "), "{text}");
            assert!(text.contains("`Liar`"), "{text}");
            assert!(text.contains("call `exit` once"), "{text}");
        }
    }
}

#[test]
fn unread_static_value_names_the_type() {
    let ignores = (liar(Lie::IgnoresStatic), 1.0_f32);
    let error = nodes::try_copy(&ignores).unwrap_err().to_string();
    assert!(error.contains("0 of 1 static values were read"), "{error}");
    assert!(
        error.contains("in the impl of `Pytree` for `Liar` call `aux`"),
        "{error}"
    );
    assert!(edit::try_apply(ignores, |_: &mut f32| ()).is_err());
}

#[test]
fn swapped_leaves_are_found_by_the_check() {
    let swaps = liar(Lie::SwapsLeaves);
    let error = nodes::check_impl(&swaps).unwrap_err();
    assert!(
        matches!(error, TreeError::ChangedByRebuilding { .. }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with("a `Liar` changes when it is built again"),
        "{error}"
    );
    assert!(
        error.to_string().contains("2 of 2 leaves differ"),
        "{error}"
    );
}

/// Leaves with names that are known only at run time.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    shape: Arc<DynamicShape>,
    values: Vec<f32>,
}

impl Row {
    fn new(columns: &[&str], values: &[f32]) -> Self {
        let fields: Vec<_> = columns.iter().map(|&name| (name, None)).collect();
        let shape = DynamicShape::new(NodeKind::NamedTuple, "Row", &fields, &[]).unwrap();
        Self {
            shape,
            values: values.to_vec(),
        }
    }
}

impl Pytree for Row {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter_dynamic(&self.shape, self.values.len());
        self.values.iter().for_each(|value| value.visit(visitor));
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        let (shape, arity) = source.enter_any_dynamic()?;
        let values = (0..arity).map(|_| f32::unflatten(source));
        let values = values.collect::<Result<_, _>>()?;
        Ok(source.exit(Self { shape, values }))
    }
}
impl PytreeOf<f32> for Row {}

#[test]
fn shape_made_at_run_time_is_built_again() {
    let row = Row::new(&["width", "height"], &[1.0, 2.0]);
    nodes::check_impl(&row).unwrap();
    let doubled = tree::map(&row, |value: &f32| 2.0 * value);
    assert_eq!(doubled, Row::new(&["width", "height"], &[2.0, 4.0]));
    let (leaves, treedef) = tree::flatten::<f32, _>(&(row.clone(), 5.0_f32));
    assert_eq!(treedef.leaf_paths()[1].to_string(), "[0].height");
    assert_eq!(
        tree::unflatten::<(Row, f32), f32>(&treedef, leaves)
            .unwrap()
            .0,
        row
    );
    let changed = edit::replace_at(&row, "height", 7.0_f32).unwrap();
    assert_eq!(changed.values, [1.0, 7.0]);
    let error = tree::unflatten::<Row, f32>(&tree::structure(&vec![1.0_f32]), vec![1.0]);
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "cannot build a shape made at run time at the root: the treedef has a list there"
        ),
        "{error}"
    );
}

/// A pair whose shape is created once, at run time.
struct Fixed(f32);

fn fixed_shape() -> &'static Arc<DynamicShape> {
    static MADE: std::sync::OnceLock<Arc<DynamicShape>> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        DynamicShape::new(NodeKind::Struct, "Fixed", &[("value", None)], &[]).unwrap()
    })
}

impl Pytree for Fixed {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        visitor.enter_dynamic(fixed_shape(), 1);
        self.0.visit(visitor);
        visitor.exit();
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        assert_eq!(source.enter_dynamic(fixed_shape())?, 1);
        let value = f32::unflatten(source)?;
        Ok(source.exit(Self(value)))
    }
}

#[test]
fn known_shape_made_at_run_time_is_compared() {
    nodes::check_impl(&Fixed(2.0)).unwrap();
    let (leaves, treedef) = tree::flatten_any(&Row::new(&["value"], &[1.0]));
    let error = tree::unflatten::<Fixed, _>(&treedef, leaves).err().unwrap();
    let expected = "cannot build `Fixed` at the root: the treedef has `Row` there";
    assert!(error.to_string().starts_with(expected), "{error}");
}
