//! Modules whose fields are registered at run time.
