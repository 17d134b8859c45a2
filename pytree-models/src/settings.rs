//! What is done with each key of the files in a folder: it is used, has no effect, or is refused unless it has a given value. A key
//! that is in no table is refused, too.
//!
//! `tests/golden/settings_goldens.py` writes `settings.json` from the configuration classes of the originals, whose versions it has.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::error::{ConfigProblem, ModelError, shortened};
use crate::json::read_object;

static TABLES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("settings.json")).unwrap_or_default());

/// Adds the original's defaults of keys that are missing, and returns all problems. A file that has no table has none. `prefix` is
/// written before keys.
pub(crate) fn check(
    table: &str,
    prefix: &str,
    config: &mut Map<String, Value>,
) -> Vec<ConfigProblem> {
    let table = &TABLES[table];
    let Some(used) = table["used"].as_object() else {
        return Vec::new();
    };
    let no_effect = table["no effect"].as_array().map_or(&[][..], |keys| keys);
    let mut problems = Vec::new();
    for (key, found) in &*config {
        let expected = match table["refused"].get(key).and_then(Value::as_array) {
            Some(allowed) if is_allowed(found, allowed) => continue,
            Some(allowed) => format!("{}, because this model has nothing else", allowed[0]),
            None if used.contains_key(key) || no_effect.iter().any(|known| known == key) => {
                continue;
            }
            None => "a key that this library knows; remove it if it changes no number".to_owned(),
        };
        problems.push(ConfigProblem {
            key: format!("{prefix}{key}"),
            expected,
            found: Some(shortened(&found.to_string())),
        });
    }
    for (key, default) in used.iter().filter(|(_, default)| !default.is_null()) {
        config.entry(key).or_insert_with(|| default.clone());
    }
    problems
}

/// Returns whether a value, or each element of a list, is one of `allowed`. 1 is 1.0.
fn is_allowed(found: &Value, allowed: &[Value]) -> bool {
    let is_same = |found: &Value, allowed: &Value| {
        found == allowed || (found.is_number() && found.as_f64() == allowed.as_f64())
    };
    let is_one = |found: &Value| allowed.iter().any(|allowed| is_same(found, allowed));
    is_one(found) || found.as_array().is_some_and(|list| list.iter().all(is_one))
}

/// Reads a file that may be absent, and checks its keys by a table.
///
/// # Errors
/// Returns [`ModelError::Config`] with all problems, or the error of reading the file.
pub(crate) fn read(path: &Path, table: &str) -> Result<Option<Map<String, Value>>, ModelError> {
    if !path.is_file() {
        return Ok(None);
    }
    let mut config = read_object(path)?;
    refused(path, check(table, "", &mut config))?;
    Ok(Some(config))
}

/// Returns the error of a file with problems.
pub(crate) fn refused(path: &Path, problems: Vec<ConfigProblem>) -> Result<(), ModelError> {
    if problems.is_empty() {
        return Ok(());
    }
    let path = path.to_owned();
    Err(ModelError::Config { path, problems })
}
