//! Embeddings of positions, which are added to the embeddings of tokens.

use pytree_core::kind::Cache;

use super::cache::{check_room, nan_if_full, positions_from};
use super::rotary::{RotaryScaling, angles};
use crate::convert_floats::at_least_f32_dtype;
use crate::initializers::Initializer;
use crate::layers::embed::EmbedOptions;
use crate::layers::prelude::*;

const LEARNED: &str = "LearnedPositions";

/// Adds a trained vector for each position (Radford et al. 2019, GPT-2).
///
/// # Examples
/// ```
/// use pytree_nn::{LearnedPositions, Rngs};
/// use pytree_transform::{DType, Tensor};
/// let mut positions = LearnedPositions::new(64, 16, &mut Rngs::new(0));
/// assert_eq!(positions.forward(&Tensor::ones(DType::F32, [2, 5, 16])).shape(), [2, 5, 16]);
/// ```
#[derive(Module, Clone, Debug, PartialEq)]
pub struct LearnedPositions {
    /// The vector of each position.
    #[param("T[length features]", roles(item, output))]
    pub embedding: Tensor,
    /// The position of the next token. `None` means that the layer has no index, so the first token of each call has
    /// the position 0. [`with_cache`](crate::with_cache()) creates the index.
    #[state(Cache, "i32[]")]
    pub index: Option<Tensor>,
}

fallible_forward!(LearnedPositions);

impl LearnedPositions {
    /// Creates f32 vectors for `length` positions, drawn from the normal distribution with the standard deviation 0.02,
    /// as in GPT-2. Draws a key of the stream `params`.
    ///
    /// # Panics
    /// If there is no stream to draw from.
    #[track_caller]
    pub fn new(length: usize, features: usize, rngs: &mut Rngs) -> Self {
        let options = EmbedOptions {
            embedding_init: Initializer::Normal(0.02),
            ..EmbedOptions::default()
        };
        Self::with_options(length, features, options, rngs)
    }

    /// Creates vectors with the given options.
    ///
    /// # Panics
    /// If there is no stream to draw from, or if `param_dtype` is not a float.
    #[track_caller]
    pub fn with_options(
        length: usize,
        features: usize,
        options: EmbedOptions,
        rngs: &mut Rngs,
    ) -> Self {
        let initializer = options.embedding_init;
        let shape = [length, features];
        Self {
            embedding: initializer.initialize(&rngs.params(), options.param_dtype, shape),
            index: None,
        }
    }

    /// Adds the vectors of the positions to `x`. If the layer has an index, advances the index by the number of tokens.
    ///
    /// # Panics
    /// If `x` has more tokens than there are positions left, if the number of features of `x` is wrong, or if the
    /// dtypes differ. Under `jit`, the index is unknown. So if `x` has too many tokens, the method returns NaNs and
    /// does not panic.
    #[shapes(x = "T[*batch tokens features]", return = "T[*batch tokens features]")]
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        self.added(x)
    }

    #[track_caller]
    fn added(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        let [.., tokens, features] = *x.shape() else {
            return Ok(x.clone());
        };
        let length = self.embedding.shape().first().copied().unwrap_or_default();
        let zero = Tensor::from(0_i32);
        let index = self.index.as_ref().unwrap_or(&zero);
        check_room(LEARNED, index, tokens, length)?;
        let starts = [index.clone(), zero.clone()];
        let inside = InputError::inside(LEARNED);
        let rows = self
            .embedding
            .try_dynamic_slice(&starts, [tokens, features])
            .map_err(&inside)?;
        let y = x.try_add(&rows).map_err(inside)?;
        let Some(index) = &self.index else {
            return Ok(y);
        };
        let y = nan_if_full(y, index, tokens, length);
        self.index = Some(advanced(index, tokens));
        Ok(y)
    }
}

/// Adds the sines and cosines of each position: see [`sinusoidal_positions`].
///
/// # Examples
/// ```
/// use pytree_nn::{SinusoidalPositions, sinusoidal_positions};
/// use pytree_transform::{DType, Tensor};
/// let x = Tensor::zeros(DType::F32, [2, 5, 16]);
/// let y = SinusoidalPositions::default().forward(&x);
/// let expected = sinusoidal_positions(&Tensor::arange(DType::I32, 5), 16);
/// assert_eq!(y, expected.broadcast_to([2, 5, 16]));
/// ```
#[derive(Module, Clone, Debug, Default, PartialEq)]
pub struct SinusoidalPositions {
    /// The position of the next token. `None` means that the layer has no index, so the first token of each call has
    /// the position 0. [`with_cache`](crate::with_cache()) creates the index.
    #[state(Cache, "i32[]")]
    pub index: Option<Tensor>,
}

fallible_forward!(SinusoidalPositions);

impl SinusoidalPositions {
    /// Adds the sines and cosines of the positions to `x`. If the layer has an index, advances the index by the number
    /// of tokens.
    ///
    /// # Panics
    /// If `x` is not a tensor of floats, or if the number of features is odd.
    #[shapes(
        x = "T: float[*batch tokens features]",
        return = "T[*batch tokens features]"
    )]
    #[panicking_twin(forward)]
    pub fn try_forward(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        self.added(x)
    }

    #[track_caller]
    fn added(&mut self, x: &Tensor) -> Result<Tensor, InputError> {
        let [.., tokens, features] = *x.shape() else {
            return Ok(x.clone());
        };
        if !features.is_multiple_of(2) {
            let fix = "use an even number of features";
            let expected = "x with an even number of features";
            return Err(InputError::input("SinusoidalPositions", expected, x, fix));
        }
        let positions = match &self.index {
            Some(index) => positions_from(index, tokens),
            None => Tensor::arange(DType::I32, tokens),
        };
        self.index = self.index.as_ref().map(|index| advanced(index, tokens));
        Ok(x + sines_and_cosines(&positions, features, x.dtype()))
    }
}

#[track_caller]
fn advanced(index: &Tensor, tokens: usize) -> Tensor {
    index + &Tensor::full(DType::I32, [], tokens)
}

/// Returns the sinusoidal embeddings of positions: `number[..]` to `[.., features]` (Vaswani et al. 2017, section 3.5).
///
/// Elements 2i and 2i + 1 of the embedding of the position p are the sine and the cosine of
/// p / 10000^(2i / features). Positions of a float dtype give an embedding of this dtype, and integers give f32.
/// Half-precision floats are computed in f32, and the result is rounded once.
///
/// # Examples
/// ```
/// use pytree_nn::sinusoidal_positions;
/// use pytree_transform::Tensor;
/// let embedding = sinusoidal_positions(&Tensor::from([0.0, 3.0]), 4);
/// let expected = Tensor::from([[0.0, 1.0, 0.0, 1.0], [3f64.sin(), 3f64.cos(), 0.03f64.sin(), 0.03f64.cos()]]);
/// assert!((embedding - expected).abs().max().item::<f64>() < 1e-15);
/// ```
///
/// # Panics
/// If `features` is odd.
#[track_caller]
pub fn sinusoidal_positions(positions: &Tensor, features: usize) -> Tensor {
    assert!(
        features.is_multiple_of(2),
        "sinusoidal_positions expects an even number of features, found {features}"
    );
    let dtype = if positions.dtype().is_float() {
        positions.dtype()
    } else {
        DType::F32
    };
    sines_and_cosines(positions, features, dtype)
}

#[track_caller]
fn sines_and_cosines(positions: &Tensor, features: usize, dtype: DType) -> Tensor {
    let wide = at_least_f32_dtype(dtype);
    let angles = angles(
        positions,
        RotaryScaling::None.frequencies(features / 2, 10_000.0),
        wide,
    );
    let pairs = Tensor::stack(&[angles.sin(), angles.cos()], -1);
    let shape = [positions.shape(), &[features]].concat();
    pairs.reshape(shape).convert(dtype)
}
