//! The names and layouts that other libraries give to the leaves of a model: one mapping for loading and for saving.

use std::fmt;

use crate::names::arrangement::Arrangement;
use crate::names::layers::{LeafStyle, Style, WeightLayout, default_epsilon};
use crate::names::pattern::Pattern;
use crate::report::mismatch::Mismatch;

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
/// | `negative_slope` of `PRelu` | `weight`, `[1]` | `negative_slope` |
/// | `input`, `recurrent` of `LstmCell` and `SimpleCell` | `weight_ih`, `weight_hh`, `[out, in]` | `input`, `recurrent` |
/// | `bias` of `LstmCell` and `SimpleCell` | `bias_ih` + `bias_hh` | `bias` |
///
/// The type must be that of this library: a struct of yours with the name `Linear` keeps its names and layouts. (A structure
/// that was read from bytes has only the names of its types.) `GRUCell` of PyTorch has a second bias inside of its reset gate,
/// which `GruCell` lacks, so its files do not load.
///
/// No file contains the epsilon of a normalisation, and its default differs between libraries: 1e-5 in PyTorch, 1e-6 in Flax
/// and here (1e-5 for `BatchNorm`). Another epsilon changes the results. So [`LoadReport::epsilons`](crate::checkpoint::LoadReport) lists the
/// normalisations of the model whose epsilon is the default of this library, if the library that wrote the file has another.
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
/// use pytree_store::checkpoint::{WeightLayout, WeightNames};
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
    /// Pairs of paths of the file with the same tensors.
    tied: Vec<(Pattern, Pattern)>,
    ignored: Vec<Pattern>,
}

/// A rule that gives a path of the file to one or several paths of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    file: Pattern,
    /// Other paths of the file, whose tensors are added.
    added: Vec<Pattern>,
    /// One path, or the paths of the layers that are one tensor in the file, in the order of the parts.
    models: Vec<Pattern>,
}

/// Where the file has a leaf of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The name in the file.
    pub(crate) file: String,
    /// The names in the file of the tensors that are added to it. A saved file has zeros there.
    pub(crate) added: Vec<String>,
    /// The position of the leaf among the parts of a tensor of the file, and the number of parts. `(0, 1)` if the leaf is the whole tensor.
    pub(crate) part: (usize, usize),
    pub(crate) arrangement: Arrangement,
}

impl WeightNames {
    fn of(style: Style) -> Self {
        Self {
            style,
            separator: ".".to_owned(),
            rules: Vec::new(),
            layouts: Vec::new(),
            tied: Vec::new(),
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
    pub(crate) fn library(&self) -> Option<String> {
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

    /// Gives several paths below `file` in the file to paths below `model` in the model, as [`rename`](Self::rename) does for one.
    ///
    /// # Examples
    /// ```
    /// use pytree_store::checkpoint::WeightNames;
    /// let parts = [("ln_1", "attention_norm"), ("ln_2", "mlp_norm")];
    /// let names = WeightNames::pytorch().rename_in("h.{i}", "blocks[{i}]", parts);
    /// # let _ = names;
    /// ```
    ///
    /// # Panics
    /// In the same cases as [`rename`](Self::rename).
    #[must_use]
    #[track_caller]
    pub fn rename_in<'n>(
        mut self,
        file: &str,
        model: &str,
        parts: impl IntoIterator<Item = (&'n str, &'n str)>,
    ) -> Self {
        for (stored, part) in parts {
            self = self.rename(format!("{file}.{stored}"), format!("{model}.{part}"));
        }
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

    /// Adds the tensors at and below several paths `files` in the file, which together are those of `model`. An example are the
    /// two biases of an LSTM of PyTorch. A saved file has the sum in the first, and zeros in the others.
    ///
    /// # Examples
    /// `LstmCell` has the names of `torch.nn.LSTMCell`. These are the names of `torch.nn.LSTM`:
    /// ```
    /// use pytree_store::checkpoint::WeightNames;
    /// let names = WeightNames::pytorch()
    ///     .rename("lstm.weight_ih_l{k}", "cells[{k}].input")
    ///     .rename("lstm.weight_hh_l{k}", "cells[{k}].recurrent")
    ///     .sum(["lstm.bias_ih_l{k}", "lstm.bias_hh_l{k}"], "cells[{k}].bias");
    /// # let _ = names;
    /// ```
    ///
    /// # Panics
    /// If a pattern is invalid, if `files` is empty, or if one of `files` and `model` have different placeholders.
    #[must_use]
    #[track_caller]
    pub fn sum<S: AsRef<str>>(mut self, files: impl IntoIterator<Item = S>, model: &str) -> Self {
        let mut sum: Option<Rule> = None;
        for file in files {
            let own = rule("sum", file.as_ref(), vec![model.to_owned()]);
            match &mut sum {
                Some(sum) => sum.added.push(own.file),
                None => sum = Some(own),
            }
        }
        match sum {
            Some(sum) => self.rules.push(sum),
            None => refused(
                "sum",
                &format!("there are no paths in the file for `{model}`"),
            ),
        }
        self
    }

    /// Declares that the tensors below two paths of the file are the same, such as the table of tokens and the last layer of a
    /// language model. The file may have both or one of them, and the leaves of either are loaded. If it has both, they are
    /// compared, and [`LoadReport::tied`](crate::checkpoint::LoadReport) lists them.
    ///
    /// # Examples
    /// ```
    /// use pytree_store::checkpoint::WeightNames;
    /// let names = WeightNames::pytorch().rename("wte", "tokens").tied("wte", "lm_head");
    /// # let _ = names;
    /// ```
    ///
    /// # Panics
    /// If a pattern is invalid, or if the two have different placeholders.
    #[must_use]
    #[track_caller]
    pub fn tied(mut self, first: &str, second: &str) -> Self {
        let pair = rule("tie", first, vec![second.to_owned()]);
        self.tied.extend(
            pair.models
                .into_iter()
                .map(|second| (pair.file.clone(), second)),
        );
        self
    }

    /// Returns the first name of a tensor that has two, or `None` if a name is not the second of a tied pair.
    pub(crate) fn first_name(&self, file: &str) -> Option<String> {
        self.tied.iter().find_map(|(first, second)| {
            let (captures, rest) = second.matched(file)?;
            Some(first.filled(&captures)? + rest)
        })
    }

    /// Returns the epsilons that a normalisation has by default: here, and in the library that wrote the file.
    pub(crate) fn default_epsilons(&self, module: &str) -> Option<[f64; 2]> {
        // The defaults here are those of Flax.
        let defaults = [Style::Flax, self.style].map(|style| default_epsilon(style, module));
        Some([defaults[0]?, defaults[1]?])
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
    pub(crate) fn ignores(&self, file: &str) -> bool {
        let is_counter = self.style == Style::PyTorch
            && file.rsplit(self.separator.as_str()).next() == Some("num_batches_tracked");
        is_counter
            || self
                .ignored
                .iter()
                .any(|pattern| pattern.matched(file).is_some())
    }

    /// Returns the rules that match none of the paths.
    pub(crate) fn unused(&self, paths: &[String]) -> Vec<Mismatch> {
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
    pub(crate) fn place(&self, path: &str, module: Option<&str>, shape: &[usize]) -> Place {
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
                // If the rule matches the layer or a node above it, the leaf has the name of its style.
                let within = (!rest.is_empty()).then(|| {
                    let within = layer.get(path.len() - rest.len()..);
                    self.written(within.unwrap_or_default())
                });
                let named = |pattern: &Pattern, name: &str| {
                    let mut file = pattern.filled(&captures)?;
                    for part in within.iter().flat_map(|within| [within.as_str(), name]) {
                        if !part.is_empty() {
                            file.push_str(&self.separator);
                            file.push_str(part);
                        }
                    }
                    Some(file)
                };
                let of_rule = rule.added.iter().map(|pattern| named(pattern, &name));
                let of_style = style.added.filter(|_| within.is_some());
                let of_style = of_style.into_iter().map(|added| named(&rule.file, added));
                let added: Option<Vec<String>> = of_rule.chain(of_style).collect();
                let (Some(file), Some(added)) = (named(&rule.file, &name), added) else {
                    continue;
                };
                return Place {
                    file,
                    added,
                    part: (position, rule.models.len()),
                    arrangement,
                };
            }
        }
        let layer = self.written(layer);
        let named = |name: &str| match &*layer {
            "" => name.to_owned(),
            layer => format!("{layer}{}{name}", self.separator),
        };
        Place {
            file: named(&name),
            added: style.added.into_iter().map(named).collect(),
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
        added: Vec::new(),
        models: patterns,
    }
}
