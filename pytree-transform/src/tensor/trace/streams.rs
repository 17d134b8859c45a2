//! Finds random streams that were created outside of a `vmap`. Such a stream is the same for all examples.

use pytree_core::level::{LevelId, with_levels};

use crate::tensor::handle::Tensor;
use crate::tensor::trace::interpreter::{Content, Interpreter};
use crate::tensor::trace::tracer::Payload;

/// Registers the key of a new stream with the innermost `vmap` of the user. The stream then counts as created inside of
/// this `vmap`: see [`is_same_for_all_examples`].
pub fn note_created_key(key: &Tensor) {
    with_levels(|levels| {
        let mut inward = levels.iter().rev().filter_map(Content::of);
        if let Some(created) = inward.find_map(|content| content.created_keys.as_ref()) {
            created.borrow_mut().push(key.clone());
        }
    });
}

/// Returns whether a stream was created outside of a `vmap` and is the same for all examples of the `vmap`. With such a
/// stream, all examples would draw the same random numbers. The arguments are the key and the count of the stream.
///
/// Inside of a recorded function, such as the body of a loop, it is not known where the stream was created. In this
/// case, the function returns false.
///
/// # Examples
/// ```
/// use pytree_transform::extend::{is_same_for_all_examples, note_created_key};
/// use pytree_transform::{Tensor, vmap};
/// let (outer, count) = (Tensor::from([0_u32, 1]), Tensor::from(0_u32));
/// let run = vmap(|x: Tensor| {
///     let inner = Tensor::from([0_u32, 2]);
///     note_created_key(&inner);
///     assert!(is_same_for_all_examples(&outer, &count));
///     assert!(!is_same_for_all_examples(&inner, &count));
///     x + 1.0
/// });
/// run(Tensor::from([1.0, 2.0]));
/// ```
pub fn is_same_for_all_examples(key: &Tensor, count: &Tensor) -> bool {
    with_levels(|levels| {
        for level in levels.iter().rev() {
            let Some(content) = Content::of(level) else {
                continue;
            };
            if matches!(content.interpreter, Interpreter::Stage(..)) {
                return false;
            }
            let Some(created) = &content.created_keys else {
                continue;
            };
            if created.borrow().iter().any(|known| known.same(key)) {
                return false;
            }
            if !is_batched(key, level.id()) && !is_batched(count, level.id()) {
                return true;
            }
        }
        false
    })
}

/// Returns whether a tensor has a separate value for each example of a level.
fn is_batched(tensor: &Tensor, level: LevelId) -> bool {
    let Some(tracer) = tensor.tracer() else {
        return false;
    };
    match &tracer.payload {
        Payload::Batch { value, .. } => tracer.place.id == level || is_batched(value, level),
        Payload::Jvp { primal, .. } => is_batched(primal, level),
        // It is not known whether a recorded value is batched.
        Payload::Tape(_) | Payload::Stage(..) => false,
    }
}
