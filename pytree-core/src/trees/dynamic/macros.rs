//! A macro that creates dynamic trees.

/// Creates a dynamic [`Tree`](crate::Tree) from a notation like Python's.
///
/// | notation | meaning |
/// |---|---|
/// | `[…]` | a list |
/// | `(…)` | a tuple of any length |
/// | `{key: value, …}` | a dictionary, sorted by key |
/// | `ordered {key: value, …}` | a dictionary in the given order |
/// | `Name(field = value, …)` | a named tuple |
/// | `None` | a node without leaves |
/// | any other expression | a leaf, or the tree of a value that is a [`Pytree`](crate::Pytree) |
///
/// Keys and values are Rust expressions. So a key can be `key.clone()` or `-1`, and a key that is a text needs quotes.
/// A tree may have any length and depth.
///
/// # Examples
/// ```
/// use pytree_core::tree;
/// assert_eq!(
///     tree!([ordered {"b": 1, "a": 2}, Point(x = 3, y = [4])]).to_string(),
///     "[OrderedDict({'b': 1, 'a': 2}), Point(x=3, y=[4])]",
/// );
/// let tree = tree!([{"a": 1}, {"b": 2, "c": (3, 4), "d": None}]);
/// assert_eq!(tree.treedef().to_string(), "PyTreeDef([{'a': *}, {'b': *, 'c': (*, *), 'd': None}])");
/// let name = String::from("layer");
/// assert_eq!(tree!({format!("{name} 1"): vec![1, 2]}).to_string(), "{'layer 1': [1, 2]}");
/// ```
#[macro_export]
macro_rules! tree {
    ($($tree:tt)*) => { $crate::__tree_of_tokens!([$crate] $($tree)*) };
}
