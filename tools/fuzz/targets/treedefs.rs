//! Treedefs from bytes: what is read holds together.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pytree::TreeDef;

fuzz_target!(|bytes: &[u8]| {
    let Ok(treedef) = TreeDef::from_bytes(bytes) else {
        return;
    };
    let again = TreeDef::from_bytes(&treedef.to_bytes()).expect("what was written is read");
    assert_eq!(again, treedef);
    assert_eq!(again.content_hash(), treedef.content_hash());
    assert_eq!(treedef.leaf_paths().len(), treedef.num_leaves());
    assert!(treedef.to_string().starts_with("PyTreeDef("));
    assert_eq!(treedef.differences(&treedef), []);
});
