//! Collectives in branches and loops: all devices must take part.

use pytree_transform::{
    DType, Tensor, axis_index, cond, grad, jit, pmax, psum, scan, spmd, switch, vmap, while_loop,
};

use crate::spmd::{host, panic_of};

/// Calls `f` with numbers that are divided among the devices of `data`.
fn divided(f: impl Fn(Tensor) -> Tensor + Send + Sync) -> Tensor {
    let f = spmd(f).over(&host(["data"])).in_axes("data", 0);
    f(Tensor::arange(DType::F32, 4))
}

fn branches(predicate: &Tensor, x: Tensor) -> Tensor {
    cond(
        predicate,
        |x: Tensor| psum(&x.sum(), "data"),
        |x: Tensor| pmax(&x.sum(), "data"),
        x,
    )
}

#[test]
fn branches_of_devices_that_differ_are_refused() {
    let message = panic_of(|| divided(|x| branches(&x.sum().greater(1.0), x)));
    let here = "tests/spmd/agreement.rs:";
    let expected = [
        "cannot run `pmax` at ",
        " in a branch of the `cond` at ",
        ": the predicate may differ between the devices of `data`, so some of them would not take part in the `pmax`; make the predicate equal on all devices, for instance with `pmax(&x, \"data\")`, or call `pmax` outside",
    ];
    for part in expected {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(message.matches(here).count(), 2, "{message}");

    let of_index = panic_of(|| divided(|x| branches(&axis_index("data").equal(0), x)));
    assert!(of_index.contains("the predicate may differ"), "{of_index}");

    let of_switch = panic_of(|| {
        divided(|x| {
            let index = x.sum().convert(DType::I32);
            let branch = |x: Tensor| psum(&x.sum(), "data");
            switch(&index, &[&branch, &branch, &branch], x)
        })
    });
    let expected = "in a branch of the `switch` at ";
    assert!(of_switch.contains(expected), "{of_switch}");
    assert!(of_switch.contains("the index may differ"), "{of_switch}");
}

#[test]
fn branches_inside_of_other_functions_are_refused() {
    let in_scan = panic_of(|| {
        divided(|x| {
            let step = |sum: Tensor, x: Tensor| {
                let sum = branches(&sum.greater(1.0), sum);
                (&sum + &x, sum)
            };
            let (sum, _) = scan(step, Tensor::from(0.0_f32), x);
            psum(&sum, "data")
        })
    });
    assert!(in_scan.contains("the predicate may differ"), "{in_scan}");

    let inner = jit(|x: Tensor| branches(&x.sum().greater(1.0), x));
    // The function was batched for a `vmap` before, where all examples run both branches.
    vmap(&inner).axis_name("data")(Tensor::ones(DType::F32, [1, 2]));
    let in_jit = panic_of(|| divided(|x| inner(x) * 1.0));
    assert!(in_jit.contains("the predicate may differ"), "{in_jit}");

    let in_gradient =
        panic_of(|| divided(|x| grad(|x: &Tensor| branches(&x.sum().greater(1.0), x.clone()))(&x)));
    assert!(
        in_gradient.contains("the predicate may differ"),
        "{in_gradient}"
    );
}

#[test]
fn branches_that_agree_run() {
    let found = divided(|x| branches(&pmax(&x.sum().greater(1.0), "data"), x));
    assert_eq!(found.item::<f32>(), 6.0);
    // The branches exchange nothing: the position of a device is known.
    let found = divided(|x| {
        let number = cond(
            &x.sum().greater(1.0),
            |x: Tensor| x.sum() + axis_index("data").convert(DType::F32),
            |x: Tensor| x.sum() * 2.0,
            x,
        );
        psum(&number, "data")
    });
    assert_eq!(found.item::<f32>(), 6.0);
}

/// A predicate that differs along one axis chooses a collective over the other axis.
#[test]
fn only_the_axis_of_the_collective_counts() {
    let mesh = host(["data", "model"]);
    let run = |over: &'static str| {
        let f = spmd(move |(x, y): (Tensor, Tensor)| {
            let sum = |x: Tensor| psum(&x.sum(), over);
            let sum = cond(&y.sum().greater(1.0), sum, |x: Tensor| x.sum(), x);
            psum(&sum, ("data", "model"))
        });
        let f = f.over(&mesh).in_axes("data", (0, None));
        let f = f.in_axes("model", (None, 0));
        f((Tensor::ones(DType::F32, [3]), Tensor::ones(DType::F32, [3])))
    };
    assert_eq!(run("data").item::<f32>(), 3.0);
    let message = panic_of(|| run("model"));
    assert!(
        message.contains("differ between the devices of `model`"),
        "{message}"
    );
    // The order of the axes of the mesh does not matter.
    let both = |mesh: [&str; 2]| {
        panic_of(|| {
            let f = spmd(|x: Tensor| psum(&branches(&x.sum().greater(1.0), x), "model"));
            let f = f.over(&host(mesh)).in_axes("data", 0).in_axes("model", 1);
            f(Tensor::ones(DType::F32, [3, 3]))
        })
    };
    for mesh in [["data", "model"], ["model", "data"]] {
        let message = both(mesh);
        assert!(
            message.contains("differ between the devices of `data`"),
            "{message}"
        );
    }
}

#[test]
fn loops_of_devices_that_differ_are_refused() {
    let in_body = panic_of(|| {
        divided(|x| {
            let body = |x: Tensor| psum(&x, "data") + 1.0;
            while_loop(|x: &Tensor| x.less(20.0), body, x.sum())
        })
    });
    let expected = [
        "cannot run `psum` at ",
        " in the `while_loop` at ",
        ": the condition may differ between the devices of `data`, so some of them would not take part in the `psum`; make the condition equal on all devices, for instance with `pmax(&x, \"data\")`, or call `psum` outside",
    ];
    for part in expected {
        assert!(in_body.contains(part), "{in_body}");
    }
    // The first iteration is the same on all devices, and the later ones differ.
    let later = panic_of(|| {
        divided(|x| {
            let body = |(n, x): (Tensor, Tensor)| (psum(&n, "data") + x.sum(), x);
            let (n, _) = while_loop(
                |(n, _): &(Tensor, Tensor)| n.less(20.0),
                body,
                (Tensor::from(0.0_f32), x),
            );
            n
        })
    });
    assert!(later.contains("the condition may differ"), "{later}");
    // The condition agrees, because it is a maximum over the devices.
    let found = divided(|x| {
        let goes_on = |x: &Tensor| pmax(&x.less(20.0), "data");
        let last = while_loop(goes_on, |x: Tensor| x + 5.0, x.sum());
        psum(&last, "data")
    });
    assert_eq!(found.item::<f32>(), 21.0);
}

/// JAX does the same: an example gets the results of its own branch, in which all examples take part.
#[test]
fn a_vmap_runs_all_branches() {
    let f = |x: Tensor| {
        cond(
            &x.greater(1.0),
            |x: Tensor| psum(&x, "data"),
            |x: Tensor| psum(&x, "data") * 10.0,
            x,
        )
    };
    let found = vmap(f).axis_name("data")(Tensor::from([1.0_f32, 2.0]));
    assert_eq!(found.to_vec::<f32>(), [30.0, 3.0]);
}
