//! MiniLM with its published weights, and a model with the sizes of GPT-2 that is trained from other random numbers than ours.

use burn::module::Module;
use burn::nn::attention::generate_autoregressive_mask;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_store::{ModuleSnapshot, PyTorchToBurnAdapter, SafetensorsStore};

use crate::{integers, support};

#[derive(Module, Debug)]
struct Bert {
    tokens: Embedding,
    positions: Embedding,
    types: Embedding,
    norm: LayerNorm,
    encoder: TransformerEncoder,
}

/// The names in the file, as regular expressions, and here.
const NAMES: [(&str, &str); 10] = [
    (r"^embeddings\.word_embeddings", "tokens"),
    (r"^embeddings\.position_embeddings", "positions"),
    (r"^embeddings\.token_type_embeddings", "types"),
    (r"^embeddings\.LayerNorm", "norm"),
    (
        r"^encoder\.layer\.(\d+)\.attention\.self\.",
        "encoder.layers.$1.mha.",
    ),
    (
        r"^encoder\.layer\.(\d+)\.attention\.output\.dense",
        "encoder.layers.$1.mha.output",
    ),
    (
        r"^encoder\.layer\.(\d+)\.attention\.output\.LayerNorm",
        "encoder.layers.$1.norm_1",
    ),
    (
        r"^encoder\.layer\.(\d+)\.intermediate\.dense",
        "encoder.layers.$1.pwff.linear_inner",
    ),
    (
        r"^encoder\.layer\.(\d+)\.output\.dense",
        "encoder.layers.$1.pwff.linear_outer",
    ),
    (
        r"^encoder\.layer\.(\d+)\.output\.LayerNorm",
        "encoder.layers.$1.norm_2",
    ),
];

impl Bert {
    fn load(folder: &str, device: &Device) -> Self {
        let embedding = |count| EmbeddingConfig::new(count, 384).init(device);
        let mut bert = Self {
            tokens: embedding(30522),
            positions: embedding(512),
            types: embedding(2),
            norm: LayerNormConfig::new(384).with_epsilon(1e-12).init(device),
            encoder: TransformerEncoderConfig::new(384, 1536, 12, 6)
                .with_dropout(0.0)
                .with_layer_norm_eps(1e-12)
                .init(device),
        };
        let file = format!("{folder}/model.safetensors");
        let store = SafetensorsStore::from_file(file).with_from_adapter(PyTorchToBurnAdapter);
        let mut store = NAMES.iter().fold(store, |store, &(from, to)| {
            store.with_key_remapping(from, to)
        });
        bert.load_from(&mut store).unwrap();
        bert
    }

    fn embed(&self, ids: &Tensor<2, Int>) -> Tensor<2> {
        let [sentences, tokens] = ids.dims();
        let positions = Tensor::arange(0..tokens as i64, &ids.device()).unsqueeze();
        let x = self.tokens.forward(ids.clone())
            + self.positions.forward(positions)
            + self.types.forward(ids.zeros_like());
        let input = TransformerEncoderInput::new(self.norm.forward(x));
        let width = 384;
        let mean = self
            .encoder
            .forward(input)
            .mean_dim(1)
            .reshape([sentences, width]);
        let length = mean.clone().square().sum_dim(1).sqrt();
        mean / length
    }
}

fn sentences(count: u32, device: &Device) -> Tensor<2, Int> {
    let ids = support::sentences(count).concat();
    Tensor::from_data(TensorData::new(ids, [count as usize, 32]), device)
}

/// The sum of the first numbers of the embeddings.
fn number(embeddings: &Tensor<2>) -> f64 {
    embeddings
        .clone()
        .narrow(1, 0, 1)
        .sum()
        .into_scalar::<f32>()
        .into()
}

pub(crate) fn minilm(folder: &str) {
    let device = Device::flex();
    let (bert, ids) = (Bert::load(folder, &device), sentences(32, &device));
    support::measure_steps(["K", "minilm", "burn"], || bert.embed(&ids), number);
}

pub(crate) fn minilm_cold(folder: &str) {
    let device = Device::flex();
    let embeddings = Bert::load(folder, &device).embed(&sentences(1, &device));
    support::report_cold_start(["K", "minilm-cold", "burn"], number(&embeddings));
}

#[derive(Module, Debug)]
struct Gpt2 {
    tokens: Embedding,
    positions: Embedding,
    blocks: TransformerEncoder,
    norm: LayerNorm,
}

impl Gpt2 {
    fn new(device: &Device) -> Self {
        Self {
            tokens: EmbeddingConfig::new(50257, 768).init(device),
            positions: EmbeddingConfig::new(1024, 768).init(device),
            blocks: TransformerEncoderConfig::new(768, 3072, 12, 12)
                .with_norm_first(true)
                .with_dropout(0.0)
                .init(device),
            norm: LayerNormConfig::new(768).init(device),
        }
    }

    /// The logits of the next tokens: `[sequences · tokens, vocabulary]`.
    fn forward(&self, ids: &Tensor<2, Int>) -> Tensor<2> {
        let [sequences, tokens] = ids.dims();
        let positions = Tensor::arange(0..tokens as i64, &ids.device()).unsqueeze();
        let x = self.tokens.forward(ids.clone()) + self.positions.forward(positions);
        let mask = generate_autoregressive_mask(sequences, tokens, &ids.device());
        let x = self
            .blocks
            .forward(TransformerEncoderInput::new(x).mask_attn(mask));
        let x = self.norm.forward(x).reshape([sequences * tokens, 768]);
        x.matmul(self.tokens.weight.val().transpose())
    }
}

pub(crate) fn gpt2_train() {
    let device = Device::flex().autodiff();
    let tokens = integers((0..256).collect(), &device).reshape([2, 128]);
    let next = integers((1..257).collect(), &device);
    let mut optimizer = AdamConfig::new().with_epsilon(1e-8).init();
    let loss_of = CrossEntropyLossConfig::new().init(&device);
    let mut model = Some(Gpt2::new(&device));
    let advance = || {
        let before = model.take().unwrap();
        let loss = loss_of.forward(before.forward(&tokens), next.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &before);
        model = Some(optimizer.step(1e-4, before, gradients));
        f64::from(loss.inner().into_scalar::<f32>())
    };
    support::measure_calls(["K", "gpt2-train", "burn"], usize::MAX, advance, |_| None);
}
