//! Jaxprs as text, in the notation of JAX and in its layout: what fits a line of 80 stands on one.
//!
//! Variables are named in the order in which they appear, `a`, …, `z`, `ba`, …, over all nested jaxprs; the
//! inputs and outputs of a call's jaxpr take the names of its operands and results. A jaxpr that is called
//! twice, or is long, is written once, in front.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::{Equation, Jaxpr, Variable};
use crate::layout::Doc;
use crate::primitive::Primitive;
use crate::tensor::Tensor;

/// The length of a line that JAX fills.
const WIDTH: usize = 80;

/// A nested jaxpr of more equations than this is written in front, as JAX does.
const LONG: usize = 10;

impl fmt::Display for Jaxpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut names, shared) = Names::of(self);
        let mut parts = Vec::new();
        for (name, jaxpr) in shared {
            parts.push(Doc::text(format!("let {name} = ")));
            parts.push(names.jaxpr_in_full(jaxpr));
            parts.push(Doc::text(" in"));
            parts.push(Doc::Break(" "));
        }
        parts.push(names.jaxpr_in_full(self));
        f.write_str(&Doc::Concat(parts).format(WIDTH))
    }
}

impl fmt::Debug for Jaxpr {
    /// As displayed, with the addresses of the constants: two jaxprs of the same text may differ in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        for (_, constant) in &self.constants {
            if let (None, Some(array)) = (literal(constant), constant.array()) {
                write!(f, " {:p}", std::sync::Arc::as_ptr(array))?;
            }
        }
        Ok(())
    }
}

/// Each equation of a jaxpr, on one line.
pub(super) fn lines(jaxpr: &Jaxpr) -> Vec<String> {
    let (mut names, _) = Names::of(jaxpr);
    names.binders(jaxpr);
    let equations = jaxpr.equations.iter();
    equations
        .map(|equation| names.equation(jaxpr, equation).format_flat())
        .collect()
}

/// The parameters of a primitive as it writes them.
pub(super) fn parameters(primitive: &dyn Primitive) -> String {
    struct Written<'a>(&'a dyn Primitive);
    impl fmt::Display for Written<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.write_parameters(f)
        }
    }
    Written(primitive).to_string()
}

/// The value of a constant that is written where it is used.
fn literal(value: &Tensor) -> Option<String> {
    (value.rank() == 0 && value.array().is_some()).then(|| value.to_string())
}

/// `a=1 b=(2, 3)` as its pairs: the spaces outside of brackets part them.
fn pairs(parameters: &str) -> Vec<String> {
    let mut pairs = Vec::new();
    let mut current = String::new();
    let mut depth = 0_usize;
    for character in parameters.chars() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                pairs.push(std::mem::take(&mut current));
                continue;
            }
            _ => {}
        }
        current.push(character);
    }
    pairs.push(current);
    pairs.retain(|pair| !pair.is_empty());
    pairs
}

/// The name of a number in letters.
fn letters(number: usize) -> String {
    let mut letters = Vec::new();
    let mut rest = number;
    loop {
        letters.push(char::from(b'a' + u8::try_from(rest % 26).unwrap_or(0)));
        rest /= 26;
        if rest == 0 {
            break;
        }
    }
    letters.iter().rev().collect()
}

/// A jaxpr among others: where it is in memory.
type Place = usize;

fn place(jaxpr: &Jaxpr) -> Place {
    std::ptr::from_ref(jaxpr).addr()
}

/// The names given so far.
struct Names {
    variables: HashMap<(Place, Variable), String>,
    next: usize,
    /// The names of jaxprs that are written in front.
    shared: HashMap<Place, String>,
    /// These names again: no variable has one of them.
    taken: HashSet<String>,
    facts: HashMap<Place, Facts>,
}

/// What is looked up of the variables of a jaxpr.
struct Facts {
    /// Those that something uses.
    used: HashSet<Variable>,
    inputs: HashSet<Variable>,
    /// The constants that are written where they are used.
    literals: HashMap<Variable, String>,
}

impl Facts {
    fn of(jaxpr: &Jaxpr) -> Self {
        let operands = jaxpr.equations.iter().flat_map(|equation| &equation.inputs);
        let constants = jaxpr.constants.iter();
        Self {
            used: operands.chain(&jaxpr.outputs).copied().collect(),
            inputs: jaxpr.inputs.iter().copied().collect(),
            literals: constants
                .filter_map(|(variable, value)| Some((*variable, literal(value)?)))
                .collect(),
        }
    }
}

impl Names {
    /// No variable named yet; and the jaxprs to be written in front.
    fn of(jaxpr: &Jaxpr) -> (Self, Vec<(String, &Jaxpr)>) {
        let mut counts: Vec<(&Jaxpr, usize, String)> = Vec::new();
        let mut positions: HashMap<Place, usize> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([(jaxpr, "jaxpr".to_owned())]);
        while let Some((next, name)) = queue.pop_front() {
            let long = usize::from(place(next) != place(jaxpr) && next.equations.len() > LONG);
            if let Some(&position) = positions.get(&place(next)) {
                // What it holds was counted with it.
                counts[position].1 += 1 + long;
                continue;
            }
            positions.insert(place(next), counts.len());
            counts.push((next, 1 + long, name));
            for equation in &next.equations {
                let name = pairs(&parameters(&*equation.primitive))
                    .iter()
                    .find_map(|pair| pair.strip_prefix("name=").map(str::to_owned));
                let name = name.map_or_else(
                    || "jaxpr".to_owned(),
                    |name| name.trim_matches(['<', '>']).to_owned(),
                );
                for (_, body) in equation.primitive.bodies() {
                    queue.push_back((body, name.clone()));
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
            variables: HashMap::new(),
            next: 0,
            shared: shared
                .iter()
                .map(|(name, jaxpr)| (place(jaxpr), name.clone()))
                .collect(),
            taken: shared.iter().map(|(name, _)| name.clone()).collect(),
            facts: HashMap::new(),
        };
        (names, shared)
    }

    fn name(&mut self, jaxpr: &Jaxpr, variable: Variable) -> String {
        if let Some(known) = self.variables.get(&(place(jaxpr), variable)) {
            return known.clone();
        }
        let name = loop {
            let name = letters(self.next);
            self.next += 1;
            if !self.taken.contains(&name) {
                break name;
            }
        };
        self.variables
            .insert((place(jaxpr), variable), name.clone());
        name
    }

    fn facts(&mut self, jaxpr: &Jaxpr) -> &Facts {
        let facts = self.facts.entry(place(jaxpr));
        facts.or_insert_with(|| Facts::of(jaxpr))
    }

    fn is_used(&mut self, jaxpr: &Jaxpr, variable: Variable) -> bool {
        self.facts(jaxpr).used.contains(&variable)
    }

    fn is_literal(&mut self, jaxpr: &Jaxpr, variable: Variable) -> bool {
        self.facts(jaxpr).literals.contains_key(&variable)
    }

    /// A variable where it is used: its name, or the value of a constant without axes.
    fn operand(&mut self, jaxpr: &Jaxpr, variable: Variable) -> Doc {
        let value = self.facts(jaxpr).literals.get(&variable);
        Doc::text(match value {
            Some(value) => format!("{value}:{}", jaxpr.info(variable)),
            None => self.name(jaxpr, variable),
        })
    }

    /// Variables where they are assigned, with their types.
    fn assigned(&mut self, jaxpr: &Jaxpr, variables: &[Variable], may_drop: bool) -> Doc {
        let mut names = Vec::new();
        for &variable in variables {
            let name = if may_drop && !self.is_used(jaxpr, variable) {
                "_".to_owned()
            } else {
                self.name(jaxpr, variable)
            };
            names.push(Doc::text(format!("{name}:{}", jaxpr.info(variable))));
        }
        Doc::filled("", names)
    }

    /// Constants and inputs, which are named first.
    fn binders(&mut self, jaxpr: &Jaxpr) -> [Doc; 2] {
        let literals = &self.facts(jaxpr).literals;
        let constants = jaxpr.constants.iter().map(|(variable, _)| *variable);
        let constants: Vec<Variable> = constants
            .filter(|variable| !literals.contains_key(variable))
            .collect();
        [
            self.assigned(jaxpr, &constants, false),
            self.assigned(jaxpr, &jaxpr.inputs, false),
        ]
    }

    fn jaxpr_in_full(&mut self, jaxpr: &Jaxpr) -> Doc {
        let [constants, inputs] = self.binders(jaxpr);
        let equations = jaxpr
            .equations
            .iter()
            .map(|equation| self.equation(jaxpr, equation))
            .collect();
        let outputs = jaxpr
            .outputs
            .iter()
            .map(|&output| self.operand(jaxpr, output))
            .collect();
        let end = if jaxpr.outputs.len() == 1 { ",)" } else { ")" };
        Doc::group(Doc::Concat(vec![
            Doc::nest(Doc::Concat(vec![
                Doc::text("{ lambda "),
                constants,
                Doc::text("; "),
                inputs,
                Doc::text(". let"),
                Doc::nest(Doc::Concat(vec![
                    Doc::Break(" "),
                    Doc::joined("; ", equations),
                ])),
                Doc::Break(" "),
                Doc::text("in ("),
                Doc::filled(",", outputs),
                Doc::text(end),
            ])),
            Doc::text(" }"),
        ]))
    }

    fn body(&mut self, jaxpr: &Jaxpr) -> Doc {
        match self.shared.get(&place(jaxpr)) {
            Some(name) => Doc::text(name.clone()),
            None => self.jaxpr_in_full(jaxpr),
        }
    }

    fn equation(&mut self, jaxpr: &Jaxpr, equation: &Equation) -> Doc {
        let primitive = &*equation.primitive;
        let bodies = primitive.bodies();
        let is_call = primitive.name() == "jit";
        if let (true, [(_, body)]) = (is_call, &bodies[..])
            && !self.shared.contains_key(&place(body))
        {
            self.suggest((body, &body.inputs), (jaxpr, &equation.inputs));
            self.suggest((body, &body.outputs), (jaxpr, &equation.outputs));
        }
        let results = self.assigned(jaxpr, &equation.outputs, true);
        let mut written: Vec<(String, Doc)> = pairs(&parameters(primitive))
            .into_iter()
            .map(|pair| {
                let key = pair.split('=').next().unwrap_or_default().to_owned();
                (key, Doc::text(pair))
            })
            .collect();
        written.extend(self.nested(&bodies));
        // The name of a call comes first, all else by the alphabet.
        written.sort_by_key(|(key, _)| (!(is_call && key == "name"), key.clone()));
        let operands = equation
            .inputs
            .iter()
            .map(|&input| self.operand(jaxpr, input))
            .collect();
        let mut parts = Vec::new();
        if !equation.outputs.is_empty() {
            parts.extend([results, Doc::text(" = ")]);
        }
        parts.push(Doc::text(primitive.name()));
        if !written.is_empty() {
            let written = written.into_iter().map(|(_, doc)| doc).collect();
            parts.push(Doc::bracketed("[", Doc::joined(" ", written), "]"));
        }
        parts.extend([Doc::text(" "), Doc::filled("", operands)]);
        Doc::Concat(parts)
    }

    /// Nested jaxprs by their names; several of one name are a list.
    fn nested(&mut self, bodies: &[(&'static str, &Jaxpr)]) -> Vec<(String, Doc)> {
        let mut written: Vec<(String, Doc)> = Vec::new();
        let mut rest = bodies;
        while let Some(&(name, body)) = rest.first() {
            let count = rest.iter().take_while(|(other, _)| *other == name).count();
            let doc = if count == 1 && name != "branches" {
                self.body(body)
            } else {
                let list = rest[..count].iter().map(|(_, body)| self.body(body));
                let list = list.collect();
                Doc::bracketed("(", Doc::joined(" ", list), ")")
            };
            written.push((
                name.to_owned(),
                Doc::Concat(vec![Doc::text(format!("{name}=")), doc]),
            ));
            rest = &rest[count..];
        }
        written
    }

    /// Gives variables of a nested jaxpr the names of those outside that they are.
    fn suggest(
        &mut self,
        (inner, variables): (&Jaxpr, &[Variable]),
        (outer, like): (&Jaxpr, &[Variable]),
    ) {
        if variables.len() != like.len() {
            return;
        }
        let mut used = HashSet::new();
        for (&variable, &like) in variables.iter().zip(like) {
            let key = (place(inner), variable);
            if self.is_literal(outer, like) || self.is_literal(inner, variable) {
                continue;
            }
            if !self.variables.contains_key(&key) && used.insert(like) {
                let is_input = self.facts(outer).inputs.contains(&like);
                let name = if is_input || self.is_used(outer, like) {
                    self.name(outer, like)
                } else {
                    "_".to_owned()
                };
                self.variables.insert(key, name);
            }
        }
    }
}
