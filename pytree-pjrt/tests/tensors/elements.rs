//! Tensors of all dtypes and shapes on a device.

use pytree_transform::device::{Device, device_put, with_device};
use pytree_transform::{DType, Tensor, jit};

use crate::tensors::device;

#[test]
fn all_dtypes_come_back() {
    let Some(device) = device() else { return };
    for &dtype in DType::ALL {
        for shape in [&[2, 3][..], &[1], &[], &[0], &[2, 0, 3], &[70_000]] {
            let count = shape.iter().product();
            let host = Tensor::arange(DType::I32, count)
                .convert(dtype)
                .reshape(shape);
            let there = device_put(&host, &device);
            assert_eq!(
                (there.device(), there.dtype(), there.shape()),
                (&device, dtype, shape)
            );
            assert_eq!(device_put(&there, Device::HOST), host);
            let mut repeats = vec![1; shape.len() + 1];
            repeats[0] = 2;
            let repeated = host.expand_dims(0).tile(&repeats);
            // The elements of a result are not those that were put.
            let twice = jit(move |x: Tensor| x.expand_dims(0).tile(&repeats))(there);
            assert_eq!(twice, repeated, "{dtype}{shape:?}");
        }
    }
}

#[test]
fn extreme_elements_come_back() {
    let Some(device) = device() else { return };
    let floats = [f64::NAN, f64::INFINITY, -0.0, f64::MIN_POSITIVE, f64::MAX];
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let host = Tensor::from(floats).convert(dtype);
        let found = device_put(&device_put(&host, &device), Device::HOST);
        let bits = |x: &Tensor| -> Vec<u64> {
            x.convert(DType::F64)
                .to_vec::<f64>()
                .into_iter()
                .map(f64::to_bits)
                .collect()
        };
        assert_eq!(bits(&found), bits(&host), "{dtype}");
    }
    let host = Tensor::from([i64::MIN, i64::MAX]);
    assert_eq!(device_put(&device_put(&host, &device), Device::HOST), host);
}

#[test]
fn empty_tensors_are_computed_with() {
    let Some(device) = device() else { return };
    let x = device_put(&Tensor::zeros(DType::F32, [0, 3]), &device);
    let y = device_put(&Tensor::ones(DType::F32, [3, 2]), &device);
    let f = jit(|(x, y): (Tensor, Tensor)| (x.matmul(&y), x.sum(), x.transpose([1, 0]).matmul(&x)));
    let (product, sum, square) = f((x.clone(), y));
    assert_eq!((product.shape(), product.device()), (&[0, 2][..], &device));
    assert_eq!(sum.item::<f32>(), 0.0);
    assert_eq!(square.to_vec::<f32>(), [0.0; 9]);
    assert!((&x * 2.0 + &x).to_vec::<f32>().is_empty());
}

#[test]
fn operations_run_where_operands_are() {
    let Some(device) = device() else { return };
    let host = Tensor::from([1.0_f32, 2.0, 3.0]);
    let x = device_put(&host, &device);
    let y = (&x * 0.5 + &host).sum();
    assert_eq!((y.device(), y.item::<f32>()), (&device, 9.0));
    let z = with_device(&device, || Tensor::full(DType::I32, [2], 7.0) + 1);
    assert_eq!((z.device(), z.to_vec::<i32>()), (&device, vec![8, 8]));
    let of_bools = x.greater(Tensor::from(1.5_f32));
    assert_eq!(of_bools.to_vec::<bool>(), [false, true, true]);
    assert_eq!(format!("{x}"), format!("{host}"));
    let narrow = device_put(&Tensor::from([200_u8, 100]), &device) + Tensor::from(100_u8);
    assert_eq!(narrow.to_vec::<u8>(), [44, 200]);
}

/// A large number hides a small one if a sum is rounded before the next operation.
#[test]
fn half_floats_round_after_each_operation() {
    let Some(device) = device() else { return };
    for dtype in [DType::BF16, DType::F16] {
        let of = |numbers: [f64; 4]| Tensor::from(numbers).convert(dtype);
        let (x, y) = (of([1.0, 3.0, 100.0, 0.1]), of([1e-4, 1.7, 0.3, 0.7]));
        let chain = jit(|(x, y): (Tensor, Tensor)| {
            let sum = (&x + &y) - &x;
            // Not a sum of a product: a processor with instructions for f16 may round both at once.
            let root = ((&x * &y).sqrt() * 1.1).maximum(&y);
            let narrow = x.convert(DType::F32).sin().convert(x.dtype());
            (sum, root, narrow.convert(DType::F32))
        });
        let expected = chain((x.clone(), y.clone()));
        assert_eq!(expected.0.convert(DType::F64).to_vec::<f64>()[0], 0.0);
        let found = chain.on(&device)((x, y));
        assert_eq!(found.0, expected.0, "{dtype}");
        assert_eq!(found.1, expected.1, "{dtype}");
        assert_eq!(found.2, expected.2, "{dtype}");
    }
}
