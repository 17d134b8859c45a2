//! What may differ between a file and the template of a load.

use std::fmt;

use crate::names::weight_names::WeightNames;
use crate::report::mismatch::Mismatch;

type Rename<'f> = Box<dyn Fn(&str) -> String + 'f>;

/// Options of [`load_with`](crate::checkpoint::load_with). By default the names must be equal, and no leaf may be missing or
/// unused.
#[derive(Default)]
pub struct LoadOptions<'f> {
    renames: Vec<Rename<'f>>,
    pub(crate) names: Option<WeightNames>,
    pub(crate) converts: bool,
    pub(crate) may_miss: bool,
    pub(crate) may_not_use: bool,
}

impl<'f> LoadOptions<'f> {
    /// Returns the options that [`load`](crate::checkpoint::load()) uses.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Renames the leaves of the file: `rename` maps each name in the file to the name in the template. To rename by
    /// pattern, use [`WeightNames::rename`]. If this method is called several times, the functions are applied one after
    /// the other. With [`names`](Self::names), the
    /// functions are applied first. They then return names of the library that wrote the file, for instance without a
    /// prefix.
    #[must_use]
    pub fn rename_with(mut self, rename: impl Fn(&str) -> String + 'f) -> Self {
        self.renames.push(Box::new(rename));
        self
    }

    /// Loads a file with the names and layouts of another library, for instance of PyTorch. Tensors are transposed,
    /// divided and reshaped as the layers of the template need them.
    #[must_use]
    pub fn names(mut self, names: WeightNames) -> Self {
        self.names = Some(names);
        self
    }

    /// Converts floats of the file to the dtype of the template's leaf, for instance bf16 to f32. The default is an
    /// error if the dtypes differ. A conversion to a narrower float rounds to the nearest number.
    #[must_use]
    pub fn convert_floats(mut self) -> Self {
        self.converts = true;
        self
    }

    /// Allows leaves of the template that are not in the file. These leaves keep the values of the template.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.may_miss = true;
        self
    }

    /// Allows leaves of the file that are not in the template. These leaves are ignored.
    #[must_use]
    pub fn allow_unused(mut self) -> Self {
        self.may_not_use = true;
        self
    }

    pub(crate) fn renamed(&self, name: String) -> String {
        let renames = self.renames.iter();
        renames.fold(name, |name, rename| rename(&name))
    }

    /// Returns the rules that match none of the names in the template.
    pub(crate) fn unused_rules(&self, names: &[String]) -> Vec<Mismatch> {
        let rules = self.names.as_ref().map(|rules| rules.unused(names));
        rules.unwrap_or_default()
    }

    /// Returns whose layouts the file has, for messages.
    pub(crate) fn library(&self) -> Option<String> {
        self.names.as_ref()?.library()
    }

    /// Returns the first name of a tensor that has two in the file, if this is the second.
    pub(crate) fn first_name(&self, name: &str) -> Option<String> {
        self.names.as_ref()?.first_name(name)
    }

    /// Returns whether a tensor of the file, which may be renamed, is ignored.
    pub(crate) fn ignores(&self, name: &str) -> bool {
        self.names.as_ref().is_some_and(|names| names.ignores(name))
    }
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("renames", &self.renames.len())
            .field("names", &self.names)
            .field("converts", &self.converts)
            .field("may_miss", &self.may_miss)
            .field("may_not_use", &self.may_not_use)
            .finish()
    }
}
