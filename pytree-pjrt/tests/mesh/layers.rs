//! Layers with random numbers and with statistics of the batch, on several devices.

use pytree_nn::{BatchNorm, Dropout, RngStream, Rngs, with_rngs};
use pytree_transform::device::{Device, device_put};
use pytree_transform::{DType, Tensor, axis_index, spmd};

use crate::mesh::{assert_near, mesh, numbers, panic_of};

#[test]
fn dropout_draws_its_own_mask_on_each_device() {
    let Some(mesh) = mesh([("data", 4)]) else {
        return;
    };
    let run = |own: fn(&mut Dropout) -> Dropout| {
        let f = spmd(move |(mut dropout, x): (Dropout, Tensor)| {
            let y = own(&mut dropout).forward(&x);
            (dropout, y)
        });
        let f = f.over(&mesh).in_axes("data", (None, 0));
        let f = f.out_axes("data", (None, 0));
        let dropout = Dropout::new(0.5, &mut Rngs::new(0));
        let (dropout, y) = f((dropout, Tensor::ones(DType::F32, [4, 64])));
        let y = device_put(&y, Device::HOST);
        let rows = (0..4).map(|row| y.index([row.into()]).to_vec::<f32>());
        (
            dropout.stream().count().item::<u32>(),
            rows.collect::<Vec<_>>(),
        )
    };
    let (count, rows) = run(|dropout| {
        with_rngs(dropout, |stream| {
            let key = stream.next_key().fold_in(axis_index("data"));
            RngStream::new(stream.tag(), key)
        })
    });
    assert_eq!(count, 1);
    for (position, row) in rows.iter().enumerate() {
        assert!(!rows[..position].contains(row), "device {position}");
    }
    // Without the position of the device, all devices have the same mask.
    let (_, rows) = run(|dropout| {
        with_rngs(dropout, |stream| {
            let key = stream.next_key();
            RngStream::new(stream.tag(), key)
        })
    });
    assert!(rows.iter().all(|row| *row == rows[0]));
}

#[test]
fn batch_norm_with_the_name_of_the_axis_equals_that_of_the_whole_batch() {
    let Some(mesh) = mesh([("data", 4)]) else {
        return;
    };
    let run = |norm: BatchNorm, x: Tensor| {
        let f = spmd(|(mut norm, x): (BatchNorm, Tensor)| {
            let y = norm.forward(&x);
            (norm, y)
        });
        let f = f.over(&mesh).in_axes("data", (None, 0));
        f.out_axes("data", (None, 0))((norm, x))
    };
    let x = numbers(&[8, 3]);
    let mut norm = BatchNorm::new(3, &mut Rngs::new(0));
    let message = panic_of(|| run(norm.clone(), x.clone()));
    assert!(
        message.contains("[0].mean (f32[3]) differs between the devices of `data`"),
        "{message}"
    );
    let fix = "; give the layer of these statistics the name of the axis, as in `norm.axis_name = Some(\"data\".into())`, or return the same value on all devices, such as a mean by `pmean`, or set the axis with `.out_axes(\"data\", …)` (spmd at ";
    assert!(message.contains(fix), "{message}");
    let mut whole = norm.clone();
    let expected = whole.forward(&x);
    norm.axis_name = Some("data".into());
    let (found, y) = run(norm, x);
    assert_near(&y, &expected, 1e-5);
    assert_near(&found.mean, &whole.mean, 1e-6);
    assert_near(&found.variance, &whole.variance, 1e-6);
}
