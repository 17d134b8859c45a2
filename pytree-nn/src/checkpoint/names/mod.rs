//! The names and layouts that other libraries give to the leaves of a model: one mapping for loading and for saving.

mod arrangement;
mod layers;
mod pattern;

use std::fmt;

use crate::checkpoint::Mismatch;

use self::layers::LeafStyle;
use self::pattern::Pattern;

pub(super) use self::arrangement::Arrangement;

/// Which library's names the leaves of layers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
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

/// The names and layouts of a model's leaves in the files of another library.
///
/// The same mapping serves [`LoadOptions::names`](crate::checkpoint::LoadOptions::names) and
/// [`SaveOptions::names`](crate::checkpoint::SaveOptions::names). [`pytorch`](Self::pytorch) and
/// [`flax`](Self::flax) know the layers of this library by the names of their types and fields:
///
/// | leaf | PyTorch | Flax |
/// |---|---|---|
/// | `weight` of `Linear` | `weight`, `[out, in]` | `kernel` |
/// | `weight` of `Conv` | `weight`, `[out, in, kernel…]` | `kernel` |
/// | `weight` of `ConvTranspose` | `weight`, `[in, out, kernel…]`, reversed along the kernel | `kernel` |
/// | `weight` of the projections of `MultiHeadAttention` | `weight`, `[out, in]`, heads and their features in one axis | `kernel` |
/// | `embedding` of `Embed` and `LearnedPositions` | `weight` | `embedding` |
/// | `scale` of normalisations | `weight` | `scale` |
/// | `mean`, `variance` of `BatchNorm` | `running_mean`, `running_var` | `mean`, `var` |
///
/// Other leaves keep their names and layouts. A path such as `layers[0].weight` is written `layers.0.weight`. The counter
/// `num_batches_tracked` of PyTorch is ignored.
///
/// The methods below change the names of paths. Their patterns have placeholders: `{i}` matches one step of a path or a
/// part of a step, for instance `3` in `h.3.attn` or in `blocks[3]`. In the name for the file, `{i+1}` and `{2*i}`
/// compute numbers. A pattern also matches every path that begins with it, so `"h.{i}"` renames all layers of a block.
/// The first rule that matches decides.
///
/// # Examples
/// The names of GPT-2, in a model of this library:
/// ```
/// use pytree_nn::checkpoint::{WeightLayout, WeightNames};
/// let gpt2 = WeightNames::pytorch()
///     .rename("wte", "tokens")
///     .rename("wpe", "positions")
///     .rename("h.{i}.ln_1", "blocks[{i}].attention_norm")
///     .split("h.{i}.attn.c_attn", ["query", "key", "value"].map(|part| format!("blocks[{{i}}].attention.{part}")))
///     .rename("h.{i}.attn.c_proj", "blocks[{i}].attention.out")
///     .rename("h.{i}.ln_2", "blocks[{i}].mlp_norm")
///     .rename("h.{i}.mlp.c_fc", "blocks[{i}].mlp.layers[0]")
///     .rename("h.{i}.mlp.c_proj", "blocks[{i}].mlp.layers[1]")
///     .layout("blocks[{i}]", WeightLayout::OutputsLast) // `Conv1D` is not transposed
///     .rename("ln_f", "norm");
/// # let _ = gpt2;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightNames {
    style: Style,
    separator: String,
    rules: Vec<Rule>,
    layouts: Vec<(Pattern, WeightLayout)>,
    ignored: Vec<Pattern>,
}

/// A rule that gives a path of the file to one or several paths of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    file: Pattern,
    /// One path, or the paths of the layers that are one tensor in the file, in the order of the parts.
    models: Vec<Pattern>,
}

/// Where the file has a leaf of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The name in the file.
    pub(super) file: String,
    /// The position of the leaf among the parts of a tensor of the file, and the number of parts. `(0, 1)` if the leaf is the whole tensor.
    pub(super) part: (usize, usize),
    pub(super) arrangement: Arrangement,
}

impl WeightNames {
    fn of(style: Style) -> Self {
        Self {
            style,
            separator: ".".to_owned(),
            rules: Vec::new(),
            layouts: Vec::new(),
            ignored: Vec::new(),
        }
    }

    /// Creates names in which each leaf has the name of its field and its own layout, with dots between the steps:
    /// `layers.0.weight`.
    #[must_use]
    pub fn dotted() -> Self {
        Self::of(Style::Own)
    }

    /// Creates the names and layouts of PyTorch: see [`WeightNames`].
    #[must_use]
    pub fn pytorch() -> Self {
        Self::of(Style::PyTorch)
    }

    /// Creates the names of Flax, whose layouts are those of this library: see [`WeightNames`].
    #[must_use]
    pub fn flax() -> Self {
        Self::of(Style::Flax)
    }

    /// Returns whose layouts the file has, for messages.
    pub(super) fn library(&self) -> Option<String> {
        match self.style {
            Style::Own => None,
            Style::PyTorch => Some("PyTorch's".to_owned()),
            Style::Flax => Some("Flax's".to_owned()),
        }
    }

    /// Sets the text between the steps of a path in the file. The default is a dot. Files of Flax often have `/`.
    #[must_use]
    pub fn separator(mut self, separator: impl Into<String>) -> Self {
        self.separator = separator.into();
        self
    }

    /// Gives the path `file` in the file to the path `model` in the model. Either path may be a layer or a single leaf.
    ///
    /// # Panics
    /// If a pattern is invalid, or if `file` and `model` have different placeholders.
    #[must_use]
    #[track_caller]
    pub fn rename(mut self, file: impl AsRef<str>, model: impl Into<String>) -> Self {
        self.rules
            .push(rule("rename", file.as_ref(), vec![model.into()]));
        self
    }

    /// Divides each tensor below the path `file` among the layers `models`, along the axis of the outputs. An
    /// example is the projection to queries, keys and values in one. The parts have the lengths of the layers, in their order.
    ///
    /// # Panics
    /// If a pattern is invalid, or if `file` and one of `models` have different placeholders.
    #[must_use]
    #[track_caller]
    pub fn split<S: Into<String>>(
        mut self,
        file: impl AsRef<str>,
        models: impl IntoIterator<Item = S>,
    ) -> Self {
        let models = models.into_iter().map(Into::into).collect();
        self.rules.push(rule("split", file.as_ref(), models));
        self
    }

    /// Sets the layout of all weights at and below the path `model` in the model.
    ///
    /// # Panics
    /// If the pattern is invalid.
    #[must_use]
    #[track_caller]
    pub fn layout(mut self, model: impl AsRef<str>, layout: WeightLayout) -> Self {
        self.layouts
            .push((parsed("set the layout of", model.as_ref()), layout));
        self
    }

    /// Ignores the tensors of the file at and below the path `file`, for instance stored masks. Reports do not count
    /// these tensors as unused.
    ///
    /// # Panics
    /// If the pattern is invalid.
    #[must_use]
    #[track_caller]
    pub fn ignore(mut self, file: impl AsRef<str>) -> Self {
        self.ignored.push(parsed("ignore", file.as_ref()));
        self
    }

    /// Returns whether a tensor of the file is ignored.
    pub(super) fn ignores(&self, file: &str) -> bool {
        let is_counter = self.style == Style::PyTorch
            && file.rsplit(self.separator.as_str()).next() == Some("num_batches_tracked");
        is_counter
            || self
                .ignored
                .iter()
                .any(|pattern| pattern.matched(file).is_some())
    }

    /// Returns the rules that match none of the paths.
    pub(super) fn unused(&self, paths: &[String]) -> Vec<Mismatch> {
        let is_used = |rule: &&Rule| {
            let mut models = rule.models.iter();
            models.any(|model| paths.iter().any(|path| model.matched(path).is_some()))
        };
        let unused = self.rules.iter().filter(|rule| !is_used(rule));
        let unused = unused.map(|rule| {
            let models: Vec<String> = rule.models.iter().map(|m| format!("`{m}`")).collect();
            Mismatch::UnusedRule {
                file: rule.file.to_string(),
                model: models.join(", "),
            }
        });
        unused.collect()
    }

    /// Returns where the file has the leaf at `path`, which has the given shape. `module` is the type name of the module
    /// that the leaf is a field of.
    pub(super) fn place(&self, path: &str, module: Option<&str>, shape: &[usize]) -> Place {
        let (layer, field) = last_step(path);
        let matching = self
            .layouts
            .iter()
            .find(|(pattern, _)| pattern.matched(path).is_some());
        let is_table = field == "embedding";
        let layout = matching.map(|(_, layout)| *layout).filter(|_| !is_table);
        let style = LeafStyle::of(self.style, module, &field, layout);
        let arrangement = Arrangement::new(shape, style.heads, style.order);
        let name = style
            .name
            .map_or_else(|| self.written(&field), str::to_owned);
        for rule in &self.rules {
            for (position, model) in rule.models.iter().enumerate() {
                let Some((captures, rest)) = model.matched(path) else {
                    continue;
                };
                let Some(mut file) = rule.file.filled(&captures) else {
                    continue;
                };
                if !rest.is_empty() {
                    // The rule matches the layer or a node above it, so the leaf has the name of its style.
                    let within = layer.get(path.len() - rest.len()..).unwrap_or_default();
                    for part in [self.written(within), name] {
                        if !part.is_empty() {
                            file.push_str(&self.separator);
                            file.push_str(&part);
                        }
                    }
                }
                let part = (position, rule.models.len());
                return Place {
                    file,
                    part,
                    arrangement,
                };
            }
        }
        let layer = self.written(layer);
        let file = if layer.is_empty() {
            name
        } else {
            format!("{layer}{}{name}", self.separator)
        };
        Place {
            file,
            part: (0, 1),
            arrangement,
        }
    }

    /// Writes a part of a path of the model, such as `layers[0]`, as a part of a name in the file.
    fn written(&self, path: &str) -> String {
        let mut steps: Vec<String> = vec![String::new()];
        let mut characters = path.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '.' | '[' => {
                    steps.push(String::new());
                    characters.next_if_eq(&'\'');
                }
                '\'' if characters.peek() == Some(&']') => {}
                ']' => {}
                _ => steps
                    .last_mut()
                    .into_iter()
                    .for_each(|step| step.push(character)),
            }
        }
        steps.retain(|step| !step.is_empty());
        steps.join(&self.separator)
    }
}

/// Divides a path into the path of the layer and the last step: `layers[0].weight` into `layers[0]` and `weight`.
fn last_step(path: &str) -> (&str, String) {
    let at = match path.strip_suffix("']") {
        Some(inner) => inner.rfind("['").unwrap_or(0),
        None => path.rfind(['.', '[']).unwrap_or(0),
    };
    let (layer, step) = path.split_at(at);
    let step = step
        .trim_start_matches(['.', '[', '\''])
        .trim_end_matches([']', '\'']);
    (layer, step.to_owned())
}

#[track_caller]
fn parsed(action: &str, text: &str) -> Pattern {
    match Pattern::parse(text) {
        Ok(pattern) => pattern,
        Err(problem) => refused(action, &problem),
    }
}

#[track_caller]
fn refused(action: &str, problem: &dyn fmt::Display) -> ! {
    panic!("cannot {action} weights: {problem}")
}

#[track_caller]
fn rule(action: &str, file: &str, models: Vec<String>) -> Rule {
    let file = parsed(action, file);
    let mut patterns = Vec::with_capacity(models.len());
    for model in &models {
        let model = parsed(action, model);
        if model.computes() {
            refused(
                action,
                &format!(
                    "`{model}` computes a number in a placeholder, which only the name in the file may do: change `{file}` instead, for instance `h.{{i-1}}` and `b[{{i}}]` in place of `h.{{i}}` and `b[{{i+1}}]`"
                ),
            );
        }
        if model.placeholders() != file.placeholders() {
            refused(
                action,
                &format!(
                    "`{file}` and `{model}` have different placeholders: use each of them in both"
                ),
            );
        }
        patterns.push(model);
    }
    Rule {
        file,
        models: patterns,
    }
}
