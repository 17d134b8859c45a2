//! The report of a load: which leaves were loaded, and how.

use std::fmt;

use pytree_core::ElementType;

use crate::report::mismatch::{Mismatch, list};

/// A report of the leaves that were loaded, missing and unused.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LoadReport {
    /// The names of the loaded leaves, as in the template.
    pub applied: Vec<String>,
    /// The leaves of the template that are not in the file, each a [`Mismatch::Missing`].
    pub missing: Vec<Mismatch>,
    /// The leaves of the file that are not in the template, each a [`Mismatch::Unexpected`].
    pub unused: Vec<Mismatch>,
    /// The loaded leaves whose dtype was converted: see [`LoadOptions::convert_floats`](crate::checkpoint::LoadOptions::convert_floats).
    pub converted: Vec<Converted>,
    /// The names of the loaded leaves whose axes have another order in the file: see
    /// [`WeightLayout`](crate::checkpoint::WeightLayout).
    pub transposed: Vec<String>,
    /// The rules that match no leaf of the template, each a [`Mismatch::UnusedRule`].
    pub unused_rules: Vec<Mismatch>,
    /// The names in the file of two equal tensors: see [`WeightNames::tied`](crate::checkpoint::WeightNames::tied).
    pub tied: Vec<[String; 2]>,
    /// The normalisations whose epsilon is the default of this library, if the library that
    /// [`LoadOptions::names`](crate::checkpoint::LoadOptions::names) names has another. No file contains the epsilon: compare it with the configuration of the model.
    pub epsilons: Vec<OtherEpsilon>,
    /// The names in the file of the tensors that [`WeightNames::ignore`](crate::checkpoint::WeightNames::ignore) names.
    pub ignored: Vec<String>,
}

/// A normalisation whose epsilon is the default of this library, and not that of the library that wrote the file.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherEpsilon {
    /// The path of the epsilon in the model.
    pub name: String,
    /// The epsilon of the model.
    pub found: f64,
    /// The default of the library.
    pub default: f64,
}

impl fmt::Display for OtherEpsilon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            found,
            default,
        } = self;
        write!(
            f,
            "{name} is {found:e}, and {default:e} by default in the library that wrote the file"
        )
    }
}

/// A leaf whose dtype was converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The name of the leaf.
    pub name: String,
    /// The dtype in the file, for example `bf16`.
    pub from: String,
    /// The dtype in the template.
    pub to: ElementType,
}

impl fmt::Display for LoadReport {
    /// Writes the numbers of leaves, and lists the missing and unused leaves and rules, and the epsilons. Numbers of converted, transposed and
    /// ignored leaves are written unless they are zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (applied, missing, unused) =
            (self.applied.len(), self.missing.len(), self.unused.len());
        write!(f, "{applied} applied, {missing} missing, {unused} unused")?;
        for (number, what) in [
            (self.converted.len(), "converted"),
            (self.transposed.len(), "transposed"),
            (self.tied.len(), "tied"),
            (self.ignored.len(), "ignored"),
        ] {
            if number > 0 {
                write!(f, ", {number} {what}")?;
            }
        }
        write!(
            f,
            "{}{}",
            if missing + unused + self.unused_rules.len() + self.epsilons.len() > 0 {
                ":"
            } else {
                ""
            },
            list(
                self.missing
                    .iter()
                    .chain(&self.unused)
                    .chain(&self.unused_rules)
            )
        )?;
        self.epsilons
            .iter()
            .try_for_each(|epsilon| write!(f, "\n  {epsilon}"))
    }
}
