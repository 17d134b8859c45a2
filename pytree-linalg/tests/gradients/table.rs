//! Cases of linear algebra. The matrices are well conditioned, and their eigenvalues and singular values differ.

use pytree_linalg::{self as linalg, Triangular};
use pytree_transform::{DType, Tensor, ix};

use crate::gradients::case::{Case, case};
use crate::gradients::sample::Domain::Real;

/// Adds `number` times the identity to square matrices.
fn plus(x: &Tensor, number: f64) -> Tensor {
    x + Tensor::eye(DType::F64, x.shape()[x.rank() - 1]) * number
}

fn definite(x: &Tensor) -> Tensor {
    plus(&x.matmul(&x.swap_axes(-1, -2)), 3.0)
}

/// Returns matrices whose singular values differ.
fn well_apart(x: &Tensor) -> Tensor {
    let columns = x.shape()[x.rank() - 1];
    let rows = Tensor::iota(DType::I32, [x.shape()[x.rank() - 2], columns], 0);
    let numbers = Tensor::arange(DType::I32, columns);
    let identity = rows.equal(&numbers).convert(DType::F64);
    x / 4.0 + identity * (numbers.convert(DType::F64) * 2.0 + 2.0)
}

/// Returns a multiple of a rotation, whose singular values are equal.
fn rotation(x: &Tensor) -> Tensor {
    let (cosine, sine) = (x.index(ix![0]) + 3.0, x.index(ix![1]));
    Tensor::stack(&[cosine.clone(), -&sine, sine, cosine], 0).reshape([2, 2])
}

#[rustfmt::skip]
pub fn table() -> Vec<Case> {
    vec![
        case("cholesky", [(Real, &[3, 3])], |x| linalg::cholesky(&definite(&x[0]))),
        case("cholesky of a batch", [(Real, &[2, 2, 2])], |x| linalg::cholesky(&definite(&x[0]))),
        case("cholesky of any matrix", [(Real, &[3, 3])], |x| linalg::cholesky(&plus(&x[0], 8.0))),
        case("cholesky of nothing", [(Real, &[2, 0, 0])], |x| linalg::cholesky(&x[0])),
        case("solve", [(Real, &[3, 3]), (Real, &[3, 2])], |x| linalg::solve(&plus(&x[0], 8.0).reverse([0]), &x[1])),
        case("solve for a vector", [(Real, &[3, 3]), (Real, &[3])], |x| linalg::solve(&plus(&x[0], 8.0), &x[1])),
        case("solve for a batch", [(Real, &[2, 2, 2]), (Real, &[2, 2, 1])], |x| linalg::solve(&plus(&x[0], 8.0), &x[1])),
        case("solve with one matrix", [(Real, &[2, 2]), (Real, &[2, 2, 1])], |x| linalg::solve(&plus(&x[0], 8.0), &x[1])),
        case("solve with two matrices", [(Real, &[2, 1, 2, 2]), (Real, &[2, 2, 1])], |x| linalg::solve(&plus(&x[0], 8.0), &x[1])),
        case("cho_solve", [(Real, &[2, 2]), (Real, &[2])], |x| linalg::cho_solve(&linalg::cholesky(&definite(&x[0])), &x[1])),
        case("inv", [(Real, &[3, 3])], |x| linalg::inv(&plus(&x[0], 8.0))),
        case("det", [(Real, &[3, 3])], |x| linalg::det(&plus(&x[0], 3.0).reverse([0])) / 32.0),
        case("det of one row", [(Real, &[2, 1, 1])], |x| linalg::det(&x[0])),
        case("det of nothing", [(Real, &[2, 0, 0])], |x| linalg::det(&x[0])),
        case("slogdet", [(Real, &[3, 3])], |x| linalg::slogdet(&plus(&x[0], 8.0).reverse([0])).1),
        case("triangular_solve", [(Real, &[3, 3]), (Real, &[3, 2])], |x| {
            linalg::triangular_solve(&plus(&x[0], 8.0), &x[1], Triangular::lower())
        }),
        case("triangular_solve upper", [(Real, &[3, 3]), (Real, &[3])], |x| {
            linalg::triangular_solve(&plus(&x[0], 8.0), &x[1], Triangular::upper())
        }),
        case("triangular_solve transposed", [(Real, &[3, 3]), (Real, &[3])], |x| {
            linalg::triangular_solve(&plus(&x[0], 8.0), &x[1], Triangular::lower().transposed())
        }),
        case("triangular_solve at the right", [(Real, &[3, 3]), (Real, &[2, 3])], |x| {
            linalg::triangular_solve(&plus(&x[0], 8.0), &x[1], Triangular::upper().transposed().right_side())
        }),
        case("triangular_solve with ones", [(Real, &[3, 3]), (Real, &[2, 3])], |x| {
            linalg::triangular_solve(&(&x[0] / 4.0), &x[1], Triangular::upper().unit_diagonal().right_side())
        }),
        case("qr", [(Real, &[3, 3])], |x| {
            let (q, r) = linalg::qr(&well_apart(&x[0]));
            q.sin() + r
        }),
        case("qr of a tall matrix", [(Real, &[3, 2])], |x| linalg::qr(&well_apart(&x[0])).0),
        case("qr of a wide matrix", [(Real, &[2, 3])], |x| linalg::qr(&well_apart(&x[0])).1),
        case("eigh", [(Real, &[3, 3])], |x| {
            let (w, v) = linalg::eigh(&well_apart(&x[0]));
            (&v * w.sin().expand_dims(-2)).matmul(&v.swap_axes(-1, -2))
        }),
        case("svd", [(Real, &[3, 2])], |x| {
            let (u, s, v_t) = linalg::svd(&well_apart(&x[0]));
            (u * s.sin().expand_dims(-2)).matmul(&v_t)
        }),
        case("svd of a wide matrix", [(Real, &[2, 3])], |x| {
            let (u, s, v_t) = linalg::svd(&well_apart(&x[0]));
            (u * s.sin().expand_dims(-2)).matmul(&v_t)
        }),
        case("lstsq of equal singular values", [(Real, &[2]), (Real, &[4])], |x| {
            let turned = rotation(&x[0]);
            linalg::lstsq(&Tensor::concatenate(&[turned.clone(), turned], 0), &x[1], None).solution
        }),
        case("lstsq of a wide matrix", [(Real, &[2]), (Real, &[2, 2])], |x| {
            let turned = rotation(&x[0]);
            linalg::lstsq(&Tensor::concatenate(&[turned.clone(), turned], 1), &x[1], None).solution
        }),
        case("lstsq without small singular values", [(Real, &[4, 3]), (Real, &[4])], |x| {
            let scales = Tensor::from([8.0, 2.0, 0.5]);
            linalg::lstsq(&(well_apart(&(&x[0] / 4.0)) * scales), &x[1], Some(0.6)).solution
        }),
        case("singular values of lstsq", [(Real, &[3, 2]), (Real, &[3])], |x| {
            linalg::lstsq(&well_apart(&x[0]), &x[1], None).singular_values
        }),
        case("lstsq", [(Real, &[3, 2]), (Real, &[3])], |x| linalg::lstsq(&well_apart(&x[0]), &x[1], None).solution),
    ]
}
