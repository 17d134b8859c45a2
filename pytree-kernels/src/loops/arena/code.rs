//! Instructions in the order in which they run.

use std::collections::{BTreeMap, BTreeSet};

use pytree_base::bug::expect_some;

use super::values::{Place, Values};
use crate::base::instructions::Prepared;

/// An operation of a program.
pub(super) type Instruction = Prepared<Values>;

/// Instructions in the order in which they run, with the identity of the values whose addresses they know.
pub struct Code {
    identity: usize,
    instructions: Vec<Instruction>,
    /// The values that have the numbers of others, whose elements are narrower, until an instruction writes these.
    wide: BTreeMap<Place, Place>,
    /// Only the body of a loop has it.
    repeats: Option<Box<Repeats>>,
}

/// What the rounds of a loop have in common.
struct Repeats {
    /// The place of the first value that the loop may write.
    first: Place,
    /// The values that are computed before the loop, because they are the same in all rounds.
    hoisted: BTreeSet<Place>,
    before: Code,
}

impl Repeats {
    fn are_invariant(&self, places: &[Place], values: &Values) -> bool {
        let is_invariant = |place: &Place| {
            *place < self.first || self.hoisted.contains(place) || values.is_constant(*place)
        };
        places.iter().all(is_invariant)
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Code({} instructions)", self.instructions.len())
    }
}

impl Code {
    /// Adds an instruction.
    pub fn push(&mut self, instruction: impl FnMut(&mut Values) + Send + 'static) {
        self.add(Instruction::new(instruction));
    }

    pub(super) fn add(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }

    /// Returns the code before the loop whose body this is, if no round writes these values.
    pub fn before(&mut self, read: &[Place], values: &Values) -> Option<&mut Self> {
        let repeats = self.repeats.as_deref_mut()?;
        let are_invariant = repeats.are_invariant(read, values);
        are_invariant.then_some(&mut repeats.before)
    }

    /// Returns the code before the loop, if there is one and no round writes these values, and otherwise this code.
    pub(super) fn before_or_here(&mut self, read: &[Place], values: &Values) -> &mut Self {
        if self.before(read, values).is_none() {
            return self;
        }
        expect_some(self.before(read, values), "the code before the loop")
    }

    /// Says that the code before the loop computes these values.
    pub fn hoist(&mut self, places: &[Place]) {
        if let Some(repeats) = &mut self.repeats {
            repeats.hoisted.extend(places);
        }
    }

    /// Returns whether the code before the loop computes a value.
    pub fn is_hoisted(&self, place: Place) -> bool {
        let repeats = self.repeats.as_ref();
        repeats.is_some_and(|repeats| repeats.hoisted.contains(&place))
    }

    /// Adds what runs before the loop whose body is `body`.
    pub fn prepare(&mut self, body: &mut Self) {
        if let Some(repeats) = &mut body.repeats {
            self.instructions.append(&mut repeats.before.instructions);
        }
    }

    /// Returns the value that has the numbers of another one, if there is one.
    pub(super) fn wide(&self, place: Place) -> Option<Place> {
        let before = self.repeats.as_ref().map(|repeats| &repeats.before.wide);
        let found = self.wide.get(&place);
        found.or_else(|| before?.get(&place)).copied()
    }

    pub(super) fn know(&mut self, place: Place, wide: Place) {
        self.wide.insert(place, wide);
    }

    /// An instruction writes the value next.
    pub(super) fn forget(&mut self, place: Place) {
        self.wide.remove(&place);
    }

    /// Runs the instructions.
    ///
    /// # Panics
    /// Panics if they were made for other values.
    #[inline]
    pub fn run(&mut self, values: &mut Values) {
        assert!(
            self.identity == values.identity,
            "the values of the instructions"
        );
        for instruction in &mut self.instructions {
            instruction.call(values);
        }
    }
}

impl Values {
    /// Returns no instructions, to which those of these values are added.
    pub fn code(&self) -> Code {
        Code {
            identity: self.identity,
            instructions: Vec::new(),
            wide: BTreeMap::new(),
            repeats: None,
        }
    }

    /// Returns the body of a loop without instructions. The loop writes no value before the place `first`.
    pub fn body(&self, first: Place) -> Code {
        let mut code = self.code();
        code.repeats = Some(Box::new(Repeats {
            first,
            hoisted: BTreeSet::new(),
            before: self.code(),
        }));
        code
    }
}
