//! Compiled programs on disk.

use std::fs;
use std::path::{Path, PathBuf};

use pytree_pjrt::{Client, CompileOptions, Options};

use crate::common::{ADD, compile, plugin, run};

/// Returns an empty directory and a client that uses it as cache.
fn cached(name: &str) -> Option<(PathBuf, Client)> {
    let plugin = plugin()?;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    let client = Client::load_with(plugin, &Options::new().cache_dir(&directory)).unwrap();
    Some((directory, client))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn works(client: &Client, program: &str) {
    let add = compile(client, program);
    let x = client.put(&[1.0_f32, 2.0, 3.0, 4.0], &[4]).unwrap();
    assert_eq!(
        run(&add, &[&x, &x]).to_vec::<f32>().unwrap(),
        [2.0, 4.0, 6.0, 8.0]
    );
    let y = client.put(&[1.0_f32; 4], &[4]).unwrap();
    add.run(&[&y, &x], &[0]).unwrap();
    assert!(y.is_donated());
    assert_eq!(add.parameters().unwrap().len(), 2);
}

#[test]
fn programs_are_loaded_from_cache() {
    let Some((directory, client)) = cached("cache-hits") else {
        return;
    };
    works(&client, ADD);
    works(&client, ADD);
    let located = ADD.replace("\n    return", " loc(\"f.rs\":1:2)\n    return");
    assert_ne!(located, ADD);
    works(&client, &located);
    let stats = client.cache_stats().unwrap();
    assert_eq!((stats.hits, stats.misses, stats.last_problem), (2, 1, None));
    let other = CompileOptions::new().set("xla_cpu_enable_fast_math", false);
    client.compile(ADD, &other).unwrap();
    assert_eq!(client.cache_stats().unwrap().misses, 2);
    let files = files(&directory);
    assert_eq!(files.len(), 2);
    assert!(
        files.iter().all(|file| file.extension().unwrap() == "pjrt"),
        "{files:?}"
    );
    // Another client, as of a later process.
    let options = Options::new().cache_dir(&directory);
    let later = Client::load_with(client.plugin_path(), &options).unwrap();
    works(&later, ADD);
    assert_eq!(later.cache_stats().unwrap().hits, 1);
}

#[test]
fn damaged_files_are_compiled_again() {
    let Some((directory, client)) = cached("cache-damage") else {
        return;
    };
    works(&client, ADD);
    let file = &files(&directory)[0];
    let good = fs::read(file).unwrap();
    let mut damaged = vec![
        Vec::new(),
        good[..20].to_vec(),
        good[..good.len() - 1].to_vec(),
    ];
    for at in [0, 8, 12, 30, 44, good.len() / 2, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        damaged.push(bytes);
    }
    let before = client.cache_stats().unwrap().misses;
    for bytes in &damaged {
        fs::write(file, bytes).unwrap();
        works(&client, ADD);
        let problem = client.cache_stats().unwrap().last_problem.unwrap();
        assert!(problem.starts_with("cannot read `"), "{problem}");
        assert_ne!(fs::read(file).unwrap(), *bytes, "the file is replaced");
    }
    let stats = client.cache_stats().unwrap();
    assert_eq!(
        (stats.hits, stats.misses - before),
        (0, damaged.len() as u64)
    );
    works(&client, ADD);
    assert_eq!(client.cache_stats().unwrap().hits, 1);
}

#[test]
fn unusable_directory_fails_no_compilation() {
    let Some(plugin) = plugin() else { return };
    // A file is where the directory would be.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache-file");
    fs::write(&directory, "no directory").unwrap();
    let client = Client::load_with(plugin, &Options::new().cache_dir(&directory)).unwrap();
    works(&client, ADD);
    let problem = client.cache_stats().unwrap().last_problem.unwrap();
    assert!(problem.contains("cannot write `"), "{problem}");
}
