//! The folder of a published model: `config.json` and weights in safetensors.
//!
//! A model is traced only after each size was compared with the length of the weights, and the number of its layers with that of the
//! tensors in their header. Its tensors are allocated only after their shapes were compared with those of the weights. So a damaged
//! configuration is an error, and never a large allocation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pytree_core::PytreeOf;
use pytree_io::checkpoint::{self, LoadOptions, LoadReport, WeightNames};
use pytree_nn::{Activation, Rngs, convert_floats};
use pytree_transform::{DType, Tensor};
use serde_json::{Map, Value};

use crate::error::{ConfigProblem, ModelError, shortened};
use crate::json::read_object;
use crate::settings;
use crate::weights::Weights;

/// The architectures that this crate has, and the types that load them.
const TYPES: [(&str, &str); 7] = [
    ("bert", "Bert"),
    ("gpt2", "Gpt2"),
    ("llama", "Llama"),
    ("mistral", "Llama"),
    ("qwen2", "Llama"),
    ("qwen3", "Llama"),
    ("resnet18", "ResNet18"),
];

/// Where a published model is, and in which dtype it is loaded: the argument of `from_pretrained`. A path is one, too.
///
/// # Examples
/// ```no_run
/// use pytree_models::{Gpt2, Pretrained};
/// use pytree_transform::DType;
/// let gpt2 = Gpt2::from_pretrained(Pretrained::new("models/gpt2").floats(DType::BF16))?;
/// assert_eq!(gpt2.tokens.embedding.dtype(), DType::BF16);
/// # Ok::<(), pytree_models::ModelError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pretrained {
    path: PathBuf,
    floats: DType,
}

impl Pretrained {
    /// Returns the model in a folder, whose floats are loaded as f32.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            path: folder.into(),
            floats: DType::F32,
        }
    }

    /// Sets the dtype of the floats. The numbers of a file are converted when they are read, as by
    /// [`convert_floats`](pytree_nn::convert_floats): statistics stay f32.
    ///
    /// # Panics
    /// If `dtype` is not a float.
    #[must_use]
    #[track_caller]
    #[doc(alias("transformers.PreTrainedModel.from_pretrained.dtype"))]
    pub fn floats(mut self, dtype: DType) -> Self {
        assert!(
            dtype.is_float(),
            "cannot load the floats of a model as {dtype}: expected a float dtype"
        );
        self.floats = dtype;
        self
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Pretrained {
    fn from(folder: &P) -> Self {
        Self::new(folder.as_ref())
    }
}

impl From<PathBuf> for Pretrained {
    fn from(folder: PathBuf) -> Self {
        Self::new(folder)
    }
}

impl From<String> for Pretrained {
    fn from(folder: String) -> Self {
        Self::new(folder)
    }
}

/// A folder of Hugging Face whose `config.json` was read.
///
/// A key of an object inside of the configuration has a dot: `rope_scaling.factor`.
///
/// For the architectures of this crate, each key is used, is known to change no number, or is refused unless it has the value that the
/// model has. A key that is missing has the original's default.
///
/// The methods that read a value return a placeholder if the value is missing or wrong. [`load`](Self::load) returns all such
/// problems as one error, before it builds a model.
///
/// # Examples
/// ```no_run
/// use pytree_io::checkpoint::WeightNames;
/// use pytree_models::{Folder, ModelError};
/// use pytree_nn::{Linear, Rngs};
///
/// fn head() -> Result<Linear, ModelError> {
///     let mut folder = Folder::open("models/head", &["linear"])?;
///     let [inputs, outputs] = ["inputs", "outputs"].map(|key| folder.size(key));
///     folder.check_width("inputs");
///     folder.load(WeightNames::pytorch(), str::to_owned, |rngs| Linear::new(inputs, outputs, rngs))
/// }
/// ```
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    floats: DType,
    config: Map<String, Value>,
    weights: Weights,
    /// The sizes that were read, by their keys.
    sizes: BTreeMap<String, usize>,
    problems: Vec<ConfigProblem>,
}

impl Folder {
    /// Reads `config.json`, and finds the weights. The configuration must have one of `architectures` as its `model_type`, or as
    /// its `architecture` in folders of timm.
    ///
    /// # Errors
    /// Returns [`ModelError::Io`] or [`ModelError::Json`] if `config.json` cannot be read, [`ModelError::Config`] if it is that of
    /// another architecture, and [`ModelError::Weights`] if there are no safetensors files.
    pub fn open(source: impl Into<Pretrained>, architectures: &[&str]) -> Result<Self, ModelError> {
        let Pretrained { path, floats } = source.into();
        let config = read_object(&path.join("config.json"))?;
        let keys = ["architecture", "model_type"];
        let key = keys[usize::from(!config.contains_key(keys[0]))];
        let found = config.get(key);
        let name = found.and_then(Value::as_str);
        if !name.is_some_and(|name| architectures.contains(&name)) {
            let right = TYPES.iter().find(|(known, _)| Some(*known) == name);
            let fix = right.map(|(_, right)| format!("; load it with `{right}::from_pretrained`"));
            let problem = ConfigProblem {
                key: key.to_owned(),
                expected: format!("\"{}\"", architectures.join("\" or \"")),
                found: found.map(|found| shortened(&found.to_string()) + &fix.unwrap_or_default()),
            };
            settings::refused(&path.join("config.json"), vec![problem])?;
        }
        let table = name.unwrap_or_default().to_owned();
        Self::of_table(&table, config, path, floats)
    }

    /// Reads `config.json` of the folder of a module, whose keys are those of a table.
    pub(crate) fn of_module(table: &str, path: PathBuf, floats: DType) -> Result<Self, ModelError> {
        let config = read_object(&path.join("config.json"))?;
        Self::of_table(table, config, path, floats)
    }

    fn of_table(
        table: &str,
        mut config: Map<String, Value>,
        path: PathBuf,
        floats: DType,
    ) -> Result<Self, ModelError> {
        Ok(Self {
            problems: settings::check(table, "", &mut config),
            weights: Weights::find(&path)?,
            path,
            floats,
            config,
            sizes: BTreeMap::new(),
        })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the dtype of the floats of the model.
    pub fn floats(&self) -> DType {
        self.floats
    }

    /// Returns whether the weights have a tensor of this name.
    pub fn has_weight(&self, name: &str) -> bool {
        self.weights.names.contains(name)
    }

    /// Checks the keys of an object inside of the configuration by a table.
    pub(crate) fn check_section(&mut self, section: &str, table: &str) {
        if let Some(Value::Object(object)) = self.config.get_mut(section) {
            let prefix = format!("{section}.");
            self.problems
                .extend(settings::check(table, &prefix, object));
        }
    }

    /// Returns the positive whole number of a key, which is the size of an axis, or a number of layers.
    pub fn size(&mut self, key: &str) -> usize {
        match self.optional_size(key) {
            Some(size) => self.bounded(key, size),
            None => self.missing(key, "a positive whole number", 1),
        }
    }

    /// Returns the positive whole number of a key, or `default` if the key is missing or null, for the size of an axis.
    pub fn size_or(&mut self, key: &str, default: usize) -> usize {
        let size = self.optional_size(key).unwrap_or(default);
        self.bounded(key, size)
    }

    /// Checks a size that is computed from others, such as the product of two, and returns it. An axis is no longer than the weights
    /// have bytes.
    pub fn bounded(&mut self, key: &str, size: usize) -> usize {
        let limit = self.weights.bytes;
        if u64::try_from(size).is_ok_and(|size| size <= limit) {
            self.sizes.insert(key.to_owned(), size);
            return size;
        }
        let expected = format!("at most {limit}, because the weights have so many bytes");
        self.report(key, expected, Some(size.to_string()));
        1
    }

    /// Returns the positive whole number of a key, or `None` if the key is missing or null, for a number that is the size of no axis.
    pub fn optional_size(&mut self, key: &str) -> Option<usize> {
        self.value(key, "a positive whole number", |value| {
            let number = value.as_u64().filter(|number| *number > 0)?;
            usize::try_from(number).ok()
        })
    }

    /// Returns whether a key is there, and not null.
    pub fn has(&self, key: &str) -> bool {
        self.found(key).is_some()
    }

    /// Returns the text of a key, or an empty one if the key has none.
    pub fn text(&self, key: &str) -> &str {
        let text = self.found(key).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    /// Returns the positive number of a key.
    pub fn number(&mut self, key: &str) -> f64 {
        if self.has(key) {
            self.number_or(key, 1.0)
        } else {
            self.missing(key, "a positive number", 1.0)
        }
    }

    /// Returns the positive number of a key, or `default` if the key is missing or null.
    pub fn number_or(&mut self, key: &str, default: f64) -> f64 {
        let positive = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
        self.value(key, "a positive number", positive)
            .unwrap_or(default)
    }

    /// Returns the bool of a key, or `default` if the key is missing or null.
    pub fn flag_or(&mut self, key: &str, default: bool) -> bool {
        self.value(key, "true or false", Value::as_bool)
            .unwrap_or(default)
    }

    /// Returns the activation of a key, by its name in transformers.
    pub fn activation(&mut self, key: &str) -> Activation {
        let expected =
            "the name of an activation: gelu, gelu_new, gelu_pytorch_tanh, relu, silu or tanh";
        let activation = |value: &Value| {
            Some(match value.as_str()? {
                "gelu" => Activation::GeluExact,
                "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::Gelu,
                "relu" => Activation::Relu,
                "silu" | "swish" => Activation::Silu,
                "tanh" => Activation::Tanh,
                _ => return None,
            })
        };
        self.value(key, expected, activation)
            .unwrap_or_else(|| self.missing(key, expected, Activation::Identity))
    }

    /// Checks that a key is missing, null, or has the given value, because the model has nothing else.
    pub fn expect(&mut self, key: &str, expected: impl Into<Value>) {
        let expected = expected.into();
        let text = format!("{expected}, because this model has nothing else");
        self.value(key, &text, |found| (*found == expected).then_some(()));
    }

    /// Reports that the value of a key is not `expected`.
    pub fn refuse(&mut self, key: &str, expected: &str) {
        self.value(key, expected, |_| None::<()>);
    }

    /// Checks that the second size is a multiple of the first, such as the number of features and that of heads. Here and below, a
    /// size is the key by which it was read, or a number.
    pub fn check_multiple(&mut self, [divisor, size]: [&str; 2]) {
        let [(of, divisor), (_, found)] = [divisor, size].map(|key| (key, self.read_size(key)));
        if !found.is_multiple_of(divisor) {
            let of = Some(of).filter(|of| *of != divisor.to_string());
            let of = of.map(|key| format!(" ({key})")).unwrap_or_default();
            self.report(
                size,
                format!("a multiple of {divisor}{of}"),
                Some(found.to_string()),
            );
        }
    }

    /// Checks that the weights can have a matrix of each size that was read and this one, which is a key or a number: a matrix has at
    /// most as many elements as the weights have bytes, and at most 2³². So the model can be traced.
    pub fn check_width(&mut self, width: &str) {
        let limit = self.weights.bytes.min(1 << 32);
        let columns = self.read_size(width);
        for (key, rows) in &self.sizes {
            let elements = u64::try_from(rows.saturating_mul(columns));
            if elements.is_ok_and(|elements| elements > limit) {
                self.problems.push(ConfigProblem {
                    key: format!("{key} * {width}"),
                    expected: format!(
                        "at most {limit} elements, for weights of {} bytes",
                        self.weights.bytes
                    ),
                    found: Some(format!("{rows} * {columns}")),
                });
            }
        }
    }

    /// Checks that the weights may have so many layers: each has at least one tensor.
    pub fn check_layers(&mut self, key: &str) {
        let (count, tensors) = (self.read_size(key), self.weights.names.len());
        if count > tensors {
            let expected = format!("at most {tensors}, because the weights have so many tensors");
            self.report(key, expected, Some(count.to_string()));
        }
    }

    /// Returns a size that was read, or the number that is written instead of a key. A size that is missing is already reported.
    fn read_size(&self, key: &str) -> usize {
        let read = self.sizes.get(key).copied();
        read.or_else(|| key.parse().ok()).unwrap_or(1)
    }

    /// Loads the weights of the model that `build` returns, as [`checkpoint::load_as`] does: no random number is computed.
    /// `rename` changes the names in the file to those of `names`, for instance those of older files; otherwise it is `str::to_owned`.
    ///
    /// # Errors
    /// Returns [`ModelError::Config`] with all problems of the configuration, or [`ModelError::Checkpoint`] with all tensors that
    /// are missing, unused, or have another shape.
    pub fn load<M: PytreeOf<Tensor>>(
        self,
        names: WeightNames,
        rename: impl Fn(&str) -> String,
        build: impl Fn(&mut Rngs) -> M,
    ) -> Result<M, ModelError> {
        self.load_with_report(names, rename, build)
            .map(|(model, _)| model)
    }

    /// Loads the weights like [`load`](Self::load), and returns a report. Its field `ignored` has the names of weights that are left out.
    ///
    /// # Errors
    /// Returns the errors of [`load`](Self::load).
    pub fn load_with_report<M: PytreeOf<Tensor>>(
        self,
        names: WeightNames,
        rename: impl Fn(&str) -> String,
        build: impl Fn(&mut Rngs) -> M,
    ) -> Result<(M, LoadReport), ModelError> {
        settings::refused(&self.path.join("config.json"), self.problems)?;
        let options = LoadOptions::new()
            .names(names)
            .convert_floats()
            .rename_with(rename);
        let build = |rngs: &mut Rngs| convert_floats(&build(rngs), self.floats);
        Ok(checkpoint::load_as(&self.weights.path, &options, build)?)
    }

    /// Returns a value of the configuration. A value that `read` does not accept is a problem.
    fn value<T>(
        &mut self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let found = self.found(key)?;
        let value = read(found);
        if value.is_none() {
            let found = Some(shortened(&found.to_string()));
            self.report(key, expected, found);
        }
        value
    }

    /// Returns the value of a key that is not null.
    fn found(&self, key: &str) -> Option<&Value> {
        let mut steps = key.split('.');
        let first = self.config.get(steps.next()?);
        let found = steps.try_fold(first?, |value, step| value.get(step));
        found.filter(|value| !value.is_null())
    }

    /// Reports a key that is missing, unless its value is already reported, and returns the placeholder.
    fn missing<T>(&mut self, key: &str, expected: &str, placeholder: T) -> T {
        if self.problems.iter().all(|problem| problem.key != key) {
            self.report(key, expected, None);
        }
        placeholder
    }

    fn report(&mut self, key: &str, expected: impl Into<String>, found: Option<String>) {
        let problem = ConfigProblem {
            key: key.to_owned(),
            expected: expected.into(),
            found,
        };
        // A value may be read twice.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}
