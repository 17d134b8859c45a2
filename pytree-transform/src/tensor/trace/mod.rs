//! Traces. A trace level is the place of a transformation on the stack, and its interpreter is the way in which the
//! transformation interprets operations.
//!
//! Each transformation in progress on this thread is a level of the stack in `pytree_core::level`. The level holds the
//! interpreter of the transformation. An operation is interpreted by the innermost level to which an operand belongs: a
//! rule of the primitive turns the operation into operations of lower levels. A guard removes the level from the stack,
//! even after a panic, so the thread stays usable. The identifier of a level is never reused, so a traced tensor that
//! outlives its level is recognised.
//!
//! An operation over a named batch axis is interpreted by the innermost level that binds the name, even if no operand
//! is batched at this level. Levels above this level interpret the operation first.

mod batch_axes;
mod bind;
mod conditions;
mod interpreter;
mod levels;
mod lines;
mod recorder;
mod stand_ins;
mod streams;
mod tracer;

pub(crate) use self::batch_axes::{axis_length, bound_length};
pub(crate) use self::bind::{alone, bind, bind_one, bind_repeating, check_creation, overwriting};
pub(crate) use self::conditions::{suspended, under};
pub(crate) use self::interpreter::Interpreter;
pub(crate) use self::levels::{Trace, is_staging, is_transforming, recording_all};
pub(crate) use self::lines::{
    at_line, at_line_by_default, at_own_lines, current_line, in_rule, known_line,
};
pub(crate) use self::recorder::Recorder;
pub(crate) use self::stand_ins::{Captured, standing_in};
pub use self::streams::{is_same_for_all_examples, note_created_key};
pub(crate) use self::tracer::{Payload, Tracer, mapped_axes, on_tape};
