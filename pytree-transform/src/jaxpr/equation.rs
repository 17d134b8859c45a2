//! An equation of a jaxpr as its readers see it.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use crate::base::dtype::AbstractArray;
use crate::jaxpr::display;
use crate::tensor::jaxpr::{Equation, Jaxpr};

/// One operation of a [`Jaxpr`]; displays as its line of the jaxpr, `b:f32[3] = sin a`.
#[derive(Clone)]
pub struct JaxprEquation<'j> {
    jaxpr: &'j Jaxpr,
    position: usize,
    /// The lines of all equations, written when the first is displayed: the names of a line's variables depend on all
    /// lines before it.
    lines: Arc<OnceLock<Vec<String>>>,
}

impl Jaxpr {
    /// The operations, in the order in which they are done.
    pub fn equations(&self) -> impl ExactSizeIterator<Item = JaxprEquation<'_>> {
        JaxprEquation::all(self)
    }
}

impl<'j> JaxprEquation<'j> {
    /// Each equation of a jaxpr.
    fn all(jaxpr: &'j Jaxpr) -> impl ExactSizeIterator<Item = Self> {
        let lines = Arc::default();
        (0..jaxpr.equations.len()).map(move |position| Self {
            jaxpr,
            position,
            lines: Arc::clone(&lines),
        })
    }

    fn equation(&self) -> &'j Equation {
        &self.jaxpr.equations[self.position]
    }

    /// The name of its primitive.
    pub fn name(&self) -> &'static str {
        self.equation().primitive.name()
    }

    /// The parameters of its primitive as text, for instance `axes=(0,)`; jaxprs among them are left out.
    pub fn parameters(&self) -> String {
        display::parameters(&*self.equation().primitive)
    }

    /// The jaxprs among its parameters with their names, for instance that of a call.
    pub fn bodies(&self) -> Vec<(&'static str, &'j Jaxpr)> {
        self.equation().primitive.bodies()
    }

    /// Element types and shapes of its operands.
    pub fn inputs(&self) -> Vec<&'j AbstractArray> {
        let inputs = self.equation().inputs.iter();
        inputs.map(|&input| self.jaxpr.info(input)).collect()
    }

    /// Element types and shapes of its results.
    pub fn outputs(&self) -> Vec<&'j AbstractArray> {
        let outputs = self.equation().outputs.iter();
        outputs.map(|&output| self.jaxpr.info(output)).collect()
    }

    /// The line of the user's program that it was recorded from.
    pub fn line(&self) -> &'static Location<'static> {
        self.equation().line
    }

    /// Whether it does something besides computing its results, such as printing.
    pub fn has_effect(&self) -> bool {
        self.equation().primitive.has_effect()
    }
}

impl fmt::Display for JaxprEquation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines.get_or_init(|| display::lines(self.jaxpr));
        f.write_str(&lines[self.position])
    }
}

impl fmt::Debug for JaxprEquation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} (at {})", self.line())
    }
}
