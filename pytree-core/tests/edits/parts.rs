//! Parts: what they show, and how they are laid over each other.

use pytree_core::error::{DifferenceKind, MergeProblem};
use pytree_core::{
    AnyLeaf, Filter, Partition, PytreeOf, StaticBox, Tree, TreeError, partition, tree,
};

use super::*;

type Pair = (f32, f32);

/// The first leaf of a pair, and the second.
fn halves() -> [Partition<Pair, f32>; 2] {
    let filters = [Filter::path("[0]"), Filter::everything()];
    partition::split(&(1.0_f32, 2.0_f32), filters).unwrap()
}

/// A tree as a part, of the leaves at the positions given.
fn part(tree: Tree<f32>, keep: &[usize]) -> Partition<Tree<f32>, f32> {
    let paths = tree.treedef().leaf_paths();
    let none = Filter::nothing();
    let filter = keep.iter().fold(none, |filter, &at| {
        filter | Filter::path(paths[at].to_string())
    });
    partition::filter(&tree, &filter)
}

fn problems(parts: [Partition<Tree<f32>, f32>; 2]) -> Vec<MergeProblem> {
    match partition::merge(parts) {
        Err(TreeError::Merge { problems }) => problems,
        other => panic!("{other:?} of parts of two structures"),
    }
}

/// Where, what the left part has, what the right part has, and why that is a difference.
fn difference(problem: &MergeProblem) -> (String, &str, &str, DifferenceKind) {
    match problem {
        MergeProblem::Structure(found) => {
            (found.path.to_string(), &found.left, &found.right, found.why)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn part_lists_present_leaves() {
    let part: Partition<Mlp, f32> = partition::filter(&mlp(), &Filter::path("layers[1]"));
    let listed: Vec<(String, f32)> = part
        .iter_with_path()
        .map(|(path, &leaf)| (path.to_string(), leaf))
        .collect();
    let expected = [("layers[1].weight", 2.0), ("layers[1].bias", 2.5)];
    assert_eq!(listed, expected.map(|(path, leaf)| (path.to_owned(), leaf)));
    assert_eq!((part.len(), part.is_empty()), (2, false));
    let mut sum = 0.0;
    part.each_leaf(&mut |leaf: &f32| sum += leaf);
    assert_eq!(sum, 4.5);
    let none: Partition<Mlp, f32> = partition::filter(&mlp(), &Filter::nothing());
    assert_eq!((none.len(), none.is_empty()), (0, true));
}

#[test]
fn leaves_of_dynamic_tree_have_paths() {
    let tree: Tree<i32> = Tree::list(vec![Tree::leaf(5), Tree::tuple(vec![Tree::leaf(6)])]);
    let listed: Vec<(String, i32)> = tree
        .iter_with_path()
        .map(|(path, &leaf)| (path.to_string(), leaf))
        .collect();
    assert_eq!(listed, [("[0]".to_owned(), 5), ("[1][0]".to_owned(), 6)]);
}

#[test]
fn part_displays_absent_leaves_and_compares_leaves() {
    let [first, second] = halves();
    assert_eq!(first.to_string(), "(1.0, -)");
    assert_eq!(format!("{second:?}"), "(-, 2.0)");
    assert_eq!(first, first.clone());
    assert_ne!(first, second);
    assert_ne!(first, first.map(|leaf| leaf + 1.0));
}

#[test]
fn leaf_is_found_only_by_its_path() {
    let [first, _] = halves();
    assert_eq!(first.get("[0]"), Ok(&1.0));
    assert_eq!(
        first.get("[1]").unwrap_err().to_string(),
        "the leaf at [1] is absent: either the leaf is in another part of the partition, or this part is a gradient and the loss does not depend on the leaf"
    );
    assert_eq!(
        first.get("[7]").unwrap_err().to_string(),
        "no leaf at [7]; did you mean `[0]`?"
    );
}

#[test]
fn leaves_below_path_of_node_are_named() {
    let shared = Shared::new([7.0_f64]);
    let model = ([1.0_f64, 2.0], vec![3.0_f64; 9], shared.clone(), shared);
    let part = partition::filter::<_, f64>(&model, &Filter::everything());
    let message = |path: &str| part.get(path).unwrap_err().to_string();
    assert_eq!(
        message("[0]"),
        "[0] is a node, and not a leaf; write the path of a leaf below it: `[0][0]`, `[0][1]`"
    );
    assert!(message("[1]").ends_with("`[1][4]`, `[1][5]` and 3 more"));
    assert!(message("").starts_with("the root is a node, and not a leaf; write"));
    // The second path of a shared node has the same leaves.
    assert!(message("[2]").ends_with("below it: `[2][0]`"));
    assert!(message("[3]").ends_with("below it: `[3][0]`"));
    assert!(message("[4]").starts_with("no leaf at [4]"));
}

#[test]
fn leaves_that_no_filter_accepts_are_listed() {
    let split = |filter| partition::split::<_, f32, 1>(&(1.0_f32, 2.0_f32, 3.0_f32), [filter]);
    for filter in [Filter::path("[1]"), Filter::nothing()] {
        let TreeError::Unassigned { paths } = split(filter).unwrap_err() else {
            panic!("not the error that leaves are left over");
        };
        assert!(
            ["[0]", "[2]"]
                .iter()
                .all(|path| texts(&paths).contains(&(*path).to_owned()))
        );
    }
    assert!(split(Filter::everything()).is_ok());
}

#[test]
fn everything_is_the_last_filter() {
    let pair = (1.0_f32, 2.0_f32);
    let error = partition::split::<_, f32, 3>(
        &pair,
        [
            Filter::path("[0]"),
            Filter::everything(),
            Filter::path("[1]"),
        ],
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`Filter::everything()` accepts all leaves, so no leaves are left for the filters after it: path([1]); put `Filter::everything()` last"
    );
    let [first, none] =
        partition::split::<_, f32, 2>(&pair, [Filter::everything(), Filter::everything()]).unwrap();
    assert_eq!((first.len(), none.len()), (2, 0));
}

#[test]
fn error_lists_twenty_items_and_counts_rest() {
    let message = |places: usize| {
        partition::split::<_, f32, 1>(&vec![1.0_f32; places], [Filter::nothing()])
            .unwrap_err()
            .to_string()
    };
    let end = "; add `Filter::everything()` as the last filter, which accepts all other leaves";
    assert_eq!(
        message(1),
        format!("cannot split: no filter accepts [0]{end}")
    );
    assert!(message(20).contains("accepts 20 places:\n  [0]\n  [1]\n"));
    assert!(message(20).ends_with(&format!("\n  [19]{end}")));
    assert!(message(22).ends_with(&format!("\n  [19]\n  and 2 more{end}")));
}

#[test]
fn merge_rejects_missing_and_repeated_leaves() {
    let [first, second] = halves();
    let merged = |parts: &[&Partition<Pair, f32>]| {
        partition::merge(parts.iter().map(|&part| part.clone()).collect::<Vec<_>>())
    };
    assert_eq!(merged(&[&first, &second]), Ok((1.0, 2.0)));
    assert_eq!(merged(&[&second, &first]), Ok((1.0, 2.0)));
    let text = |parts: &[&_]| merged(parts).unwrap_err().to_string();
    let fix = "; pass the parts of one tree, so that each leaf is in exactly one part";
    assert_eq!(
        text(&[&first]),
        format!("cannot merge: [1] is in no part{fix}")
    );
    assert_eq!(
        text(&[&second, &second]),
        format!("cannot merge: [1] is in more than one part{fix}")
    );
    let filters = [Filter::nothing(), Filter::everything()];
    let [none, all] = partition::split::<_, f32, 2>(&1.0_f32, filters).unwrap();
    let root = MergeProblem::Missing("".parse().unwrap());
    assert_eq!(
        partition::merge::<f32, f32>([none.clone()]),
        Err(TreeError::Merge {
            problems: vec![root]
        })
    );
    assert_eq!(partition::merge([none, all]), Ok(1.0));
}

#[test]
fn merge_reports_structure_differences_of_parts() {
    let one = |name, rate: f64| {
        let statics = vec![("rate", StaticBox::new(rate))];
        Tree::named_struct(name, vec![("x", Tree::leaf(1.0))], statics).unwrap()
    };
    let found = problems([part(one("A", 0.5), &[0]), part(one("A", 0.25), &[])]);
    assert_eq!(
        found.iter().map(difference).collect::<Vec<_>>(),
        [(
            String::new(),
            "rate = 0.5",
            "rate = 0.25",
            DifferenceKind::Static
        )]
    );
    let found = problems([part(one("A", 0.5), &[0]), part(one("B", 0.5), &[])]);
    assert_eq!(
        found.iter().map(difference).collect::<Vec<_>>(),
        [(
            String::new(),
            "`A` of (x)",
            "`B` of (x)",
            DifferenceKind::NodeType
        )]
    );
    let list = |length| Tree::list(vec![Tree::leaf(1.0); length]);
    let found = problems([part(list(2), &[0]), part(list(3), &[1, 2])]);
    assert_eq!(
        found.iter().map(difference).collect::<Vec<_>>(),
        [(String::new(), "2", "3", DifferenceKind::Arity)]
    );
}

#[test]
fn leaf_does_not_merge_with_node() {
    let empty = || Tree::list(Vec::new());
    let left = part(Tree::tuple(vec![Tree::leaf(1.0), empty()]), &[0]);
    let right = part(Tree::tuple(vec![empty(), Tree::leaf(1.0)]), &[0]);
    let found = problems([left, right]);
    assert_eq!(
        found.iter().map(difference).collect::<Vec<_>>(),
        [
            (
                "[0]".into(),
                "a leaf",
                "a list of 0",
                DifferenceKind::NodeType
            ),
            (
                "[1]".into(),
                "a list of 0",
                "a leaf",
                DifferenceKind::NodeType
            ),
        ]
    );
}

#[test]
fn absent_leaves_are_not_structure_differences() {
    let inner = |tuple: bool| {
        let leaves = vec![Tree::leaf(2.0)];
        let inner = if tuple {
            Tree::tuple(leaves)
        } else {
            Tree::list(leaves)
        };
        Tree::tuple(vec![Tree::leaf(1.0), inner])
    };
    let found = problems([part(inner(false), &[0]), part(inner(true), &[1])]);
    assert_eq!(
        found.iter().map(difference).collect::<Vec<_>>(),
        [(
            "[1]".into(),
            "a list of 1",
            "a tuple of 1",
            DifferenceKind::NodeType
        )]
    );
}

#[test]
fn typed_part_merges_with_read_part() {
    let (first, second) = {
        let filters = [Filter::path("weight"), Filter::everything()];
        let [first, second] = partition::split::<_, f32, 2>(&linear(1.0), filters).unwrap();
        (first, second)
    };
    let (leaves, treedef) = second.into_tree().into_parts();
    let read = pytree_core::TreeDef::from_bytes(&treedef.to_bytes()).unwrap();
    let second = Partition::from_tree(Tree::new(read, leaves).unwrap());
    assert_eq!(partition::merge([first, second]), Ok(linear(1.0)));
}

#[test]
fn all_leaves_of_wrong_type_are_listed() {
    let three: Tree = tree!((1.0_f32, 2_i32, "a"));
    let all: Partition<Tree, AnyLeaf> = partition::filter(&three, &Filter::everything());
    let tree = all.map(|_| AnyLeaf::new(true)).into_tree();
    let found = tree.to_value::<(f32, i32, bool)>().unwrap_err();
    let TreeError::LeafTypes { mismatches, .. } = found else {
        panic!("{found}");
    };
    let listed: Vec<_> = mismatches
        .iter()
        .map(|found| (found.path.to_string(), &*found.expected, &*found.found))
        .collect();
    assert_eq!(
        listed,
        [
            ("[0]".into(), "f32", "bool"),
            ("[1]".into(), "i32", "bool"),
            ("[2]".into(), "&str", "bool"),
        ]
    );
}

#[test]
fn absent_leaf_is_reported_as_absent() {
    let [first, _] = halves();
    let whole = tree::structure(&(1.0_f32, 2.0_f32));
    let differences = first.tree().treedef().differences(&whole);
    assert_eq!(differences.len(), 1);
    assert_eq!(
        differences[0].to_string(),
        "node type at [1]: an absent leaf against a leaf"
    );
    let filters = [Filter::nothing(), Filter::everything()];
    let [none, _] = partition::split::<_, f32, 2>(&1.0_f32, filters).unwrap();
    assert_eq!(
        tree::unflatten::<Vec<f32>, f32>(none.tree().treedef(), Vec::new())
            .unwrap_err()
            .to_string(),
        "cannot build a list at the root: the treedef has an absent leaf there; use the treedef of a value of the same type"
    );
}

#[test]
fn update_skips_absent_places_of_the_model() {
    type Model = (Tree<f32>, f32, f32);
    let half = partition::filter(&vec![1.0_f32, 2.0], &Filter::path("[1]"));
    let model = || -> Model { (half.tree().clone(), 3.0, 4.0) };
    let all: Partition<Model, f32> = partition::filter(&model(), &Filter::everything());
    let mut updated = model();
    partition::update(&mut updated, &all.map(|leaf: &f32| leaf * 10.0)).unwrap();
    assert_eq!(updated.0.to_string(), "[-, 20.0]");
    assert_eq!((updated.1, updated.2), (30.0, 40.0));
    let last: Partition<Model, f32> = partition::filter(&model(), &Filter::path("[2]"));
    let replaced = partition::replace(&model(), &last.map(|leaf: &f32| leaf * 10.0)).unwrap();
    assert_eq!(replaced.0.to_string(), "[-, 2.0]");
    assert_eq!((replaced.1, replaced.2), (3.0, 40.0));
    let whole = (
        Tree::list(vec![Tree::leaf(1.0_f32), Tree::leaf(2.0)]),
        3.0,
        4.0,
    );
    let whole: Partition<Model, f32> = partition::filter(&whole, &Filter::everything());
    let surplus = partition::replace(&model(), &whole).unwrap_err();
    assert!(
        surplus
            .to_string()
            .contains("node type at [0][0]: an absent leaf against a leaf"),
        "{surplus}"
    );
}

#[test]
fn part_of_a_part_differs_from_the_part() {
    let half = partition::filter::<_, f32>(&vec![1.0_f32, 2.0], &Filter::path("[1]"));
    let whole: Partition<Partition<Vec<f32>, f32>, f32> =
        partition::filter(&half, &Filter::everything());
    assert_eq!(whole.leaves(), half.leaves());
    let differences = half.tree().treedef().differences(whole.tree().treedef());
    assert_eq!(
        differences[0].to_string(),
        "node type at [0]: a leaf that the split removed against a leaf that was absent before the split"
    );
    assert_eq!(partition::merge([whole]).unwrap(), half);
}
