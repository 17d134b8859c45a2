//! The parts of tensors on a mesh, which are read and written one at a time.

use std::ops::Range;

use pytree_transform::device::{Device, device_put};
use pytree_transform::{AbstractArray, DType, Tensor, TensorError, ix, spmd};

use crate::{mesh, numbers, panic_of};

#[test]
fn shards_have_index_replica_and_elements() {
    let Some(mesh) = mesh([("data", 2), ("model", 2)]) else {
        return;
    };
    let whole = numbers(&[4, 6]);
    let columns = mesh.sharding([("model", 1)]);
    let x = mesh.put(&whole, &columns);
    assert_eq!(x.sharding(), Some(&columns));
    let shards = x.shards();
    let found: Vec<_> = shards
        .iter()
        .map(|shard| (shard.device(), shard.index()[1].clone(), shard.replica()))
        .collect();
    assert_eq!(
        found,
        [(0, 0..3, 0), (1, 3..6, 0), (2, 0..3, 1), (3, 3..6, 1)]
    );
    for shard in &shards {
        let columns = shard.index()[1].clone();
        assert_eq!(shard.read(), whole.index(ix![.., columns]));
    }
    // The results of programs have shards, too.
    let f = spmd(|x: Tensor| x * 2.0)
        .over(&mesh)
        .in_axes("data", 0)
        .out_axes("data", 0);
    let y = f(x.clone());
    assert_eq!(y.sharding(), Some(&mesh.sharding([("data", 0)])));
    let second = y.shards().pop().unwrap();
    assert_eq!((second.index(), second.replica()), (&[2..4, 0..6][..], 1));
    assert_eq!(second.read(), whole.index(ix![2..4]) * 2.0);
}

#[test]
fn tensors_elsewhere_have_one_shard() {
    let x = numbers(&[2, 3]);
    assert_eq!(x.sharding(), None);
    let [shard] = &x.shards()[..] else {
        panic!("one shard")
    };
    assert_eq!((shard.index(), shard.replica()), (&[0..2, 0..3][..], 0));
    assert_eq!(shard.read(), x);
    let Some(client) = crate::client() else {
        return;
    };
    let on_device = device_put(&x, client);
    assert_eq!(on_device.sharding(), None);
    let [shard] = &on_device.shards()[..] else {
        panic!("one shard")
    };
    assert_eq!(shard.read(), x);
}

/// A callback is called once for each different part, and the elements never are in one place.
#[test]
fn tensor_is_made_from_parts() {
    let Some(mesh) = mesh([("data", 2), ("model", 2)]) else {
        return;
    };
    let whole = numbers(&[4, 6]);
    let mut asked: Vec<Vec<Range<usize>>> = Vec::new();
    let rows = mesh.sharding([("data", 0)]);
    let x = mesh.tensor_from_callback(whole.info(), &rows, |index| {
        asked.push(index.to_vec());
        whole.index(ix![index[0].clone(), index[1].clone()])
    });
    assert_eq!(asked, [[0..2, 0..6], [2..4, 0..6]]);
    assert_eq!(x.sharding(), Some(&rows));
    assert_eq!(device_put(&x, Device::HOST), whole);
    // All devices get a tensor that nothing divides.
    let replicated = mesh.put(&whole, &mesh.sharding::<&str>([]));
    assert_eq!(replicated.shards()[3].read(), whole);
    assert_eq!(replicated.sharding(), device_put(&whole, &mesh).sharding());
    // This process holds all parts, so its data is the whole tensor.
    let data = mesh.tensor_from_process_data(&whole, &rows);
    assert_eq!(data.sharding(), Some(&rows));
    assert_eq!(device_put(&data, Device::HOST), whole);
    // Another sharding of the same mesh.
    let moved = mesh.put(&x, &mesh.sharding([("data", 1), ("model", 0)]));
    assert_eq!(moved.shards()[1].index(), [2..4, 0..3]);
    assert_eq!(device_put(&moved, Device::HOST), whole);
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let Some(mesh) = mesh([("data", 2), ("model", 2)]) else {
        return;
    };
    let x = numbers(&[4, 3]);
    let found = panic_of(|| mesh.sharding([("time", 0)]));
    let expected = "cannot divide a tensor among the mesh (data: 2, model: 2): it has no axis `time`; name an axis of the mesh";
    assert_eq!(found, expected);
    assert!(panic_of(|| mesh.sharding([("data", 0), ("data", 1)])).contains("is given twice"));
    let found = panic_of(|| mesh.put(&x, &mesh.sharding([("model", 1)])));
    assert!(
        found.contains(
            "axis 1 of f32[4,3] has length 3, which is not a multiple of the 2 devices of `model`"
        ),
        "{found}"
    );
    let found = panic_of(|| mesh.put(&x, &mesh.sharding([("model", 2)])));
    assert!(
        found.contains("`model` divides axis 2, which f32[4,3] has not"),
        "{found}"
    );
    let Some(other) = crate::mesh([("data", 4)]) else {
        return;
    };
    let found = panic_of(|| other.put(&x, &mesh.sharding([("data", 0)])));
    assert!(
        found.contains("belongs to a mesh with other axes"),
        "{found}"
    );
    let rows = mesh.sharding([("data", 0)]);
    let found = panic_of(|| mesh.tensor_from_callback(x.info(), &rows, |_| x.clone()));
    let expected = "cannot use as a part f32[4,3]: the part [0..2, 0..3] of f32[4,3] is f32[2,3]; return the elements of the given ranges";
    assert!(found.ends_with(expected), "{found}");
}

/// The error of a callback is returned as it is.
#[test]
fn callback_error_is_returned() {
    #[derive(Debug, PartialEq)]
    enum Failure {
        Tensor(String),
        Missing(usize),
    }
    impl From<TensorError> for Failure {
        fn from(error: TensorError) -> Self {
            Self::Tensor(error.to_string())
        }
    }
    let Some(mesh) = mesh([("data", 2)]) else {
        return;
    };
    let rows = mesh.sharding([("data", 0)]);
    let whole = AbstractArray::new(DType::F32, [4]);
    let found = mesh.try_tensor_from_callback(&whole, &rows, |index| match index[0].start {
        0 => Ok(Tensor::from([1.0_f32, 2.0])),
        start => Err(Failure::Missing(start)),
    });
    assert_eq!(found.unwrap_err(), Failure::Missing(2));
    let found = mesh.try_tensor_from_callback(&whole, &rows, |_| Ok::<_, Failure>(numbers(&[3])));
    assert!(matches!(found.unwrap_err(), Failure::Tensor(text) if text.contains("a part f32[3]")));
}
