//! Tests of `update`, `merge_state` and `without`.

use pytree_core::{Filter, Partition, Tree, TreeError, partition, tree};

use crate::states::{Mlp, Tied, block, mlp, tied};

fn means(model: &Mlp) -> Partition<Mlp, f32> {
    partition::filter(model, &Filter::path_contains("mean"))
}

#[test]
fn model_is_updated_in_place() {
    let mut model = mlp();
    let part = means(&model).map(|leaf| leaf + 1.0);
    partition::update(&mut model, &part).unwrap();
    let mut expected = mlp();
    expected.blocks[0].mean += 1.0;
    expected.blocks[1].mean += 1.0;
    assert_eq!(model, expected);
}

#[test]
fn part_of_another_structure_is_rejected() {
    let mut longer = mlp();
    longer.blocks.push(block(3.0));
    let mut model = mlp();
    let error = partition::update(&mut model, &means(&longer)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot update a model by a part: the trees differ in number of children at blocks: 2 against 3"
    );
    assert_eq!(model, mlp());
}

#[test]
fn update_preserves_sharing() {
    let mut model = tied();
    let part =
        partition::filter::<Tied, f32>(&model, &Filter::path("embed")).map(|leaf| leaf * 2.0);
    partition::update(&mut model, &part).unwrap();
    assert!(model.embed.same(&model.head));
    assert_eq!(*model.head, 3.0);
}

#[test]
fn merge_state_uses_later_leaf() {
    let model = mlp();
    let everything = partition::filter::<Mlp, f32>(&model, &Filter::everything());
    let new = means(&model).map(|_| 0.0);
    let merged = partition::merge_state([everything.clone(), new.clone()]).unwrap();
    assert_eq!(merged.len(), everything.len());
    assert_eq!(merged["blocks[1].mean"], 0.0);
    assert_eq!(merged["blocks[1].linear.bias"], -2.0);
    assert_eq!(
        partition::merge_state([new.clone(), everything.clone()]).unwrap(),
        everything
    );
    assert_eq!(partition::merge_state([new.clone()]).unwrap(), new);
    let none = partition::merge_state(Vec::<Partition<Mlp, f32>>::new()).unwrap_err();
    assert!(matches!(none, TreeError::Build { .. }), "{none}");
    let other = Tree::merge_state([tree!([1]), tree!([1, 2])]).unwrap_err();
    assert!(
        other
            .to_string()
            .starts_with("cannot merge states: the trees differ in"),
        "{other}"
    );
}

/// As in the test of `nnx.statelib.diff`.
#[test]
fn without_removes_leaves_of_other_state() {
    let four = partition::filter::<Mlp, f32>(&mlp(), &Filter::everything());
    let mut longer = mlp();
    longer.blocks.push(block(3.0));
    let five = partition::filter::<Mlp, f32>(&longer, &Filter::everything());
    assert!(four.without(&four.map(|_| "any")).is_empty());
    assert!(four.without(&five).is_empty());
    let rest = five.without(&four);
    assert_eq!(rest.len(), 6);
    assert!(
        rest.to_flat()
            .iter()
            .all(|(path, _)| path.to_string().starts_with("blocks[2]"))
    );
}
