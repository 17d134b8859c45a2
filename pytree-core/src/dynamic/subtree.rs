//! Subtrees of a dynamic tree, and trees cut into them.
