//! The functions of the library, such as `jit` and `scan`, that record functions of the user.

use std::fmt;

use pytree_core::level::LevelKind;

pytree_base::named! {
    /// A function of the library that records a function of the user.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Recorder {
        Jit = "jit",
        Fused = "fused",
        Spmd = "spmd",
        MakeJaxpr = "make_jaxpr",
        EvalShape = "eval_shape",
        Linearize = "linearize",
        Cond = "cond",
        Switch = "switch",
        Scan = "scan",
        ForiLoop = "fori_loop",
        Map = "map",
        WhileLoop = "while_loop",
        CustomJvp = "custom_jvp",
        CustomVjp = "custom_vjp",
        Remat = "remat",
    }

    /// Returns the name of this function of the library in messages and jaxprs.
    pub(crate) fn name;
}

impl Recorder {
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
