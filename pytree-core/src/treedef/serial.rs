//! Treedefs as bytes.
