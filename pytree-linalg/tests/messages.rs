//! Calls every function with arguments that it refuses. The message must name the called function, not an operation that the
//! function is composed of.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree_linalg::{self as linalg, Triangular};
use pytree_transform::{DType, Tensor};

fn integers() -> Tensor {
    Tensor::from([1, 2])
}

fn two() -> Tensor {
    Tensor::from([1.0, 2.0])
}

fn three() -> Tensor {
    Tensor::from([1.0, 2.0, 3.0])
}

/// A function, a call that it refuses, and the function's description in the message.
struct Call {
    name: &'static str,
    call: Box<dyn Fn()>,
    named: String,
}

fn calls() -> Vec<Call> {
    macro_rules! calls {
        ($($name:ident($($argument:expr),*);)*) => {
            vec![$(Call {
                name: stringify!($name),
                call: Box::new(move || drop(linalg::$name($($argument),*))),
                named: format!("cannot apply `linalg::{}` to ", stringify!($name)),
            }),*]
        };
    }
    let square = || Tensor::ones(DType::F64, [2, 2]);
    let half = || Tensor::ones(DType::BF16, [2, 2]);
    let wide = || Tensor::ones(DType::F64, [2, 3]);
    let whole = || Tensor::ones(DType::I32, [2, 2]);
    calls! {
        cholesky(&wide()); cholesky(&two()); cholesky(&half()); cholesky(&whole());
        qr(&two()); qr(&half()); qr(&whole());
        eigh(&wide()); eigh(&two()); eigh(&half()); svd(&two()); svd(&whole());
        det(&wide()); det(&half()); det(&Tensor::from(1.0)); slogdet(&wide()); slogdet(&whole());
        inv(&wide()); inv(&half()); inv(&two());
        solve(&square(), &three()); solve(&wide(), &two()); solve(&square(), &integers()); solve(&square(), &Tensor::from(1.0));
        solve(&Tensor::ones(DType::F64, [2, 2, 2]), &Tensor::ones(DType::F64, [3, 2, 2])); solve(&half(), &half());
        cho_solve(&square(), &three()); cho_solve(&whole(), &whole());
        triangular_solve(&square(), &three(), Triangular::lower());
        triangular_solve(&square(), &two(), Triangular::upper().right_side());
        triangular_solve(&square(), &Tensor::ones(DType::F64, [2, 3]), Triangular::upper().right_side());
        lstsq(&two(), &two(), None); lstsq(&wide(), &three(), None); lstsq(&whole(), &integers(), None);
        lstsq(&Tensor::ones(DType::F64, [2, 2, 2]), &two(), None);
    }
}

#[test]
fn messages_name_the_called_function() {
    let calls = calls();
    let mut problems = Vec::new();
    for Call { name, call, named } in &calls {
        let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else {
            problems.push(format!("{name} refused nothing"));
            continue;
        };
        let message = payload
            .downcast_ref::<String>()
            .cloned()
            .unwrap_or_default();
        if !message.contains(named.as_str()) {
            problems.push(format!("{name}: {message}"));
        }
    }
    assert!(
        problems.is_empty(),
        "{} are misnamed:\n{}",
        problems.len(),
        problems.join("\n")
    );
}
