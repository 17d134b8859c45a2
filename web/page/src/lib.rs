//! A page that trains a network on handwritten digits: what JavaScript calls.

mod digits;
mod lesson;
mod network;

pub use lesson::Lesson;

#[cfg(target_family = "wasm")]
mod javascript;
