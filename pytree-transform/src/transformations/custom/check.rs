//! Checks the results of custom rules, and records the functions that have rules.

use pytree_core::{TreeDef, graph};

use crate::base::dtype::AbstractArray;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stage::stage;
use crate::tensor::trace::Recorder;
use crate::tensor::traceable::Traceable;
use crate::transformations::control::mismatch::{differences, fix};
use crate::transformations::function::call_reading;

/// The structure of a value, and the dtypes and shapes of its leaves.
pub(crate) struct Form {
    pub(crate) treedef: TreeDef,
    pub(crate) infos: Vec<AbstractArray>,
}

impl Form {
    pub(crate) fn of(treedef: TreeDef, leaves: &[Tensor]) -> Self {
        let infos = leaves.iter().map(|leaf| leaf.info().clone()).collect();
        Self { treedef, infos }
    }

    pub(crate) fn is_float(&self) -> Vec<bool> {
        self.infos
            .iter()
            .map(|info| info.dtype.is_float())
            .collect()
    }

    /// Returns a message that begins with `what` and lists how `other` differs from this form, or `None` if the two are
    /// equal.
    pub(crate) fn mistake(&self, what: &str, other: &Self) -> Option<String> {
        let expected = (&self.treedef, self.infos.as_slice());
        let found = differences(expected, (&other.treedef, &other.infos));
        (!found.is_empty()).then(|| format!("{what}: {}; {}", found.join("; "), fix(&found)))
    }
}

/// A recorded function, the tensors it captured, and the form of its result.
pub(crate) struct Recorded {
    pub(crate) jaxpr: Jaxpr,
    pub(crate) captured: Vec<Tensor>,
    pub(crate) result: Form,
}

/// Records a function of a pytree.
pub(crate) fn record<A: Traceable, R: Traceable>(
    recorder: Recorder,
    argument: &Form,
    function: impl FnOnce(&A) -> R,
) -> Recorded {
    let (jaxpr, captured, result) = stage(recorder, &argument.infos, |tensors| {
        let result = call_reading(
            recorder.name(),
            &argument.treedef,
            tensors,
            |argument: A| function(&argument),
        );
        let (leaves, treedef) = graph::flatten::<Tensor, R>(&result);
        let form = Form::of(treedef, &leaves);
        (leaves, form)
    });
    Recorded {
        jaxpr,
        captured,
        result,
    }
}
