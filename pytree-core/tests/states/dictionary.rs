//! The flat dictionary of FlareJax: types, leaves and aliases by path.

use std::collections::BTreeMap;

use pytree_core::{
    Annotated, Dictionary, DictionaryEntry, Module, Pytree, Shared, Tree, TreeError, tree,
};

use crate::states::{mlp, tied};

#[derive(Module, Clone, Debug)]
struct Layer {
    #[param]
    weight: Shared<Annotated<f32>>,
    #[param]
    bias: Option<f32>,
    #[r#static]
    name: String,
}

#[derive(Pytree, Clone, Debug)]
struct Net {
    first: Shared<Layer>,
    others: Vec<Shared<Layer>>,
    weight: Shared<Annotated<f32>>,
}

fn net() -> Net {
    let weight = Shared::new(Annotated::new(1.5).with("axis", "in"));
    let layer = |name: &str, bias| {
        Shared::new(Layer {
            weight: weight.clone(),
            bias,
            name: name.to_owned(),
        })
    };
    let first = layer("a", Some(2.0));
    Net {
        others: vec![layer("b", None), first.clone()],
        first,
        weight,
    }
}

const SHOWN: &str = "\
{obj.__class__: <class 'Net'>,
obj.first.__class__: <class 'Layer'>,
obj.first.name: 'a',
obj.first.weight: 1.5,
obj.first.bias: 2.0,
obj.others.__class__: <class 'list'>,
obj.others[0].__class__: <class 'Layer'>,
obj.others[0].name: 'b',
obj.others[0].weight: obj.first.weight,
obj.others[0].bias: None,
obj.others[1]: obj.first,
obj.weight: obj.first.weight}";

#[test]
fn each_entry_is_type_leaf_or_alias() {
    assert_eq!(Dictionary::flatten(&net()).to_string(), SHOWN);
}

#[test]
fn dictionary_keys_have_no_quotes() {
    let value = tree!({"x": (1.5, "text"), 7: [], (1, "k"): None});
    assert_eq!(
        Dictionary::flatten(&value).to_string(),
        "\
{obj.__class__: <class 'dict'>,
obj[7].__class__: <class 'list'>,
obj[x].__class__: <class 'tuple'>,
obj[x][0]: 1.5,
obj[x][1]: 'text',
obj[(1, 'k')]: None}"
    );
    assert_eq!(Dictionary::flatten(&1.5_f32).to_string(), "{obj: 1.5}");
}

#[test]
fn dictionary_round_trip_preserves_sharing() {
    let net: Net = Dictionary::flatten(&net()).unflatten().unwrap();
    assert!(net.others[1].same(&net.first));
    assert!(net.others[0].weight.same(&net.weight) && net.first.weight.same(&net.weight));
    assert_eq!(net.weight.metadata().to_string(), "axis='in'");
    let other = Dictionary::flatten(&net)
        .unflatten::<Vec<f32>>()
        .unwrap_err();
    assert!(matches!(other, TreeError::NodeType { .. }), "{other}");
}

#[test]
fn leaf_is_read_and_replaced_through_aliases() {
    let mut flat = Dictionary::flatten(&net());
    let places = [
        "first.weight",
        "weight",
        "others[0].weight",
        "others[1].weight",
    ];
    for place in places {
        assert_eq!(
            flat.get(place).unwrap().downcast_ref::<f32>(),
            Some(&1.5),
            "{place}"
        );
    }
    flat.set("others[1].bias", 20.0_f32).unwrap();
    let old = flat.set("others[1].weight", 15.0_f32).unwrap();
    assert_eq!(old.downcast_ref::<f32>(), Some(&1.5));
    let net: Net = flat.unflatten().unwrap();
    assert_eq!((**net.weight, net.first.bias), (15.0, Some(20.0)));

    let wrong = flat.set("weight", 1_i32).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "cannot set a leaf: at first.weight: expected a leaf of type f32, found i32"
    );
    let misspelt = flat.get("first.wieght").unwrap_err();
    assert!(
        misspelt
            .to_string()
            .contains("did you mean `first.weight`?"),
        "{misspelt}"
    );
}

#[test]
fn entries_have_display_order() {
    let flat = Dictionary::flatten(&tied());
    let entries = flat.entries();
    assert_eq!(entries.len(), 4);
    assert!(matches!(&entries[0].1, DictionaryEntry::Node(node) if node.name() == "Tied"));
    assert!(
        matches!(&entries[1].1, DictionaryEntry::Leaf(leaf) if leaf.downcast_ref() == Some(&1.5_f32))
    );
    assert!(
        matches!(&entries[2], (path, DictionaryEntry::Alias(first)) if path.to_string() == "head" && first.to_string() == "embed")
    );
    assert!(matches!(&entries[3].1, DictionaryEntry::Leaf(_)));
}

fn hash<T: Pytree>(value: &T) -> u128 {
    Dictionary::flatten(value).content_hash()
}

#[test]
fn hash_depends_on_structure_sharing_and_leaves() {
    let base = hash(&mlp());
    let mut other = mlp();
    other.blocks[1].linear.weight[1] = 2.500_000_2;
    assert_ne!(hash(&other), base);
    other.blocks[1].linear.weight[1] = 2.5;
    assert_eq!(hash(&other), base);
    other.name = "other".to_owned();
    assert_ne!(hash(&other), base);
    assert_eq!(hash(&Tree::of(&mlp())), base);

    // A hash tells 64-bit integers apart that an `f64` does not, signs of zeros, and types.
    assert_ne!(hash(&vec![i64::MAX]), hash(&vec![i64::MAX - 1]));
    assert_ne!(
        hash(&ndarray::array![u64::MAX]),
        hash(&ndarray::array![u64::MAX - 1])
    );
    assert_ne!(hash(&0.0_f32), hash(&-0.0_f32));
    assert_ne!(hash(&1.0_f32), hash(&1.0_f64));
    assert_ne!(hash(&(1_i32, 2_i32)), hash(&(2_i32, 1_i32)));
    assert_ne!(
        hash(&("a".to_owned(), "bc".to_owned())),
        hash(&("ab".to_owned(), "c".to_owned()))
    );
    let maps = |names: [&'static str; 2]| BTreeMap::from(names.map(|name| (name, 1_i32)));
    assert_ne!(hash(&maps(["a", "b"])), hash(&maps(["a", "c"])));
}

#[test]
fn another_process_computes_the_same_hash() {
    const CHILD: &str = "PYTREE_TEST_DICTIONARY_HASH";
    let hash = hash(&net()).to_string();
    if let Ok(expected) = std::env::var(CHILD) {
        assert_eq!(hash, expected);
        return;
    }
    let child = |expected: &str| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "states::dictionary::another_process_computes_the_same_hash",
            ])
            .env(CHILD, expected)
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(child(&hash));
    assert!(!child("0"));
}
