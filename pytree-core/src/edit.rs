//! Changing nodes of a typed tree: applied to each, or replaced by path.
