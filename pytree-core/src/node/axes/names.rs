//! The names of the axes of an array, for messages and tables.

/// Returns the name of each axis of an array with `rank` axes, or `None` for an axis without a name.
///
/// `axes` are the declared axes, as [`TreeDef::leaf_axes`](crate::TreeDef::leaf_axes) returns them: a name, `name?`, a
/// computed length, a number, `_`, `...` or `*name`. If the array is stacked, its additional leading axes have no name.
/// Returns `None` if the array has too few axes.
///
/// # Examples
/// ```
/// use pytree_core::axes;
/// let declared = ["in".to_owned(), "3".to_owned()];
/// assert_eq!(axes::names(&declared, 3), Some(vec![None, Some("in"), None]));
/// assert_eq!(axes::names(&declared, 1), None);
/// ```
pub fn names(axes: &[String], rank: usize) -> Option<Vec<Option<&str>>> {
    let is_rest = |axis: &String| axis.starts_with("...") || axis.starts_with('*');
    let rest = axes.iter().position(is_rest);
    let fixed = axes.len() - usize::from(rest.is_some());
    let others = rank.checked_sub(fixed)?;
    let (before, after) = match rest {
        Some(rest) => (&axes[..rest], &axes[rest + 1..]),
        None => (&axes[..0], axes),
    };
    let each = |axes| <[String]>::iter(axes).map(|axis| name(axis));
    let middle = std::iter::repeat_n(None, others);
    Some(each(before).chain(middle).chain(each(after)).collect())
}

/// Returns the name of a declared axis, or `None` for `_` and for a number.
fn name(axis: &str) -> Option<&str> {
    let name = axis.trim_end_matches('?');
    let is_name = name != "_" && !name.bytes().all(|byte| byte.is_ascii_digit());
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn each_axis_gets_its_name() {
        let of = |text: &str, rank| {
            let axes: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            let names = names(&axes, rank)?;
            Some(
                names
                    .iter()
                    .map(|name| name.unwrap_or("-"))
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        assert_eq!(of("in out", 2).as_deref(), Some("in out"));
        assert_eq!(of("in out", 3).as_deref(), Some("- in out"));
        assert_eq!(of("in out", 1), None);
        assert_eq!(
            of("a? ... 3 _ heads*size", 6).as_deref(),
            Some("a - - - - heads*size")
        );
        assert_eq!(of("*batch in", 1).as_deref(), Some("in"));
    }
}
