//! What is written is read back equal, and builds the same values.

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;
use pytree_core::kind::BatchStat;
use pytree_core::shape::{DynamicShape, NodeShape};
use pytree_core::{
    Collection, CollectionId, FieldKind, Filter, LeafKind, Pytree, Shared, StaticBox, StaticData,
    Tree, TreeDef, TreeError, graph, partition, shape::NodeKind, tree,
};

use crate::serial::{
    Activated, Choice, Layer, Linear, Mode, Noted, Plain, keyed, linear, read_back,
    read_back_opaque, through_bytes,
};

#[test]
fn derived_model_unflattens_from_read_treedef() {
    for mode in [Mode::Train, Mode::Drop { rate: -0.0 }, Mode::Scale(-7)] {
        let model = Linear { mode, ..linear() };
        assert_eq!(through_bytes(&model), model);
    }
    let without = Linear {
        mean: None,
        ..linear()
    };
    assert_eq!(through_bytes(&without), without);
    assert_eq!(
        through_bytes(&vec![linear(), without.clone()]),
        vec![linear(), without]
    );
}

#[test]
fn leaf_kinds_and_collections_round_trip() {
    let read = read_back(&tree::structure(&linear()));
    assert_eq!(
        read.leaf_kinds(),
        [
            Some(LeafKind::Param),
            Some(LeafKind::State(CollectionId::of::<BatchStat>()))
        ]
    );
    assert_eq!(
        read.to_string(),
        "PyTreeDef(Linear { weight: *, mean: *, size = (3, 18446744073709551615), name = 'first', mode = Drop { rate: 0.25 } })"
    );
}

#[test]
fn variants_are_distinguished_by_name() {
    let choices = [
        Choice::Nothing,
        Choice::One(1.0),
        Choice::Two {
            left: 1.0,
            right: vec![2.0, 3.0],
        },
    ];
    for choice in &choices {
        assert_eq!(through_bytes(choice), *choice);
    }
    let structures: Vec<TreeDef> = choices
        .iter()
        .map(tree::structure)
        .map(|one| read_back(&one))
        .collect();
    assert_ne!(structures[0], structures[1]);
    assert_ne!(structures[1], structures[2]);
    let error = tree::unflatten::<Linear, f32>(&structures[1], vec![1.0]).unwrap_err();
    assert!(error.to_string().contains("`Choice::One`"), "{error}");
}

#[test]
fn containers_are_read_back() {
    let value = (
        vec![1.0_f32, 2.0],
        [Some(3.0_f32), None],
        (),
        BTreeMap::from([("b".to_owned(), 1.0_f32), ("a".to_owned(), 2.0)]),
        HashMap::from([(-3_i32, (1.0_f32,)), (200, (2.0,))]),
        IndexMap::<char, f32>::from_iter([('z', 1.0), ('a', 2.0)]),
    );
    let read = through_bytes(&value);
    assert_eq!(read, value);
    assert_eq!(read.5.get_index(0), Some((&'z', &1.0)));
}

#[test]
fn mixed_keys_and_insertion_order_round_trip() {
    let tree = tree!({"b": 1, 3: 2, "a": [None, 3], true: {}, (1, "x"): 5, 1.5: 6, (-1): 7});
    let read = read_back(tree.treedef());
    assert_eq!(
        read.to_string(),
        "PyTreeDef({True: {}, -1: *, 3: *, 1.5: *, 'a': [None, *], 'b': *, (1, 'x'): *})"
    );
    let ordered = |treedef: &TreeDef| {
        let inserted: IndexMap<String, i32> = tree::unflatten(treedef, vec![1, 2, 3]).unwrap();
        inserted.into_keys().collect::<Vec<_>>()
    };
    let tree = tree!({"c": 1, "a": 2, "b": 3});
    assert_eq!(ordered(&read_back(tree.treedef())), ["c", "a", "b"]);
    let other = tree!({"b": 1, "c": 2, "a": 3});
    assert_eq!(ordered(&read_back(other.treedef())), ["b", "c", "a"]);
}

#[test]
fn every_kind_of_static_data_round_trips() {
    let text = |text: &str| StaticData::Text(text.into());
    let all = [
        StaticData::Unit,
        StaticData::Bool(false),
        StaticData::Bool(true),
        StaticData::Integer(0),
        StaticData::Integer(-1),
        StaticData::Integer(i128::MAX),
        StaticData::Integer(i128::MIN),
        StaticData::Float(f64::NAN.into()),
        StaticData::Float((-0.0).into()),
        StaticData::Float(1e-308.into()),
        text(""),
        text("Zoë ☃"),
        text(&"long".repeat(100)),
        StaticData::Tuple(vec![]),
        StaticData::Tuple(vec![StaticData::Unit, text("x")]),
        StaticData::Sequence(vec![text("y"), StaticData::Bool(true)]),
        StaticData::Optional(None),
        StaticData::Optional(Some(Box::new(StaticData::Optional(None)))),
        StaticData::Map(vec![
            (text("k"), StaticData::Integer(300)),
            (text("l"), text("v")),
        ]),
        StaticData::Record {
            name: "Relu".into(),
            fields: vec![("slope".into(), StaticData::Float(0.1.into()))],
        },
        StaticData::Opaque {
            type_name: "Plain".into(),
            text: "Plain(1)".into(),
        },
    ];
    let names: Vec<String> = (0..all.len()).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let shape = DynamicShape::new(NodeKind::TupleStruct, "All", &[], &names).unwrap();
    let statics = all.iter().cloned().map(StaticBox::new).collect();
    let tree: Tree<i32> = pytree_core::TreeBuilder::new()
        .begin_shape(&shape, statics)
        .end()
        .finish()
        .unwrap();
    let read = read_back(tree.treedef());
    for (position, data) in all.iter().enumerate() {
        let bytes = read.to_bytes();
        let mut other = all.to_vec();
        other[position] = text("another");
        let statics = other.into_iter().map(StaticBox::new).collect();
        let tree: Tree<i32> = pytree_core::TreeBuilder::new()
            .begin_shape(&shape, statics)
            .end()
            .finish()
            .unwrap();
        assert_ne!(*tree.treedef(), read, "{data}");
        assert_ne!(tree.treedef().to_bytes(), bytes, "{data}");
        assert_ne!(tree.treedef().content_hash(), read.content_hash(), "{data}");
    }
}

#[test]
fn static_data_at_depth_limit_round_trips() {
    let nested = |depth: usize| {
        (0..depth).fold(StaticData::Unit, |data, _| {
            StaticData::Optional(Some(Box::new(data)))
        })
    };
    let treedef = |depth| {
        let tree = Tree::<i32>::dict(vec![(nested(depth), Tree::leaf(1))]);
        tree.treedef().clone()
    };
    read_back(&treedef(63));
    let error = TreeDef::from_bytes(&treedef(64).to_bytes()).unwrap_err();
    assert!(
        error.to_string().contains(
            "expected data nested at most 64 levels deep at byte 73, found a deeper level"
        ),
        "{error}"
    );
}

#[test]
fn opaque_value_is_not_built_from_bytes() {
    let noted = Noted {
        weight: 1.0,
        note: Plain(3),
    };
    let read = read_back_opaque(&tree::structure(&noted));
    assert_ne!(read, tree::structure(&noted));
    let other = Noted {
        note: Plain(4),
        ..noted
    };
    assert_ne!(read, read_back_opaque(&tree::structure(&other)));
    assert_eq!(
        tree::unflatten::<Noted, f32>(&read, vec![1.0]).unwrap_err(),
        TreeError::OpaqueStatic {
            path: "".parse().unwrap(),
            type_name: "Plain".into(),
            text: "Plain(3)".into(),
        }
    );
}

#[test]
fn function_is_not_built_from_bytes() {
    let activated = Activated {
        weight: 1.0,
        activation: f32::abs,
    };
    let structure = tree::structure(&vec![activated]);
    let read = read_back_opaque(&structure);
    // Functions that differ have one text.
    assert_ne!(read, structure);
    let error = tree::unflatten::<Vec<Activated>, f32>(&read, vec![1.0])
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "cannot build the value at [0]: the treedef was read from bytes, which hold only the text `a function` of this `fn(f32) -> f32`; \
         unflatten with a treedef that was not read from bytes"
    );
}

#[test]
fn read_trait_object_cannot_be_built() {
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(linear())];
    assert_eq!(layers[0].size(), 3);
    let structure = tree::structure(&layers);
    let read = read_back_opaque(&structure);
    assert_eq!(read.to_string(), structure.to_string());
    let (leaves, _) = tree::flatten_any(&layers);
    let error = tree::unflatten::<Vec<Box<dyn Layer>>, _>(&read, leaves)
        .err()
        .unwrap();
    let TreeError::OpaqueStatic {
        path,
        type_name,
        text,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(path.to_string(), "[0]");
    assert!(type_name.starts_with("Constructor"), "{type_name}");
    assert!(text.ends_with("Linear"), "{text}");
}

#[test]
fn static_value_of_wrong_type_is_rejected() {
    let read = read_back(&keyed("text".to_owned()));
    let error = tree::unflatten::<IndexMap<i32, f32>, f32>(&read, vec![1.0])
        .err()
        .unwrap();
    assert!(
        matches!(
            error,
            TreeError::StaticType {
                expected: "i32",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn absent_places_are_read_back() {
    let [first, rest] = partition::split(
        &vec![1.0_f32, 2.0],
        [Filter::path("[0]"), Filter::everything()],
    )
    .unwrap();
    let read = read_back(first.tree().treedef());
    assert_eq!(read.to_string(), "PyTreeDef([*, -])");
    assert_ne!(read, *rest.tree().treedef());
    assert_ne!(read.content_hash(), rest.tree().treedef().content_hash());
}

#[test]
fn sharing_is_read_back() {
    let weight = Shared::new(vec![1.5_f32]);
    let bias = Shared::new(vec![2.5_f32]);
    let tied = (weight.clone(), bias.clone(), (weight, bias));
    let (leaves, treedef) = graph::flatten::<f32, _>(&tied);
    let read = read_back(&treedef);
    assert_eq!(
        read.to_string(),
        "PyTreeDef(([*], [*], (alias 0, alias 1)))"
    );
    type Tied = (
        Shared<Vec<f32>>,
        Shared<Vec<f32>>,
        (Shared<Vec<f32>>, Shared<Vec<f32>>),
    );
    let built: Tied = graph::unflatten(&read, leaves).unwrap();
    assert!(built.0.same(&built.2.0) && built.1.same(&built.2.1) && !built.0.same(&built.1));
    let mut leaves = Vec::new();
    assert!(pytree_core::match_structure::<f32, _>(
        &built,
        &read,
        &mut leaves
    ));
    assert_eq!(leaves, [&1.5, &2.5]);
}

#[derive(Clone, Debug, PartialEq, Collection)]
pub struct Ema;

#[test]
fn dynamic_struct_unflattens_to_matching_type() {
    #[derive(Clone, Debug, PartialEq, pytree_core::Module)]
    struct Averaged {
        #[state(Ema)]
        average: f32,
        #[r#static]
        decay: f64,
    }
    let fields = [("average", Some(FieldKind::State(CollectionId::of::<Ema>())))];
    let tree = pytree_core::TreeBuilder::new()
        .begin_struct(
            "Averaged",
            &fields,
            vec![("decay", StaticBox::new(0.9_f64))],
        )
        .leaf(2.0_f32)
        .end()
        .finish()
        .unwrap();
    let averaged = Averaged {
        average: 2.0,
        decay: 0.9,
    };
    assert_eq!(
        tree.treedef().content_hash(),
        tree::structure(&averaged).content_hash()
    );
    assert_eq!(read_back(tree.treedef()), tree::structure(&averaged));
    assert_eq!(tree.to_value::<Averaged>().unwrap(), averaged);
}

/// A container of users that calls itself a list: not the same type as `Vec`, though what is read may be either.
struct Own(f32);
static OWN: NodeShape = NodeShape::of_container::<Own>(NodeKind::List, "list");
impl Pytree for Own {
    fn visit<'a>(&'a self, visitor: &mut dyn pytree_core::Visitor<'a>) {
        visitor.enter(&OWN, 1);
        visitor.leaf(&self.0);
        visitor.exit();
    }
    fn unflatten(source: &mut pytree_core::Unflattener<'_>) -> Result<Self, TreeError> {
        source.enter_fixed(&OWN, 1)?;
        let value = source.leaf()?;
        Ok(source.exit(Self(value)))
    }
}

#[test]
fn shape_like_builtin_is_read_as_builtin() {
    assert_eq!(through_bytes(&Own(1.5)).0, 1.5);
    assert_eq!(tree::structure(&Own(1.0)), tree::structure(&vec![1.0]));
    assert!(tree::unflatten::<Vec<f32>, f32>(&tree::structure(&Own(1.0)), vec![1.0]).is_err());
    assert_ne!(
        tree::structure(&Own(1.0)).to_bytes(),
        tree::structure(&vec![1.0]).to_bytes()
    );
    let read = read_back(&tree::structure(&Own(1.0)));
    assert_eq!(read, tree::structure(&vec![1.0]));
    assert_eq!(
        read.content_hash(),
        tree::structure(&vec![1.0]).content_hash()
    );
}

#[test]
fn maps_with_custom_key_order_round_trip() {
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, pytree_core::Static)]
    enum Side {
        Right,
        Left,
    }
    let map = BTreeMap::from([(Side::Left, 1.0_f32), (Side::Right, 2.0)]);
    assert_eq!(through_bytes(&map), map);
    // Of functions the type alone is known.
    let map =
        IndexMap::<fn(f32) -> f32, f32>::from_iter([(f32::abs as _, 1.0), (f32::floor as _, 2.0)]);
    let structure = tree::structure(&map);
    let read = TreeDef::from_bytes(&structure.to_bytes()).unwrap();
    assert_eq!(read.to_bytes(), structure.to_bytes());
    assert_eq!(read.num_leaves(), 2);
}
