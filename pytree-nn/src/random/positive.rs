//! Random numbers of the gamma, beta and Poisson distributions, which are drawn by rejection.

use pytree_transform::extend::called;
use pytree_transform::{DType, Tensor, vmap, while_loop};

use crate::functions::log_factorial;
use crate::functions::rounding::product_plus;
use crate::random::arguments::check_elements;
use crate::random::distributions::check_float;
use crate::random::key::Key;

/// Methods that draw by rejection. The numbers agree with `jax.random`, up to rounding. The loops run until all numbers
/// are accepted, so reverse mode cannot differentiate the numbers with respect to their parameters.
impl Key {
    /// Returns numbers from the gamma distribution with the given shape parameters and scale 1: `[..shape]`.
    ///
    /// `concentration` is the shape parameter α ≥ 0. It broadcasts to `shape`, and has the dtype of the result. The
    /// source is Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
    ///
    /// # Panics
    /// If this is a stack of keys, if `concentration` does not broadcast to `shape` or is not a tensor of floats, or if
    /// an element is known to be negative or not finite. In a compiled function, such an element gives NaN or an
    /// arbitrary number.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::Tensor;
    /// let numbers = Key::new(0).gamma(&Tensor::from(3.0_f32), [500]);
    /// assert!((numbers.mean().item::<f32>() - 3.0).abs() < 0.3);
    /// ```
    #[doc(alias = "jax.random.gamma")]
    #[track_caller]
    pub fn gamma(&self, concentration: &Tensor, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("gamma");
        self.gamma_in(Space::Linear, concentration, shape.as_ref())
    }

    /// Returns the logarithms of numbers from the gamma distribution: `[..shape]`. For small shape parameters, the
    /// numbers of [`gamma`](Self::gamma) underflow to 0, but these logarithms stay finite.
    ///
    /// # Panics
    /// In the same cases as [`gamma`](Self::gamma).
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::Tensor;
    /// let logarithms = Key::new(0).loggamma(&Tensor::from(1e-3_f32), [10]);
    /// assert!(logarithms.isfinite().all().item::<bool>());
    /// ```
    #[doc(alias = "jax.random.loggamma")]
    #[track_caller]
    pub fn loggamma(&self, concentration: &Tensor, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("loggamma");
        self.gamma_in(Space::Logarithmic, concentration, shape.as_ref())
    }

    #[track_caller]
    fn gamma_in(&self, space: Space, concentration: &Tensor, shape: &[usize]) -> Tensor {
        check_float(concentration.dtype());
        check_elements(
            concentration,
            "the concentration",
            "finite numbers of at least 0",
            |x| x >= 0.0 && x.is_finite(),
        );
        let count = shape.iter().product();
        let concentrations = concentration.broadcast_to(shape).reshape([count]);
        if count == 0 {
            return concentrations.reshape(shape);
        }
        let draw = |(key, concentration): (Self, Tensor)| one_gamma(&key, &concentration, space);
        vmap(draw)((self.split_stacked(count), concentrations)).reshape(shape)
    }

    /// Returns numbers from the beta distribution with the parameters `a` and `b`: `[..shape]`. A number is computed as
    /// g / (g + h), where g and h are numbers from gamma distributions with the shape parameters `a` and `b`.
    ///
    /// `a` and `b` are positive, broadcast to `shape`, and have the dtype of the result.
    ///
    /// # Panics
    /// If this is a stack of keys, if `a` or `b` does not broadcast to `shape`, if `a` and `b` are not floats of the same
    /// dtype, or if an element is known to be negative, 0 or not finite. In a compiled function, such an element gives
    /// NaN or an arbitrary number.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::Tensor;
    /// let numbers = Key::new(0).beta(&Tensor::from(2.0_f32), &Tensor::from(6.0_f32), [500]);
    /// assert!((numbers.mean().item::<f32>() - 0.25).abs() < 0.05);
    /// ```
    #[doc(alias = "jax.random.beta")]
    #[track_caller]
    pub fn beta(&self, a: &Tensor, b: &Tensor, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("beta");
        let shape = shape.as_ref();
        for (name, parameter) in [("a =", a), ("b =", b)] {
            check_elements(parameter, name, "finite numbers above 0", |x| {
                x > 0.0 && x.is_finite()
            });
        }
        let log_a = self.fold_in(0_u32).loggamma(a, shape);
        let log_b = self.fold_in(1_u32).loggamma(b, shape);
        // Both numbers are divided by the greater number, so that the denominator does not underflow.
        let greater = log_a.maximum(&log_b);
        let (a, b) = ((log_a - &greater).exp(), (log_b - &greater).exp());
        &a / (&a + &b)
    }

    /// Returns integers of the Poisson distribution: `i32[..shape]`.
    ///
    /// `rate` is the mean λ from 0 to 2·10⁹, a tensor of floats that broadcasts to `shape`. The numbers are those of JAX,
    /// which computes them in f32. Knuth's algorithm is used for λ < 10, and transformed rejection for larger λ (Hörmann
    /// 1993, "The transformed rejection method for generating Poisson random variables").
    ///
    /// # Panics
    /// If this is a stack of keys, if `rate` does not broadcast to `shape` or is not a tensor of floats, or if a rate is
    /// known to be out of range or NaN. In a compiled function, such a rate gives -1, as JAX gives for negative rates and
    /// NaN.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::{DType, Tensor};
    /// let counts = Key::new(0).poisson(&Tensor::from(4.0_f32), [500]);
    /// assert!((counts.convert(DType::F32).mean().item::<f32>() - 4.0).abs() < 0.3);
    /// ```
    #[doc(alias("jax.random.poisson", "torch.poisson"))]
    #[track_caller]
    pub fn poisson(&self, rate: &Tensor, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("poisson");
        check_float(rate.dtype());
        check_elements(rate, "the rate", "numbers from 0 to 2e9", |rate| {
            (0.0..=GREATEST_RATE).contains(&rate)
        });
        let shape = shape.as_ref();
        let rate = rate.convert(DType::F32).broadcast_to(shape);
        let is_large = rate.greater_equal(10.0) & rate.less_equal(GREATEST_RATE);
        let is_small = rate.greater_equal(0.0) & rate.less(10.0);
        let small = knuth(self, &is_small.select(&rate, Tensor::zeros_like(&rate)));
        // A rate that is not large must not end the loop earlier or later than in JAX.
        let large = is_large.select(&rate, Tensor::full_like(&rate, 1e5));
        let drawn = is_small.select(&small, rejected(self, &large, &is_large.any()));
        let drawn = rate.equal(0.0).select(Tensor::zeros_like(&drawn), &drawn);
        (is_small | is_large).select(&drawn, Tensor::full_like(&drawn, -1))
    }
}

/// The greatest rate whose Poisson numbers fit i32.
const GREATEST_RATE: f64 = 2e9;

/// Whether a number or its logarithm is drawn.
#[derive(Clone, Copy, PartialEq)]
enum Space {
    Linear,
    Logarithmic,
}

/// Draws one number from the gamma distribution.
fn one_gamma(key: &Key, concentration: &Tensor, space: Space) -> Tensor {
    let dtype = concentration.dtype();
    let (zero, one) = (Tensor::zeros(dtype, []), Tensor::ones(dtype, []));
    // For a parameter below 1, a number is drawn with the parameter plus 1, and then multiplied by a power of a uniform
    // number.
    let is_large = concentration.greater_equal(1.0);
    let raised = is_large.select(concentration, concentration + 1.0);
    let d = raised - 1.0 / 3.0;
    let c = &Tensor::full(dtype, [], 1.0 / 3.0) / d.sqrt();
    let (key, last) = (key.fold_in(0_u32), key.fold_in(1_u32));
    let is_rejected = |(_, x, v, u): &(Key, Tensor, Tensor, Tensor)| {
        let outside = u.greater_equal(1.0 - x * x * 0.0331);
        let bound = x * 0.5 + &d * ((1.0 - v) + v.log());
        outside & u.log().greater_equal(bound)
    };
    let draw = |(key, ..): (Key, Tensor, Tensor, Tensor)| {
        let (next, of_x, of_u) = (key.fold_in(0_u32), key.fold_in(1_u32), key.fold_in(2_u32));
        let start = (of_x, zero.clone(), -&one);
        let (_, x, v) = while_loop(
            |(_, _, v): &(Key, Tensor, Tensor)| v.less_equal(0.0),
            |(key, ..): (Key, Tensor, Tensor)| {
                let x = key.fold_in(1_u32).normal(dtype, []);
                let v = &x * &c + 1.0;
                (key.fold_in(0_u32), x, v)
            },
            start,
        );
        (next, &x * &x, &v * &v * &v, of_u.uniform(dtype, []))
    };
    // The initial values are always rejected, so that the loop draws at least once.
    let start = (key, zero.clone(), one.clone(), Tensor::full(dtype, [], 2.0));
    let (_, _, v, _) = while_loop(is_rejected, draw, start);
    match space {
        Space::Linear => {
            let uniform = 1.0 - last.uniform(dtype, []);
            let boost = uniform.pow(&one / concentration);
            d * v * is_large.select(&one, &boost)
        }
        Space::Logarithmic => {
            let logarithm = -last.exponential(dtype, []);
            let is_one = &is_large | logarithm.equal(0.0);
            let boost = is_one.select(&zero, &logarithm * (&one / concentration));
            d.log() + v.log() + boost
        }
    }
}

/// Returns Poisson numbers for small λ. Each Poisson number is the count of uniform numbers that can be multiplied
/// before their product falls to e^-λ or less.
fn knuth(key: &Key, rate: &Tensor) -> Tensor {
    let shape = rate.shape().to_vec();
    let counts = Tensor::zeros(DType::I32, &shape);
    let start = (counts, key.clone(), Tensor::zeros_like(rate));
    let is_above = |logarithm: &Tensor| logarithm.greater(-rate);
    let (counts, ..) = while_loop(
        |(_, _, logarithm): &(Tensor, Key, Tensor)| is_above(logarithm).any(),
        |(counts, key, logarithm): (Tensor, Key, Tensor)| {
            let counts = is_above(&logarithm).select(&counts + 1, &counts);
            let uniform = key.fold_in(1_u32).uniform(DType::F32, &shape);
            (counts, key.fold_in(0_u32), logarithm + uniform.log())
        },
        start,
    );
    counts - 1
}

/// Returns Poisson numbers for large λ: draws from a transformed uniform distribution until all numbers are accepted. Draws nothing if
/// no number is used.
///
/// A number is accepted by a comparison of sums whose terms are near 10⁶, where one rounding more changes a number of
/// about one in a hundred keys. So each product that XLA adds without rounding is added without rounding here.
fn rejected(key: &Key, rate: &Tensor, is_used: &Tensor) -> Tensor {
    let shape = rate.shape().to_vec();
    let log_rate = rate.log();
    let number = |number: f32| Tensor::from(number);
    let b = product_plus(&rate.sqrt(), &number(2.53), &number(0.931));
    let a = product_plus(&b, &number(0.02483), &number(-0.059));
    let inverse_alpha = 1.1328 / (&b - 3.4) + 1.1239;
    let v_limit = 0.9277 - 3.6224 / (&b - 2.0);
    let negative_rate = -rate;
    let accepted = (!is_used).broadcast_to(&shape);
    let start = (Tensor::full_like(rate, -1.0), accepted, key.clone());
    let (numbers, ..) = while_loop(
        |(_, accepted, _): &(Tensor, Tensor, Key)| !accepted.all(),
        |(numbers, accepted, key): (Tensor, Tensor, Key)| {
            let u = key.fold_in(1_u32).uniform(DType::F32, &shape) - 0.5;
            let v = key.fold_in(2_u32).uniform(DType::F32, &shape);
            let shifted = 0.5 - u.abs();
            let width = &a * 2.0 / &shifted + &b;
            let k = (product_plus(&width, &u, rate) + 0.43).floor();
            let s = (&v * &inverse_alpha / (&a / (&shifted * &shifted) + &b)).log();
            let t = product_plus(&k, &log_rate, &negative_rate) - log_factorial(&k);
            let is_inside = shifted.greater_equal(0.07) & v.less_equal(&v_limit);
            let is_tail = shifted.less(0.013) & v.greater(&shifted);
            let is_refused = k.less(0.0) | is_tail;
            let fits = !is_refused & s.less_equal(&t);
            let accept = is_inside | fits;
            let numbers = accept.select(&k, &numbers);
            (numbers, accepted | accept, key.fold_in(0_u32))
        },
        start,
    );
    numbers.convert(DType::I32)
}
