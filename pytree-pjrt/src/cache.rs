//! A cache of compiled programs on disk.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::error::PjrtError;

/// The beginning of each file.
const MAGIC: [u8; 8] = *b"pt-pjrt\n";
/// The version of the file format. Files of other versions are not read.
const VERSION: u32 = 1;
/// The size of the header before the program: the magic bytes, the version, the key, and the hash of the program.
const HEADER: usize = 8 + 4 + 16 + 16;

/// The numbers of hits and misses that a cache of compiled programs has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The number of programs that were loaded from the cache.
    pub hits: u64,
    /// The number of programs that were compiled, because the cache did not contain the program or a file was damaged.
    pub misses: u64,
    /// The last file that could not be read or written, with the reason.
    pub last_problem: Option<String>,
}

/// A directory of compiled programs.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    stats: Mutex<CacheStats>,
}

impl Cache {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            stats: Mutex::default(),
        }
    }

    pub(crate) fn stats(&self) -> CacheStats {
        self.stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn count(&self, count: impl FnOnce(&mut CacheStats)) {
        count(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the entry of a program in the cache. `plugin` describes the plugin that compiles the program.
    pub(crate) fn entry(&self, program: &str, options: &[u8], plugin: &str) -> Entry<'_> {
        let program = without_locations(program);
        let mut hash = Xxh3::new();
        for part in [
            program.as_bytes(),
            options,
            plugin.as_bytes(),
            processor().as_bytes(),
        ] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let key = hash.digest128();
        let path = self.directory.join(format!("{key:032x}.pjrt"));
        Entry {
            cache: self,
            key,
            path,
        }
    }
}

/// The entry of a program in a cache.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    cache: &'a Cache,
    key: u128,
    path: PathBuf,
}

impl Entry<'_> {
    /// Loads the program from its bytes with `load`. Counts a hit or a miss.
    pub(crate) fn load<T>(&self, load: impl FnOnce(&[u8]) -> Result<T, String>) -> Option<T> {
        let loaded = match fs::read(&self.path) {
            Ok(file) => self.payload(&file).and_then(load).map_err(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(None),
            Err(error) => Err(Some(error.to_string())),
        };
        match loaded {
            Ok(program) => {
                self.cache.count(|stats| stats.hits += 1);
                Some(program)
            }
            Err(problem) => {
                self.cache.count(|stats| stats.misses += 1);
                if let Some(problem) = problem {
                    self.report("read", &problem);
                }
                None
            }
        }
    }

    /// Writes a program to the cache. `program` is an error if the plugin could not serialize the program.
    pub(crate) fn store(&self, program: Result<Vec<u8>, PjrtError>) {
        let written = program
            .map_err(|error| error.to_string())
            .and_then(|program| {
                let mut file = self.header(&program);
                file.extend(program);
                write_atomically(&self.path, &file).map_err(|error| error.to_string())
            });
        if let Err(problem) = written {
            self.report("write", &problem);
        }
    }

    fn header(&self, program: &[u8]) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER + program.len());
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend(self.key.to_le_bytes());
        header.extend(xxh3_128(program).to_le_bytes());
        header
    }

    /// Returns the program in a file. Returns an error if the file is not complete or belongs to another entry.
    fn payload<'f>(&self, file: &'f [u8]) -> Result<&'f [u8], String> {
        let Some((header, program)) = file.split_at_checked(HEADER) else {
            return Err(format!(
                "expected at least {HEADER} bytes, found {}",
                file.len()
            ));
        };
        if header != self.header(program) {
            return Err("the file is damaged or has another version".to_owned());
        }
        Ok(program)
    }

    fn report(&self, doing: &str, problem: &str) {
        let problem = format!("cannot {doing} `{}`: {problem}", self.path.display());
        self.cache.count(|stats| stats.last_problem = Some(problem));
    }
}

/// Writes a file atomically: other processes see the whole file or no file.
fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    /// The number in the name of the next temporary file: two threads of this process never write the same file.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Describes the processor of this machine. A program for a CPU may use all instructions of the processor.
fn processor() -> String {
    let mut described = std::env::consts::ARCH.to_owned();
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    for name in ["model name", "flags", "Features", "CPU part"] {
        if let Some(line) = known.lines().find(|line| line.starts_with(name)) {
            let _ = write!(described, "\n{line}");
        }
    }
    described
}

/// Returns a program without source locations, which are ` loc(…)` and lines that begin with `#loc`.
fn without_locations(program: &str) -> String {
    let mut kept = String::with_capacity(program.len());
    let mut rest = program;
    while let Some(first) = rest.chars().next() {
        let at_line_start = kept.is_empty() || kept.ends_with('\n');
        let after_space = kept.ends_with([' ', '\n']) || kept.is_empty();
        if first == '"' {
            let (text, after) = rest.split_at(text_end(rest));
            kept.push_str(text);
            rest = after;
        } else if at_line_start && rest.starts_with("#loc") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if after_space && rest.starts_with("loc(") {
            kept.truncate(kept.trim_end_matches(' ').len());
            rest = &rest[parentheses_end(rest)..];
        } else {
            kept.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    kept
}

/// Returns the end of the text in quotes at the beginning of `rest`.
fn text_end(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the end of the first pair of parentheses in `rest`.
fn parentheses_end(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(c) = rest[at..].chars().next() {
        match c {
            '"' => {
                at += text_end(&rest[at..]);
                continue;
            }
            '(' => depth += 1,
            ')' if depth == 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
        at += c.len_utf8();
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_removed() {
        let program = "#loc = loc(unknown)\nmodule @m {\n  %0 = f %x : t loc(\"a(\\\")b\"(#loc1)) {a = \" loc(x)\"}\n} loc(#loc)\n#loc1 = loc(\"f.rs\":1:2)\n";
        let expected = "module @m {\n  %0 = f %x : t {a = \" loc(x)\"}\n}\n";
        assert_eq!(without_locations(program), expected);
        assert_eq!(without_locations("é \"open"), "é \"open");
        assert_eq!(without_locations("x loc(open"), "x");
        assert_eq!(
            without_locations("%reloc(1) alloc(2)"),
            "%reloc(1) alloc(2)"
        );
    }

    #[test]
    fn places_differ_by_all_parts() {
        let cache = Cache::new(PathBuf::from("unused"));
        let key = |program, options: &[u8], plugin| cache.entry(program, options, plugin).key;
        let first = key("a", b"b", "c");
        assert_eq!(first, key("a loc(x)", b"b", "c"));
        for other in [
            key("x", b"b", "c"),
            key("a", b"x", "c"),
            key("a", b"b", "x"),
            key("ab", b"", "c"),
        ] {
            assert_ne!(first, other);
        }
    }
}
