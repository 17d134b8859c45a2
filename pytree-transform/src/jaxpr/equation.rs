//! An equation of a jaxpr as its readers see it.

use std::fmt;
use std::panic::Location;

use super::{Equation, Jaxpr, display};
use crate::dtype::AbstractArray;

/// One operation of a [`Jaxpr`]; displays as its line of the jaxpr, `b:f32[3] = sin a`.
#[derive(Clone, Copy)]
pub struct JaxprEquation<'j> {
    jaxpr: &'j Jaxpr,
    position: usize,
}

impl<'j> JaxprEquation<'j> {
    pub(super) fn new(jaxpr: &'j Jaxpr, position: usize) -> Self {
        Self { jaxpr, position }
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
        f.write_str(&display::equation(self.jaxpr, self.position))
    }
}

impl fmt::Debug for JaxprEquation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} (at {})", self.line())
    }
}
