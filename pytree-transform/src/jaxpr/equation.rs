//! The public view of an equation of a jaxpr.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use pytree_base::bug::expect_next;
use pytree_kernels::base::dtype::AbstractArray;

use crate::jaxpr::display;
use crate::tensor::Tensor;
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

    /// Runs the jaxpr with values of your own type: an interpreter. `constant` returns the value of a constant, and `equation`
    /// the results of an equation from the values of its operands. The equations run in order.
    ///
    /// # Errors
    /// Returns the first error of `equation`.
    ///
    /// # Panics
    /// Panics if the number of inputs differs from the jaxpr, or the number of results from the equation.
    ///
    /// # Examples
    /// An interpreter that measures the largest intermediate value. Each value is a tensor, and an equation without a rule of
    /// the interpreter is [evaluated](JaxprEquation::evaluate):
    /// ```
    /// use std::convert::Infallible;
    /// use pytree_transform::{JaxprEquation, Tensor, make_jaxpr};
    ///
    /// let x = Tensor::from([1.0_f32, 2.0]);
    /// let jaxpr = make_jaxpr(|x: Tensor| (x.square() * 100.0).log().sum())(x.clone());
    /// let mut largest = ("", 0.0);
    /// let outputs = jaxpr.interpret(vec![x], Tensor::clone, |equation: &JaxprEquation<'_>, operands| {
    ///     let results = equation.evaluate(operands);
    ///     let size = results[0].abs().max().item::<f32>();
    ///     if size > largest.1 {
    ///         largest = (equation.name(), size);
    ///     }
    ///     Ok::<_, Infallible>(results)
    /// });
    /// assert_eq!(largest, ("mul", 400.0));
    /// assert_eq!(outputs.unwrap()[0].to_string(), "10.596635");
    /// ```
    #[doc(alias("jax.core.eval_jaxpr", "torch.fx.Interpreter"))]
    #[track_caller]
    pub fn interpret<V: Clone, E>(
        &self,
        inputs: Vec<V>,
        constant: impl FnMut(&Tensor) -> V,
        mut equation: impl FnMut(&JaxprEquation<'_>, &[&V]) -> Result<Vec<V>, E>,
    ) -> Result<Vec<V>, E> {
        let (expected, found) = (self.inputs.len(), inputs.len());
        assert!(
            found == expected,
            "cannot interpret a jaxpr: expected {expected} inputs, found {found}"
        );
        let mut equations = self.equations();
        self.run(inputs.into_iter(), constant, |recorded, operands| {
            let next = expect_next(&mut equations, "a view of each equation");
            let results = equation(&next, operands)?;
            let (expected, found) = (recorded.outputs.len(), results.len());
            assert!(
                found == expected,
                "cannot interpret `{}` at {}: expected {expected} results, found {found}",
                next.name(),
                next.line()
            );
            Ok(results)
        })
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

    /// Computes the results of the equation from its operands, which may be traced.
    ///
    /// # Panics
    /// Panics if the operands do not fit the operation.
    #[track_caller]
    pub fn evaluate(&self, operands: &[&Tensor]) -> Vec<Tensor> {
        self.equation().apply(operands).into_vec()
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
