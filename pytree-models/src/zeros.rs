//! Options of layers that begin with zeros, for models whose values a file replaces.

use pytree_nn::{EmbedOptions, Initializer, LinearOptions};

/// Returns the options of linear layers.
pub fn linear(has_bias: bool) -> LinearOptions {
    LinearOptions {
        weight_init: Initializer::Zeros,
        bias_init: has_bias.then_some(Initializer::Zeros),
        ..LinearOptions::default()
    }
}

/// Returns the options of tables.
pub fn table() -> EmbedOptions {
    EmbedOptions {
        embedding_init: Initializer::Zeros,
        ..EmbedOptions::default()
    }
}
