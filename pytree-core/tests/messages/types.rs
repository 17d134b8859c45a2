//! Types in messages, and what counts of them in structures.

use pytree_core::shape::NodeKind;
use pytree_core::{Module, Pytree, StaticBox, Tree, TreeDef, TreeError, tree};

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Batch<T> {
    x: T,
    y: T,
}

#[derive(Pytree, Clone, Debug, PartialEq)]
enum Either<A, B> {
    Left(A),
    Both(A, B),
}

#[test]
fn error_debug_equals_display() {
    let error = "layers[".parse::<pytree_core::KeyPath>().unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(error.to_string().starts_with("cannot parse the key path"));
}

#[test]
fn generic_struct_survives_transpose_round_trip() {
    let batch = Batch {
        x: vec![1.0, 2.0],
        y: vec![3.0, 4.0],
    };
    let outer = tree::structure(&Batch { x: 0.0, y: 0.0 });
    let steps: Vec<Batch<f64>> = tree::transpose::<_, _, f64>(&batch, &outer, None).unwrap();
    assert_eq!(steps, [Batch { x: 1.0, y: 3.0 }, Batch { x: 2.0, y: 4.0 }]);
    let outer = tree::structure(&vec![0.0, 0.0]);
    let again: Batch<Vec<f64>> = tree::transpose::<_, _, f64>(&steps, &outer, None).unwrap();
    assert_eq!(again, batch);
}

#[test]
fn generic_structs_compose() {
    fn pair<T>(x: T, y: T) -> Batch<T> {
        Batch { x, y }
    }
    let one = tree::structure(&pair(1.0, 2.0));
    let both = pair(pair(1.0, 2.0), pair(3.0, 4.0));
    let composed: TreeDef = one.compose(&one);
    assert_eq!(composed, tree::structure(&both));
    let built: Batch<Batch<f64>> = tree::unflatten(&composed, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(built.y.x, 3.0);
}

#[test]
fn variants_of_generic_enum_differ() {
    let left: Either<f64, f64> = Either::Left(1.0);
    let both: Either<f64, f64> = Either::Both(1.0, 2.0);
    assert_ne!(tree::structure(&left), tree::structure(&both));
    let wider: Either<Vec<f64>, f64> = Either::Left(vec![1.0]);
    assert_eq!(
        tree::structure(&left).compose(&tree::structure(&vec![1.0])),
        tree::structure(&wider)
    );
    let (leaves, treedef) = tree::flatten::<f64, _>(&vec![1.0]);
    assert_eq!(
        tree::unflatten::<Either<f64, f64>, _>(&treedef, leaves)
            .unwrap_err()
            .to_string(),
        "cannot build `Either<f64, f64>` at the root: the treedef has a list there; use the treedef of a value of the same type"
    );
}

mod other {
    use pytree_core::Pytree;

    #[derive(Pytree, Clone, Debug, PartialEq)]
    pub struct Batch<T> {
        pub x: T,
        pub y: T,
    }
}

fn build<T: Pytree>(treedef: &TreeDef, leaves: Vec<f64>) -> String {
    let outcome: Result<T, TreeError> = tree::unflatten(treedef, leaves);
    outcome.err().unwrap().to_string()
}

#[test]
fn types_with_equal_names_are_distinguished() {
    let treedef = tree::structure(&other::Batch { x: 1.0, y: 2.0 });
    assert_eq!(
        build::<Batch<f64>>(&treedef, vec![1.0, 2.0]),
        "cannot build `all::messages::types::Batch<f64>` of Struct at the root: the treedef has `all::messages::types::other::Batch<f64>` of Struct there; use the treedef of a value of the same type"
    );
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Linear {
    #[param]
    weight: f64,
    #[r#static]
    size: usize,
}

#[test]
fn shapes_with_equal_names_differ_by_fields() {
    let fields = vec![("weight", Tree::leaf(1.0))];
    let plain =
        Tree::named_struct("Linear", fields, vec![("size", StaticBox::new(1_usize))]).unwrap();
    assert_eq!(
        plain.to_value::<Linear>().unwrap_err().to_string(),
        "cannot build `Linear { weight: Param, size = … }` at the root: the treedef has `Linear { weight, size = … }` there; use the treedef of a value of the same type"
    );
    let tuple = Tree::named_tuple(
        "Batch",
        vec![("x", Tree::leaf(1.0)), ("y", Tree::leaf(2.0))],
    );
    let text = tuple
        .unwrap()
        .to_value::<Batch<f64>>()
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("`Batch { x, y }` at the root: the treedef has `Batch(x, y)` there"),
        "{text}"
    );
    assert_eq!(plain.treedef().kind(), NodeKind::Struct);
}

#[test]
fn containers_have_names_in_messages() {
    let of = |tree: Tree| tree.treedef().clone();
    for (treedef, named) in [
        (of(tree!((1,))), "a tuple"),
        (of(tree!({"a": 1})), "a dict"),
        (of(tree!(ordered {"a": 1})), "an OrderedDict"),
        (of(tree!(None)), "`None`"),
        (of(tree!(1)), "a leaf"),
    ] {
        let leaves = vec![1.0; treedef.num_leaves()];
        let text = build::<Vec<f64>>(&treedef, leaves);
        let expected = format!("cannot build a list at the root: the treedef has {named} there");
        assert!(text.starts_with(&expected), "{text}");
    }
}
