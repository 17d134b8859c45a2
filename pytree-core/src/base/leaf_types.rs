//! The number types that are leaves.

/// Calls a macro with one row for each number type that is a leaf; see [`pytree_base::for_each_element_type!`]. Without the feature
/// `half`, the types of the crate `half` are not leaves.
macro_rules! for_each_leaf_type {
    ([$called:ident]) => {
        ::pytree_base::for_each_element_type! { [$crate::base::leaf_types::rows] [$called] }
    };
}

#[cfg(feature = "half")]
macro_rules! rows {
    ([$called:ident] $($row:tt)*) => {
        $called! { $($row)* }
    };
}

#[cfg(not(feature = "half"))]
macro_rules! rows {
    (
        [$called:ident] [bool $($bool:tt)*] $([integer $($integer:tt)*])*
        $([half $($half:tt)*])* $([float $($float:tt)*])*
    ) => {
        $called! { [bool $($bool)*] $([integer $($integer)*])* $([float $($float)*])* }
    };
}

pub(crate) use {for_each_leaf_type, rows};
