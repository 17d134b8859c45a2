//! Memory for results and scratch. If the system refuses it, the operation that needs it returns an error.

use faer::dyn_stack::{MemBuffer, StackReq};
use pytree_transform::{AbstractArray, DType, TensorError};

#[cold]
fn refused(bytes: usize) -> ! {
    let found = AbstractArray::new(DType::U8, [bytes]);
    let operation = "allocate";
    TensorError::TooLarge { operation, found }.raise()
}

fn reserved<T>(length: usize) -> Vec<T> {
    let mut memory = Vec::new();
    if memory.try_reserve_exact(length).is_err() {
        refused(length * size_of::<T>());
    }
    memory
}

pub(crate) fn filled<T: Copy>(element: T, length: usize) -> Vec<T> {
    let mut memory = reserved(length);
    memory.resize(length, element);
    memory
}

pub(crate) fn copied<T: Copy>(elements: &[T]) -> Vec<T> {
    let mut memory = reserved(elements.len());
    memory.extend_from_slice(elements);
    memory
}

/// Returns memory for faer.
pub(crate) fn buffer(request: StackReq) -> MemBuffer {
    MemBuffer::try_new(request).unwrap_or_else(|_| refused(request.size_bytes()))
}
