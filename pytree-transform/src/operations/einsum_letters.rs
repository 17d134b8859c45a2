//! The letters of an einsum, which are the labels of the axes of its operands and its result.

use crate::base::error::Mistake;

/// The label of an axis of an operand or the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Letter(char),
    /// An axis that `...` matches. These axes are numbered from the end: 0 is the last, and 1 is the axis before it.
    Ellipsis(usize),
}

/// The labels of all axes of the operands and of the result.
#[derive(Debug)]
pub(super) struct Letters {
    pub(super) operands: Vec<Vec<Label>>,
    pub(super) result: Vec<Label>,
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Letter(letter) => write!(f, "{letter}"),
            Self::Ellipsis(from_last) => write!(f, "axis -{} of the ellipsis", from_last + 1),
        }
    }
}

/// Returns the labels of one operand. `hidden` maps the number of letters to the number of axes that `...` matches.
fn labels(text: &str, hidden: impl Fn(usize) -> Option<usize>) -> Result<Vec<Label>, Mistake> {
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    if after.is_some_and(|after| after.contains("...")) {
        return Err(Mistake::new(
            "an operand or the result has two ellipses",
            "write `...` at most once in each operand and in the result",
        ));
    }
    let letters = |text: &str| -> Result<Vec<Label>, Mistake> {
        let label = |letter: char| match letter {
            'a'..='z' | 'A'..='Z' => Ok(Label::Letter(letter)),
            other => Err(Mistake::new(
                format!("{other:?} is not a letter"),
                "write one letter (a to z, A to Z) for each axis, `...` for axes without a letter, `,` between \
                 operands, and `->` before the result",
            )),
        };
        text.chars().map(label).collect()
    };
    let (before, behind) = (letters(before)?, letters(after.unwrap_or_default())?);
    let count = match after {
        // `hidden` returns `None` if the operand has more letters than axes. The caller knows the number of axes and
        // reports this mistake.
        Some(_) => hidden(before.len() + behind.len()).unwrap_or(0),
        None => 0,
    };
    let ellipsis: Vec<Label> = (0..count).rev().map(Label::Ellipsis).collect();
    Ok([before, ellipsis, behind].concat())
}

/// Returns the mistake for the operand at position `place`, which has `rank` axes but `letters` letters.
fn wrong_count(place: usize, rank: usize, letters: usize) -> Mistake {
    let fix = if letters < rank {
        "give each axis a letter, or write `...` for axes without a letter"
    } else {
        "give each axis one letter"
    };
    Mistake::new(
        format!("operand {place} has {rank} axes, but {letters} letters"),
        fix,
    )
}

impl Letters {
    /// Parses the subscripts for operands of the given ranks. The error holds all mistakes in the subscripts.
    pub(super) fn parse(subscripts: &str, ranks: &[usize]) -> Result<Self, Vec<Mistake>> {
        let text: String = subscripts.split_whitespace().collect();
        let (inputs, result) = match text.split_once("->") {
            Some((inputs, result)) => (inputs, Some(result)),
            None => (&text[..], None),
        };
        let parts: Vec<&str> = inputs.split(',').collect();
        if parts.len() != ranks.len() {
            return Err(vec![Mistake::new(
                format!(
                    "{} operands are described, but {} were passed",
                    parts.len(),
                    ranks.len()
                ),
                "write the letters of each operand, with `,` between operands",
            )]);
        }
        let mut operands = Vec::with_capacity(ranks.len());
        let mut mistakes = Vec::new();
        for (place, (part, &rank)) in parts.iter().zip(ranks).enumerate() {
            match labels(part, |letters| rank.checked_sub(letters)) {
                Ok(labels) => {
                    if labels.len() != rank {
                        mistakes.push(wrong_count(place, rank, labels.len()));
                    }
                    operands.push(labels);
                }
                Err(mistake) => mistakes.push(mistake),
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut parsed = Self {
            operands,
            result: Vec::new(),
        };
        let hidden = parsed.hidden();
        parsed.result = match result {
            Some(result) => labels(result, |_| Some(hidden)).map_err(|mistake| vec![mistake])?,
            None => parsed.implied(hidden),
        };
        let mistakes = parsed.mistakes_of_result();
        if mistakes.is_empty() {
            Ok(parsed)
        } else {
            Err(mistakes)
        }
    }

    fn all(&self) -> impl Iterator<Item = Label> {
        self.operands.iter().flatten().copied()
    }

    /// Returns the greatest number of axes that `...` matches in an operand.
    fn hidden(&self) -> usize {
        let axes = self.all().map(|label| match label {
            Label::Ellipsis(from_last) => from_last + 1,
            Label::Letter(_) => 0,
        });
        axes.max().unwrap_or(0)
    }

    /// Returns the labels of the result for subscripts without `->`. The axes of `...` are first, followed by the
    /// letters that occur once.
    fn implied(&self, hidden: usize) -> Vec<Label> {
        let letter = |label: Label| match label {
            Label::Letter(letter) => Some(letter),
            Label::Ellipsis(_) => None,
        };
        let letters: Vec<char> = self.all().filter_map(letter).collect();
        let once = |letter: &char| letters.iter().filter(|other| *other == letter).count() == 1;
        let mut single: Vec<char> = letters
            .iter()
            .copied()
            .filter(|letter| once(letter))
            .collect();
        single.sort_unstable();
        let ellipsis = (0..hidden).rev().map(Label::Ellipsis);
        ellipsis
            .chain(single.into_iter().map(Label::Letter))
            .collect()
    }

    fn mistakes_of_result(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        for (place, &label) in self.result.iter().enumerate() {
            if self.result[..place].contains(&label) {
                mistakes.push(Mistake::new(
                    format!("the result has {label} twice"),
                    "use a different letter for each axis of the result",
                ));
            } else if !self.all().any(|other| other == label) {
                mistakes.push(Mistake::new(
                    format!("the result has {label}, which no operand has"),
                    "use only letters of the operands, and add new axes with `.expand_dims` or `.broadcast_to`",
                ));
            }
        }
        mistakes
    }

    /// Returns the lengths of all axes with the label `label`, in operands of the shapes `shapes`.
    fn lengths<'a>(
        &'a self,
        shapes: &'a [&[usize]],
        label: Label,
    ) -> impl Iterator<Item = usize> + 'a {
        let axes = self.operands.iter().zip(shapes);
        axes.flat_map(|(labels, shape)| labels.iter().zip(*shape))
            .filter(move |(other, _)| **other == label)
            .map(|(_, &length)| length)
    }

    /// Returns whether an axis with the label `label` has a length other than 1.
    pub(super) fn is_longer(&self, shapes: &[&[usize]], label: Label) -> bool {
        self.lengths(shapes, label).any(|length| length != 1)
    }

    /// Returns a mistake for each label whose axes have different lengths. Lengths of 1 are ignored.
    pub(super) fn mismatches(&self, shapes: &[&[usize]]) -> Vec<Mistake> {
        let mut seen = Vec::new();
        let mut mistakes = Vec::new();
        for label in self.all() {
            if seen.contains(&label) {
                continue;
            }
            seen.push(label);
            let mut lengths: Vec<usize> = Vec::new();
            for length in self.lengths(shapes, label).filter(|&length| length != 1) {
                if !lengths.contains(&length) {
                    lengths.push(length);
                }
            }
            if lengths.len() > 1 {
                let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
                mistakes.push(Mistake::new(
                    format!("{label} has the lengths {}", lengths.join(" and ")),
                    "use the same letter only for axes of equal length or of length 1",
                ));
            }
        }
        mistakes
    }
}
