//! Collectives in the table. Each case wraps its collective in a `vmap`, which binds the axis name.

use std::cell::RefCell;

use pytree_transform::{
    Tensor, Tiling, all_gather, all_to_all, axis_index, jit, pmax, pmean, pmin, ppermute, psum,
    psum_scatter, vmap,
};

use crate::gradients::case::{Case, case};
use crate::gradients::sample::Domain::Real;

thread_local! {
    /// The jaxprs of the example functions, for the test that looks for all primitives.
    pub static OF_EXAMPLES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Maps a compiled function of an example over the first axis of all operands, with the axis name `i`.
fn mapped(x: &[Tensor], of_example: fn(&[Tensor]) -> Tensor) -> Tensor {
    let compiled = jit(move |x: Vec<Tensor>| of_example(&x));
    let function = |x: Vec<Tensor>| {
        OF_EXAMPLES.with_borrow_mut(|text| text.push_str(&compiled.jaxpr(&x).to_string()));
        compiled(x)
    };
    vmap(function).axis_name("i")(x.to_vec())
}

/// Operations over a batch axis between nonlinear operations.
#[rustfmt::skip]
pub fn collectives() -> Vec<Case> {
    vec![
        case("psum", [(Real, &[3, 2])], |x| mapped(x, |x| psum(&x[0].sin(), "i") * &x[0])),
        case("psum of what is the same", [(Real, &[3, 2])], |x| mapped(x, |x| psum(&Tensor::from(0.5), "i") * x[0].sin())),
        case("psum twice", [(Real, &[3]), (Real, &[3])], |x| mapped(x, |x| psum(&(psum(&x[0].sin(), "i") * &x[1]), "i") * &x[0])),
        case("pmean", [(Real, &[3, 2])], |x| mapped(x, |x| (&x[0] - pmean(&x[0], "i")).sin())),
        case("pmax", [(Real, &[3, 2])], |x| mapped(x, |x| pmax(&x[0].sin(), "i") * &x[0])),
        case("pmin", [(Real, &[3, 2])], |x| mapped(x, |x| pmin(&x[0].sin(), "i") * &x[0])),
        case("all_gather", [(Real, &[3, 2])], |x| mapped(x, |x| all_gather(&x[0].sin(), "i", 1, Tiling::Stacked) * x[0].expand_dims(1))),
        case("all_gather tiled", [(Real, &[3, 2])], |x| mapped(x, |x| all_gather(&x[0].sin(), "i", 0, Tiling::Tiled).sum() * &x[0])),
        case("axis_index", [(Real, &[3, 2])], |x| mapped(x, |x| axis_index("i").convert(pytree_transform::DType::F64) * x[0].sin())),
        case("ppermute", [(Real, &[3, 2])], |x| mapped(x, |x| ppermute(&x[0].sin(), "i", [(0, 2), (2, 1), (1, 0)]) * &x[0])),
        case("ppermute of some", [(Real, &[3, 2])], |x| mapped(x, |x| ppermute(&x[0].sin(), "i", [(0, 2), (2, 1)]) * &x[0])),
        case("all_to_all", [(Real, &[2, 2, 3])], |x| mapped(x, |x| all_to_all(&x[0].sin(), "i", 0, 1, Tiling::Stacked) * x[0].t())),
        case("psum_scatter", [(Real, &[2, 3, 2])], |x| mapped(x, |x| psum_scatter(&x[0].sin(), "i", 1, Tiling::Stacked) * x[0].sum_axes([1]))),
        case("psum_scatter tiled", [(Real, &[2, 4, 3])], |x| mapped(x, |x| psum_scatter(&x[0].sin(), "i", 0, Tiling::Tiled).square())),
        case("all_to_all tiled", [(Real, &[2, 4, 3])], |x| mapped(x, |x| all_to_all(&x[0].sin(), "i", 0, 1, Tiling::Tiled).square())),
    ]
}
