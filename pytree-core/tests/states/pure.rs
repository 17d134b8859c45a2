use indexmap::IndexMap;
use pytree_core::{Filter, Partition, Pytree, Tree, TreeError, partition, tree};

use crate::states::{Mlp, Tied, mlp, tied};

#[test]
fn fields_and_positions_become_keys() {
    let part = partition::filter::<Mlp, f32>(&mlp(), &Filter::param());
    assert_eq!(
        part.to_pure_dict().unwrap().to_string(),
        "{'blocks': {0: {'linear': {'weight': {0: 1.0, 1: 1.5}}}, \
         1: {'linear': {'bias': -2.0, 'weight': {0: 2.0, 1: 2.5}}}}}"
    );
    let shared = partition::filter::<Tied, f32>(&tied(), &Filter::everything());
    assert_eq!(
        shared.to_pure_dict().unwrap().to_string(),
        "{'embed': 1.5, 'scale': 2.0}"
    );
    assert_eq!(tree!([None, {}]).to_pure_dict().unwrap().to_string(), "{}");
    assert_eq!(tree!(3).to_pure_dict().unwrap().to_string(), "3");
}

#[derive(Pytree, Clone, Debug, PartialEq)]
struct Pair(f32, f32);

#[test]
fn fields_of_tuple_structs_are_positions() {
    let tree = Tree::from_value(&Pair(1.0, 2.0));
    assert_eq!(tree.to_pure_dict().unwrap().to_string(), "{0: 1.0, 1: 2.0}");
    let back = tree.replace_by_pure_dict(&tree.to_pure_dict().unwrap().map(|leaf| leaf * 2.0));
    assert_eq!(back.unwrap().to_value::<Pair>().unwrap(), Pair(2.0, 4.0));
}

#[test]
fn pure_dictionary_keeps_keys_of_maps() {
    let map: IndexMap<(i32, bool), f32> = [((2, true), 1.0), ((1, false), 2.0)].into();
    let tree = Tree::from_value(&map);
    let pure = tree.to_pure_dict().unwrap();
    assert_eq!(pure.to_string(), "{(1, False): 2.0, (2, True): 1.0}");
    let back = tree.replace_by_pure_dict(&pure.map(|leaf| -leaf)).unwrap();
    assert_eq!(back.leaves(), [-1.0, -2.0]);
}

#[test]
fn leaves_missing_in_dictionary_stay() {
    let part = partition::filter::<Mlp, f32>(&mlp(), &Filter::everything());
    let loaded: Tree<f32> =
        tree!({"blocks": {"1": {"mean": 0.25_f32}, 0: {"sown": {"1": 9.0_f32}}}})
            .cast()
            .unwrap();
    let replaced: Partition<Mlp, f32> = part.replace_by_pure_dict(&loaded).unwrap();
    let model = partition::merge([replaced]).unwrap();
    let mut expected = mlp();
    expected.blocks[1].mean = 0.25;
    expected.blocks[0].sown = Some(vec![100.0, 9.0]);
    assert_eq!(model, expected);
}

#[test]
fn text_key_precedes_equal_integer_key() {
    let tree: Tree<i32> = tree!({"1": 10, 1: 20}).cast().unwrap();
    let text: Tree<i32> = tree!({"1": 0}).cast().unwrap();
    let replaced = tree.replace_by_pure_dict(&text).unwrap();
    assert_eq!(replaced.get("['1']").unwrap(), &0);
    assert_eq!(replaced.get("[1]").unwrap(), &20);
    let twice = tree.restore_integer_keys().unwrap_err();
    assert!(
        twice.to_string().contains("[1] is given more than once"),
        "{twice}"
    );
}

#[test]
fn missing_keys_are_all_reported() {
    let part = partition::filter::<Mlp, f32>(&mlp(), &Filter::path_contains("mean"));
    let loaded: Tree<f32> =
        tree!({"blocks": {0: {"mean": 1.0_f32, "maen": 1.0_f32}, 1: {"mean": {0: 1.0_f32}}, 2: {"sown": 1.0_f32}}})
            .cast()
            .unwrap();
    let error = part.replace_by_pure_dict(&loaded).unwrap_err();
    let TreeError::Places { problems, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(problems.len(), 3, "{error}");
    assert!(
        error.to_string().contains("did you mean `blocks[0].mean`?"),
        "{error}"
    );
}
