//! A generic module, an enum module with every form of variant, and fields of every container type.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use pytree::prelude::*;

#[derive(Module, Clone, Debug, PartialEq)]
struct Scale {
    #[param]
    factor: Tensor,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Residual<L> {
    inner: L,
    #[param]
    gate: Tensor,
}

#[derive(Module, Clone, Debug, PartialEq)]
enum Block {
    Scaled {
        scale: Scale,
        #[r#static]
        repeat: usize,
    },
    Gated(Residual<Scale>, #[param] Tensor),
    Identity,
}

#[derive(Module, Clone, Debug, PartialEq)]
struct Model<T: 'static> {
    blocks: [Block; 3],
    head: Option<Scale>,
    #[param]
    bias: Option<Tensor>,
    by_name: BTreeMap<String, Scale>,
    #[state]
    counts: HashMap<String, Tensor>,
    marker: PhantomData<T>,
}

fn scale(factor: f32) -> Scale {
    Scale {
        factor: Tensor::from(factor),
    }
}

fn model() -> Model<String> {
    Model {
        blocks: [
            Block::Scaled {
                scale: scale(1.0),
                repeat: 2,
            },
            Block::Gated(
                Residual {
                    inner: scale(2.0),
                    gate: Tensor::from(3.0_f32),
                },
                Tensor::from(4.0_f32),
            ),
            Block::Identity,
        ],
        head: None,
        bias: Some(Tensor::from(5.0_f32)),
        by_name: BTreeMap::from([("b".to_owned(), scale(7.0)), ("a".to_owned(), scale(6.0))]),
        counts: HashMap::from([("steps".to_owned(), Tensor::from(8_i32))]),
        marker: PhantomData,
    }
}

#[test]
fn every_container_round_trips_in_order() {
    let model = model();
    let (leaves, treedef) = tree::flatten(&model);
    let paths: Vec<String> = treedef
        .leaf_paths()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        paths,
        [
            "blocks[0].scale.factor",
            "blocks[1].0.inner.factor",
            "blocks[1].0.gate",
            "blocks[1].1",
            "bias",
            "by_name['a'].factor",
            "by_name['b'].factor",
            "counts['steps']",
        ]
    );
    let back: Model<String> = tree::unflatten(&treedef, leaves).unwrap();
    assert_eq!(back, model);
    assert!(treedef.to_string().contains("head: None"), "{treedef}");
    let doubled = tree::map(&model, |leaf: &Tensor| leaf + leaf);
    assert_eq!(doubled.by_name["b"].factor.item::<f32>(), 14.0);
    assert_eq!(doubled.counts["steps"].item::<i32>(), 16);
}

#[test]
fn enum_module_has_registry_of_its_variant() {
    let model = model();
    let names: Vec<&str> = model.blocks[0]
        .registry()
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(names, ["scale", "repeat"]);
    assert!(model.blocks[2].registry().is_empty());
    let gradient = grad(|model: &Model<String>| match &model.blocks[1] {
        Block::Gated(residual, gain) => &residual.inner.factor * &residual.gate * gain,
        _ => unreachable!(),
    })(&model);
    assert_eq!(gradient["blocks[1].0.gate"].item::<f32>(), 8.0);
}
