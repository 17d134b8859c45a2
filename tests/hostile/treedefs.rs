//! Treedefs that are read from bytes.

use pytree::TreeDef;

use crate::random::Random;
use crate::{fuzz, read};

fn folder() -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/formats")
}

/// The stored files of one format.
pub fn stored(beginning: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    // Checkpoints by shards are folders.
    paths.retain(|path| {
        path.is_file()
            && path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(beginning)
    });
    paths.sort();
    assert!(!paths.is_empty());
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// What is read holds together; all else is an error.
pub fn holds_together(bytes: &[u8]) {
    read(bytes.len(), || {
        let Ok(treedef) = TreeDef::from_bytes(bytes) else {
            return;
        };
        let again = TreeDef::from_bytes(&treedef.to_bytes());
        assert!(again.is_ok_and(|again| again == treedef));
        assert_eq!(treedef.leaf_paths().len(), treedef.num_leaves());
        assert!(treedef.to_string().starts_with("PyTreeDef("));
        assert_eq!(treedef.differences(&treedef), []);
    });
}

/// Numbers as the format has them, with which nodes, shapes and data are likely to hold together.
fn written(random: &mut Random) -> Vec<u8> {
    let mut bytes = b"PYTD\x02".to_vec();
    for _ in 0..random.below(80) {
        match random.below(12) {
            0 => bytes.extend([0xff, 0xff, 0xff, 0xff, 0x7f]),
            1 => bytes.extend([0x80 | random.bits() as u8, 0x01]),
            2 => bytes.extend(b"\x01S"),
            3 => bytes.extend([random.bits() as u8]),
            4 => bytes.extend(b"\x02\x02\x00"),
            5 => bytes.extend(b"\x0a\x00\x01\x00\x03\x00"),
            6 => bytes.extend(b"\x0b\x0b\x01S\x01\x01x\x00\x00\x01\x00"),
            7 => bytes.extend(b"\x09\x01\x00"),
            _ => bytes.push(random.below(16) as u8),
        }
    }
    bytes
}

#[test]
fn treedefs_are_read_or_refused() {
    let stored = stored("treedef-");
    fuzz("treedefs_are_read_or_refused", |random| {
        let mut bytes = random.pick(&stored).clone();
        match random.below(4) {
            0 => bytes = written(random),
            1 => {
                let other = written(random);
                let at = 5 + random.below(bytes.len() - 5);
                bytes.truncate(at);
                bytes.extend(&other[5..]);
            }
            _ => random.change(&mut bytes),
        }
        holds_together(&bytes);
    });
}
