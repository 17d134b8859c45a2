//! Prefixes: a structure that ends above another.
