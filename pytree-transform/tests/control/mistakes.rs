//! The messages for mistakes in branches and loops.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree_transform::{
    Tensor, associative_scan, cond, fori_loop, grad, jit, map, scan, switch, vmap, while_loop,
};

fn message(program: impl FnOnce() -> Tensor) -> String {
    let payload = catch_unwind(AssertUnwindSafe(program)).expect_err("a mistake");
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| {
            payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
        })
        .unwrap()
}

#[track_caller]
pub fn reports(program: impl FnOnce() -> Tensor, parts: &[&str]) {
    let message = message(program);
    println!("{message}\n");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

fn x() -> Tensor {
    Tensor::from([1.0_f64, 2.0])
}

#[test]
fn branch_mismatch_lists_all_differences() {
    reports(
        || {
            cond(
                &Tensor::from(true),
                |x: Tensor| (x.sum(), x.clone(), x),
                |x: Tensor| (x.clone(), x.convert(pytree_transform::DType::F32), x),
                x(),
            )
            .0
        },
        &[
            "for true differs",
            "at [0]: expected f64[2], found f64[]",
            "at [1]: expected f32[2], found f64[2]",
            ".convert",
        ],
    );
    reports(
        || {
            switch(
                &Tensor::from(0),
                &[&|x: Tensor| vec![x], &|x| vec![x.clone(), x]],
                x(),
            )
            .remove(0)
        },
        &["branch 1 differs from branch 0", "all branches must"],
    );
}

#[test]
fn wrong_predicates_and_indices_are_errors() {
    reports(
        || cond(&x(), |x| x, |x| x, x()),
        &["f64[2]", "bool without axes", ".greater(0.0)"],
    );
    reports(
        || switch(&Tensor::from(0.5_f32), &[&|x: Tensor| x], x()),
        &["f32[]", "an integer without axes"],
    );
    reports(
        || switch::<_, Tensor, _>(&Tensor::from(0), &[], x()),
        &["empty list of branches"],
    );
    reports(
        || while_loop(|x: &Tensor| x.less(3.0), |x| x, x()),
        &["cannot use a bool[2] as the condition", "bool without axes"],
    );
}

#[test]
fn carry_mismatch_lists_all_differences() {
    reports(
        || scan(|(c, d), x: Tensor| ((c * &x, d.sum()), x), (x(), x()), x()).1,
        &[
            "the function of scan",
            "at [1]: expected f64[2], found f64[]",
        ],
    );
    reports(
        || fori_loop(0, 3, |_, c: Tensor| c.sum(), x()),
        &[
            "the function of fori_loop",
            "the root: expected f64[2], found f64[]",
        ],
    );
    reports(
        || while_loop(|x: &Tensor| x.sum().less(3.0), |x| x.sum(), x()),
        &["the body of while_loop", "expected f64[2], found f64[]"],
    );
    reports(
        || associative_scan(|a: Tensor, b: Tensor| (a * b).sum(), x()),
        &[
            "combination of two elements",
            "expected f64[1], found f64[]",
        ],
    );
}

#[test]
fn mismatched_loop_inputs_are_errors() {
    reports(
        || {
            scan(
                |c: Tensor, (x, y): (Tensor, Tensor)| (c + x * y, ()),
                Tensor::from(0.0_f64),
                (x(), Tensor::from([1.0_f64])),
            )
            .0
        },
        &["2 elements", "[1] is f64[1]"],
    );
    reports(
        || map(|x: Tensor| x, Tensor::from(1.0_f64)),
        &["no axes", "axis 0"],
    );
    reports(
        || scan(|c: Tensor, (): ()| (c, ()), x(), ()).0,
        &["no leaves", "length"],
    );
}

#[test]
fn while_loop_reverse_mode_error_names_line() {
    let f = |x: &Tensor| while_loop(|x: &Tensor| x.less(9.0), |x| x * 2.0, x.clone());
    let line = format!("control/mistakes.rs:{}", line!() - 1);
    let x = Tensor::from(1.0_f64);
    reports(
        || grad(f)(&x),
        &[
            "reverse mode",
            "`fori_loop` with bounds that are numbers",
            &line,
        ],
    );
    reports(
        || grad(jit(move |x: Tensor| f(&x)))(&x),
        &["reverse mode", &line],
    );
    reports(|| jit(grad(f))(x.clone()), &["reverse mode", &line]);
}

#[test]
fn reading_traced_value_in_loop_names_loop() {
    reports(
        || {
            scan(
                |c: Tensor, x: Tensor| (if x.item::<f64>() > 0.0 { c } else { -c }, ()),
                Tensor::from(1.0_f64),
                x(),
            )
            .0
        },
        &["inside scan", "`cond`", "`while_loop`", "`select`"],
    );
    reports(
        || jit(|x: Tensor| if x.item::<f64>() > 0.0 { x } else { -x })(Tensor::from(1.0_f64)),
        &["inside jit", "`cond`"],
    );
    reports(
        || vmap(|x: Tensor| if x.item::<f64>() > 0.0 { x } else { -x })(x()),
        &["inside vmap", "`cond`", "`while_loop`"],
    );
}
