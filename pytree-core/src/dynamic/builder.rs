//! Building a dynamic tree node by node.
