//! Branches and loops in the table. A `while` loop has no reverse mode, so differentiated values bypass it.

use pytree_transform::{
    Tensor, associative_scan, cond, custom_jvp, fori_loop, jit, remat, scan, switch, while_loop,
};

use crate::gradients::case::{Case, case};
use crate::gradients::sample::Domain::{Index, Real};

/// Compiles a function of the operands.
fn compiled(x: &[Tensor], function: fn(&[Tensor]) -> Tensor) -> Tensor {
    jit(move |x: Vec<Tensor>| function(&x))(x.to_vec())
}

#[rustfmt::skip]
pub fn control() -> Vec<Case> {
    vec![
        case("cond", [(Real, &[]), (Real, &[3])], |x| cond(&x[0].greater(0.0), |y: Tensor| y.sin() * &y, |y| y.exp(), x[1].clone())),
        case("cond of what is captured", [(Real, &[]), (Real, &[3])], |x| compiled(x, |x| cond(&x[0].less(0.3), |y: Tensor| y.sin() * &x[0], |y| y * 2.0, x[1].square()))),
        case("switch", [(Index(3), &[]), (Real, &[3])], |x| switch(&x[0], &[&|y: Tensor| y.sin(), &|y| y.cos() * &y, &|y| y.tanh()], x[1].clone())),
        case("while", [(Real, &[3])], |x| compiled(x, |x| x[0].sin() * while_loop(|n: &Tensor| n.less(5.0), |n| n + 2.0, (x[0].sum() * 0.0).stop_gradient()))),
        case("scan", [(Real, &[2]), (Real, &[4, 2])], |x| scan(|carry: Tensor, y: Tensor| { let carry = carry.sin() * &y; (carry.clone(), carry * y) }, x[0].clone(), x[1].clone()).1),
        case("scan of what is captured", [(Real, &[2]), (Real, &[3]), (Real, &[2])], |x| compiled(x, |x| scan(|carry: Tensor, y: Tensor| ((carry * &x[2]).sin() + y, ()), x[0].clone(), x[1].clone()).0)),
        case("a scan in a scan", [(Real, &[2]), (Real, &[2, 3, 2])], |x| scan(|carry: Tensor, rows: Tensor| scan(|carry: Tensor, row: Tensor| ((&carry * &row).tanh() + row, carry), carry, rows), x[0].clone(), x[1].clone()).0),
        case("fori_loop", [(Real, &[3])], |x| fori_loop(0, 4, |_, y: Tensor| y.sin() * 1.5, x[0].clone())),
        case("associative_scan", [(Real, &[5])], |x| associative_scan(|a: Tensor, b: Tensor| &a * &b + a.sin() * 0.0, x[0].clone())),
        case("remat", [(Real, &[3])], |x| remat(|y: &Tensor| y.sin().exp() * y)(&x[0])),
        case("remat in a scan", [(Real, &[2]), (Real, &[4, 2])], |x| scan(|carry: Tensor, y: Tensor| (remat(|p: &(Tensor, Tensor)| (&p.0 * &p.1).sin())(&(carry, y)), ()), x[0].clone(), x[1].clone()).0),
        case("custom_jvp", [(Real, &[3])], |x| custom_jvp(|y: &Tensor| y.sin(), |y: &Tensor, t: &Tensor| (y.sin(), t * y.cos()))(&x[0])),
    ]
}
