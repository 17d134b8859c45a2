//! Lists of which a mask marks items.

use pytree_base::bug::{bug, expect_next, pairs};

/// Returns the items whose flag in `mask` is true.
#[track_caller]
pub(crate) fn chosen<'a, T>(items: &'a [T], mask: &'a [bool]) -> impl Iterator<Item = &'a T> {
    pairs(items, mask, "a flag for each item")
        .filter(|(_, chosen)| **chosen)
        .map(|(item, _)| item)
}

/// Returns a list as long as `mask`: the next item where the flag is true, `None` where the flag is false.
#[track_caller]
pub(crate) fn in_places<T>(items: impl IntoIterator<Item = T>, mask: &[bool]) -> Vec<Option<T>> {
    const EXPECTED: &str = "exactly one item for each marked position";
    let mut items = items.into_iter();
    let mut places = Vec::with_capacity(mask.len());
    for &marked in mask {
        places.push(if marked {
            Some(expect_next(&mut items, EXPECTED))
        } else {
            None
        });
    }
    if items.next().is_some() {
        bug(EXPECTED);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let panic = std::panic::catch_unwind(run).unwrap_err();
        *panic.downcast::<String>().unwrap()
    }

    #[test]
    fn mask_must_match_number_of_items() {
        assert_eq!(
            in_places([1, 2], &[true, false, true]),
            [Some(1), None, Some(2)]
        );
        for items in [1, 3] {
            let text = panics(|| drop(in_places(0..items, &[true, false, true])));
            assert!(
                text.contains("exactly one item for each marked position"),
                "{text}"
            );
        }
        let text = panics(|| assert_eq!(chosen(&[1, 2], &[true]).count(), 1));
        assert!(
            text.contains("a flag for each item, found 2 and 1"),
            "{text}"
        );
    }
}
