//! How the next token is chosen.

use pytree_derive::Defaults;
use pytree_nn::{Key, softmax};
use pytree_transform::{DType, Tensor, vmap};

/// Below this temperature, the greatest logit is subtracted before the division, so that f32 has the quotients.
const LEAST_TEMPERATURE: f64 = 1e-30;

/// How the next token is chosen from the logits. The default is the most likely token, as in transformers.
///
/// The steps are those of transformers, in its order: repetition penalty, temperature, top-k, top-p. All that is left out by
/// default has no cost.
///
/// # Examples
/// ```
/// use pytree_models::Sampling;
/// let sampling = Sampling { temperature: 0.7, top_p: Some(0.9), ..Sampling::default() };
/// assert_eq!(Sampling::default().temperature, 0.0);
/// ```
#[derive(Clone, Copy, Debug, Defaults, PartialEq)]
pub struct Sampling {
    /// The logits are divided by it, then a token is drawn with the probabilities softmax(logits). 0, the default, takes the most
    /// likely token, which a temperature near 0 draws, too.
    #[default(0.0)]
    pub temperature: f64,
    /// Only the `top_k` most likely tokens can be drawn, and those with the same logit as the last of them. The default is `None`, all
    /// tokens.
    pub top_k: Option<usize>,
    /// Only the most likely tokens can be drawn, as few as have probabilities that add up to `top_p` (Holtzman et al. 2019). Of equal
    /// logits, the last ones count as the most likely. The default is `None`, all tokens.
    pub top_p: Option<f64>,
    /// The logits of tokens that the text has are divided by it if they are positive, and multiplied otherwise (Keskar et al. 2019).
    /// The default is 1, no penalty.
    #[default(1.0)]
    pub repetition_penalty: f64,
}

impl Sampling {
    /// Returns all problems of the options.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut expect = |is_right: bool, what: &str, expected: &str, found: String| {
            if !is_right {
                problems.push(format!("`{what}`: expected {expected}, found {found}"));
            }
        };
        let (temperature, penalty) = (self.temperature, self.repetition_penalty);
        expect(
            temperature >= 0.0 && temperature.is_finite(),
            "temperature",
            "0, which takes the most likely token, or a positive number",
            temperature.to_string(),
        );
        expect(
            self.top_k != Some(0),
            "top_k",
            "at least 1 token, or `None` for all tokens",
            "0".to_owned(),
        );
        let top_p = self.top_p.unwrap_or(1.0);
        expect(
            top_p > 0.0 && top_p <= 1.0,
            "top_p",
            "a probability above 0 and at most 1",
            top_p.to_string(),
        );
        expect(
            penalty > 0.0 && penalty.is_finite(),
            "repetition_penalty",
            "a positive number, such as 1.1, or 1 for no penalty",
            penalty.to_string(),
        );
        problems
    }

    /// Whether the choice depends on the earlier tokens of a text.
    pub(crate) fn needs_seen(&self) -> bool {
        (self.repetition_penalty - 1.0).abs() > 0.0
    }

    /// Returns the logits from which a token is drawn, -∞ for tokens that cannot be drawn: `float[*batch, vocabulary]` to
    /// `f32[*batch, vocabulary]`. `seen` is true at the tokens that the text has: `bool[*batch, vocabulary]`.
    ///
    /// # Panics
    /// If the shapes differ.
    #[must_use]
    #[track_caller]
    pub fn filtered(&self, logits: &Tensor, seen: &Tensor) -> Tensor {
        let mut logits = logits.convert(DType::F32);
        if self.needs_seen() {
            let penalty = self.repetition_penalty;
            let is_positive = logits.greater(0.0);
            let penalized = is_positive.select(&logits / penalty, &logits * penalty);
            logits = seen.select(&penalized, &logits);
        }
        if self.temperature > 0.0 {
            if self.temperature < LEAST_TEMPERATURE {
                logits = &logits - logits.max_keep([-1]);
            }
            logits /= self.temperature.max(LEAST_TEMPERATURE);
        }
        let vocabulary = logits.shape().last().copied().unwrap_or_default();
        if let Some(top_k) = self.top_k.filter(|&top_k| top_k < vocabulary) {
            let (greatest, _) = logits.top_k(top_k);
            logits = without_less(&logits, &greatest.min_keep([-1]));
        }
        if let Some(top_p) = self.top_p.filter(|&top_p| top_p < 1.0) {
            let ascending = logits.sort(-1);
            let sums = softmax(&ascending, -1).cumsum(-1);
            let kept = sums.greater(1.0 - top_p).convert(DType::I32);
            // The last one is the most likely token, which always stays.
            let kept = kept.sum_keep([-1]).maximum(1);
            let least = ascending
                .take_along_axis(&(i32::try_from(vocabulary).unwrap_or(i32::MAX) - &kept), -1);
            // Of the logits that are equal to the least one, as many stay as are left.
            let greater = logits.greater(&least).convert(DType::I32).sum_keep([-1]);
            let equal = logits.equal(&least).convert(DType::I32);
            let before = equal.sum_keep([-1]) - equal.cumsum(-1);
            let is_dropped = &equal.greater(0) & &before.greater_equal(kept - greater);
            let nothing = Tensor::full(DType::F32, [], f64::NEG_INFINITY);
            logits = is_dropped.select(&nothing, without_less(&logits, &least));
        }
        logits
    }

    /// Returns the next token of each text: `i32[*batch]`. It is -1 if a logit is NaN, or if the greatest is -∞.
    ///
    /// # Panics
    /// If the shapes differ.
    #[must_use]
    #[track_caller]
    pub fn choose(&self, logits: &Tensor, seen: &Tensor, key: &Key) -> Tensor {
        let filtered = self.filtered(logits, seen);
        // The greatest of numbers with NaN is NaN.
        let is_right = filtered.max_axes([-1]).greater(f64::NEG_INFINITY);
        let token = if self.temperature == 0.0 {
            filtered.argmax(-1)
        } else {
            (key.gumbel(DType::F32, filtered.shape()) + &filtered).argmax(-1)
        };
        is_right.select(&token, Tensor::from(-1))
    }

    /// Returns the next token of each text, `i32[batch]`, and replaces the keys of the texts, a stack. So what is drawn for a text does
    /// not depend on the others.
    #[track_caller]
    pub(crate) fn choose_each(&self, logits: &Tensor, seen: &Tensor, keys: &mut Key) -> Tensor {
        if self.temperature == 0.0 {
            return self.choose(logits, seen, keys);
        }
        let choose = |(logits, seen, key): (Tensor, Tensor, Key)| {
            let [key, next] = [0_u32, 1].map(|number| key.fold_in(number));
            (self.choose(&logits, &seen, &key), next)
        };
        let tokens;
        (tokens, *keys) = vmap(choose)((logits.clone(), seen.clone(), keys.clone()));
        tokens
    }
}

/// Returns the logits, -∞ where they are less than `least`.
#[track_caller]
fn without_less(logits: &Tensor, least: &Tensor) -> Tensor {
    let nothing = Tensor::full(DType::F32, [], f64::NEG_INFINITY);
    logits.less(least).select(&nothing, logits)
}
