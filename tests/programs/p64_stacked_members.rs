//! A model that holds stacked layers beside plain ones: what the stacked layers declare is what one of them declares, after the axis
//! of the stack.

use pytree::axes::AxisRole;
use pytree::nn::{Einsum, LinearGeneral, LoraAdapter, LstmCell, MultiHeadAttention};
use pytree::prelude::*;

use crate::programs::panic_message;

#[derive(Module, Clone, Debug)]
struct Mixed<M: Model> {
    plain: M,
    #[module(stacked = "member")]
    members: M,
}

/// Code that knows nothing of the model checks it.
fn fit<M: Model>(model: &M) {
    model.check_shapes().unwrap();
}

fn check<M: Model>(of: impl Fn(&mut Rngs) -> M) {
    let members: Vec<M> = (0..3).map(|seed| of(&mut Rngs::new(seed))).collect();
    let mixed = Mixed {
        plain: of(&mut Rngs::new(3)),
        members: stack(&members, 0),
    };
    fit(&mixed);
    let (leaves, structure) = graph::flatten_any(&mixed);
    let (axes, roles) = (structure.leaf_axes(), structure.leaf_roles());
    let half = leaves.len() / 2;
    for (plain, member) in (0..half).zip(half..) {
        let own = axes[plain].clone().unwrap_or(vec!["...".to_owned()]);
        assert_eq!(
            axes[member],
            Some([vec!["member".to_owned()], own].concat())
        );
        let own = roles[plain].of_leaf(&leaves[plain]).ok();
        let expected = own.map(|own| [vec![AxisRole::Batch], own].concat());
        assert_eq!(roles[member].of_leaf(&leaves[member]).ok(), expected);
    }
    let matrices = partition::filter(&mixed, &Filter::matrices());
    let paths: Vec<String> = matrices
        .iter_with_path()
        .map(|(path, _)| path.to_string())
        .collect();
    let (plain, stacked) = paths.split_at(paths.len() / 2);
    let without = |paths: &[String]| -> Vec<String> {
        let inner = paths.iter().map(|path| path.split_once('.').unwrap().1);
        inner.map(str::to_owned).collect()
    };
    assert_eq!(without(plain), without(stacked));
    if !paths.is_empty() {
        check_adapters(&mixed, stacked);
    }
}

/// Compares the adapted members with members that are adapted one by one.
fn check_adapters<M: Model>(mixed: &Mixed<M>, stacked: &[String]) {
    let mut rngs = Rngs::new(7);
    let mut lora = Lora::new(mixed, &Filter::matrices(), 1, &mut rngs);
    for adapter in &mut lora.adapters {
        adapter.b = rngs.normal(DType::F32, adapter.b.shape());
    }
    let before = partition::filter(mixed, &Filter::matrices());
    let after = partition::filter(&lora.adapted(), &Filter::matrices());
    let (of_plain, of_members) = lora.adapters.split_at(stacked.len());
    for ((path, plain), adapter) in stacked.iter().zip(of_plain).zip(of_members) {
        for member in 0..3 {
            let alone = LoraAdapter {
                a: adapter.a.index(ix![member]),
                b: adapter.b.index(ix![member]),
                ..plain.clone()
            };
            let expected = alone.adapted(&before[path.as_str()].index(ix![member]), 1.0);
            let found = after[path.as_str()].index(ix![member]);
            let difference = (found - expected).abs().max().item::<f32>();
            assert!(difference < 1e-6, "{path}: {difference}");
        }
    }
}

#[test]
fn each_layer_declares_the_same_when_stacked() {
    check(|rngs| Linear::new(3, 4, rngs));
    check(|rngs| LinearGeneral::new([2, 3], [4, 2], rngs));
    check(|rngs| Einsum::new("nta,hab->nthb", [2, 3, 4], rngs));
    check(|rngs| Conv::new(2, 3, [3, 3], rngs));
    check(|rngs| Embed::new(5, 4, rngs));
    check(|rngs| LayerNorm::new(4, rngs));
    check(|rngs| BatchNorm::new(4, rngs));
    check(|rngs| Dropout::new(0.5, rngs));
    check(|rngs| LstmCell::new(3, 4, rngs));
    check(|rngs| MultiHeadAttention::new(4, 2, rngs));
    check(|rngs| TransformerBlock::causal(4, 2, rngs));
    check(|rngs| Mlp::new(&[2, 5, 3], Activation::Relu, rngs));
    check(|rngs| Mixed {
        plain: Linear::new(2, 3, rngs),
        members: stack(&vec![Linear::new(2, 3, rngs); 2], 0),
    });
}

#[test]
fn summary_and_files_name_the_stacked_axis() {
    let layer = Mixed {
        plain: Linear::new(2, 3, &mut Rngs::new(0)),
        members: stack(&vec![Linear::new(2, 3, &mut Rngs::new(1)); 4], 0),
    };
    let text = summary(&layer).to_string();
    assert!(text.contains("f32[member=4,in=2,out=3]"), "{text}");
    let path = std::env::temp_dir().join(format!("pytree-stacked-{}", std::process::id()));
    checkpoint::save(&path, &layer).unwrap();
    let entries = checkpoint::inspect(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let weight = entries.iter().find(|entry| entry.name == "members.weight");
    assert_eq!(
        weight.unwrap().axes.as_deref().unwrap().join(" "),
        "member in out"
    );
}

#[derive(Module, Clone, Debug)]
struct Routed {
    #[param("in member")]
    router: Tensor,
    #[module(stacked = "member")]
    members: Linear,
}

impl Routed {
    #[shapes(x = "in")]
    fn first(&self, x: &Tensor) -> Tensor {
        self.members.forward(x)
    }
}

#[test]
fn mapping_a_stacked_field_alone_says_where_to_map() {
    let routed = Routed {
        router: Tensor::ones(DType::F32, [2, 4]),
        members: stack(&vec![Linear::new(2, 3, &mut Rngs::new(1)); 4], 0),
    };
    assert!(pytree::lint(&routed.members).is_empty());
    let x = Tensor::ones(DType::F32, [2]);
    let alone = || {
        let router = routed.router.clone();
        let first = |members: Linear| {
            Routed {
                router: router.clone(),
                members,
            }
            .first(&x)
        };
        vmap(first)(routed.members.clone())
    };
    let message = panic_message(alone);
    let fix = "from members.bias: call the method outside of `vmap`, and map `members` inside of the method";
    assert!(message.contains(fix), "{message}");
}
