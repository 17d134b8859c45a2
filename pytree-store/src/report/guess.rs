//! Suggests names for leaves that do not match, one by one or by a common prefix.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;

use pytree_base::suggest::Effort;

/// A list of names in which similar names are searched. An index groups the names by the last step of each name.
pub(crate) struct Names<'n> {
    all: Vec<&'n str>,
    set: HashSet<&'n str>,
    by_last_step: HashMap<&'n str, Vec<&'n str>>,
}

impl<'n> Names<'n> {
    pub(crate) fn new(names: impl Iterator<Item = &'n str>) -> Self {
        let all: Vec<&str> = names.collect();
        let mut by_last_step: HashMap<&str, Vec<&str>> = HashMap::new();
        for &name in &all {
            by_last_step.entry(last_step(name)).or_default().push(name);
        }
        Self {
            set: all.iter().copied().collect(),
            all,
            by_last_step,
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.set.contains(name)
    }

    /// Returns the name that is most similar to `name`. Ignores the first steps that both names have in common. Returns
    /// `None` if more than half of the rest of the longer name differs.
    pub(crate) fn nearest(&self, name: &str, effort: &mut Effort) -> Option<String> {
        let step = last_step(name);
        let likely = self.by_last_step.get(step).into_iter().flatten();
        let others = self.all.iter().filter(|other| last_step(other) != step);
        let names = likely.chain(others).map(|other| (*other, *other));
        let (nearest, distance) = effort.nearest(name, names)?;
        if optimizer_state(name) != optimizer_state(nearest) {
            return None;
        }
        let longer = name.len().max(nearest.len()) - common_steps(name, nearest);
        (2 * distance <= longer).then(|| nearest.to_owned())
    }
}

/// The maximum length, in bytes, of the step that [`last_step`] returns. The limit keeps comparisons fast, because
/// names in a hostile file may be megabytes long.
const STEP: usize = 64;

/// Returns the last field, key or position of a path, or the end of a very long last step.
fn last_step(name: &str) -> &str {
    let from = name.len().saturating_sub(STEP);
    let tail = &name.as_bytes()[from..];
    let is_bracket = |byte: &&u8| **byte == b']';
    let end = tail.len() - tail.iter().rev().take_while(is_bracket).count();
    let begins = |byte: &u8| matches!(byte, b'.' | b'[' | b'/');
    let start = from + tail[..end].iter().rposition(begins).unwrap_or(0);
    let boundary = (start..name.len()).find(|&at| name.is_char_boundary(at));
    &name[boundary.unwrap_or(name.len())..]
}

/// A prefix in the names of a checkpoint file, and the replacement that makes these names match the template.
///
/// For example, a larger value was saved, so the names in the file begin with `model.`. The template is only the field
/// `model` of such a value, so its names lack this prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherPrefix {
    /// The prefix in the file. Empty if the file lacks the prefix of the template.
    pub stored: String,
    /// The prefix in the template.
    pub expected: String,
    /// The number of names that match after the replacement.
    pub fitting: usize,
    /// The number of names that only the file has.
    pub unused: usize,
}

impl OtherPrefix {
    /// Returns the prefix whose replacement turns most unused names of the file into missing names of the template. The
    /// replacement must give at least two missing names. The replacement must also give at least half of the missing
    /// names, or use at least half of the unused names. Otherwise returns `None`. If several prefixes fit, returns the
    /// shortest. A longer prefix can also fit, because a file may have a second copy of the model's names behind a
    /// longer prefix: the states of an optimizer.
    pub(crate) fn find(left: &Names<'_>, missing: &Names<'_>) -> Option<Self> {
        let count = left.all.len();
        // Only three sample names are tried. A useful prefix occurs in many names, so a sample probably has this
        // prefix.
        let samples = [0, count / 2, count.saturating_sub(1)];
        let samples = samples.iter().filter_map(|&at| left.all.get(at));
        let guesses = samples.filter_map(|sample| {
            let same_step = missing.by_last_step.get(last_step(sample))?;
            let partner = same_step
                .iter()
                .max_by_key(|name| (common_end(sample, name), Reverse(name.len())))?;
            let (stored, expected) = prefixes(sample, partner)?;
            if optimizer_state(stored) != optimizer_state(expected) {
                return None;
            }
            let mut guess = Self {
                stored: stored.to_owned(),
                expected: expected.to_owned(),
                fitting: 0,
                unused: count,
            };
            let renamed = left.all.iter().filter_map(|name| guess.expected(name));
            guess.fitting = renamed.filter(|name| missing.contains(name)).count();
            Some(guess)
        });
        guesses
            .max_by_key(|guess| {
                (
                    guess.fitting,
                    Reverse(guess.stored.len() + guess.expected.len()),
                )
            })
            .filter(|guess| guess.fitting > 1 && 2 * guess.fitting >= count.min(missing.all.len()))
    }

    /// Replaces the prefix of the file in the name `stored` by the prefix of the template. Returns `None` if `stored`
    /// does not begin with the prefix of the file.
    pub(crate) fn expected(&self, stored: &str) -> Option<String> {
        let rest = stored.strip_prefix(&self.stored)?;
        Some(format!("{}{rest}", self.expected))
    }

    /// Replaces the prefix of the template in the name `expected` by the prefix of the file. Returns `None` if
    /// `expected` does not begin with the prefix of the template.
    pub(crate) fn stored(&self, expected: &str) -> Option<String> {
        let rest = expected.strip_prefix(&self.expected)?;
        Some(format!("{}{rest}", self.stored))
    }
}

impl fmt::Display for OtherPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stored,
            expected,
            fitting,
            unused,
        } = self;
        if fitting == unused {
            write!(f, "all {unused} names that only the file has")?;
        } else {
            write!(f, "{fitting} of {unused} names that only the file has")?;
        }
        // The function changes only names that begin with the prefix. A prefix can also occur inside of other names.
        match (stored.is_empty(), expected.is_empty()) {
            (false, true) => write!(
                f,
                " begin with `{stored}`, but the names in the template do not: load the checkpoint by `load_with` with \
                 `LoadOptions::new().rename_with(|name| name.strip_prefix({stored:?}).unwrap_or(name).to_owned())"
            ),
            (true, _) => write!(
                f,
                " do not begin with `{expected}`, but the names in the template do: load the checkpoint by `load_with` with \
                 `LoadOptions::new().rename_with(|name| {expected:?}.to_owned() + name)"
            ),
            (false, false) => write!(
                f,
                " begin with `{stored}`, but the names in the template begin with `{expected}`: load the checkpoint by `load_with` with \
                 `LoadOptions::new().rename_with(|name| name.strip_prefix({stored:?}).map_or(name.to_owned(), |rest| {expected:?}.to_owned() + rest))"
            ),
        }?;
        f.write_str(if fitting == unused {
            "`"
        } else {
            ".allow_unused()`"
        })
    }
}

/// Returns the field of a transformation that a name or a prefix has, such as `mean` in `steps[0].mean.weight`, or
/// `None` if there is none.
///
/// Different fields are different states, for instance the means of Adam and the sums of momentum. They have the same
/// shapes, so a load under another name would succeed, and train wrongly.
fn optimizer_state(name: &str) -> Option<&str> {
    let (_, step) = name.rsplit_once("steps[")?;
    let (_, field) = step.split_once("].")?;
    let end = field.find(['.', '[']).unwrap_or(field.len());
    (end > 0).then(|| &field[..end])
}

/// Returns the number of bytes in the first steps that both names have in common.
fn common_steps(left: &str, right: &str) -> usize {
    let pairs = left.bytes().zip(right.bytes());
    let same = pairs.take_while(|(left, right)| left == right).count();
    let ends = |at: &usize| {
        [left, right]
            .iter()
            .all(|name| *at < name.len() && begins_step(name, *at))
    };
    (0..=same).rev().find(ends).unwrap_or(0)
}

/// Returns the number of bytes in the common suffix of two names.
fn common_end(left: &str, right: &str) -> usize {
    let pairs = left.bytes().rev().zip(right.bytes().rev());
    pairs.take_while(|(left, right)| left == right).count()
}

/// Returns the parts of two names before their longest common suffix that consists of whole steps. Returns `None` if
/// the last steps differ.
fn prefixes<'n>(stored: &'n str, expected: &'n str) -> Option<(&'n str, &'n str)> {
    let common = common_end(stored, expected);
    let mut end = common;
    while end > 0 {
        let (left, right) = (stored.len() - end, expected.len() - end);
        if begins_step(stored, left) && begins_step(expected, right) {
            return Some((&stored[..left], &expected[..right]));
        }
        end -= 1;
    }
    None
}

/// Returns whether a step of the path `name` begins at the byte `at`.
fn begins_step(name: &str, at: usize) -> bool {
    let bytes = name.as_bytes();
    let is_in_front = at == 0 || matches!(bytes[at - 1], b'.' | b'/');
    name.is_char_boundary(at) && (is_in_front || matches!(bytes[at], b'[' | b'.' | b'/'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::{Effort, Names, OtherPrefix};

    /// The fields `stored`, `expected`, `fitting` and `unused` of an [`OtherPrefix`].
    type Found = (String, String, usize, usize);

    fn found(stored: &[&str], expected: &[&str]) -> Option<Found> {
        let left = Names::new(stored.iter().copied());
        let missing = Names::new(expected.iter().copied());
        let prefix = OtherPrefix::find(&left, &missing)?;
        let (fitting, unused) = (prefix.fitting, prefix.unused);
        Some((prefix.stored, prefix.expected, fitting, unused))
    }

    fn is(found: Option<Found>, stored: &str, expected: &str, fitting: usize, unused: usize) {
        let expected = (stored.to_owned(), expected.to_owned(), fitting, unused);
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn prefix_is_found_on_either_side() {
        let plain = ["layers[0].bias", "layers[0].weight", "layers[1].weight"];
        let model = [
            "model.layers[0].bias",
            "model.layers[0].weight",
            "model.layers[1].weight",
        ];
        let net = [
            "net.layers[0].bias",
            "net.layers[0].weight",
            "net.layers[1].weight",
        ];
        let first = [
            "[0].layers[0].bias",
            "[0].layers[0].weight",
            "[0].layers[1].weight",
        ];
        let keyed = [
            "['é'].layers[0].bias",
            "['é'].layers[0].weight",
            "['é'].layers[1].weight",
        ];
        is(found(&model, &plain), "model.", "", 3, 3);
        is(found(&plain, &model), "", "model.", 3, 3);
        is(found(&model, &net), "model", "net", 3, 3);
        is(found(&first, &plain), "[0].", "", 3, 3);
        is(found(&first, &keyed), "[0]", "['é']", 3, 3);
        is(found(&keyed, &first), "['é']", "[0]", 3, 3);
        let moments = plain.map(|name| format!("[1].mean.{name}"));
        let with_moments: Vec<&str> = first
            .into_iter()
            .chain(moments.iter().map(String::as_str))
            .collect();
        is(found(&plain, &with_moments), "", "[0].", 3, 3);
        is(found(&with_moments, &plain), "[0].", "", 3, 6);
        let more = [&model[..], &["step", "zeal"]].concat();
        is(found(&more, &plain), "model.", "", 3, 5);
    }

    #[test]
    fn names_that_only_begin_alike_are_not_suggested() {
        let names = [
            "[1].steps[0].learning_rate",
            "[1].steps[0].mean.layers[0].weight",
        ];
        let names = Names::new(names.into_iter());
        let nearest = |name| names.nearest(name, &mut Effort::default());
        assert_eq!(nearest("[1].steps[0].count"), None);
        assert_eq!(nearest("[1].steps[0].square"), None);
        assert!(
            nearest("[1].steps[1].learning_rate")
                .unwrap()
                .ends_with("learning_rate")
        );
        assert!(
            nearest("[1].steps[0].mean.layers[0].wieght")
                .unwrap()
                .ends_with("weight")
        );
        assert!(nearest("steps[0].mean.layers[0].weight").is_some());
    }

    #[test]
    fn states_of_other_transformations_are_not_suggested() {
        let of = |field: &str| {
            ["bias", "weight"].map(|leaf| format!("opt.steps[0].{field}.layers[0].{leaf}"))
        };
        let (means, sums) = (of("mean"), of("sums"));
        let (means, sums) = (means.each_ref(), sums.each_ref());
        let (means, sums) = (means.map(String::as_str), sums.map(String::as_str));
        assert_eq!(found(&means, &sums), None);
        let names = Names::new(sums.into_iter());
        assert_eq!(names.nearest(means[0], &mut Effort::default()), None);
        // The same transformation at another place of the chain is a rename.
        let moved = means.map(|name| name.replace("steps[0]", "steps[1]"));
        let moved = moved.each_ref().map(String::as_str);
        is(found(&means, &moved), "opt.steps[0]", "opt.steps[1]", 2, 2);
    }

    #[test]
    fn suggested_code_changes_only_the_prefix() {
        let text = |stored: &str, expected: &str, unused| {
            let prefix = OtherPrefix {
                stored: stored.to_owned(),
                expected: expected.to_owned(),
                fitting: 3,
                unused,
            };
            prefix.to_string()
        };
        for (stored, expected, unused, code) in [
            (
                "[0].",
                "",
                3,
                "rename_with(|name| name.strip_prefix(\"[0].\").unwrap_or(name).to_owned())`",
            ),
            (
                "[0].",
                "",
                9,
                "rename_with(|name| name.strip_prefix(\"[0].\").unwrap_or(name).to_owned()).allow_unused()`",
            ),
            (
                "",
                "net.",
                3,
                "rename_with(|name| \"net.\".to_owned() + name)`",
            ),
            (
                "a.",
                "b.",
                4,
                "rename_with(|name| name.strip_prefix(\"a.\").map_or(name.to_owned(), |rest| \"b.\".to_owned() + rest)).allow_unused()`",
            ),
        ] {
            let text = text(stored, expected, unused);
            assert!(text.ends_with(code), "{text}");
        }
    }

    #[test]
    fn misspelling_suggests_no_prefix() {
        assert_eq!(found(&["wieght"], &["weight"]), None);
        assert_eq!(found(&["a.weight"], &["b.weight"]), None);
        assert_eq!(found(&["a.x", "b.y", "c.z"], &["d.x", "e.y", "f.z"]), None);
        assert_eq!(found(&[], &["x"]), None);
        assert_eq!(found(&["x"], &[]), None);
    }
}
