//! Attributes of others, documentation among them, are passed over.

#![deny(missing_docs, warnings)]
#![allow(dead_code)]

use pytree_core::Module;

/// A module.
#[derive(Module, Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct Scale {
    /// What is trained.
    #[param]
    #[doc(alias = "gain")]
    #[cfg(all())]
    pub factor: f32,
    #[cfg(any())]
    pub absent: Missing,
}

/// A layer.
#[derive(Module, Default)]
pub enum Layer {
    /// Changes nothing.
    #[default]
    Identity,
    /// Multiplies.
    #[deprecated(note = "for the test")]
    Scale(#[param] f32),
}

fn main() {}
