//! The public view of an equation of a jaxpr.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use crate::base::dtype::AbstractArray;
use crate::jaxpr::display;
use crate::tensor::jaxpr::{Equation, Jaxpr};

/// One operation of a [`Jaxpr`]. The display of an equation is its line in the jaxpr, for instance `b:f32[3] = sin a`.
#[derive(Clone)]
pub struct JaxprEquation<'j> {
    jaxpr: &'j Jaxpr,
    position: usize,
    /// Each equation of the jaxpr as text. All equations are written when the first equation is displayed, because the
    /// variable names in an equation depend on all equations before it.
    lines: Arc<OnceLock<Vec<String>>>,
}

impl Jaxpr {
    /// Returns the equations of the jaxpr in execution order.
    pub fn equations(&self) -> impl ExactSizeIterator<Item = JaxprEquation<'_>> {
        JaxprEquation::all(self)
    }
}

impl<'j> JaxprEquation<'j> {
    /// Returns the equations of a jaxpr in execution order.
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

    /// Returns the name of the primitive, for instance `sin`.
    pub fn name(&self) -> &'static str {
        self.equation().primitive.name()
    }

    /// Returns the parameters of the primitive as text, for instance `axes=(0,)`, without nested jaxprs.
    pub fn parameters(&self) -> String {
        display::parameters(&*self.equation().primitive)
    }

    /// Returns the parameters that are jaxprs, for instance the body of a call, each with the parameter's name.
    pub fn bodies(&self) -> Vec<(&'static str, &'j Jaxpr)> {
        self.equation().primitive.bodies()
    }

    /// Returns the dtypes and shapes of the operands.
    pub fn inputs(&self) -> Vec<&'j AbstractArray> {
        let inputs = self.equation().inputs.iter();
        inputs.map(|&input| self.jaxpr.info(input)).collect()
    }

    /// Returns the dtypes and shapes of the results.
    pub fn outputs(&self) -> Vec<&'j AbstractArray> {
        let outputs = self.equation().outputs.iter();
        outputs.map(|&output| self.jaxpr.info(output)).collect()
    }

    /// Returns the line of the user's program that recorded the equation.
    pub fn line(&self) -> &'static Location<'static> {
        self.equation().line
    }

    /// Returns whether the equation does more than compute its results, for instance print.
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
