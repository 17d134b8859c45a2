//! Reads the JSON of a folder.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{ModelError, shortened};

/// Reads a file that has a JSON object.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>, ModelError> {
    match read_json(path)? {
        Value::Object(object) => Ok(object),
        other => Err(ModelError::Json {
            path: path.to_owned(),
            problem: format!("found {}", shortened(&other.to_string())),
        }),
    }
}

/// Reads a file that has JSON.
pub(crate) fn read_json(path: &Path) -> Result<Value, ModelError> {
    let bytes = std::fs::read(path).map_err(|source| ModelError::Io {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&bytes).map_err(|error| ModelError::Json {
        path: path.to_owned(),
        problem: error.to_string(),
    })
}
