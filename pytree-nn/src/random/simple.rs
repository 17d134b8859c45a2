//! Random numbers of distributions that need only one uniform number for each random number.

use pytree_transform::extend::called;
use pytree_transform::{DType, Tensor};

use crate::functions::rounding::{least_normal, next_up};
use crate::random::distributions::check_float;
use crate::random::key::Key;

/// Methods that draw from simple distributions. The numbers agree with `jax.random`, up to rounding.
impl Key {
    /// Returns numbers from the exponential distribution with rate 1: `[..shape]`. A number is computed as -log(1 - u)
    /// with u uniform in [0, 1).
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` is not a float.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::DType;
    /// let numbers = Key::new(0).exponential(DType::F32, [1000]);
    /// assert!((numbers.mean().item::<f32>() - 1.0).abs() < 0.1);
    /// ```
    #[doc(alias = "jax.random.exponential")]
    #[track_caller]
    pub fn exponential(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("exponential");
        -(-self.uniform(dtype, shape)).log1p()
    }

    /// Returns numbers from the standard Gumbel distribution: `[..shape]`. A number is computed as -log(-log u) with u
    /// uniform in (0, 1).
    ///
    /// The numbers agree with the default mode `low` in JAX, whose f32 numbers are at most 16.7.
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` is not a float.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::{DType, Tensor};
    /// // The Gumbel trick: a draw from the softmax of logits.
    /// let logits = Tensor::from([0.0_f32, -100.0]);
    /// let class = (logits + Key::new(0).gumbel(DType::F32, [2])).argmax(0);
    /// assert_eq!(class, Tensor::from(0));
    /// ```
    #[doc(alias = "jax.random.gumbel")]
    #[track_caller]
    pub fn gumbel(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("gumbel");
        let uniform = self.uniform_between(dtype, shape, least_normal(dtype), 1.0);
        -(-uniform.log()).log()
    }

    /// Returns numbers from the Laplace distribution with mean 0 and scale 1: `[..shape]`. A number is computed as
    /// sign(u) log(1 - |u|) with u uniform in (-1, 1).
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` is not a float.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::DType;
    /// let numbers = Key::new(0).laplace(DType::F32, [1000]);
    /// assert!(numbers.mean().item::<f32>().abs() < 0.2);
    /// ```
    #[doc(alias = "jax.random.laplace")]
    #[track_caller]
    pub fn laplace(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("laplace");
        check_float(dtype);
        let uniform = self.uniform_between(dtype, shape, next_up(dtype, -1.0), 1.0);
        uniform.sign() * (-uniform.abs()).log1p()
    }

    /// Returns numbers from the logistic distribution with mean 0 and scale 1: `[..shape]`. A number is computed as
    /// log(u / (1 - u)) with u uniform in (0, 1).
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` is not a float.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::DType;
    /// let numbers = Key::new(0).logistic(DType::F32, [1000]);
    /// assert!(numbers.mean().item::<f32>().abs() < 0.2);
    /// ```
    #[doc(alias = "jax.random.logistic")]
    #[track_caller]
    pub fn logistic(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("logistic");
        let uniform = self.uniform_between(dtype, shape, least_normal(dtype), 1.0);
        uniform.log() - (-&uniform).log1p()
    }

    /// Returns numbers that are -1 or 1 with equal probability: `[..shape]`. `dtype` is a float dtype or a signed
    /// integer dtype.
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` does not hold -1.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::DType;
    /// let signs = Key::new(0).rademacher(DType::I32, [100]);
    /// assert_eq!(signs.abs().sum().item::<i32>(), 100);
    /// ```
    #[doc(alias = "jax.random.rademacher")]
    #[track_caller]
    pub fn rademacher(&self, dtype: DType, shape: impl AsRef<[usize]>) -> Tensor {
        let _called = called("rademacher");
        let is_signed = dtype.integer_range().is_some_and(|(least, _)| least < 0);
        assert!(
            dtype.is_float() || is_signed,
            "cannot draw {dtype} from -1 and 1: expected a float dtype or a signed integer dtype"
        );
        self.bernoulli(0.5, shape).convert(dtype) * 2 - 1
    }
}
