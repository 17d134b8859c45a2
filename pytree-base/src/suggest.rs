//! "Did you mean": finds the most similar candidate with bounded work.
//!
//! The time to count the edits between two texts grows with the product of their lengths, and a report may compare many
//! texts with many candidates. So a report has a budget of work, an [`Effort`]. Each comparison spends part of the
//! budget, and each text may spend only a share of the budget. When the budget is spent, later texts get no suggestion.
//! Candidates that share their beginning and end with the text are compared first, so a typing error is found even if
//! not all candidates are compared.

/// The budget of a whole report, in cells of the edit-distance table. Spending the budget takes some tens of
/// milliseconds in a debug build.
const OF_A_REPORT: usize = 4_000_000;

/// The budget is divided into this many equal shares. The suggestion for one text spends at most one share. A report
/// lists at most this many texts.
const TEXTS: usize = 20;

/// The cost of looking at a candidate without reading its text, in cells of the edit-distance table.
const OF_A_CANDIDATE: usize = 32;

/// The remaining budget of work for the suggestions of a report.
///
/// # Examples
/// ```
/// use pytree_base::suggest::Effort;
/// let names = ["weight", "bias"];
/// let found = Effort::default().nearest("wieght", names.iter().map(|name| (name, name)));
/// assert_eq!(found, Some((&"weight", 2)));
/// ```
#[derive(Debug)]
pub struct Effort {
    left: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { left: OF_A_REPORT }
    }
}

/// The candidates for a suggestion, which are taken one by one.
trait Candidates {
    /// Takes the next candidate. Returns its position, or `None` if there is no other candidate.
    fn next(&mut self) -> Option<usize>;
    /// Returns the text of a candidate that was taken.
    fn text(&self, position: usize) -> &str;
}

struct Taken<I, T, S> {
    rest: I,
    taken: Vec<(T, S)>,
}

impl<T, S: AsRef<str>, I: Iterator<Item = (T, S)>> Candidates for Taken<I, T, S> {
    fn next(&mut self) -> Option<usize> {
        self.taken.push(self.rest.next()?);
        Some(self.taken.len() - 1)
    }

    fn text(&self, position: usize) -> &str {
        self.taken[position].1.as_ref()
    }
}

impl Effort {
    /// Returns the candidate with the fewest edits from `asked`, and the number of edits. If several candidates are
    /// equally similar, returns the first.
    ///
    /// Each candidate is an item with its text. Candidates are taken from the iterator until the budget is spent, so
    /// put the likely candidates first.
    pub fn nearest<T, S: AsRef<str>>(
        &mut self,
        asked: &str,
        candidates: impl IntoIterator<Item = (T, S)>,
    ) -> Option<(T, usize)> {
        let mut candidates = Taken {
            rest: candidates.into_iter(),
            taken: Vec::new(),
        };
        let (position, distance) = self.position_of_nearest(asked, &mut candidates)?;
        Some((candidates.taken.swap_remove(position).0, distance))
    }

    /// Returns the position of the nearest candidate, and the number of edits.
    fn position_of_nearest(
        &mut self,
        asked: &str,
        candidates: &mut dyn Candidates,
    ) -> Option<(usize, usize)> {
        let mut share = self.left.min(OF_A_REPORT / TEXTS);
        self.left -= share;
        // Half of the share is for looking at candidates, and the other half for counting edits.
        let mut looking = share / 2;
        share -= looking;
        // For each candidate that is compared, an upper bound of the number of edits, and the position. The bound is cheap.
        let mut found = Vec::new();
        while asked.len() < looking {
            let Some(position) = candidates.next() else {
                break;
            };
            let text = candidates.text(position);
            let length = text.len();
            // A text that is too long to be compared costs only the check of its length.
            if let Some(left) = looking.checked_sub(OF_A_CANDIDATE + length) {
                looking = left;
                found.push((most_edits(asked, text), position));
            } else {
                looking -= looking.min(OF_A_CANDIDATE);
            }
        }
        if found.is_empty() {
            self.left += looking + share;
            return None;
        }
        found.sort_unstable();
        let mut counting = share;
        let asked: Vec<char> = asked.chars().collect();
        let mut best: Option<(usize, usize)> = None;
        for (_, position) in found {
            let limit = best.map_or(usize::MAX, |(distance, _)| distance);
            let text = candidates.text(position);
            let Some(distance) = distance_within(&asked, text, limit, &mut counting) else {
                continue;
            };
            if best.is_none_or(|best| (distance, position) < best) {
                best = Some((distance, position));
            }
        }
        self.left += looking + counting;
        best.map(|(distance, position)| (position, distance))
    }
}

/// Returns an upper bound for the number of edits between two texts. To compute it, removes the common beginning and
/// the common end of the texts, and counts the remaining bytes of the longer text.
fn most_edits(left: &str, right: &str) -> usize {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let same = |(left, right): &(&u8, &u8)| left == right;
    let start = left.iter().zip(right).take_while(same).count();
    let rest = left[start..].iter().rev().zip(right[start..].iter().rev());
    left.len().max(right.len()) - start - rest.take_while(same).count()
}

/// Returns the number of edits between two texts, if the number is at most `limit` and the budget `work` suffices.
fn distance_within(left: &[char], right: &str, limit: usize, work: &mut usize) -> Option<usize> {
    *work = work.checked_sub(right.len())?;
    let right: Vec<char> = right.chars().collect();
    if left.len().abs_diff(right.len()) > limit {
        return None;
    }
    let start = left.iter().zip(&right).take_while(|(l, r)| l == r).count();
    let (left, right) = (&left[start..], &right[start..]);
    let pairs = left.iter().rev().zip(right.iter().rev());
    let end = pairs.take_while(|(l, r)| l == r).count();
    let (left, right) = (&left[..left.len() - end], &right[..right.len() - end]);
    if left.is_empty() || right.is_empty() {
        return Some(left.len().max(right.len()));
    }
    // With at most `limit` edits, only cells at most `limit` away from the diagonal are needed.
    let limit = limit.min(left.len().max(right.len()));
    let width = (2 * limit + 1).min(right.len());
    let cells = left.len().saturating_mul(width);
    if cells > *work {
        return None;
    }
    *work -= cells;
    let beyond = limit + 1;
    let mut row: Vec<usize> = (0..=right.len()).map(|edits| edits.min(beyond)).collect();
    for (i, letter) in left.iter().enumerate() {
        let (first, last) = (i.saturating_sub(limit), (i + limit + 1).min(right.len()));
        let mut diagonal = row[first];
        row[first] = if first == 0 {
            (i + 1).min(beyond)
        } else {
            beyond
        };
        let mut least = row[first];
        for j in first..last {
            let above = row[j + 1];
            let replaced = diagonal + usize::from(*letter != right[j]);
            let edits = replaced.min(above + 1).min(row[j] + 1).min(beyond);
            diagonal = above;
            row[j + 1] = edits;
            least = least.min(edits);
        }
        if least > limit {
            return None;
        }
    }
    Some(row[right.len()]).filter(|&edits| edits <= limit)
}

#[cfg(test)]
mod tests {
    use super::{Effort, OF_A_REPORT, distance_within, most_edits};

    /// Counts the edits with the complete table, as in a textbook.
    fn table(left: &str, right: &str) -> usize {
        let right: Vec<char> = right.chars().collect();
        let mut row: Vec<usize> = (0..=right.len()).collect();
        for left in left.chars() {
            let mut next = vec![row[0] + 1];
            for (j, letter) in right.iter().enumerate() {
                let replaced = row[j] + usize::from(left != *letter);
                next.push(replaced.min(row[j + 1] + 1).min(next[j] + 1));
            }
            row = next;
        }
        row[right.len()]
    }

    fn texts() -> Vec<String> {
        let mut texts = vec![String::new()];
        for length in 1..5 {
            for mut code in 0..3_usize.pow(length) {
                let mut text = String::new();
                for _ in 0..length {
                    text.push(['a', 'b', 'é'][code % 3]);
                    code /= 3;
                }
                texts.push(text);
            }
        }
        texts
    }

    #[test]
    fn distances_are_those_of_the_table() {
        let texts = texts();
        for left in &texts {
            let letters: Vec<char> = left.chars().collect();
            for right in &texts {
                let expected = table(left, right);
                for limit in [0, 1, 2, 3, usize::MAX] {
                    let found = distance_within(&letters, right, limit, &mut 1_000);
                    let expected = Some(expected).filter(|&edits| edits <= limit);
                    assert_eq!(found, expected, "{left} {right} {limit}");
                }
            }
        }
        let kitten: Vec<char> = "kitten".chars().collect();
        let found = distance_within(&kitten, "sitting", usize::MAX, &mut 1_000);
        assert_eq!(found, Some(3));
    }

    #[test]
    fn of_two_as_near_it_is_the_first() {
        let found = |asked: &str, names: &[&'static str]| {
            let names = names.iter().map(|name| (*name, name));
            Effort::default().nearest(asked, names)
        };
        assert_eq!(found("b", &["aa", "a", "c"]), Some(("a", 1)));
        assert_eq!(found("b", &["c", "a"]), Some(("c", 1)));
        assert_eq!(found("b", &["xyz"]), Some(("xyz", 3)));
        assert_eq!(found("b", &[]), None);
    }

    #[test]
    fn work_is_bounded_and_divided() {
        let others: Vec<String> = (0..1_000).map(|at| format!("{at:0>500}")).collect();
        let mut effort = Effort::default();
        let mut pulled = 0;
        for asked in 0..100_000 {
            let asked = format!("x{asked}").repeat(50);
            let candidates = others.iter().inspect(|_| pulled += 1);
            let _ = effort.nearest(&asked, candidates.map(|other| (other, other)));
        }
        assert!(pulled < 10_000, "{pulled} candidates were looked at");
        // A single text spends at most its share of the budget, even if both texts are very long.
        let mut effort = Effort::default();
        let huge = "y".repeat(10_000_000);
        assert_eq!(effort.nearest(&"x".repeat(1_000_000), [((), &huge)]), None);
        let found = effort.nearest("wieght", [("weight", "weight")]);
        assert_eq!(found, Some(("weight", 2)));
    }

    #[test]
    fn likely_candidates_are_compared_first() {
        let mut names: Vec<String> = (0..1_000).map(|at| format!("{at:x<300}")).collect();
        names.push(format!("encoder.{}.weight", "y".repeat(300)));
        let asked = format!("encoder.{}.wieght", "y".repeat(300));
        // The most similar candidate is found, although a comparison with all candidates would exceed the budget.
        let short = names.iter().rev().map(|name| (name, name));
        let found = Effort::default().nearest(&asked, short);
        assert_eq!(found.map(|(_, distance)| distance), Some(2));
    }

    #[test]
    fn likely_candidate_at_the_end_is_compared() {
        let mut names: Vec<String> = (0..200).map(|at| format!("{at:x<300}")).collect();
        names.push(format!("encoder.{}.weight", "y".repeat(300)));
        let asked = format!("encoder.{}.wieght", "y".repeat(300));
        let found = Effort::default().nearest(&asked, names.iter().map(|name| (name, name)));
        assert_eq!(found.map(|(_, distance)| distance), Some(2));
    }

    #[test]
    fn nearest_is_found_behind_what_looks_likely() {
        let found = |names: [&'static str; 2]| {
            let names = names.iter().map(|name| (*name, name));
            Effort::default().nearest("abcd", names)
        };
        // `XYZd` has the smaller upper bound, because of its common end, and is compared first.
        assert_eq!(found(["XYZd", "xabcdx"]), Some(("xabcdx", 2)));
        assert_eq!(found(["xabcdx", "XYcd"]), Some(("xabcdx", 2)));
        assert_eq!(found(["XYcd", "xabcdx"]), Some(("XYcd", 2)));
    }

    #[test]
    fn most_edits_are_between_common_ends() {
        let cases = [
            ("abcdef", "abXdef", 1),
            ("abc", "abc", 0),
            ("", "ab", 2),
            ("aXb", "aYYb", 2),
            ("aXXcc", "aYcc", 2),
        ];
        for (left, right, most) in cases {
            assert_eq!(most_edits(left, right), most, "{left} {right}");
            assert_eq!(most_edits(right, left), most, "{right} {left}");
        }
    }

    /// Returns the number of candidates that were looked at, and the remaining budget.
    fn looked_at(lengths: impl IntoIterator<Item = usize>) -> (usize, usize) {
        let mut effort = Effort::default();
        let mut count = 0;
        let texts = lengths.into_iter().map(|length| ((), "x".repeat(length)));
        let _ = effort.nearest("b", texts.inspect(|_| count += 1));
        (count, effort.left)
    }

    #[test]
    fn work_is_counted() {
        // A text may spend 200 000 cells. Half of these cells are for looking at candidates. A candidate costs 32 plus
        // its length.
        assert_eq!(looked_at((0..).map(|_| 68)).0, 1_000);
        assert_eq!(
            looked_at((0..).map(|at| if at == 999 { 67 } else { 68 })).0,
            1_000
        );
        assert_eq!(looked_at((0..).map(|_| 200_000)).0, 3_125);
        // Unspent budget remains for other texts.
        assert_eq!(looked_at([]), (0, OF_A_REPORT));
        assert_eq!(looked_at([200_000]), (1, OF_A_REPORT - 32));
        assert_eq!(looked_at([1]), (1, OF_A_REPORT - 33 - 2));
        assert_eq!(looked_at([1, 1]), (2, OF_A_REPORT - 66 - 4));
        // A comparison costs the bytes of the candidate plus the cells of the table within the limit.
        let left = |left: &str, right: &str, limit: usize, mut work: usize| {
            let letters: Vec<char> = left.chars().collect();
            let found = distance_within(&letters, right, limit, &mut work);
            (found, work)
        };
        assert_eq!(
            left("abc", "xyz", usize::MAX, 1_000),
            (Some(3), 1_000 - 3 - 9)
        );
        assert_eq!(
            left("abcdef", "uvwxyz", 1, 1_000),
            (None, 1_000 - 6 - 6 * 3)
        );
        assert_eq!(
            left("abcdef", "uvwxyz", 2, 1_000),
            (None, 1_000 - 6 - 6 * 5)
        );
        assert_eq!(left("abc", "xyz", usize::MAX, 12), (Some(3), 0));
        assert_eq!(left("abc", "xyz", usize::MAX, 11), (None, 8));
        assert_eq!(left("abc", "abcd", 1, 1_000), (Some(1), 996));
        assert_eq!(left("abc", "abcde", 1, 1_000), (None, 995));
    }
}
