//! Trees as one writes them.

/// Writes a dynamic [`Tree`](crate::Tree) as one would in Python: `[…]` lists, `(…)` tuples, `{key: …}` dictionaries,
/// `None`, `ordered {key: …}` dictionaries in the order given, `Name(field = …)` named tuples, and any pytree value as
/// a leaf or subtree.
///
/// # Panics
/// If two fields of a named tuple have one name.
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
/// ```
#[macro_export]
macro_rules! tree {
    (None) => { $crate::Tree::<$crate::AnyLeaf>::none() };
    ([ $($inner:tt)* ]) => { $crate::Tree::<$crate::AnyLeaf>::list($crate::__tree_items!([] [] $($inner)*)) };
    (( $($inner:tt)* )) => { $crate::Tree::<$crate::AnyLeaf>::tuple($crate::__tree_items!([] [] $($inner)*)) };
    ({ $($inner:tt)* }) => { $crate::Tree::<$crate::AnyLeaf>::dict_of_any($crate::__tree_entries!([] $($inner)*)) };
    (ordered { $($inner:tt)* }) => { $crate::Tree::<$crate::AnyLeaf>::ordered_dict_of_any($crate::__tree_entries!([] $($inner)*)) };
    ($name:ident ( $field:ident = $($inner:tt)+ )) => {
        match $crate::Tree::<$crate::AnyLeaf>::named_tuple(
            ::std::stringify!($name),
            $crate::__tree_fields!([] $field = $($inner)+),
        ) {
            ::std::result::Result::Ok(tree) => tree,
            ::std::result::Result::Err(error) => ::std::panic!("{error}"),
        }
    };
    ($value:expr) => { $crate::Tree::<$crate::AnyLeaf>::of(&$value) };
}

/// Splits the inside of a list or tuple at its commas.
#[macro_export]
#[doc(hidden)]
macro_rules! __tree_items {
    ([$($done:expr,)*] []) => { ::std::vec![$($done),*] };
    ([$($done:expr,)*] [$($item:tt)+]) => { ::std::vec![$($done,)* $crate::tree!($($item)+)] };
    ([$($done:expr,)*] [$($item:tt)+] , $($rest:tt)*) => {
        $crate::__tree_items!([$($done,)* $crate::tree!($($item)+),] [] $($rest)*)
    };
    ([$($done:expr,)*] [$($item:tt)*] $next:tt $($rest:tt)*) => {
        $crate::__tree_items!([$($done,)*] [$($item)* $next] $($rest)*)
    };
}

/// Splits the inside of a named tuple into its fields.
#[macro_export]
#[doc(hidden)]
macro_rules! __tree_fields {
    ([$($done:expr,)*]) => { ::std::vec![$($done),*] };
    ([$($done:expr,)*] $field:ident = $($rest:tt)*) => {
        $crate::__tree_field!([$($done,)*] $field [] $($rest)*)
    };
}

/// Reads one value of a named tuple up to its comma.
#[macro_export]
#[doc(hidden)]
macro_rules! __tree_field {
    ([$($done:expr,)*] $field:ident [$($item:tt)+]) => {
        ::std::vec![$($done,)* (::std::stringify!($field), $crate::tree!($($item)+))]
    };
    ([$($done:expr,)*] $field:ident [$($item:tt)+] , $($rest:tt)*) => {
        $crate::__tree_fields!([$($done,)* (::std::stringify!($field), $crate::tree!($($item)+)),] $($rest)*)
    };
    ([$($done:expr,)*] $field:ident [$($item:tt)*] $next:tt $($rest:tt)*) => {
        $crate::__tree_field!([$($done,)*] $field [$($item)* $next] $($rest)*)
    };
}

/// Splits the inside of a dictionary into its entries.
#[macro_export]
#[doc(hidden)]
macro_rules! __tree_entries {
    ([$($done:expr,)*]) => { ::std::vec![$($done),*] };
    ([$($done:expr,)*] $key:tt : $($rest:tt)*) => {
        $crate::__tree_entry!([$($done,)*] $key [] $($rest)*)
    };
}

/// Reads one value of a dictionary up to its comma.
#[macro_export]
#[doc(hidden)]
macro_rules! __tree_entry {
    ([$($done:expr,)*] $key:tt [$($item:tt)+]) => { ::std::vec![$($done,)* ($crate::StaticBox::new($key), $crate::tree!($($item)+))] };
    ([$($done:expr,)*] $key:tt [$($item:tt)+] , $($rest:tt)*) => {
        $crate::__tree_entries!([$($done,)* ($crate::StaticBox::new($key), $crate::tree!($($item)+)),] $($rest)*)
    };
    ([$($done:expr,)*] $key:tt [$($item:tt)*] $next:tt $($rest:tt)*) => {
        $crate::__tree_entry!([$($done,)*] $key [$($item)* $next] $($rest)*)
    };
}
