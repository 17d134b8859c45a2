//! Treedefs made of treedefs.
