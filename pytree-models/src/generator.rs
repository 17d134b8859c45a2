//! Texts, continued token by token.

use std::ops::ControlFlow;

use pytree_core::kind::Cache;
use pytree_core::{Filter, Partition, partition};
use pytree_derive::{Defaults, Pytree};
use pytree_nn::Key;
use pytree_transform::{
    DType, JitMut, JitRef, Lent, Mut, Tensor, eval_shape, jit, jit_mut, vmap_mut,
};

use crate::error::ModelError;
use crate::language_model::LanguageModel;
use crate::sampling::Sampling;
use crate::tokens::Tokens;

/// How [`Generator`] continues texts.
#[derive(Clone, Debug, Defaults, PartialEq)]
pub struct GenerateOptions {
    /// The largest number of tokens that are added to a text. The default is 64.
    #[default(64)]
    pub max_tokens: usize,
    /// How the next token is chosen. The default is the most likely one.
    pub sampling: Sampling,
    /// A text ends after any of these tokens: `eos_token_id` in `config.json`. The default is none.
    pub stop: Vec<i32>,
    /// The key of the random numbers, if tokens are drawn. Each text of a call has a key of its own, which is computed from this one, the
    /// number of earlier calls, and the text. The default is `Key::new(0)`.
    #[default(Key::new(0))]
    pub key: Key,
}

/// Takes the model and the texts, and returns the first token of each text.
type Start<M> = JitRef<(Lent<M>, Starts), (Tensor, State<M>)>;

/// Takes the decoder, what changes, and the last token of each text, and returns the next tokens.
type Step<M> = JitMut<(Mut<M>, Mut<State<M>>, Tensor), Tensor>;

/// The leaves of the caches of a model.
type Caches<M> = Partition<M, Tensor>;

/// Continues texts with a language model.
///
/// The keys and values of earlier tokens stay in caches, so each step computes one token of each text. The caches grow in powers of
/// two from 64 tokens on. One function is compiled for each of their lengths, and used again by later calls. The texts of a batch may
/// have different lengths; each is continued as it would be alone. Call [`eval`](pytree_nn::eval()) for a model with dropout first.
///
/// # Examples
/// ```no_run
/// use std::ops::ControlFlow;
/// use pytree_models::{GenerateOptions, Generator, Llama, Sampling, Tokens};
///
/// let llama = Llama::from_pretrained("models/SmolLM2-135M")?;
/// let sampling = Sampling { temperature: 0.7, top_p: Some(0.9), ..Sampling::default() };
/// let options = GenerateOptions { max_tokens: 100, sampling, stop: vec![0], ..GenerateOptions::default() };
/// let mut generator = Generator::new(&llama, options)?;
/// let starts = Tokens::new(&[vec![504, 3575, 282], vec![9690, 1980, 253, 655]]);
/// let texts = generator.generate_with(&starts, |text, token| {
///     println!("text {text}: token {token}");
///     ControlFlow::Continue(()) // `Break` ends this text
/// })?;
/// assert!(texts[0].len() <= 100);
/// # Ok::<(), pytree_models::ModelError>(())
/// ```
#[doc(alias("transformers.GenerationMixin.generate"))]
#[derive(Debug)]
pub struct Generator<M: LanguageModel> {
    model: M,
    /// The model with caches, whose leaves are not used.
    decoder: M,
    options: GenerateOptions,
    vocabulary: usize,
    context: Option<usize>,
    calls: u32,
    start: Start<M>,
    step: Step<M>,
}

/// The texts that are continued.
#[derive(Pytree, Clone)]
struct Starts {
    /// `i32[batch, tokens]`.
    ids: Tensor,
    /// `i32[batch]`.
    lengths: Tensor,
    /// See [`State`].
    seen: Tensor,
    /// See [`State`].
    keys: Key,
    #[r#static]
    cache_length: usize,
}

/// What changes from token to token.
#[derive(Pytree)]
struct State<M: LanguageModel> {
    /// Each leaf has the batch in front.
    caches: Caches<M>,
    /// The tokens that each text has, `bool[batch, vocabulary]`, or `[batch, 0]` if no choice depends on them.
    seen: Tensor,
    /// The keys of the texts, a stack.
    keys: Key,
}

impl<M: LanguageModel> Generator<M> {
    /// Creates a generator. The model is copied; tensors share their memory.
    ///
    /// # Errors
    /// Returns [`ModelError::Generate`] with all problems of the options.
    ///
    /// # Panics
    /// If the model has no causal attention layer.
    #[track_caller]
    pub fn new(model: &M, options: GenerateOptions) -> Result<Self, ModelError> {
        let (vocabulary, context) = (vocabulary(model), model.context());
        let mut problems = options.sampling.problems();
        let stop = options.stop.iter().copied();
        let wrong = stop.filter(|&token| !is_token(token, vocabulary));
        problems
            .extend(wrong.map(|token| format!("`stop`: {}", expected_token(token, vocabulary))));
        if !problems.is_empty() {
            return Err(ModelError::Generate { problems });
        }
        let sampling = options.sampling;
        let seen_tokens = seen_tokens(sampling, vocabulary);
        Ok(Self {
            model: model.clone(),
            decoder: model.with_cache(&[1], 1),
            options,
            vocabulary,
            context,
            calls: 0,
            start: start(sampling),
            step: step(sampling, seen_tokens),
        })
    }

    /// Returns how often a step was recorded: once for each length of the caches and each number of texts.
    pub fn traces(&self) -> usize {
        self.step.traces()
    }

    /// Returns the tokens that continue each text, without its own, to the token of `stop` that ends it.
    ///
    /// # Errors
    /// Returns [`ModelError::Generate`] with all problems of the texts: no token, a token that the vocabulary does not have, or too
    /// many tokens for the model. Returns it, too, if logits are NaN, as with damaged weights.
    #[track_caller]
    pub fn generate(&mut self, texts: &Tokens) -> Result<Vec<Vec<i32>>, ModelError> {
        self.generate_with(texts, |_, _| ControlFlow::Continue(()))
    }

    /// Continues texts like [`generate`](Self::generate), and calls `on_token` with the number of the text and each new token. If it
    /// returns `Break`, this text ends.
    ///
    /// # Errors
    /// The errors of [`generate`](Self::generate).
    #[track_caller]
    pub fn generate_with(
        &mut self,
        texts: &Tokens,
        mut on_token: impl FnMut(usize, i32) -> ControlFlow<()>,
    ) -> Result<Vec<Vec<i32>>, ModelError> {
        let texts = self.checked(texts)?;
        let mut found = vec![Vec::new(); texts.len()];
        if self.options.max_tokens == 0 {
            return Ok(found);
        }
        let mut is_open = vec![true; texts.len()];
        let longest = texts.iter().map(Vec::len).max().unwrap_or_default();
        let length = |text: &Vec<i32>| i32::try_from(text.len()).unwrap_or(i32::MAX);
        let lengths: Vec<i32> = texts.iter().map(length).collect();
        let padded = padded_length(longest, self.context);
        let mut cache_length = padded.next_power_of_two().max(64);
        let starts = Starts {
            ids: padded_ids(&texts, padded),
            lengths: Tensor::new([texts.len()], lengths),
            seen: seen(&texts, seen_tokens(self.options.sampling, self.vocabulary)),
            keys: keys(&self.options.key.fold_in(self.calls), &texts),
            cache_length,
        };
        self.calls = self.calls.wrapping_add(1);
        let (mut tokens, mut state) = (self.start)((&self.model, starts));
        for count in 1.. {
            for (text, token) in tokens.to_vec::<i32>().into_iter().enumerate() {
                if is_open[text] {
                    if token < 0 {
                        let problem = format!(
                            "text {text}: expected logits that are numbers for token {count} after the text, found NaN; check the weights of the model for NaN and ∞"
                        );
                        return Err(ModelError::Generate {
                            problems: vec![problem],
                        });
                    }
                    found[text].push(token);
                    let is_stop = self.options.stop.contains(&token);
                    is_open[text] = on_token(text, token).is_continue() && !is_stop;
                }
            }
            if count == self.options.max_tokens || !is_open.contains(&true) {
                break;
            }
            if longest + count > cache_length {
                cache_length *= 2;
                let larger = self.model.with_cache(&[texts.len()], cache_length);
                state.caches = grown(&state.caches, &partition::filter(&larger, &caches()));
            }
            tokens = (self.step)((&mut self.decoder, &mut state, tokens));
        }
        Ok(found)
    }

    /// Returns the tokens of each text.
    fn checked(&self, texts: &Tokens) -> Result<Vec<Vec<i32>>, ModelError> {
        let (ids, mask) = (&texts.ids, &texts.mask);
        let is_right = ids.dtype() == DType::I32 && mask.dtype() == DType::Bool;
        let &[batch, padded] = ids.shape() else {
            return Err(unlike_tokens(texts));
        };
        if !is_right || ids.shape() != mask.shape() {
            return Err(unlike_tokens(texts));
        }
        let mut problems = Vec::new();
        if batch == 0 {
            problems.push("expected at least one text, found none".to_owned());
        }
        let (ids, mask) = (ids.to_vec::<i32>(), mask.to_vec::<bool>());
        let text = |row: usize| {
            let places = row * padded..(row + 1) * padded;
            let tokens = places.filter(|&place| mask[place]).map(|place| ids[place]);
            tokens.collect::<Vec<i32>>()
        };
        let texts: Vec<Vec<i32>> = (0..batch).map(text).collect();
        let added = self.options.max_tokens;
        for (row, text) in texts.iter().enumerate() {
            let wrong = text
                .iter()
                .find(|&&token| !is_token(token, self.vocabulary));
            problems.extend(wrong.map(|&token| {
                format!(
                    "text {row}: {}; use the tokenizer of the model's folder",
                    expected_token(token, self.vocabulary)
                )
            }));
            if text.is_empty() {
                let fix = "begin with the token that starts texts, such as `bos_token_id` in `config.json`";
                problems.push(format!(
                    "text {row}: expected at least one token, found none; {fix}"
                ));
            }
            if let Some(context) = self.context.filter(|&context| text.len() + added > context) {
                let found = text.len();
                problems.push(format!("text {row}: expected at most {context} tokens, the longest text of the model, found {found} and `max_tokens` {added}; shorten the text, or set `max_tokens` to at most {}", context.saturating_sub(found)));
            }
        }
        if problems.is_empty() {
            return Ok(texts);
        }
        Err(ModelError::Generate { problems })
    }
}

/// Returns the function that computes the first token of each text, and the caches.
fn start<M: LanguageModel>(sampling: Sampling) -> Start<M> {
    jit(move |(model, starts): (&M, Starts)| {
        let Starts {
            ids,
            lengths,
            seen,
            mut keys,
            cache_length,
        } = starts;
        let batch = ids.shape()[0];
        let mut model = model.with_cache(&[batch], cache_length);
        let features = model.features(&ids);
        let last = (&lengths - 1).expand_dims(-1).expand_dims(-1);
        let last = last.broadcast_to([batch, 1, features.shape()[2]]);
        let logits = model.logits(&features.take_along_axis(&last, 1).squeeze(1));
        let token = sampling.choose_each(&logits, &seen, &mut keys);
        // Further keys replace those of padding.
        let caches =
            partition::filter::<M, Tensor>(&model, &caches()).map(|leaf| match leaf.rank() {
                0 => lengths.clone(),
                _ => leaf.clone(),
            });
        (token, State { caches, seen, keys })
    })
}

/// Returns the function that computes the next token of each text.
fn step<M: LanguageModel>(sampling: Sampling, seen_tokens: usize) -> Step<M> {
    let forward = |(decoder, caches, token): (&mut M, &mut Caches<M>, Tensor)| {
        // A batch of one text. Numbers of tokens have no batch.
        let changed = |caches: &Caches<M>, change: fn(&Tensor) -> Tensor| {
            caches.map(|leaf| match leaf.rank() {
                0 => leaf.clone(),
                _ => change(leaf),
            })
        };
        let mut model = with_caches(decoder, &changed(caches, |leaf| leaf.expand_dims(0)));
        let features = model.features(&token.reshape([1, 1]));
        let found = partition::filter(&model, &self::caches());
        *caches = changed(&found, |leaf| leaf.squeeze(0));
        model.logits(&features).reshape([-1])
    };
    let forward = vmap_mut(forward).in_axes((None, 0, 0));
    jit_mut(
        move |(decoder, state, token): (&mut M, &mut State<M>, Tensor)| {
            let logits = forward((decoder, &mut state.caches, token.clone()));
            state.seen = &state.seen | &token.one_hot(seen_tokens, DType::Bool);
            sampling.choose_each(&logits, &state.seen, &mut state.keys)
        },
    )
}

/// Returns the error for tokens of another shape or dtype.
fn unlike_tokens(texts: &Tokens) -> ModelError {
    let (ids, mask) = (texts.ids.info(), texts.mask.info());
    let problem = format!(
        "expected ids `i32[batch, tokens]` and a mask `bool[batch, tokens]`, found {ids} and {mask}; make them by `Tokens::new`"
    );
    ModelError::Generate {
        problems: vec![problem],
    }
}

/// Selects the leaves that change from token to token.
fn caches() -> Filter {
    Filter::state::<Cache>()
}

fn is_token(token: i32, vocabulary: usize) -> bool {
    usize::try_from(token).is_ok_and(|token| token < vocabulary)
}

fn expected_token(token: i32, vocabulary: usize) -> String {
    format!(
        "expected a token from 0 to {}, found {token}",
        vocabulary.saturating_sub(1)
    )
}

/// Returns the number of logits of a token. Nothing is computed.
fn vocabulary<M: LanguageModel>(model: &M) -> usize {
    let logits = eval_shape(
        |model: &M| {
            let mut model = model.clone();
            let features = model.features(&Tensor::zeros(DType::I32, [1, 1]));
            model.logits(&features)
        },
        model,
    );
    logits.leaves()[0].shape.last().copied().unwrap_or_default()
}

/// Returns the number of tokens to which texts are padded, so that texts of similar lengths use the same compiled function.
fn padded_length(longest: usize, context: Option<usize>) -> usize {
    let padded = if longest < 64 {
        longest.next_power_of_two().max(8)
    } else {
        longest.next_multiple_of(64)
    };
    padded.min(context.unwrap_or(padded))
}

/// Returns the number of tokens whose presence in a text decides the choice of the next one.
fn seen_tokens(sampling: Sampling, vocabulary: usize) -> usize {
    if sampling.needs_seen() { vocabulary } else { 0 }
}

/// Returns which of the first `count` tokens each text has.
fn seen(texts: &[Vec<i32>], count: usize) -> Tensor {
    let mut seen = vec![false; texts.len() * count];
    for (text, seen) in texts.iter().zip(seen.chunks_exact_mut(count.max(1))) {
        for token in text.iter().filter_map(|&token| usize::try_from(token).ok()) {
            seen[token] = true;
        }
    }
    Tensor::new([texts.len(), count], seen)
}

/// Returns a key for each text, a stack. It depends on the text and on the number of equal texts before it.
fn keys(key: &Key, texts: &[Vec<i32>]) -> Key {
    let of = |row: usize| {
        let equal = texts[..row].iter().filter(|text| **text == texts[row]);
        // The hash FNV-1a, of words instead of bytes.
        let words = texts[row]
            .iter()
            .map(|token| u64::from(token.cast_unsigned()));
        let hash = words
            .chain([equal.count() as u64])
            .fold(0xCBF2_9CE4_8422_2325, |hash: u64, word| {
                (hash ^ word).wrapping_mul(0x0100_0000_01B3)
            });
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default();
        let key = key.fold_in(half(hash >> 32)).fold_in(half(hash));
        key.data().clone()
    };
    Key::from_data(Tensor::stack(
        &(0..texts.len()).map(of).collect::<Vec<_>>(),
        0,
    ))
}

fn padded_ids(texts: &[Vec<i32>], padded: usize) -> Tensor {
    let mut ids = Vec::new();
    for text in texts {
        ids.extend(text);
        ids.resize(ids.len() + padded - text.len(), 0);
    }
    Tensor::new([texts.len(), padded], ids)
}

#[track_caller]
fn with_caches<M: LanguageModel>(decoder: &M, caches: &Caches<M>) -> M {
    match partition::replace(decoder, caches) {
        Ok(model) => model,
        Err(error) => panic!("cannot set the caches of a model: {error}"),
    }
}

/// Returns the caches with the places of `larger`, whose further ones are 0. The numbers of tokens stay.
#[track_caller]
fn grown<M: LanguageModel>(caches: &Caches<M>, larger: &Caches<M>) -> Caches<M> {
    let grown = caches.map2(larger, |cache, larger| {
        if cache.rank() != larger.rank() {
            return cache.clone();
        }
        larger.dynamic_update_slice(cache, &vec![Tensor::from(0_i32); cache.rank()])
    });
    match grown {
        Ok(grown) => grown,
        Err(error) => panic!("cannot enlarge the caches of a model: {error}"),
    }
}
