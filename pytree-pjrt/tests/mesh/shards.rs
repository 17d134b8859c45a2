//! The parts of tensors on a mesh, which are read and written one at a time.

use std::ops::Range;

use pytree_transform::device::{Device, PartitionSpec, device_put};
use pytree_transform::{AbstractArray, DType, Tensor, TensorError, ix, spmd};

use crate::mesh::{mesh, numbers, panic_of};

#[test]
fn shards_have_index_replica_and_elements() {
    let Some(mesh) = mesh([("data", 2), ("model", 2)]) else {
        return;
    };
    let whole = numbers(&[4, 6]);
    let x = device_put(&whole, mesh.divided((None, "model")));
    assert_eq!(x.sharding().unwrap().spec(), (None, "model").into());
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
    assert_eq!(y.sharding().unwrap().spec(), "data".into());
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
    let Some(client) = crate::mesh::client() else {
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
    let x = mesh.tensor_from_callback(whole.info(), "data", |index| {
        asked.push(index.to_vec());
        whole.index(ix![index[0].clone(), index[1].clone()])
    });
    assert_eq!(asked, [[0..2, 0..6], [2..4, 0..6]]);
    assert_eq!(x.sharding().unwrap().spec(), "data".into());
    assert_eq!(device_put(&x, Device::HOST), whole);
    // All devices get a tensor that nothing divides.
    let replicated = device_put(&whole, mesh.divided(()));
    assert_eq!(replicated.shards()[3].read(), whole);
    assert_eq!(replicated.sharding(), device_put(&whole, &mesh).sharding());
    // This process holds all parts, so its data is the whole tensor.
    let data = mesh.tensor_from_process_data(&whole, ("data", None));
    assert_eq!(data.sharding(), x.sharding());
    assert_eq!(device_put(&data, Device::HOST), whole);
    // Another sharding of the same mesh.
    let moved = device_put(&x, mesh.divided(("model", "data")));
    assert_eq!(moved.shards()[1].index(), [2..4, 0..3]);
    assert_eq!(device_put(&moved, Device::HOST), whole);
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let Some(mesh) = mesh([("data", 2), ("model", 2)]) else {
        return;
    };
    let x = numbers(&[4, 3]);
    let made = |spec: PartitionSpec| {
        panic_of(|| mesh.tensor_from_callback(x.info(), spec, |_| unreachable!()))
    };
    assert_eq!(
        made("modle".into()),
        "cannot make f32[4,3] on cpu mesh (data: 2, model: 2): the spec (\"modle\",) names the axis `modle`, but the mesh has the axes (data: 2, model: 2) (did you mean `model`?); name axes of the mesh"
    );
    assert_eq!(
        made(("data", "data").into()),
        "cannot make f32[4,3] on cpu mesh (data: 2, model: 2): the spec (\"data\", \"data\") names the axis `data` of the mesh twice; axis 1 of the tensor (f32[4,3]) has length 3, which is not a multiple of the 2 devices of `data`; name each axis of the mesh once in a spec, because it divides only one axis of a tensor; pad the axis, or write `None` for it"
    );
    assert_eq!(
        made((None, None, "model").into()),
        "cannot make f32[4,3] on cpu mesh (data: 2, model: 2): the spec (None, None, \"model\") has 3 members, but the tensor (f32[4,3]) has 2 axes; write at most one member for each axis of the tensor"
    );
    let found = panic_of(|| mesh.tensor_from_process_data(&x, ("data", "model")));
    assert_eq!(
        found,
        "cannot use f32[4,3] as the part of this process on cpu mesh (data: 2, model: 2): axis 1 of the data has length 3, which is not a multiple of the 2 parts of this process along `model`; pass data of another length"
    );
    let found = panic_of(|| mesh.tensor_from_process_data(&x, (None, None, "time")));
    assert_eq!(
        found,
        "cannot use f32[4,3] as the part of this process on cpu mesh (data: 2, model: 2): the spec (None, None, \"time\") names the axis `time`, but the mesh has the axes (data: 2, model: 2); the spec (None, None, \"time\") has 3 members, but the data (f32[4,3]) has 2 axes; name axes of the mesh; write at most one member for each axis of the tensor"
    );
    let template = device_put(&numbers(&[4, 6]), mesh.divided((None, "model")));
    assert_eq!(
        panic_of(|| x.put_like(&template)),
        "cannot put f32[4,3] where f32[4,6] is on cpu mesh (data: 2, model: 2): axis 1 of the tensor (f32[4,3]) has length 3, which is not a multiple of the 2 devices of `model`; put it on one device, or divide another axis"
    );
    let found = panic_of(|| mesh.tensor_from_callback(x.info(), "data", |_| x.clone()));
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
    let whole = AbstractArray::new(DType::F32, [4]);
    let found = mesh.try_tensor_from_callback(&whole, "data", |index| match index[0].start {
        0 => Ok(Tensor::from([1.0_f32, 2.0])),
        start => Err(Failure::Missing(start)),
    });
    assert_eq!(found.unwrap_err(), Failure::Missing(2));
    let found = mesh.try_tensor_from_callback(&whole, "data", |_| Ok::<_, Failure>(numbers(&[3])));
    assert!(matches!(found.unwrap_err(), Failure::Tensor(text) if text.contains("a part f32[3]")));
}
