//! Writes jaxprs as text in JAX's notation and layout. A part that fits on a line of 80 characters, for instance an
//! equation or a nested jaxpr, is written on one line.
//!
//! Variables are named `a`, …, `z`, `ba`, … in the order in which they appear, across all nested jaxprs. The inputs and
//! outputs of a call's jaxpr have the names of the call's operands and results. A nested jaxpr that is long or is
//! called twice is written once, before the outermost jaxpr, and calls refer to it by name.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};

use smallvec::SmallVec;

use crate::base::text_layout::TextLayout;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;
use crate::tensor::trace::Recorder;

/// The line length that JAX uses.
const WIDTH: usize = 80;

/// The maximum number of equations of a nested jaxpr that is written inline, as in JAX. A longer jaxpr is written
/// before the outermost jaxpr.
const LONG: usize = 10;

impl fmt::Display for Jaxpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut names, shared) = Names::of(self);
        let mut layout = TextLayout::default();
        for (name, jaxpr) in shared {
            layout.text(format_args!("let {name} = "));
            names.jaxpr_in_full(&mut layout, jaxpr);
            layout.text(" in");
            layout.line_break(" ");
        }
        names.jaxpr_in_full(&mut layout, self);
        f.write_str(&layout.format(WIDTH))
    }
}

impl fmt::Debug for Jaxpr {
    /// Writes the displayed text and the addresses of the constants. Jaxprs with the same displayed text may have
    /// different constants.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        for (_, constant) in &self.constants {
            if !is_literal(constant) && !constant.is_traced() {
                write!(f, " {:#x}", constant.handle())?;
            }
        }
        Ok(())
    }
}

/// Returns the text of each equation of a jaxpr, without line breaks.
pub(super) fn lines(jaxpr: &Jaxpr) -> Vec<String> {
    let (mut names, _) = Names::of(jaxpr);
    let scope = names.scope(jaxpr);
    names.binders(&mut TextLayout::default(), scope);
    let equations = jaxpr.equations.iter();
    equations
        .map(|equation| {
            let mut layout = TextLayout::default();
            layout.group(|layout| names.equation(layout, scope, equation));
            layout.format(usize::MAX)
        })
        .collect()
}

/// Returns the parameters of a primitive as text, in the form that its `write_parameters` writes.
pub(super) fn parameters(primitive: &dyn Primitive) -> String {
    struct Written<'a>(&'a dyn Primitive);
    impl fmt::Display for Written<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.write_parameters(f)
        }
    }
    Written(primitive).to_string()
}

/// Returns whether a constant is displayed as a number instead of as a variable. A number on a device is displayed as a
/// variable, because the display of a jaxpr must not transfer data.
fn is_literal(value: &Tensor) -> bool {
    value.rank() == 0 && value.array().is_some()
}

/// Splits parameters such as `a=1 b=(2, 3)` into pairs of key and text. Parameters are separated by spaces outside of
/// brackets.
fn pairs(parameters: &str) -> Vec<(&str, &str)> {
    let mut depth = 0_usize;
    let parted = parameters.split(|character| {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ' ' && depth == 0
    });
    parted
        .filter(|pair| !pair.is_empty())
        .map(|pair| (pair.split('=').next().unwrap_or_default(), pair))
        .collect()
}

/// The displayed name of a variable.
#[derive(Clone, Copy)]
enum Name {
    /// A number in letters: 0 is `a`, 26 is `ba`.
    Number(usize),
    /// `_`, the name of a variable that no equation or output uses.
    Unused,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Number(number) = *self else {
            return f.write_str("_");
        };
        let digits = std::iter::successors(Some(number), |rest| Some(rest / 26));
        let count = digits.clone().skip(1).take_while(|&rest| rest > 0).count() + 1;
        let digits: SmallVec<[usize; 16]> = digits.take(count).collect();
        for digit in digits.iter().rev() {
            f.write_char(char::from(b'a' + u8::try_from(digit % 26).unwrap_or(0)))?;
        }
        Ok(())
    }
}

/// Identifies a jaxpr by its address.
type Address = usize;

fn address(jaxpr: &Jaxpr) -> Address {
    std::ptr::from_ref(jaxpr).addr()
}

/// The position in [`Names::scopes`] of a jaxpr whose variables have names.
type Scope = usize;

/// The names that were assigned to variables and jaxprs so far.
struct Names<'j> {
    scopes: Vec<Variables<'j>>,
    positions: HashMap<Address, Scope>,
    next: usize,
    /// The names of the jaxprs that are written before the outermost jaxpr.
    shared: HashMap<Address, String>,
    /// The names in `shared`, which no variable may get.
    taken: HashSet<String>,
}

/// The displayed names of the variables of one jaxpr.
struct Variables<'j> {
    jaxpr: &'j Jaxpr,
    facts: Vec<Facts<'j>>,
}

/// What the display must know about a variable.
#[derive(Clone, Default)]
struct Facts<'j> {
    name: Option<Name>,
    is_used: bool,
    is_input: bool,
    /// The constant, if it is displayed as a number. `None` for other variables.
    literal: Option<&'j Tensor>,
}

impl<'j> Variables<'j> {
    fn of(jaxpr: &'j Jaxpr) -> Self {
        let mut facts = vec![Facts::default(); jaxpr.variables.len()];
        let operands = jaxpr.equations.iter().flat_map(|equation| &equation.inputs);
        for variable in operands.chain(&jaxpr.outputs) {
            facts[variable.index()].is_used = true;
        }
        for variable in &jaxpr.inputs {
            facts[variable.index()].is_input = true;
        }
        for (variable, value) in &jaxpr.constants {
            facts[variable.index()].literal = is_literal(value).then_some(value);
        }
        Self { jaxpr, facts }
    }
}

/// A displayed parameter of an equation.
enum Parameter<'t, 'j> {
    Text(&'t str),
    /// Nested jaxprs that have the same parameter name.
    Bodies(&'t [(&'static str, &'j Jaxpr)]),
}

impl<'j> Names<'j> {
    /// Returns an empty set of variable names, and the nested jaxprs that are displayed before `jaxpr`, each with its
    /// name.
    fn of(jaxpr: &'j Jaxpr) -> (Self, Vec<(String, &'j Jaxpr)>) {
        let mut counts: Vec<(&'j Jaxpr, usize, String)> = Vec::new();
        let mut positions: HashMap<Address, usize> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([(jaxpr, "jaxpr".to_owned())]);
        while let Some((next, name)) = queue.pop_front() {
            let long = usize::from(address(next) != address(jaxpr) && next.equations.len() > LONG);
            if let Some(&position) = positions.get(&address(next)) {
                // The jaxprs nested in this jaxpr were already counted when this jaxpr was counted for the first time.
                counts[position].1 += 1 + long;
                continue;
            }
            positions.insert(address(next), counts.len());
            counts.push((next, 1 + long, name));
            for equation in &next.equations {
                let bodies = equation.primitive.bodies();
                if bodies.is_empty() {
                    continue;
                }
                let parameters = parameters(&*equation.primitive);
                let name = pairs(&parameters)
                    .iter()
                    .find_map(|(_, pair)| pair.strip_prefix("name="))
                    .map_or("jaxpr", |name| name.trim_matches(['<', '>']));
                for (_, body) in bodies {
                    queue.push_back((body, name.to_owned()));
                }
            }
        }
        let mut taken: HashMap<String, usize> = HashMap::new();
        let mut shared = Vec::new();
        for (jaxpr, _, name) in counts.into_iter().filter(|(_, count, _)| *count > 1) {
            let count = taken.entry(name.clone()).or_insert(0);
            let unique = if *count > 0 {
                format!("{name}{count}")
            } else {
                name
            };
            *count += 1;
            shared.push((unique, jaxpr));
        }
        let names = Self {
            scopes: Vec::new(),
            positions: HashMap::new(),
            next: 0,
            shared: shared
                .iter()
                .map(|(name, jaxpr)| (address(jaxpr), name.clone()))
                .collect(),
            taken: shared.iter().map(|(name, _)| name.clone()).collect(),
        };
        (names, shared)
    }

    fn scope(&mut self, jaxpr: &'j Jaxpr) -> Scope {
        let next = self.scopes.len();
        let scope = *self.positions.entry(address(jaxpr)).or_insert(next);
        if scope == next {
            self.scopes.push(Variables::of(jaxpr));
        }
        scope
    }

    fn facts(&mut self, scope: Scope, variable: Variable) -> &mut Facts<'j> {
        &mut self.scopes[scope].facts[variable.index()]
    }

    fn name(&mut self, scope: Scope, variable: Variable) -> Name {
        if let Some(known) = self.facts(scope, variable).name {
            return known;
        }
        let name = loop {
            let name = Name::Number(self.next);
            self.next += 1;
            if self.taken.is_empty() || !self.taken.contains(&name.to_string()) {
                break name;
            }
        };
        self.facts(scope, variable).name = Some(name);
        name
    }

    /// Writes an operand: the name of the variable, or the value of a constant without axes.
    fn operand(&mut self, layout: &mut TextLayout, scope: Scope, variable: Variable) {
        let jaxpr = self.scopes[scope].jaxpr;
        match self.facts(scope, variable).literal {
            Some(value) => layout.text(format_args!("{value}:{}", jaxpr.info(variable))),
            None => layout.text(self.name(scope, variable)),
        }
    }

    /// Writes the name and type of a variable at the position where it is assigned.
    fn binder(&mut self, layout: &mut TextLayout, scope: Scope, variable: Variable) {
        let name = self.name(scope, variable);
        let info = self.scopes[scope].jaxpr.info(variable);
        layout.text(format_args!("{name}:{info}"));
    }

    /// Writes the constants and inputs of a jaxpr, which are named before the results of its equations.
    fn binders(&mut self, layout: &mut TextLayout, scope: Scope) {
        let jaxpr = self.scopes[scope].jaxpr;
        let constants = jaxpr
            .constants
            .iter()
            .filter(|(_, value)| !is_literal(value));
        layout.filled("", constants, |layout, (variable, _)| {
            self.binder(layout, scope, *variable);
        });
        layout.text("; ");
        layout.filled("", &jaxpr.inputs, |layout, &variable| {
            self.binder(layout, scope, variable);
        });
    }

    fn jaxpr_in_full(&mut self, layout: &mut TextLayout, jaxpr: &'j Jaxpr) {
        let scope = self.scope(jaxpr);
        layout.group(|layout| {
            layout.nest(|layout| {
                layout.text("{ lambda ");
                self.binders(layout, scope);
                layout.text(". let");
                layout.nest(|layout| {
                    layout.line_break(" ");
                    layout.joined("; ", &jaxpr.equations, |layout, equation| {
                        self.equation(layout, scope, equation);
                    });
                });
                layout.line_break(" ");
                layout.text("in (");
                layout.filled(",", &jaxpr.outputs, |layout, &output| {
                    self.operand(layout, scope, output);
                });
                layout.text(if jaxpr.outputs.len() == 1 { ",)" } else { ")" });
            });
            layout.text(" }");
        });
    }

    fn body(&mut self, layout: &mut TextLayout, jaxpr: &'j Jaxpr) {
        match self.shared.get(&address(jaxpr)) {
            Some(name) => layout.text(name),
            None => self.jaxpr_in_full(layout, jaxpr),
        }
    }

    fn equation(&mut self, layout: &mut TextLayout, scope: Scope, equation: &'j Equation) {
        let primitive = &*equation.primitive;
        let bodies = primitive.bodies();
        let is_call = matches!(primitive.callee(), Some((Recorder::Jit, _)));
        if let (true, [(_, body)]) = (is_call, &bodies[..])
            && !self.shared.contains_key(&address(body))
        {
            let inner = self.scope(body);
            self.suggest((inner, &body.inputs), (scope, &equation.inputs));
            self.suggest((inner, &body.outputs), (scope, &equation.outputs));
        }
        layout.filled("", &equation.outputs, |layout, &variable| {
            if self.facts(scope, variable).is_used {
                self.binder(layout, scope, variable);
            } else {
                layout.text(format_args!(
                    "_:{}",
                    self.scopes[scope].jaxpr.info(variable)
                ));
            }
        });
        if !equation.outputs.is_empty() {
            layout.text(" = ");
        }
        layout.text(primitive.name());
        let parameters = parameters(primitive);
        let mut written: Vec<(&str, Parameter<'_, 'j>)> = pairs(&parameters)
            .into_iter()
            .map(|(key, pair)| (key, Parameter::Text(pair)))
            .collect();
        let nested = bodies.chunk_by(|(name, _), (next, _)| name == next);
        written.extend(nested.map(|bodies| (bodies[0].0, Parameter::Bodies(bodies))));
        // The parameter `name` of a call is first. The other parameters are in alphabetical order.
        written.sort_by_key(|&(key, _)| (!(is_call && key == "name"), key));
        if !written.is_empty() {
            layout.bracketed(["[", "]"], |layout| {
                layout.joined(" ", written, |layout, (key, parameter)| {
                    self.parameter(layout, key, parameter);
                });
            });
        }
        layout.text(" ");
        layout.filled("", &equation.inputs, |layout, &input| {
            self.operand(layout, scope, input);
        });
    }

    /// Writes a parameter. Nested jaxprs that share one parameter name are written as a list.
    fn parameter(&mut self, layout: &mut TextLayout, key: &str, parameter: Parameter<'_, 'j>) {
        match parameter {
            Parameter::Text(text) => layout.text(text),
            Parameter::Bodies(&[(_, body)]) if key != "branches" => {
                layout.text(format_args!("{key}="));
                self.body(layout, body);
            }
            Parameter::Bodies(bodies) => {
                layout.text(format_args!("{key}="));
                layout.bracketed(["(", ")"], |layout| {
                    layout.joined(" ", bodies, |layout, (_, body)| self.body(layout, body));
                });
            }
        }
    }

    /// Gives the inputs and outputs of a call's jaxpr the names of the call's operands and results.
    fn suggest(
        &mut self,
        (inner, variables): (Scope, &[Variable]),
        (outer, like): (Scope, &[Variable]),
    ) {
        if variables.len() != like.len() {
            return;
        }
        let mut used = HashSet::new();
        for (&variable, &like) in variables.iter().zip(like) {
            let Facts {
                is_used,
                is_input,
                literal,
                ..
            } = *self.facts(outer, like);
            let known = self.facts(inner, variable);
            if literal.is_some() || known.literal.is_some() || known.name.is_some() {
                continue;
            }
            if used.insert(like) {
                let name = if is_input || is_used {
                    self.name(outer, like)
                } else {
                    Name::Unused
                };
                self.facts(inner, variable).name = Some(name);
            }
        }
    }
}
