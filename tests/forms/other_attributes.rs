//! Attributes of other macros and documentation are ignored.

#![deny(missing_docs, warnings)]
#![allow(
    dead_code,
    clippy::non_minimal_cfg,
    reason = "what the other attributes say is all that this file is for"
)]

use pytree_core::{FieldKind, Module, ModuleType};

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

#[test]
fn attributes_of_others_are_passed_over() {
    assert_eq!(Scale::REGISTRY, [("factor", FieldKind::Param)]);
}
