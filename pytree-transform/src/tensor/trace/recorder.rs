//! The functions of the library, such as `jit` and `scan`, that record functions of the user.

use std::fmt;

use pytree_core::level::LevelKind;

/// A function of the library that records a function of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorder {
    Jit,
    Fused,
    Spmd,
    MakeJaxpr,
    EvalShape,
    Linearize,
    Cond,
    Switch,
    Scan,
    ForiLoop,
    Map,
    WhileLoop,
    CustomJvp,
    CustomVjp,
    Remat,
}

impl Recorder {
    /// Returns the name of this function of the library in messages and jaxprs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Jit => "jit",
            Self::Fused => "fused",
            Self::Spmd => "spmd",
            Self::MakeJaxpr => "make_jaxpr",
            Self::EvalShape => "eval_shape",
            Self::Linearize => "linearize",
            Self::Cond => "cond",
            Self::Switch => "switch",
            Self::Scan => "scan",
            Self::ForiLoop => "fori_loop",
            Self::Map => "map",
            Self::WhileLoop => "while_loop",
            Self::CustomJvp => "custom_jvp",
            Self::CustomVjp => "custom_vjp",
            Self::Remat => "remat",
        }
    }

    /// Returns the kind of the trace level that records the user's function. The kind `Recording` means that the
    /// function is recorded for later calls. Such a recording must not contain the current values of references.
    pub(super) fn level_kind(self) -> LevelKind {
        match self {
            Self::Jit => LevelKind::Compiling,
            Self::Spmd | Self::MakeJaxpr => LevelKind::Recording,
            Self::Fused
            | Self::EvalShape
            | Self::Linearize
            | Self::Cond
            | Self::Switch
            | Self::Scan
            | Self::ForiLoop
            | Self::Map
            | Self::WhileLoop
            | Self::CustomJvp
            | Self::CustomVjp
            | Self::Remat => LevelKind::Running,
        }
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
