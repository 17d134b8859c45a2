//! Leaves whose fields do not declare the roles of their axes.

use std::fmt;

use crate::base::path::KeyPath;

/// A leaf of which an operation needs the roles of the axes, and whose field does not declare them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingRoles {
    /// The path of the leaf.
    pub path: KeyPath,
    /// The dtype and the shape of the leaf.
    pub found: String,
    /// The module and the name of the field that contains the leaf. `None` if no field contains it.
    pub field: Option<(String, String)>,
    /// The named axes of the field, if they are declared.
    pub axes: Option<String>,
    /// The number of axes of the leaf.
    pub rank: usize,
    /// The roles, if the field declares more roles than the leaf has axes.
    pub declared: Option<Vec<&'static str>>,
}

impl MissingRoles {
    /// Returns the attribute to write above the field.
    fn attribute(&self) -> String {
        let examples: [(&str, &str); 2] = [
            ("in out", "input, output"),
            ("in heads head_dim", "input, output_head, output"),
        ];
        let example = examples.get(self.rank.wrapping_sub(2));
        let (axes, roles) = example.unwrap_or(&("*kernel in out", "kernel, input, output"));
        match &self.axes {
            None => format!("#[param(\"{axes}\", roles({roles}))]"),
            Some(own) if self.rank == 2 => format!("#[param(\"{own}\", roles({roles}))]"),
            Some(own) => format!("#[param(\"{own}\", roles(…))]"),
        }
    }
}

impl fmt::Display for MissingRoles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.or_root(), self.found)?;
        match (&self.field, &self.declared) {
            (None, _) => f.write_str(" is in no field of a module, so it declares no roles"),
            (Some((module, field)), Some(declared)) => write!(
                f,
                ", but the field `{field}` of `{module}` declares the roles {} of at least {} axes",
                declared.join(", "),
                declared.len()
            ),
            (Some((module, field)), None) => write!(
                f,
                ": the field `{field}` of `{module}` declares no roles; write `{}` above the field",
                self.attribute()
            ),
        }
    }
}
