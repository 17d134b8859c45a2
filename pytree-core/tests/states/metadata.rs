use ndarray::{Array1, array};
use pytree_core::{
    Annotated, Filter, Metadata, Module, Shared, StaticData, Tree, TreeDef, edit, graph, partition,
    tree,
};

#[derive(Module, Clone, Debug, PartialEq)]
struct Dense {
    #[param]
    kernel: Annotated<Array1<f32>>,
    #[param]
    bias: Array1<f32>,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Net {
    layers: Vec<Annotated<Dense>>,
    #[state]
    steps: Annotated<Option<Array1<f32>>>,
}

fn net() -> Net {
    let kernel = Annotated::new(array![1.0, 2.0]).with("sharding", ("data", "model"));
    let dense = Dense {
        kernel,
        bias: array![0.5],
    };
    let stage = |number: i32| {
        Annotated::new(dense.clone())
            .with("stage", number)
            .with("sharding", "none")
    };
    Net {
        layers: vec![stage(0), stage(1)],
        steps: Annotated::new(Some(array![7.0])),
    }
}

#[test]
fn annotated_value_is_transparent() {
    let structure = graph::structure(&net());
    let paths: Vec<String> = structure
        .leaf_paths()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        paths,
        [
            "layers[0].kernel",
            "layers[0].bias",
            "layers[1].kernel",
            "layers[1].bias",
            "steps"
        ]
    );
    let kinds: Vec<String> = structure
        .leaf_kinds()
        .iter()
        .map(|kind| kind.unwrap().to_string())
        .collect();
    assert_eq!(kinds, ["Param", "Param", "Param", "Param", "State"]);
    let plain = tree::structure(&Annotated::new(vec![1.0_f32]));
    assert_eq!(plain.to_string(), "PyTreeDef([*])");
}

#[test]
fn innermost_metadata_of_each_leaf_is_used() {
    let said: Vec<String> = graph::structure(&net())
        .leaf_metadata()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        said,
        [
            "stage=0, sharding=('data', 'model')",
            "stage=0, sharding='none'",
            "stage=1, sharding=('data', 'model')",
            "stage=1, sharding='none'",
            "",
        ]
    );
}

#[test]
fn parts_bytes_and_trees_preserve_metadata() {
    let whole = net();
    let [params, rest] = partition::split(&whole, [Filter::param(), Filter::everything()]).unwrap();
    assert_eq!(params.tree().treedef().leaf_metadata().len(), 4);
    let specs = params
        .tree()
        .metadata()
        .map(|said| said.get("stage").cloned());
    assert_eq!(
        specs.get("layers[1].bias").unwrap(),
        &Some(StaticData::Integer(1))
    );
    assert_eq!(partition::merge([params, rest]).unwrap(), whole);

    let structure = graph::structure(&whole);
    let read = TreeDef::from_bytes(&structure.to_bytes()).unwrap();
    assert_eq!(read, structure);
    assert_eq!(read.leaf_metadata(), structure.leaf_metadata());
    assert_eq!(read.content_hash(), structure.content_hash());
    let leaves = graph::flatten(&whole).0;
    let back: Net = graph::unflatten::<_, Array1<f32>>(&read, leaves).unwrap();
    assert_eq!(back, whole);
}

#[test]
fn other_metadata_is_another_structure() {
    let mut other = net();
    other.layers[1]
        .kernel
        .metadata_mut()
        .set("sharding", "model");
    let differences = graph::structure(&net()).differences(&graph::structure(&other));
    assert_eq!(differences.len(), 1);
    assert_eq!(
        differences[0].to_string(),
        "static value at layers[1].kernel: metadata = (sharding=('data', 'model')) against metadata = (sharding='model')"
    );
    assert_ne!(
        graph::structure(&net()).content_hash(),
        graph::structure(&other).content_hash()
    );
}

#[test]
fn annotated_value_dereferences_to_value() {
    let mut kernel = Annotated::new(array![1.0_f32, 2.0]).with("note", "a");
    kernel[0] = 5.0;
    assert_eq!(kernel.sum(), 7.0);
    let doubled = kernel.clone().map(|kernel| kernel * 2.0);
    assert_eq!(doubled.metadata(), kernel.metadata());
    assert_eq!(
        format!("{:?}", Annotated::new(1).with("a", true)),
        "Annotated(1, a=True)"
    );
    assert_eq!(kernel.into_inner(), array![5.0, 2.0]);
    assert_eq!(Annotated::from(3), Annotated::new(3));
}

#[test]
fn metadata_is_an_ordered_map() {
    let mut said = Metadata::new().with("b", 1).with("a", "x").with("b", 2);
    assert_eq!(said.to_string(), "b=2, a='x'");
    assert_eq!(said.value::<i32>("b"), Some(2));
    assert_eq!(said.value::<String>("b"), None);
    assert_eq!(said.remove("b"), Some(StaticData::Integer(2)));
    assert_eq!((said.len(), said.remove("b")), (1, None));
}

#[test]
fn annotated_value_supports_sharing_and_edits() {
    let kernel = Shared::new(Annotated::new(1.0_f32).with("axis", "in"));
    let tied = vec![kernel.clone(), kernel];
    let said = graph::structure(&tied).leaf_metadata();
    assert_eq!(said.len(), 1);
    let tied = edit::apply(tied, |kernel: &mut Annotated<f32>| {
        kernel.metadata_mut().set("axis", "out");
        **kernel += 1.0;
    });
    assert!(tied[0].same(&tied[1]));
    assert_eq!(tied[0].metadata().value::<String>("axis").unwrap(), "out");
    assert_eq!(**tied[1], 2.0);
    let other = edit::replace_at(&tied, "[0]", 9.0_f32);
    assert_eq!(**other.unwrap()[0], 9.0);
    let tree = Tree::of(&net());
    assert_eq!(tree.at("layers[0]").unwrap().num_leaves(), 2);
}

/// As `nnx.set_metadata`, of all and of some.
#[test]
fn metadata_of_all_nodes_is_set() {
    let net = edit::apply(net(), |kernel: &mut Annotated<Array1<f32>>| {
        kernel.metadata_mut().set("owner", "us");
    });
    let owners = net
        .layers
        .iter()
        .map(|layer| layer.kernel.metadata().value("owner"));
    assert_eq!(
        owners.collect::<Vec<Option<String>>>(),
        [Some("us".to_owned()), Some("us".to_owned())]
    );
    assert_eq!(
        net.steps.metadata().get("owner"),
        None,
        "it is another type"
    );
    let sharding = |net: &Net| net.layers[0].kernel.metadata().get("sharding").cloned();
    assert_eq!(
        sharding(&net),
        sharding(&self::net()),
        "what was there stays"
    );
    let first = edit::apply_with_path(net, |path, kernel: &mut Annotated<Array1<f32>>| {
        if path.to_string().starts_with("layers[0]") {
            kernel.metadata_mut().set("frozen", true);
            kernel.metadata_mut().remove("owner");
        }
    });
    assert_eq!(
        first.layers[0].kernel.metadata().value("frozen"),
        Some(true)
    );
    assert_eq!(
        first.layers[1].kernel.metadata().value::<bool>("frozen"),
        None
    );
    assert_eq!(first.layers[0].kernel.metadata().get("owner"), None);
    let frozen = first.layers[1].kernel.metadata().value("frozen");
    assert!(!frozen.unwrap_or(false), "or else a default");
}
