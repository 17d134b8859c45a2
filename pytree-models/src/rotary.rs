//! The rotary embedding of a configuration.

use pytree_nn::RotaryScaling;

use crate::folder::Folder;

/// Reads the base and the scaling: `rope_theta` and `rope_scaling`, or both in `rope_parameters` of newer files.
pub(crate) fn rotary(folder: &mut Folder) -> (f64, RotaryScaling) {
    let base = folder.number_or("rope_theta", 10_000.0);
    let sections = ["rope_scaling", "rope_parameters"];
    let Some(section) = sections.into_iter().find(|section| folder.has(section)) else {
        return (base, RotaryScaling::None);
    };
    folder.check_section(section, "rope");
    let key = |name: &str| format!("{section}.{name}");
    let base = folder.number_or(&key("rope_theta"), base);
    let kinds = [key("rope_type"), key("type")];
    let kind = kinds.iter().find(|kind| folder.has(kind));
    let name = kind.map_or("default", |kind| folder.text(kind));
    let scaling = match name {
        "default" => RotaryScaling::None,
        "linear" => RotaryScaling::Linear {
            factor: folder.number(&key("factor")),
        },
        "llama3" => RotaryScaling::Llama3 {
            factor: folder.number(&key("factor")),
            low_turns: folder.number(&key("low_freq_factor")),
            high_turns: folder.number(&key("high_freq_factor")),
            length: length(folder, &key("original_max_position_embeddings")),
        },
        "yarn" => {
            let factor = folder.number(&key("factor"));
            let growth = |scale: f64| (0.1 * scale * factor.ln()).max(0.0) + 1.0;
            let scales = ["mscale", "mscale_all_dim"].map(&key);
            let magnitude = if scales.iter().all(|scale| folder.has(scale)) {
                growth(folder.number(&scales[0])) / growth(folder.number(&scales[1]))
            } else {
                growth(1.0)
            };
            RotaryScaling::Yarn {
                factor,
                low_turns: folder.number_or(&key("beta_slow"), 1.0),
                high_turns: folder.number_or(&key("beta_fast"), 32.0),
                length: length(folder, &key("original_max_position_embeddings")),
                magnitude: folder.number_or(&key("attention_factor"), magnitude),
            }
        }
        _ => {
            folder.refuse(&kinds[0], "\"default\", \"linear\", \"llama3\" or \"yarn\"");
            RotaryScaling::None
        }
    };
    for [low, high] in [
        ["beta_slow", "beta_fast"],
        ["low_freq_factor", "high_freq_factor"],
    ] {
        if folder.number_or(&key(low), 1.0) >= folder.number_or(&key(high), 32.0) {
            for name in [low, high] {
                folder.refuse(&key(name), &format!("{low} below {high}"));
            }
        }
    }
    (base, scaling)
}

/// Returns the length of the sequences of the first training.
fn length(folder: &mut Folder, key: &str) -> f64 {
    if folder.has(key) {
        folder.number(key)
    } else {
        folder.number("max_position_embeddings")
    }
}
