//! Key paths: what is written parses back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use pytree_base::suggest::Effort;
use pytree_core::{KeyPath, PathKey, StaticValue, Tree, TreeError, tree};

use crate::trees::path;

/// The path of the one entry of a map, which parses back.
fn path_of_key<K: StaticValue + Ord + Clone>(key: K) -> KeyPath {
    let map = BTreeMap::from([(key, 1.0_f32)]);
    let [found] = <[KeyPath; 1]>::try_from(tree::structure(&map).leaf_paths()).unwrap();
    assert_eq!(path(&found.to_string()), found);
    found
}

#[test]
fn escapes_denote_characters() {
    for (text, expected) in [
        (r"['\x41']", "A"),
        (r"['\x0a']", "\n"),
        (r"['\u00e9']", "é"),
        (r"['\U0001f600']", "😀"),
        (r"['\n\t\r\\\'']", "\n\t\r\\'"),
        (r#"["it's"]"#, "it's"),
    ] {
        assert_eq!(
            path(text).keys(),
            [PathKey::Text(expected.to_owned())],
            "{text}"
        );
    }
    for text in [
        r"['\x4']",
        r"['\xgg']",
        r"['\U00110000']",
        r"['\uffff0",
        r"['a",
    ] {
        assert_eq!(
            text.parse::<KeyPath>(),
            Err(TreeError::PathSyntax {
                text: text.to_owned(),
                position: 0,
                expected: "a key and `]` after `[`",
            })
        );
    }
}

#[test]
fn name_must_follow_point() {
    assert_eq!(
        "[0]a".parse::<KeyPath>().unwrap_err().to_string(),
        "cannot parse the key path `[0]a`: expected `.` or `[` at byte 3; a path looks like `layers[0].weight` or `['a'][1].x`"
    );
    assert_eq!(
        path("[0].a"),
        path_of(&[PathKey::Index(0), PathKey::Field("a".into())])
    );
    assert_eq!(path("a"), path_of(&[PathKey::Field("a".into())]));
}

fn path_of(keys: &[PathKey]) -> KeyPath {
    keys.iter().cloned().collect()
}

#[test]
fn text_keys_are_quoted() {
    for text in [
        "a", "it's", "\"", "'\"", "[", "]", "\\", "\u{7f}", "é", "\u{200b}", "",
    ] {
        assert_eq!(
            path_of_key(text.to_owned()).keys(),
            [PathKey::Text(text.into())]
        );
    }
    for character in ['a', '\'', '"', '\u{7f}', '\u{301}', '\u{200b}'] {
        assert_eq!(
            path_of_key(character).keys(),
            [PathKey::Text(character.into())]
        );
    }
}

#[test]
fn other_keys_are_found_despite_brackets() {
    let other = |text: &str| vec![PathKey::Other(text.to_owned())];
    let key = |text: &str| (text.to_owned(), 1);
    assert_eq!(path_of_key((1, 2)).keys(), other("(1, 2)"));
    assert_eq!(path_of_key(((1,), vec![2])).keys(), other("((1,), [2])"));
    assert_eq!(
        path_of_key((vec![1, 2], (3,))).keys(),
        other("([1, 2], (3,))")
    );
    assert_eq!(
        path_of_key(vec![vec![1], vec![]]).keys(),
        other("[[1], []]")
    );
    assert_eq!(path_of_key(key("a]")).keys(), other("('a]', 1)"));
    assert_eq!(path_of_key(key("a[(")).keys(), other("('a[(', 1)"));
    assert_eq!(path_of_key(key("a']")).keys(), other("(\"a']\", 1)"));
    assert_eq!(path_of_key(key("a'\"]")).keys(), other("('a\\'\"]', 1)"));
    assert_eq!(
        path_of_key(("'".to_owned(), "b]".to_owned())).keys(),
        other("(\"'\", 'b]')")
    );
    assert_eq!(path_of_key(Some(1)).keys(), other("Some(1)"));
    assert_eq!(path_of_key(None::<i32>).keys(), other("None"));
    assert_eq!(path_of_key(true).keys(), other("True"));
}

/// Displays as the text in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bare(&'static str);
impl StaticValue for Bare {
    fn static_eq(&self, other: &Self) -> bool {
        self == other
    }
    fn static_hash(&self, hasher: &mut dyn std::hash::Hasher) {
        self.0.static_hash(hasher);
    }
    fn static_show(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

#[test]
fn displayed_key_parses_as_number_or_text() {
    assert_eq!(path_of_key(Bare("3")).keys(), [PathKey::Index(3)]);
    assert_eq!(path_of_key(Bare("-3")).keys(), [PathKey::Index(-3)]);
    assert_eq!(path_of_key(Bare("'a'")).keys(), [PathKey::Text("a".into())]);
    assert_eq!(
        path_of_key(Bare("Relu")).keys(),
        [PathKey::Other("Relu".into())]
    );
}

#[test]
fn suggestion_has_fewest_edits() {
    for (left, right, edits) in [
        ("", "", 0),
        ("abc", "abc", 0),
        ("", "abc", 3),
        ("ab", "b", 1),
        ("ab", "a", 1),
        ("a", "ab", 1),
        ("b", "ab", 1),
        ("ab", "cb", 1),
        ("kitten", "sitting", 3),
        ("flaw", "lawn", 2),
        ("weight", "wieght", 2),
    ] {
        for (asked, other) in [(left, right), (right, left)] {
            let found = Effort::default().nearest(asked, [((), other)]);
            assert_eq!(found, Some(((), edits)), "{asked} {other}");
        }
    }
}

fn any_key() -> impl Strategy<Value = PathKey> {
    let odd = prop::sample::select(vec![
        "", ".", "a.b", "[", "]", "a[0]", "'", "\"", "'a'", "<'a'>", "<", "12", "-0", "+5", "True",
        "None", "\\", "\n", "\u{301}", "(", "a]", "(']", "[]", "'x",
    ]);
    let text = prop_oneof![
        any::<String>(),
        odd.prop_map(str::to_owned),
        "[a-z.\\[\\]<>'\"\\\\()]{0,6}"
    ];
    prop_oneof![
        text.clone().prop_map(|name| PathKey::Field(name.into())),
        any::<i128>().prop_map(PathKey::Index),
        any::<i8>().prop_map(|index| PathKey::Index(index.into())),
        any::<bool>()
            .prop_map(|flag| PathKey::Other(if flag { "True" } else { "False" }.to_owned())),
        text.clone().prop_map(PathKey::Text),
        text.prop_map(PathKey::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn displayed_path_parses_back(keys in prop::collection::vec(any_key(), 0..5)) {
        let written = path_of(&keys);
        let shown = written.to_string();
        let read: Result<KeyPath, TreeError> = shown.parse();
        prop_assert_eq!(read, Ok(written), "{}", shown);
    }

    #[test]
    fn no_text_makes_parsing_panic(text in "[a.\\[\\]<>'\"\\\\x0-9é]{0,10}") {
        if let Ok(read) = text.parse::<KeyPath>() {
            prop_assert_eq!(read.to_string().parse::<KeyPath>(), Ok(read));
        }
    }
}

#[test]
fn odd_names_are_quoted() {
    for (key, shown) in [
        (PathKey::Field("a.b".into()), ".'a.b'"),
        (PathKey::Field("".into()), ".''"),
        (PathKey::Field("it's [0]".into()), ".\"it's [0]\""),
        (PathKey::Field("it's".into()), "it's"),
        (PathKey::Other("a]".to_owned()), "[<'a]'>]"),
        (PathKey::Other("7".to_owned()), "[<'7'>]"),
        (PathKey::Other("(1, 2)".to_owned()), "[(1, 2)]"),
    ] {
        assert_eq!(path_of(&[key]).to_string(), shown);
    }
    let odd = Tree::named_struct(
        "Odd",
        vec![("a.b", Tree::leaf(1)), ("", Tree::leaf(2))],
        Vec::new(),
    )
    .unwrap();
    assert_eq!((odd[".'a.b'"], odd[".''"]), (1, 2));
    assert_eq!(
        ".'a".parse::<KeyPath>().unwrap_err().to_string(),
        "cannot parse the key path `.'a`: expected a quoted field name with a closing quote at byte 0; a path looks like `layers[0].weight` or `['a'][1].x`"
    );
}
