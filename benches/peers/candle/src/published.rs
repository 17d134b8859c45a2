//! Models of candle-transformers: MiniLM with its published weights, and Llama with the parameters that `benches/language.rs` writes.

use candle_core::{DType, IndexOp, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{self, BertModel};
use candle_transformers::models::llama::{Cache, Config, Llama};

use crate::{CPU, support};

fn weights(file: &str, dtype: DType) -> Result<VarBuilder<'static>> {
    // SAFETY: nothing changes the file while the program runs.
    unsafe { VarBuilder::from_mmaped_safetensors(&[file], dtype, &CPU) }
}

fn dtype(suffix: &str) -> DType {
    if suffix.is_empty() {
        DType::F32
    } else {
        DType::BF16
    }
}

fn bert(folder: &str, dtype: DType) -> Result<BertModel> {
    let config = std::fs::read_to_string(format!("{folder}/config.json"))?;
    let config: bert::Config = serde_json::from_str(&config).unwrap();
    BertModel::load(
        weights(&format!("{folder}/model.safetensors"), dtype)?,
        &config,
    )
}

fn sentences(count: u32) -> Result<Tensor> {
    Tensor::new(support::sentences(count), &CPU)
}

fn embed(bert: &BertModel, ids: &Tensor) -> Result<Tensor> {
    let mean = bert.forward(ids, &ids.zeros_like()?, None)?.mean(1)?;
    mean.broadcast_div(&mean.sqr()?.sum_keepdim(1)?.sqrt()?)
}

/// The sum of the first numbers of the embeddings.
fn number(embeddings: &Tensor) -> Result<f64> {
    embeddings
        .i((.., 0))?
        .to_dtype(DType::F64)?
        .sum_all()?
        .to_scalar()
}

pub(crate) fn minilm(folder: &str, suffix: &str) -> Result<()> {
    let workload = format!("minilm{suffix}");
    let (bert, ids) = (bert(folder, dtype(suffix))?, sentences(32)?);
    let advance = || embed(&bert, &ids).unwrap();
    support::measure_steps(["K", &workload, "candle"], advance, |it| {
        number(it).unwrap()
    });
    Ok(())
}

pub(crate) fn minilm_cold(folder: &str) -> Result<()> {
    let embeddings = embed(&bert(folder, DType::F32)?, &sentences(1)?)?;
    support::report_cold_start(["K", "minilm-cold", "candle"], number(&embeddings)?);
    Ok(())
}

/// A token with a cache, or a prompt of 128 tokens.
pub(crate) fn llama(case: &str, suffix: &str) -> Result<()> {
    let config = Config {
        hidden_size: 576,
        intermediate_size: 1536,
        vocab_size: 49152,
        num_hidden_layers: 30,
        num_attention_heads: 9,
        num_key_value_heads: 3,
        use_flash_attn: false,
        rms_norm_eps: 1e-5,
        rope_theta: 1e5,
        bos_token_id: None,
        eos_token_id: None,
        rope_scaling: None,
        max_position_embeddings: 2048,
        tie_word_embeddings: true,
    };
    let dtype = dtype(suffix);
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../target/compare/llama.safetensors"
    );
    let llama = Llama::load(weights(file, dtype)?, &config)?;
    let cache = Cache::new(case == "token", dtype, &config, &CPU)?;
    let workload = format!("llama-{case}{suffix}");
    let names = ["K", workload.as_str(), "candle"];
    let largest = |logits: &Tensor| logits.max_all()?.to_scalar::<f32>();
    if case == "prompt" {
        let tokens = Tensor::arange(0_u32, 128, &CPU)?.unsqueeze(0)?;
        let advance = || largest(&llama.forward(&tokens, 0, &mut cache.clone()).unwrap()).unwrap();
        support::measure_calls(names, usize::MAX, advance, |&logit| Some(logit.into()));
    } else {
        let (mut cache, mut token, mut index) = (cache, 0, 0);
        let advance = || {
            let input = Tensor::new(&[[token]], &CPU).unwrap();
            let logits = llama.forward(&input, index, &mut cache).unwrap();
            index += 1;
            token = logits
                .i(0)
                .and_then(|it| it.argmax(0)?.to_scalar::<u32>())
                .unwrap();
            largest(&logits).unwrap()
        };
        support::measure_calls(names, 256, advance, |&logit| Some(logit.into()));
    }
    Ok(())
}
