//! Embeddings: tied at two places of a model, and mistakes.

use pytree_core::{Module, PytreeOf, Shared, graph};
use pytree_nn::{Embed, Optimizer, Rngs, sgd, softmax_cross_entropy, summary};
use pytree_transform::{DType, Tensor, grad, jit, vmap};

use super::assert_near;

#[derive(Module, Clone, Debug)]
struct Encoder {
    words: Shared<Embed>,
}

#[derive(Module, Clone, Debug)]
struct Head {
    words: Shared<Embed>,
    #[param]
    bias: Tensor,
}

/// The table is a layer, shared by two modules.
#[derive(Module, Clone, Debug)]
struct ByLayer {
    encoder: Encoder,
    head: Head,
}

/// The table is a tensor, shared by two fields.
#[derive(Module, Clone, Debug)]
struct ByTensor {
    #[param]
    words: Shared<Tensor>,
    #[param]
    head: Shared<Tensor>,
    #[param]
    bias: Tensor,
}

fn by_layer() -> ByLayer {
    let words = Shared::new(Embed::new(5, 3, &mut Rngs::new(0)));
    let encoder = Encoder {
        words: words.clone(),
    };
    let bias = Tensor::zeros(DType::F32, [5]);
    ByLayer {
        encoder,
        head: Head { words, bias },
    }
}

fn by_tensor() -> ByTensor {
    let words = Shared::new(Embed::new(5, 3, &mut Rngs::new(0)).embedding);
    let bias = Tensor::zeros(DType::F32, [5]);
    ByTensor {
        words: words.clone(),
        head: words,
        bias,
    }
}

fn tokens() -> (Tensor, Tensor) {
    (Tensor::from([0, 4, 1]), Tensor::from([4, 1, 2]))
}

impl ByLayer {
    fn loss(&self, words: &Tensor, next: &Tensor) -> Tensor {
        let logits = self
            .head
            .words
            .attend(&self.encoder.words.forward(words).tanh());
        softmax_cross_entropy(&(logits + &self.head.bias), next).mean()
    }
}

impl ByTensor {
    fn loss(&self, words: &Tensor, next: &Tensor) -> Tensor {
        let logits = self.words.take(words, 0).tanh().matmul(&self.head.t());
        softmax_cross_entropy(&(logits + &self.bias), next).mean()
    }
}

#[test]
fn tied_gradient_is_sum_over_places() {
    let (words, next) = tokens();
    let tied = by_layer();
    let gradient = grad(|model: &ByLayer| model.loss(&words, &next))(&tied);
    assert_eq!(gradient.len(), 2);
    let own = Shared::new((*tied.head.words).clone());
    let head = Head {
        words: own,
        bias: tied.head.bias.clone(),
    };
    let apart = ByLayer { head, ..tied };
    let parts = grad(|model: &ByLayer| model.loss(&words, &next))(&apart);
    assert_eq!(parts.len(), 3);
    let sum = &parts["encoder.words.embedding"] + &parts["head.words.embedding"];
    assert_near(&gradient["encoder.words.embedding"], &sum);

    let of_tensor = grad(|model: &ByTensor| model.loss(&words, &next))(&by_tensor());
    assert_eq!(of_tensor.len(), 2);
    assert_near(&of_tensor["words"], &sum);
}

/// What a model of 5 words with 3 features and a bias has, however the table is shared.
fn assert_counted_once<M: PytreeOf<Tensor>>(model: &M, names: [&str; 2]) {
    assert_eq!(summary(model).elements(), 5 * 3 + 5);
    let treedef = graph::structure(model);
    let paths: Vec<String> = treedef
        .leaf_paths()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(paths, names);
}

#[test]
fn tied_table_is_counted_and_updated_once() {
    assert_counted_once(&by_layer(), ["encoder.words.embedding", "head.bias"]);
    assert_counted_once(&by_tensor(), ["words", "bias"]);

    let (words, next) = tokens();
    let model = by_layer();
    let optimizer = Optimizer::new(&model, sgd(0.5));
    let step = jit(
        |(mut model, mut optimizer, words, next): (ByLayer, Optimizer<ByLayer>, Tensor, Tensor)| {
            let gradient = grad(|model: &ByLayer| model.loss(&words, &next))(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer)
        },
    );
    let gradient = grad(|model: &ByLayer| model.loss(&words, &next))(&model);
    // Were it updated once for each place, it would have moved twice as far.
    let expected = &model.encoder.words.embedding - &gradient["encoder.words.embedding"] * 0.5;
    let (model, _) = step((model, optimizer, words, next));
    assert!(model.encoder.words.same(&model.head.words));
    assert_near(&model.head.words.embedding, &expected);
}

#[test]
fn rows_under_vmap_are_those_of_whole() {
    let embed = Embed::new(5, 3, &mut Rngs::new(0));
    let (words, _) = tokens();
    let each = vmap(|(embed, word): (Embed, Tensor)| embed.forward(&word)).in_axes((None, 0));
    assert_eq!(each((embed.clone(), words.clone())), embed.forward(&words));
}

#[test]
fn empty_table_and_indices_are_accepted() {
    let none = Embed::new(0, 3, &mut Rngs::new(0));
    let indices = Tensor::zeros(DType::I32, [0]);
    assert_eq!(none.forward(&indices).shape(), [0, 3]);
    assert!(none.try_forward(&Tensor::from(0)).is_err());
    let rows = Embed::new(5, 3, &mut Rngs::new(0)).forward(&indices);
    assert_eq!(rows.shape(), [0, 3]);
    assert_eq!(none.attend(&rows).shape(), [0, 0]);
}

#[test]
fn wrong_index_or_query_is_reported() {
    let embed = Embed::new(5, 3, &mut Rngs::new(0));
    let message = |indices: Tensor| embed.try_forward(&indices).unwrap_err().to_string();
    assert_eq!(
        message(Tensor::from([[0, 1], [7, 9]])),
        "Embed expects indices in -5..5, found 7 at position 2; check the number of valid indices, or where the indices come from"
    );
    assert!(message(Tensor::from([-6])).contains("found -6 at position 0"));
    assert!(message(Tensor::from([4_294_967_295_u32])).contains("found 4294967295"));
    assert!(
        message(Tensor::from([1.0_f32])).starts_with("Embed::forward: indices is f32[1], expected int[*shape]; convert indices to an integer dtype")
    );
    assert!(
        message(Tensor::from([true]))
            .starts_with("Embed::forward: indices is bool[1], expected int[*shape]")
    );

    let message = |query: Tensor| embed.try_attend(&query).unwrap_err().to_string();
    assert!(
        message(Tensor::zeros(DType::F32, [2, 4]))
            .starts_with("Embed::attend: query is f32[2,4], expected T[... features] with features = 3 (from embedding: f32[5,3] as T[embeddings features]); pass query with features = 3, or make the Embed with features = 4")
    );
    assert!(
        message(Tensor::zeros(DType::F64, [3]))
            .starts_with("Embed::attend: query is f64[3], expected T[... features] with T = f32 (from embedding: f32[5,3] as T[embeddings features]); convert query to f32, or make the Embed of f64")
    );
    assert!(
        message(Tensor::from(1.0_f32)).starts_with(
            "Embed::attend: query is f32[], expected T[... features] with features = 3"
        )
    );
}
