//! The roles of axes decide which parameters are adapted, decayed and optimised as matrices. Names and numbers of axes
//! decide nothing.

use pytree::einsum;
use pytree::nn::{
    Einsum, EinsumOptions, LearnedPositions, LinearGeneral, LinearGeneralOptions, Lora,
    LoraAdapter, LoraParam, MatrixLayout, PRelu, SpectralNorm, WeightNorm,
};
use pytree::optim::{
    Chain, GradientTransformation, WeightDecay, adafactor, adamw, add_decayed_weights, chain,
    groups, scale,
};
use pytree::prelude::*;

use crate::programs::panic_message;

const ATTENTION: [&str; 4] = [
    "attention.query.weight",
    "attention.key.weight",
    "attention.value.weight",
    "attention.out.weight",
];

fn block() -> TransformerBlock {
    TransformerBlock::causal(8, 2, &mut Rngs::new(0))
}

/// Adds adapters whose product is not zero.
fn adapted<M: pytree::Model>(model: &M, filter: &Filter, rank: usize) -> Lora<M> {
    let mut rngs = Rngs::new(1);
    let mut lora = Lora::new(model, filter, rank, &mut rngs);
    for adapter in &mut lora.adapters {
        adapter.b = rngs.normal(adapter.b.dtype(), adapter.b.shape());
    }
    lora
}

fn paths(adapters: &[LoraAdapter]) -> Vec<&str> {
    adapters
        .iter()
        .map(|adapter| adapter.path.as_str())
        .collect()
}

fn assert_close(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.shape(), expected.shape());
    let difference = (found - expected).abs().max().item::<f32>();
    assert!(difference < 1e-5, "{difference}");
}

#[test]
fn adapters_of_attention_are_those_of_its_weights() {
    let block = block();
    let lora = adapted(&block, &Filter::path_contains("attention"), 4);
    assert_eq!(paths(&lora.adapters), ATTENTION);
    let shapes: Vec<_> = lora
        .adapters
        .iter()
        .map(|one| (one.a.shape(), one.b.shape()))
        .collect();
    assert!(
        shapes
            .iter()
            .all(|shapes| *shapes == (&[8, 4][..], &[4, 8][..]))
    );

    let found = lora.adapted().attention;
    let before = &block.attention;
    let [query, .., out] = &lora.adapters[..] else {
        unreachable!()
    };
    let delta = einsum("ir,rhd->ihd", &[&query.a, &query.b.reshape([4, 2, 4])]);
    assert_close(&found.query.weight, &(&before.query.weight + delta));
    let delta = einsum("hdr,ro->hdo", &[&out.a.reshape([2, 4, 4]), &out.b]);
    assert_close(&found.out.weight, &(&before.out.weight + delta));
    assert_eq!(found.query.bias, before.query.bias);

    // A single weight.
    let query = Filter::path("attention.query.weight");
    assert_eq!(
        paths(&adapted(&block, &query, 2).adapters),
        ["attention.query.weight"]
    );
}

#[test]
fn adapters_of_attention_are_trained_alone() {
    let (block, mut rngs) = (block(), Rngs::new(2));
    let (x, y) = (
        rngs.normal(DType::F32, [4, 5, 8]),
        rngs.normal(DType::F32, [4, 5, 8]),
    );
    let mut lora = Lora::new(&block, &Filter::path_contains("attention"), 4, &mut rngs);
    let adapters = Filter::collection::<LoraParam>();
    let mut optimizer = Optimizer::with_filter(&lora, adam(1e-2), &adapters);
    let losses: Vec<f32> = (0..20)
        .map(|_| {
            let loss = |lora: &Lora<TransformerBlock>| mse(&lora.adapted().forward(&x), &y);
            let (loss, gradient) = value_and_grad(loss).wrt(adapters.clone())(&lora);
            optimizer.update(&mut lora, &gradient);
            loss.item()
        })
        .collect();
    assert!(losses[19] < losses[0], "{losses:?}");
    assert_eq!(lora.model, block);
}

#[test]
fn adapters_of_other_layers_follow_their_axes() {
    let rngs = &mut Rngs::new(3);
    let all = Filter::param();
    let delta_of = |lora: &LoraAdapter, subscripts, a: &[usize], b: &[usize]| {
        einsum(subscripts, &[&lora.a.reshape(a), &lora.b.reshape(b)])
    };

    let conv = Conv::new(3, 5, [2, 2], rngs);
    let lora = adapted(&conv, &all, 2);
    let delta = delta_of(&lora.adapters[0], "klir,ro->klio", &[2, 2, 3, 2], &[2, 5]);
    assert_close(&lora.adapted().weight, &(&conv.weight + delta));

    let embed = Embed::new(7, 4, rngs);
    let lora = adapted(&embed, &all, 2);
    let delta = delta_of(&lora.adapters[0], "vr,rf->vf", &[7, 2], &[2, 4]);
    assert_close(&lora.adapted().embedding, &(&embed.embedding + delta));

    // The outputs of this weight come before and after its input.
    let options = EinsumOptions {
        bias_shape: Some(vec![4, 5]),
        ..EinsumOptions::default()
    };
    let heads = Einsum::with_options("nta,hab->nthb", [4, 3, 5], options, rngs);
    let lora = adapted(&heads, &all, 2);
    assert_eq!(paths(&lora.adapters), ["weight"]);
    let delta = delta_of(&lora.adapters[0], "ar,rhb->hab", &[3, 2], &[2, 4, 5]);
    assert_close(&lora.adapted().weight, &(&heads.weight + delta));

    // Each expert has a matrix of its own.
    let experts = Einsum::new("eti,oei->eto", [4, 2, 3], rngs);
    let lora = adapted(&experts, &all, 2);
    let delta = delta_of(&lora.adapters[0], "eir,ero->oei", &[2, 3, 2], &[2, 2, 4]);
    assert_close(&lora.adapted().weight, &(&experts.weight + delta));

    let options = LinearGeneralOptions {
        batch: vec![6],
        ..LinearGeneralOptions::default()
    };
    let general = LinearGeneral::with_options([2, 3], [4, 2], options, rngs);
    let lora = adapted(&general, &all, 3);
    assert_eq!(paths(&lora.adapters), ["weight"]);
    let delta = delta_of(
        &lora.adapters[0],
        "eijr,erop->eijop",
        &[6, 2, 3, 3],
        &[6, 3, 4, 2],
    );
    assert_close(&lora.adapted().weight, &(&general.weight + delta));
}

/// A layer of the user's own: three axes, of which the last is summed over.
#[derive(Module, Clone, Debug)]
struct Bilinear {
    #[param("out left right", roles(output, input, input))]
    weight: Tensor,
    #[param("out", roles(output))]
    bias: Tensor,
}

#[derive(Module, Clone, Debug)]
struct Undeclared {
    #[param("left right")]
    weight: Tensor,
    #[param]
    bias: Tensor,
}

#[test]
fn own_layers_declare_their_roles() {
    let mut rngs = Rngs::new(4);
    let bilinear = Bilinear {
        weight: rngs.normal(DType::F32, [5, 2, 3]),
        bias: rngs.normal(DType::F32, [5]),
    };
    let lora = adapted(&bilinear, &Filter::param(), 2);
    let [adapter] = &lora.adapters[..] else {
        unreachable!()
    };
    let delta = einsum("ijr,ro->oij", &[&adapter.a.reshape([2, 3, 2]), &adapter.b]);
    assert_close(&lora.adapted().weight, &(&bilinear.weight + delta));

    let undeclared = Undeclared {
        weight: rngs.normal(DType::F32, [128, 128]),
        bias: rngs.normal(DType::F32, [3]),
    };
    let fix = "of weight: f32[128,128]: the field `weight` of `Undeclared` declares no roles; \
               write `#[param(\"left right\", roles(input, output))]` above the field";
    let every = Filter::param();
    let refused = [
        panic_message(|| Lora::new(&undeclared, &every, 2, &mut Rngs::new(0))),
        panic_message(|| WeightNorm::new(&undeclared, &every)),
        panic_message(|| Optimizer::new(&undeclared, adafactor(1e-2))),
        panic_message(|| {
            let decay = WeightDecay::new(0.1).only(Filter::matrices());
            Optimizer::new(&undeclared, adamw(1e-3, decay))
        }),
    ];
    for text in refused {
        assert!(text.contains(fix), "{text}");
    }
    // Roles are not needed where they decide nothing.
    let bias = Filter::path("bias") & Filter::matrices();
    let part: Partition<Undeclared> = partition::filter(&undeclared, &bias);
    assert!(part.is_empty());
}

#[test]
fn rank_and_filter_are_checked() {
    let block = block();
    let query = Filter::path("attention.query");
    assert_eq!(
        panic_message(|| Lora::new(&block, &query, 9, &mut Rngs::new(0))),
        "cannot add adapters of rank 9: attention.query.weight is a matrix [8, 8]; use a rank from 1 to 8, \
         or leave it out: `filter & !Filter::path(\"attention.query.weight\")`"
    );
    let norm = Filter::path("attention_norm");
    assert_eq!(
        panic_message(|| Lora::new(&block, &norm, 2, &mut Rngs::new(0))),
        "cannot add adapters: the filter selects attention_norm.scale: f32[8], attention_norm.bias: f32[8], \
         expected weights with inputs and outputs; choose a filter that selects some of the weights \
         attention.query.weight, attention.key.weight, attention.value.weight, attention.out.weight, \
         mlp.layers[0].weight, mlp.layers[1].weight, for instance `Filter::path(\"attention.query.weight\")`"
    );
}

#[derive(Module, Clone, Debug)]
struct Model {
    words: Embed,
    positions: LearnedPositions,
    block: TransformerBlock,
    slope: PRelu,
    head: Linear,
}

fn model() -> Model {
    let rngs = &mut Rngs::new(5);
    Model {
        words: Embed::new(11, 8, rngs),
        positions: LearnedPositions::new(6, 8, rngs),
        block: TransformerBlock::causal(8, 2, rngs),
        slope: PRelu::default(),
        head: Linear::new(8, 11, rngs),
    }
}

/// The gradient with ones for all parameters.
fn ones(model: &Model) -> Partition<Model> {
    partition::filter(model, &Filter::param()).map(Tensor::ones_like)
}

fn changed(before: &Model, after: &Model) -> Vec<String> {
    let all = Filter::param();
    let before: Partition<Model> = partition::filter(before, &all);
    let after: Partition<Model> = partition::filter(after, &all);
    let pairs = before.iter_with_path().zip(after.leaves());
    let changed = pairs.filter(|((_, before), after)| *before != *after);
    changed.map(|((path, _), _)| path.to_string()).collect()
}

const MATRICES: [&str; 7] = [
    "block.attention.query.weight",
    "block.attention.key.weight",
    "block.attention.value.weight",
    "block.attention.out.weight",
    "block.mlp.layers[0].weight",
    "block.mlp.layers[1].weight",
    "head.weight",
];

#[test]
fn decay_of_matrices_leaves_out_biases_scales_and_tables() {
    let (before, mut after) = (model(), model());
    let decay = WeightDecay::new(0.5).only(Filter::matrices());
    let mut optimizer = Optimizer::new(&after, chain([add_decayed_weights(decay), scale(-1.0)]));
    let zeros = ones(&after).map(Tensor::zeros_like);
    optimizer.update(&mut after, &zeros);
    assert_eq!(changed(&before, &after), MATRICES);
}

/// The orthogonalization of Muon (Jordan et al. 2024): all singular values of a matrix become about 1.
#[derive(Module, Clone, Debug)]
struct Orthogonalize {
    #[r#static]
    layouts: Vec<Option<MatrixLayout>>,
}

impl GradientTransformation for Orthogonalize {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        let roles = parameters
            .treedef()
            .leaf_roles()
            .into_iter()
            .zip(parameters.leaves());
        let layouts = roles.map(|(roles, leaf)| MatrixLayout::of(&roles.of_leaf(leaf).unwrap()));
        self.layouts = layouts.collect();
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let pairs = self.layouts.iter().zip(&gradients);
        pairs
            .map(|(layout, gradient)| {
                let layout = layout.as_ref().expect("the group contains only matrices");
                let mut x = layout.matrix(gradient);
                x = &x / x.square().sum().sqrt();
                for _ in 0..30 {
                    x = &x * 1.5 - x.matmul(&x.t()).matmul(&x) * 0.5;
                }
                layout.weight(&x, gradient.shape())
            })
            .collect()
    }
}

#[test]
fn optimizer_of_matrices_sees_heads_as_features() {
    let (before, mut after) = (model(), model());
    let muon = Chain::of(Orthogonalize {
        layouts: Vec::new(),
    });
    let chains = groups([(Filter::matrices(), muon), (Filter::everything(), sgd(0.0))]);
    let mut optimizer = Optimizer::new(&after, chains);
    let mut rngs = Rngs::new(6);
    let gradient = ones(&after).map(|one| rngs.normal(DType::F32, one.shape()));
    optimizer.update(&mut after, &gradient);
    assert_eq!(changed(&before, &after), MATRICES);
    let query = &after.block.attention.query.weight - &before.block.attention.query.weight;
    let query = query.reshape([8, 8]);
    assert_close(&query.matmul(&query.t()), &Tensor::eye(DType::F32, 8));
    let out = &after.block.attention.out.weight - &before.block.attention.out.weight;
    let out = out.reshape([8, 8]);
    assert_close(&out.matmul(&out.t()), &Tensor::eye(DType::F32, 8));
}

/// The attention's projection, and a linear layer with the same numbers.
fn pair() -> (pytree::nn::HeadProjection, Linear) {
    let query = block().attention.query;
    let linear = Linear {
        weight: query.weight.reshape([8, 8]),
        bias: query.bias.as_ref().map(|bias| bias.reshape([8])),
    };
    (query, linear)
}

#[test]
fn norms_of_a_projection_are_those_of_its_matrix() {
    let (query, linear) = pair();
    let all = Filter::param();
    let (found, expected) = (
        WeightNorm::new(&query, &all),
        WeightNorm::new(&linear, &all),
    );
    assert_eq!(found.scales[0].scale.shape(), [2, 4]);
    let weight = found.normalized().weight.reshape([8, 8]);
    assert_close(&weight, &expected.normalized().weight);

    // The power iteration of the projection starts with the same vector as that of its matrix.
    let x = Rngs::new(8).normal(DType::F32, [3, 8]);
    let mut found = SpectralNorm::new(&query, &all, &mut Rngs::new(7));
    let mut expected = SpectralNorm::new(&linear, &all, &mut Rngs::new(7));
    for _ in 0..40 {
        assert_close(&found.forward(&x).reshape([3, 8]), &expected.forward(&x));
    }
    let sigma = expected.states[0].sigma.clone();
    assert_close(&found.states[0].sigma, &sigma);

    // The matrices of a weight with batch axes have singular values of their own.
    let options = LinearGeneralOptions {
        batch: vec![2],
        ..LinearGeneralOptions::default()
    };
    let general = LinearGeneral::with_options([8], [8], options, &mut Rngs::new(9));
    let general = LinearGeneral {
        weight: stack(&[linear.weight.clone(), &linear.weight * 2.0], 0),
        ..general
    };
    let mut norm = SpectralNorm::new(&general, &all, &mut Rngs::new(7));
    assert_eq!(norm.states[0].u.shape(), [2, 1, 8]);
    let x = Rngs::new(8).normal(DType::F32, [2, 3, 8]);
    for _ in 0..200 {
        norm.forward(&x);
    }
    for _ in 0..200 {
        expected.forward(&x);
    }
    let sigma = &expected.states[0].sigma;
    let both = stack(&[sigma.clone(), sigma * 2.0], 0);
    let difference = (&norm.states[0].sigma - both).abs().max().item::<f32>();
    assert!(difference < 1e-3, "{difference}");
}
