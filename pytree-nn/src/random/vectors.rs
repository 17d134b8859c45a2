//! Random vectors of the multivariate normal distribution, and random orthogonal matrices.

use pytree_transform::extend::called;
use pytree_transform::{DType, Tensor, fori_loop, scan};

use crate::random::key::Key;

impl Key {
    /// Returns vectors of the normal distribution with the given mean and covariance matrix: `[..shape, n]`. A vector
    /// is computed as mean + L z. The elements of z are standard normal numbers, and L Lᵀ is the Cholesky decomposition
    /// of the covariance.
    ///
    /// The shapes are `mean: [n]` and `covariance: [n, n]`, and both have the same float dtype. The covariance must be
    /// symmetric and positive definite. As in JAX, the results are NaN if the covariance is not positive definite. To
    /// draw from a batch of distributions, use `vmap`. The result can be differentiated with respect to the mean and
    /// the covariance.
    ///
    /// # Panics
    /// If this is a stack of keys, if the shapes do not match, or if the dtypes are not the same float dtype.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::Tensor;
    /// let (mean, covariance) = (Tensor::from([5.0_f32, 0.0]), Tensor::from([[2.0_f32, 1.0], [1.0, 2.0]]));
    /// let vectors = Key::new(0).multivariate_normal(&mean, &covariance, [500]);
    /// assert!((vectors.mean_axes([0]) - mean).abs().max().item::<f32>() < 0.3);
    /// ```
    #[doc(alias = "jax.random.multivariate_normal")]
    #[track_caller]
    pub fn multivariate_normal(
        &self,
        mean: &Tensor,
        covariance: &Tensor,
        shape: impl AsRef<[usize]>,
    ) -> Tensor {
        let _called = called("multivariate_normal");
        let length = mean.len();
        assert!(
            mean.rank() == 1
                && covariance.shape() == [length, length]
                && mean.dtype() == covariance.dtype(),
            "cannot draw from a normal distribution with mean {} and covariance {}: expected [n] and [n,n] of one dtype; for batches, use `vmap`",
            mean.info(),
            covariance.info()
        );
        let normal = self.normal(mean.dtype(), [shape.as_ref(), &[length]].concat());
        mean + normal.matmul(&transposed_cholesky(covariance))
    }

    /// Returns a uniformly distributed orthogonal matrix: `[rows, columns]`. If there are fewer rows than columns, only
    /// the rows are orthonormal. If there are fewer columns than rows, only the columns are orthonormal.
    ///
    /// The matrix is the factor Q of the QR decomposition of a matrix of normal numbers. The signs of Q make the
    /// diagonal of R positive (Mezzadri 2007, "How to generate random matrices from the classical compact groups").
    /// With these signs, Q is unique, so Gram-Schmidt steps compute the same Q as any other algorithm. Each step runs
    /// twice, for accuracy (Giraud et al. 2005, "The loss of orthogonality in the Gram-Schmidt orthogonalization
    /// process").
    ///
    /// # Panics
    /// If this is a stack of keys, or if `dtype` is not a float.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::Key;
    /// use pytree_transform::DType;
    /// let q = Key::new(0).orthogonal(DType::F64, 4, 3);
    /// let product = q.t().matmul(&q);
    /// assert!((product - pytree_transform::Tensor::eye(DType::F64, 3)).abs().max().item::<f64>() < 1e-14);
    /// ```
    #[doc(alias = "jax.random.orthogonal")]
    #[track_caller]
    pub fn orthogonal(&self, dtype: DType, rows: usize, columns: usize) -> Tensor {
        let _called = called("orthogonal");
        let (long, short) = (rows.max(columns), rows.min(columns));
        // Half-precision floats are converted to f32, because subtractions in half precision lose too many digits.
        let wide = if dtype == DType::F64 {
            DType::F64
        } else {
            DType::F32
        };
        let normal = self.normal(dtype, [long, short]).convert(wide);
        if short == 0 {
            return normal.convert(dtype).reshape([rows, columns]);
        }
        let vectors = normal.t();
        let number = i32::try_from(short).unwrap_or(i32::MAX);
        let step = |index: Tensor, done: Tensor| {
            let mut vector = vectors.take(&index, 0);
            for _ in 0..2 {
                let parts = done.matmul(&vector);
                vector = &vector - parts.matmul(&done);
            }
            let unit = &vector / vector.norm();
            done.at_indices(&index, 0).set(&unit)
        };
        let unit = fori_loop(0, number, step, Tensor::zeros_like(&vectors)).convert(dtype);
        if rows < columns { unit } else { unit.t() }
    }
}

/// Returns Lᵀ for the Cholesky decomposition L Lᵀ of a matrix `[n, n]`. Each step of the loop computes a column of L,
/// and subtracts the outer product of this column with itself from the rest of the matrix.
#[track_caller]
fn transposed_cholesky(matrix: &Tensor) -> Tensor {
    let length = matrix.shape()[0];
    let positions = Tensor::arange(DType::I32, length);
    let (_, columns) = scan(
        |rest: Tensor, index: Tensor| {
            let column = rest.take(&index, 1);
            let pivot = column.take(&index, 0).sqrt();
            let below = positions.greater_equal(&index);
            let column = below.select(&column / &pivot, Tensor::zeros_like(&column));
            let rest = &rest - column.expand_dims(1) * column.expand_dims(0);
            (rest, column)
        },
        matrix.clone(),
        positions.clone(),
    );
    columns
}
