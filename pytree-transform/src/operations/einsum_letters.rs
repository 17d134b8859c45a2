//! The letters of an einsum: what each axis of each operand is called.

/// What an axis is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Letter(char),
    /// An axis that `...` stands for, counted from the last of these.
    Ellipsis(usize),
}

/// The labels of the operands and of the result.
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

/// The labels of one operand; `hidden` says how many axes `...` stands for where so many letters stand.
fn labels(text: &str, hidden: impl Fn(usize) -> Option<usize>) -> Result<Vec<Label>, String> {
    let (before, after) = match text.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    if after.is_some_and(|after| after.contains("...")) {
        return Err("an operand has two ellipses".to_owned());
    }
    let letters = |text: &str| -> Result<Vec<Label>, String> {
        let label = |letter: char| match letter {
            'a'..='z' | 'A'..='Z' => Ok(Label::Letter(letter)),
            other => Err(format!("{other:?} is no letter")),
        };
        text.chars().map(label).collect()
    };
    let (before, behind) = (letters(before)?, letters(after.unwrap_or_default())?);
    let count = match after {
        Some(_) => hidden(before.len() + behind.len()).unwrap_or(0),
        None => 0,
    };
    let ellipsis: Vec<Label> = (0..count).rev().map(Label::Ellipsis).collect();
    Ok([before, ellipsis, behind].concat())
}

impl Letters {
    /// The labels that the subscripts give to operands with so many axes.
    pub(super) fn parse(subscripts: &str, ranks: &[usize]) -> Result<Self, String> {
        let text: String = subscripts.split_whitespace().collect();
        let (inputs, result) = match text.split_once("->") {
            Some((inputs, result)) => (inputs, Some(result)),
            None => (&text[..], None),
        };
        let parts: Vec<&str> = inputs.split(',').collect();
        if parts.len() != ranks.len() {
            return Err(format!(
                "{} operands are described, {} are given",
                parts.len(),
                ranks.len()
            ));
        }
        let mut operands = Vec::with_capacity(ranks.len());
        let mut problems = Vec::new();
        for (place, (part, &rank)) in parts.iter().zip(ranks).enumerate() {
            let labels = labels(part, |letters| rank.checked_sub(letters))?;
            if labels.len() != rank {
                let count = labels.len();
                problems.push(format!(
                    "operand {place} has {rank} axes, its letters {count}"
                ));
            }
            operands.push(labels);
        }
        if !problems.is_empty() {
            return Err(problems.join(", "));
        }
        let mut parsed = Self {
            operands,
            result: Vec::new(),
        };
        let hidden = parsed.hidden();
        parsed.result = match result {
            Some(result) => labels(result, |_| Some(hidden))?,
            None => parsed.implied(hidden),
        };
        parsed.check_result()?;
        Ok(parsed)
    }

    fn all(&self) -> impl Iterator<Item = Label> {
        self.operands.iter().flatten().copied()
    }

    /// How many axes the ellipses stand for.
    fn hidden(&self) -> usize {
        let axes = self.all().map(|label| match label {
            Label::Ellipsis(from_last) => from_last + 1,
            Label::Letter(_) => 0,
        });
        axes.max().unwrap_or(0)
    }

    /// The result where none is written: the ellipsis, then the letters that occur once.
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

    fn check_result(&self) -> Result<(), String> {
        for (place, &label) in self.result.iter().enumerate() {
            if self.result[..place].contains(&label) {
                return Err(format!("the result has {label} twice"));
            }
            if !self.all().any(|other| other == label) {
                return Err(format!("the result has {label}, which no operand has"));
            }
        }
        Ok(())
    }

    /// The lengths that a label has in operands of these shapes.
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

    /// Whether the label has another length than 1 somewhere.
    pub(super) fn is_longer(&self, shapes: &[&[usize]], label: Label) -> bool {
        self.lengths(shapes, label).any(|length| length != 1)
    }

    /// Every label whose lengths are neither equal nor 1.
    pub(super) fn mismatches(&self, shapes: &[&[usize]]) -> Vec<String> {
        let mut seen = Vec::new();
        let mut problems = Vec::new();
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
                problems.push(format!("{label} has the lengths {}", lengths.join(" and ")));
            }
        }
        problems
    }
}
