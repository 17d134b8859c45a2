//! BERT, and embeddings of sentences by it.

use pytree_core::Module;
use pytree_io::checkpoint::WeightNames;
use pytree_nn::{
    Embed, LayerNorm, LearnedPositions, NormOptions, NormOrder, TransformerBlock,
    TransformerBlockOptions,
};
use pytree_transform::{Tensor, ix};

use crate::error::ModelError;
use crate::folder::{Folder, Pretrained};
use crate::pooling::Pooling;
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
}

impl Bert {
    /// Loads a folder of Hugging Face. The layers after the last block are not loaded: the pooler, and heads of pretraining. The
    /// pooling is that of `1_Pooling/config.json`, or the mean if there is no such file.
    ///
    /// # Errors
    /// Returns [`ModelError`] if a file is missing, if the folder has another architecture, or if the weights do not fit.
    pub fn from_pretrained(folder: impl Into<Pretrained>) -> Result<Self, ModelError> {
        let mut folder = Folder::open(folder, &["bert"])?;
        let embeddings = ["vocab_size", "max_position_embeddings", "type_vocab_size"];
        let [vocabulary, length, types] = embeddings.map(|key| folder.size(key));
        let [width, blocks] = ["hidden_size", "num_hidden_layers"].map(|key| folder.size(key));
        let block = ["num_attention_heads", "intermediate_size"];
        let [heads, hidden] = block.map(|key| folder.size(key));
        folder.check_multiple(["num_attention_heads", "hidden_size"]);
        folder.check_layers("num_hidden_layers");
        folder.check_width("hidden_size");
        folder.expect("position_embedding_type", "absolute");
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
        let pooling = Pooling::read(folder.path())?;
        // Files with heads of pretraining have a prefix, and old ones have TensorFlow's names for normalisations.
        let renamed = |name: &str| {
            let name = name.strip_prefix("bert.").unwrap_or(name);
            name.replace("Norm.gamma", "Norm.weight")
                .replace("Norm.beta", "Norm.bias")
        };
        folder.load(names(), renamed, |rngs| Self {
            tokens: Embed::new(vocabulary, width, rngs),
            positions: LearnedPositions::new(length, width, rngs),
            types: Embed::new(types, width, rngs),
            norm: LayerNorm::with_options(width, norm, rngs),
            blocks: (0..blocks)
                .map(|_| TransformerBlock::with_options(width, heads, block, rngs))
                .collect(),
            pooling,
        })
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

    /// Returns a vector of length 1 for each sequence: `[batch, features]`. The dot product of two is their similarity.
    ///
    /// # Panics
    /// In the same cases as [`forward`](Self::forward).
    #[track_caller]
    pub fn embed(&mut self, tokens: &Tokens) -> Tensor {
        let x = self.forward(tokens);
        let pooled = match self.pooling {
            // The lengths of vectors become 1, so the sum is as good as the mean.
            Pooling::Mean => (&x * tokens.mask.expand_dims(-1).convert(x.dtype())).sum_axes([1]),
            Pooling::First => x.index(ix![.., 0]),
        };
        &pooled / pooled.square().sum_keep([-1]).sqrt()
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
        .ignore("pooler")
        .ignore("cls")
}
