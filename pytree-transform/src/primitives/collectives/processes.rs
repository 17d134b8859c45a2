//! The evaluation of collectives over axes of a mesh of processes.
//!
//! A sum gathers the operands of all processes along a new first axis, and sums over this axis as `vmap` does. So the
//! result has the same bits in all processes, and the same bits as a `vmap` over the same examples. From
//! [`DIVIDED`] bytes on, each process sums one part of the elements and gathers the sums of the other parts. Each
//! element is still added in the order of the ranks, so the bits are the same.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use pytree_base::bug::{bug, expect_next};
use pytree_kernels::base::array::Array;
use pytree_kernels::base::bits::with_bits;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::AxisList;
use smallvec::smallvec;

use crate::base::axis_names::AxisName;
use crate::primitives::reduce;
use crate::primitives::shape::Transpose;
use crate::tensor::device::processes::{CollectiveCall, Communicator, Doing, communicator};
use crate::tensor::evaluation;
use crate::tensor::primitive::Primitive;

/// The number of bytes from which more than two processes divide the work of a reduction. Each process then receives
/// about twice the bytes of the operand, and not the operands of all processes.
const DIVIDED: usize = 32 << 10;

/// Returns the communicator of an axis of processes.
fn of_axis(primitive: &dyn Primitive, name: &AxisName) -> Rc<dyn Communicator> {
    match communicator(name) {
        Some((_, communicator)) => communicator,
        None => unbound(primitive),
    }
}

/// Returns the position of this process along an axis.
pub(super) fn position(primitive: &dyn Primitive, name: &AxisName) -> Array {
    let rank = i32::try_from(of_axis(primitive, name).rank());
    match rank {
        Ok(rank) => Array::new([], vec![rank]),
        Err(_) => bug("a rank that i32 holds"),
    }
}

/// Reduces the operands of all processes of the named axes, the innermost axis first. `over_first` reduces axis 0 of an
/// array.
pub(super) fn reduced(
    primitive: &dyn Primitive,
    operand: Arc<Array>,
    names: &[AxisName],
    over_first: &dyn Primitive,
) -> Array {
    let mut axes: Vec<_> = names
        .iter()
        .map(|name| communicator(name).unwrap_or_else(|| unbound(primitive)))
        .collect();
    axes.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
    let mut operand = operand;
    for (_, communicator) in axes {
        if communicator.size() == 1 {
            // The sum and the maximum of one example are this example.
            continue;
        }
        operand = Arc::new(reduced_over(
            primitive,
            &operand,
            &*communicator,
            over_first,
        ));
    }
    Arc::unwrap_or_clone(operand)
}

fn reduced_over(
    primitive: &dyn Primitive,
    operand: &Array,
    communicator: &dyn Communicator,
    over_first: &dyn Primitive,
) -> Array {
    let is_long = operand.info.len() * operand.dtype().bytes() >= DIVIDED;
    if communicator.size() > 2 && is_long && operand.dtype() != DType::Bool {
        return reduced_in_parts(primitive, operand, communicator, over_first);
    }
    let call = CollectiveCall::new(Doing::Collective(primitive, &operand.info));
    let all = gathered_first(&call, operand, communicator);
    evaluated(over_first, all)
}

/// Reduces like [`reduced_over`], but each process reduces only one part of the elements.
fn reduced_in_parts(
    primitive: &dyn Primitive,
    operand: &Array,
    communicator: &dyn Communicator,
    over_first: &dyn Primitive,
) -> Array {
    let (size, dtype) = (communicator.size(), operand.dtype());
    let call = CollectiveCall::new(Doing::Collective(primitive, &operand.info));
    let part = operand.info.len().div_ceil(size);
    let parts = AbstractArray::new(dtype, [size, part]);
    let mut sent = bytes(operand).into_owned();
    sent.resize(parts.len() * dtype.bytes(), 0);
    let of_all = received(&parts, |received| {
        communicator.all_to_all(&call, &sent, received);
    });
    let own = evaluated(over_first, of_all);
    let all = received(&AbstractArray::new(dtype, [size * part]), |all| {
        communicator.all_gather(&call, &bytes(&own), all);
    });
    let all = Arc::new(all);
    with_bits!(dtype, T => {
        let mut bits = Array::into_bits::<T>(all);
        bits.truncate(operand.info.len());
        Array::from_bits(dtype, operand.shape(), bits)
    })
}

/// Gathers the operands of all processes along a new axis at position `axis`.
pub(super) fn gathered(
    primitive: &dyn Primitive,
    operand: &Array,
    name: &AxisName,
    axis: usize,
) -> Array {
    let call = CollectiveCall::new(Doing::Collective(primitive, &operand.info));
    stacked(&call, &*of_axis(primitive, name), operand, axis)
}

/// Gathers the arrays of all processes along a new axis at position `axis`.
pub(crate) fn stacked(
    call: &CollectiveCall<'_>,
    communicator: &dyn Communicator,
    operand: &Array,
    axis: usize,
) -> Array {
    with_axis_moved(gathered_first(call, operand, communicator), 0, axis)
}

fn gathered_first(
    call: &CollectiveCall<'_>,
    operand: &Array,
    communicator: &dyn Communicator,
) -> Array {
    let mut info = operand.info.clone();
    info.shape.insert(0, communicator.size());
    received(&info, |all| {
        communicator.all_gather(call, &bytes(operand), all);
    })
}

/// Sends the operand from the first process of each pair to the second.
pub(super) fn permuted(
    primitive: &dyn Primitive,
    operand: &Array,
    name: &AxisName,
    pairs: &[(usize, usize)],
) -> Array {
    let communicator = of_axis(primitive, name);
    let rank = communicator.rank();
    let call = CollectiveCall::new(Doing::Collective(primitive, &operand.info));
    let mut pairs = pairs.iter().copied();
    let destination = pairs
        .clone()
        .find_map(|(from, to)| (from == rank).then_some(to));
    let source = pairs.find_map(|(from, to)| (to == rank).then_some(from));
    received(&operand.info, |received| {
        communicator.permute(&call, &bytes(operand), destination, source, received);
    })
}

/// Sends slice `i` along the split axis to process `i`, and stacks the received slices along a new axis at position
/// `concat_axis`.
pub(super) fn exchanged(
    primitive: &dyn Primitive,
    operand: &Array,
    name: &AxisName,
    split_axis: usize,
    concat_axis: usize,
) -> Array {
    let stacked = slices_of_all(primitive, operand.clone(), name, split_axis);
    with_axis_moved(stacked, 0, concat_axis)
}

/// Sums the operands of all processes, of which process `i` keeps slice `i` along an axis.
pub(super) fn scattered(
    primitive: &dyn Primitive,
    operand: Arc<Array>,
    name: &AxisName,
    axis: usize,
) -> Array {
    let slices = slices_of_all(primitive, Arc::unwrap_or_clone(operand), name, axis);
    evaluated(
        &reduce::Sum {
            axes: smallvec![0],
            dtype: None,
        },
        slices,
    )
}

/// Sends slice `i` along an axis to process `i`, and stacks the received slices along axis 0.
fn slices_of_all(primitive: &dyn Primitive, operand: Array, name: &AxisName, axis: usize) -> Array {
    let info = operand.info.clone();
    let call = CollectiveCall::new(Doing::Collective(primitive, &info));
    let communicator = of_axis(primitive, name);
    let sent = with_axis_moved(operand, axis, 0);
    received(&sent.info, |received| {
        communicator.all_to_all(&call, &bytes(&sent), received);
    })
}

/// Returns an array with the axis `from` moved to position `to`.
fn with_axis_moved(array: Array, from: usize, to: usize) -> Array {
    if from == to {
        return array;
    }
    let mut permutation: AxisList = (0..array.info.rank()).collect();
    let axis = permutation.remove(from);
    permutation.insert(to, axis);
    evaluated(&Transpose { permutation }, array)
}

fn evaluated(primitive: &dyn Primitive, operand: Array) -> Array {
    let results = evaluation::evaluate(primitive, smallvec![Arc::new(operand)]);
    expect_next(&mut results.into_iter(), "the result of an operation")
}

/// Returns the elements of an array as bytes. A bool is a byte of 0 or 1.
fn bytes(array: &Array) -> Cow<'_, [u8]> {
    match array.dtype() {
        DType::Bool => Cow::Owned(array.bits::<bool>().iter().map(|&bit| bit.into()).collect()),
        dtype => match dtype.bytes() {
            1 => Cow::Borrowed(array.bits::<u8>()),
            2 => Cow::Borrowed(bytemuck::cast_slice(array.bits::<u16>())),
            4 => Cow::Borrowed(bytemuck::cast_slice(array.bits::<u32>())),
            _ => Cow::Borrowed(bytemuck::cast_slice(array.bits::<u64>())),
        },
    }
}

/// Returns an array whose elements `receive` writes as bytes. The bytes are zeros before.
fn received(info: &AbstractArray, receive: impl FnOnce(&mut [u8])) -> Array {
    let mut array = Array::zeros(info);
    match info.dtype {
        DType::Bool => {
            let mut bytes = vec![0; info.len()];
            receive(&mut bytes);
            let bits: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
            return Array::from_bits(info.dtype, &info.shape, bits);
        }
        dtype => match dtype.bytes() {
            1 => receive(array.bits_mut::<u8>()),
            2 => receive(bytemuck::cast_slice_mut(array.bits_mut::<u16>())),
            4 => receive(bytemuck::cast_slice_mut(array.bits_mut::<u32>())),
            _ => receive(bytemuck::cast_slice_mut(array.bits_mut::<u64>())),
        },
    }
    array
}

/// Panics because a collective is evaluated, although its axis is not an axis of a mesh of processes.
fn unbound(primitive: &dyn Primitive) -> ! {
    bug(format_args!(
        "`{}` to be evaluated only on a mesh of processes, and otherwise handled by the trace level of its axis",
        primitive.name()
    ))
}
