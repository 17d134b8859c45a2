//! What a program prints, compared with what it should.

use std::fmt::Display;

use pytree::{Leaf, Tree};

/// The lines that a program has printed so far.
#[derive(Default)]
pub(crate) struct Printed(Vec<String>);

impl Printed {
    /// Prints some text, which may be of several lines.
    pub(crate) fn say(&mut self, text: impl Display) {
        self.0.extend(text.to_string().lines().map(str::to_owned));
    }

    /// Prints what another has printed.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Compares the lines with a block of text, from whose lines the indentation is taken that all share.
    #[track_caller]
    pub(crate) fn expect(&self, block: &str) {
        let lines: Vec<&str> = block
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let indentation = |line: &&str| line.len() - line.trim_start().len();
        let common = lines.iter().map(indentation).min().unwrap_or(0);
        let expected: Vec<&str> = lines.iter().map(|line| &line[common..]).collect();
        assert_eq!(self.0, expected);
    }
}

/// Leaves as Python prints a list of them.
pub(crate) fn listed<L: Leaf + Clone>(leaves: &[L]) -> String {
    Tree::list(leaves.iter().cloned().map(Tree::leaf).collect()).to_string()
}
