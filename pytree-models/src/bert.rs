//! BERT, and embeddings of sentences by it.

use pytree_core::Module;
use pytree_io::checkpoint::{LoadReport, WeightNames};
use pytree_nn::{
    Embed, LayerNorm, LearnedPositions, NormOptions, NormOrder, TransformerBlock,
    TransformerBlockOptions,
};
use pytree_transform::Tensor;

use crate::error::ModelError;
use crate::folder::{Folder, Pretrained};
use crate::pooling::Pooling;
use crate::sentence::{SentenceLayer, sentence_layers};
use crate::tokens::Tokens;

/// BERT (Devlin et al. 2018), such as `sentence-transformers/all-MiniLM-L6-v2`, `BAAI/bge-small-en-v1.5` or
/// `google-bert/bert-base-uncased`.
///
/// # Examples
/// ```no_run
/// use pytree_models::{Bert, Tokens};
/// let mut bert = Bert::from_pretrained("models/all-MiniLM-L6-v2")?;
/// let tokens = Tokens::new(&[vec![101, 7592, 102], vec![101, 7592, 2088, 102]]);
/// let embeddings = bert.embed(&tokens);
/// assert_eq!(embeddings.shape(), [2, 384]);
/// # Ok::<(), pytree_models::ModelError>(())
/// ```
#[doc(alias("transformers.BertModel", "SentenceTransformer"))]
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Bert {
    /// The vectors of the tokens.
    pub tokens: Embed,
    /// The vectors of the positions.
    pub positions: LearnedPositions,
    /// The vectors of the types of tokens.
    pub types: Embed,
    /// The normalisation of the sum of the three.
    pub norm: LayerNorm,
    /// The blocks, which normalise after each sum.
    pub blocks: Vec<TransformerBlock>,
    /// How [`embed`](Self::embed) makes one vector of a sentence.
    #[r#static]
    pub pooling: Pooling,
    /// The layers after the pooling.
    pub layers: Vec<SentenceLayer>,
}

impl Bert {
    /// Loads a folder of Hugging Face. The layers after the last block are not loaded: the pooler, and heads. The pooling, and the
    /// layers after it, are those of `modules.json` of sentence-transformers. Without this file, the pooling is that of
    /// `1_Pooling/config.json`, or else the mean, and embeddings have the length 1.
    ///
    /// # Errors
    /// Returns [`ModelError`] if a file is missing, if the folder has another architecture, or if the weights do not fit.
    pub fn from_pretrained(folder: impl Into<Pretrained>) -> Result<Self, ModelError> {
        Self::from_pretrained_with_report(folder).map(|(bert, _)| bert)
    }

    /// Loads a folder like [`from_pretrained`](Self::from_pretrained), and returns a report, which names the weights that are left out.
    ///
    /// # Errors
    /// Returns the errors of [`from_pretrained`](Self::from_pretrained).
    pub fn from_pretrained_with_report(
        folder: impl Into<Pretrained>,
    ) -> Result<(Self, LoadReport), ModelError> {
        let mut folder = Folder::open(folder, &["bert"])?;
        let embeddings = ["vocab_size", "max_position_embeddings", "type_vocab_size"];
        let [vocabulary, length, types] = embeddings.map(|key| folder.size(key));
        let [width, blocks] = ["hidden_size", "num_hidden_layers"].map(|key| folder.size(key));
        let block = ["num_attention_heads", "intermediate_size"];
        let [heads, hidden] = block.map(|key| folder.size(key));
        folder.check_multiple(["num_attention_heads", "hidden_size"]);
        folder.check_layers("num_hidden_layers");
        folder.check_width("hidden_size");
        let norm = NormOptions {
            epsilon: Some(folder.number_or("layer_norm_eps", 1e-12)),
            ..NormOptions::default()
        };
        let block = TransformerBlockOptions {
            hidden: Some(hidden),
            activation: folder.activation("hidden_act"),
            norm_order: NormOrder::Post,
            norm,
            ..TransformerBlockOptions::default()
        };
        let (path, floats) = (folder.path().to_owned(), folder.floats());
        // Files with heads of pretraining have a prefix, and old ones have TensorFlow's names for normalisations.
        let renamed = |name: &str| {
            let name = name.strip_prefix("bert.").unwrap_or(name);
            name.replace("Norm.gamma", "Norm.weight")
                .replace("Norm.beta", "Norm.bias")
        };
        let (mut bert, report) = folder.load_with_report(names(), renamed, |rngs| Self {
            tokens: Embed::new(vocabulary, width, rngs),
            positions: LearnedPositions::new(length, width, rngs),
            types: Embed::new(types, width, rngs),
            norm: LayerNorm::with_options(width, norm, rngs),
            blocks: (0..blocks)
                .map(|_| TransformerBlock::with_options(width, heads, block, rngs))
                .collect(),
            pooling: Pooling::default(),
            layers: Vec::new(),
        })?;
        (bert.pooling, bert.layers) = sentence_layers(&path, width, floats)?;
        Ok((bert, report))
    }

    /// Returns the names of transformers, by which [`save_with`](pytree_io::checkpoint::save_with) writes a file for it.
    pub fn names(&self) -> WeightNames {
        names()
    }

    /// Returns a vector for each token: `[batch, tokens, features]`. No token attends to padding.
    ///
    /// # Panics
    /// If a sequence has more tokens than there are positions.
    #[track_caller]
    pub fn forward(&mut self, tokens: &Tokens) -> Tensor {
        let x = self.tokens.forward(&tokens.ids) + self.types.forward(&tokens.types);
        let mut x = self.norm.forward(&self.positions.forward(&x));
        let mask = tokens.mask.expand_dims(1).expand_dims(1);
        for block in &mut self.blocks {
            x = block.forward_masked(&x, &mask);
        }
        x
    }

    /// Returns a vector for each sequence: `[batch, features]`. If [`layers`](Self::layers) ends with
    /// [`SentenceLayer::Normalize`], its length is 1, so the dot product of two is their similarity. A sequence without a token has
    /// zeros before the layers.
    ///
    /// # Panics
    /// In the same cases as [`forward`](Self::forward).
    #[track_caller]
    pub fn embed(&mut self, tokens: &Tokens) -> Tensor {
        let is_normalized = matches!(self.layers.first(), Some(SentenceLayer::Normalize));
        let x = self.forward(tokens);
        let pooled = self.pooling.pool(&x, &tokens.mask, is_normalized);
        self.layers
            .iter()
            .fold(pooled, |x, layer| layer.forward(&x))
    }
}

/// The names in a block of transformers, and here.
const BLOCK: [(&str, &str); 6] = [
    ("attention.output.dense", "attention.out"),
    ("attention.self", "attention"),
    ("attention.output.LayerNorm", "attention_norm"),
    ("intermediate.dense", "mlp.layers[0]"),
    ("output.dense", "mlp.layers[1]"),
    ("output.LayerNorm", "mlp_norm"),
];

/// The names of `BertModel` in transformers.
fn names() -> WeightNames {
    WeightNames::pytorch()
        .rename("embeddings.word_embeddings", "tokens")
        .rename("embeddings.position_embeddings", "positions")
        .rename("embeddings.token_type_embeddings", "types")
        .rename("embeddings.LayerNorm", "norm")
        .rename_in("encoder.layer.{i}", "blocks[{i}]", BLOCK)
        .ignore("embeddings.position_ids")
        // The heads, and the layer before them.
        .ignore("pooler")
        .ignore("cls")
        .ignore("classifier")
        .ignore("qa_outputs")
}
