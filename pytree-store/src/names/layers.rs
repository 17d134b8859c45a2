//! How other libraries call the leaves of the layers of this library, and how they order the axes of these leaves.

use crate::names::arrangement::{Heads, Order};

/// Which library's names the leaves of layers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Own,
    PyTorch,
    Flax,
}

/// The order of the axes of weights in a file.
///
/// The order concerns all leaves with at least two axes, except for tables of embeddings, which have the same order in
/// all libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightLayout {
    /// `[out, in]` and `[out, in, kernel…]`: the linear layers and the convolutions of PyTorch.
    OutputsFirst,
    /// `[in, out]` and `[kernel…, in, out]`, as in this library: the layers of Flax, and `Conv1D` of GPT-2.
    OutputsLast,
}

/// The name and the axes of a leaf in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafStyle {
    /// The name of the leaf in the file. `None` if the file has the name of the field.
    pub(crate) name: Option<&'static str>,
    /// The name of a second leaf in the file, if the leaf of the model is the sum of both.
    pub(crate) added: Option<&'static str>,
    pub(crate) heads: Heads,
    pub(crate) order: Order,
}

impl LeafStyle {
    const OWN: Self = Self {
        name: None,
        added: None,
        heads: Heads::Separate,
        order: Order::Same,
    };

    /// Returns the style of the field `field` of a module with the type name `module`. A layer is recognised by both
    /// names. `layout` is the layout that the user chose, if any.
    pub(crate) fn of(
        style: Style,
        module: Option<&str>,
        field: &str,
        layout: Option<WeightLayout>,
    ) -> Self {
        let module = module.unwrap_or_default();
        let mut found = match style {
            Style::Own => Self::OWN,
            Style::PyTorch => of_pytorch(module, field),
            Style::Flax => of_flax(module, field),
        };
        match layout {
            Some(WeightLayout::OutputsLast) => found.order = Order::Same,
            Some(WeightLayout::OutputsFirst) if found.order == Order::Same => {
                found.order = Order::OutputsFirst;
            }
            _ => {}
        }
        found
    }
}

fn of_pytorch(module: &str, field: &str) -> LeafStyle {
    let mut found = LeafStyle::OWN;
    match (module, field) {
        ("HeadProjection", "weight" | "bias") => found.heads = Heads::Last,
        ("OutputProjection", "weight") => found.heads = Heads::First,
        ("Embed" | "LearnedPositions", "embedding") => found.name = Some("weight"),
        ("BatchNorm" | "LayerNorm" | "GroupNorm" | "InstanceNorm" | "RmsNorm", "scale") => {
            found.name = Some("weight");
        }
        ("PRelu", "negative_slope") => {
            found.name = Some("weight");
            found.heads = Heads::Single;
        }
        ("LstmCell" | "SimpleCell", "input") => found.name = Some("weight_ih"),
        ("LstmCell" | "SimpleCell", "recurrent") => found.name = Some("weight_hh"),
        ("LstmCell" | "SimpleCell", "bias") => {
            found.name = Some("bias_ih");
            found.added = Some("bias_hh");
        }
        ("BatchNorm", "mean") => found.name = Some("running_mean"),
        ("BatchNorm", "variance") => found.name = Some("running_var"),
        _ => {}
    }
    found.order = match (module, field) {
        ("Linear" | "Conv" | "HeadProjection" | "OutputProjection", "weight")
        | ("LstmCell" | "SimpleCell", "input" | "recurrent") => Order::OutputsFirst,
        ("ConvTranspose", "weight") => Order::InputsFirst,
        _ => Order::Same,
    };
    found
}

fn of_flax(module: &str, field: &str) -> LeafStyle {
    let mut found = LeafStyle::OWN;
    found.name = match (module, field) {
        (
            "Linear" | "LinearGeneral" | "Conv" | "ConvTranspose" | "Einsum" | "HeadProjection"
            | "OutputProjection",
            "weight",
        ) => Some("kernel"),
        ("BatchNorm", "variance") => Some("var"),
        _ => None,
    };
    found
}

/// Returns the epsilon that a normalisation has by default in a library.
pub(crate) fn default_epsilon(style: Style, module: &str) -> Option<f64> {
    Some(match (style, module) {
        (Style::PyTorch, "BatchNorm" | "LayerNorm" | "GroupNorm" | "InstanceNorm")
        | (Style::Flax, "BatchNorm") => 1e-5,
        // `torch.nn.RMSNorm` adds the precision of the dtype.
        (Style::PyTorch, "RmsNorm") => f64::from(f32::EPSILON),
        (Style::Flax, "LayerNorm" | "GroupNorm" | "InstanceNorm" | "RmsNorm") => 1e-6,
        _ => return None,
    })
}
