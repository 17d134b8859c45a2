//! Checks claims of the documents: every test that `docs/features.md` and `docs/reliability.md` name exists, and code and
//! messages that the documents quote are in the files they are quoted from.

use std::fs;
use std::path::Path;

/// The folder of the workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn read(path: &str) -> String {
    let whole = Path::new(ROOT).join(path);
    fs::read_to_string(&whole)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", whole.display()))
}

/// The rows of the tables of a document, each with its cells; heads and rules are left out.
fn rows(document: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = document.lines().collect();
    let is_rule = |line: &str| line.starts_with("|-");
    lines
        .iter()
        .enumerate()
        .filter(|(at, line)| {
            let is_head = lines.get(at + 1).is_some_and(|next| is_rule(next));
            line.starts_with('|') && !is_rule(line) && !is_head
        })
        .map(|(_, line)| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

/// Returns the parts of a text in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Whether a file has a test of that name: the first function after some `#[test]`.
fn has_test(file: &str, name: &str) -> bool {
    file.split("#[test]").skip(1).any(|after| {
        let function = after
            .lines()
            .find_map(|line| line.trim().strip_prefix("fn "));
        function.and_then(|function| function.split(['(', '<']).next()) == Some(name)
    })
}

/// The problems of a cell that names tests.
fn missing_tests(what: &str, tests: &str) -> Vec<String> {
    let exists = |test: &str| {
        test.split_once("::")
            .is_some_and(|(path, name)| has_test(&read(path), name))
    };
    let names = quoted(tests).into_iter();
    let missing = names.filter(|test| !exists(test));
    missing
        .map(|test| format!("`{what}` names `{test}`, which is not a test"))
        .collect()
}

#[test]
fn tests_named_for_promises_exist() {
    let document = read("docs/reliability.md");
    let (promises, _) = document
        .split_once("# The deep check")
        .expect("the promises come first");
    let rows = rows(promises);
    assert!(rows.len() > 30, "the tables are read");
    let mut problems = Vec::new();
    for row in rows {
        let [promise, tests] = row[..] else {
            problems.push(format!("a row has {} cells: {row:?}", row.len()));
            continue;
        };
        if quoted(tests).is_empty() {
            problems.push(format!("`{promise}` names no test"));
        }
        problems.extend(missing_tests(promise, tests));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn tests_named_for_features_exist() {
    let document = read("docs/features.md");
    let rows = rows(&document);
    assert!(rows.len() > 40, "the tables are read");
    let mut problems = Vec::new();
    for row in rows {
        let [feature, place, tests] = row[..] else {
            problems.push(format!("a row has {} cells: {row:?}", row.len()));
            continue;
        };
        if place.is_empty() || quoted(tests).is_empty() {
            problems.push(format!("`{feature}` names no place or no test"));
        }
        problems.extend(missing_tests(feature, tests));
        for folder in quoted(place)
            .iter()
            .filter(|name| name.starts_with("tests/"))
        {
            if !Path::new(ROOT).join(folder).is_dir() {
                problems.push(format!(
                    "`{feature}` names `{folder}`, which is not a folder"
                ));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The blocks of text in a document.
fn text_blocks(document: &str) -> Vec<&str> {
    document
        .split("```text\n")
        .skip(1)
        .filter_map(|after| after.split("```").next())
        .collect()
}

/// A text without what formatting may change.
fn unformatted(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_whitespace() && *character != ',')
        .collect()
}

#[test]
fn quoted_primitive_rules_exist() {
    let document = read("docs/adding-a-primitive.md");
    let folder = "pytree-transform/src/primitives";
    let sources: String = ["elementwise/unary.rs", "select.rs"]
        .map(|file| unformatted(&read(&format!("{folder}/{file}"))))
        .concat();
    let blocks = text_blocks(&document);
    assert!(!blocks.is_empty());
    for block in blocks {
        assert!(sources.contains(&unformatted(block)), "not there:\n{block}");
    }
}

#[test]
fn how_it_works_excerpts_exist() {
    let document = read("docs/how-it-works.md");
    let paths: Vec<&str> = quoted(&document)
        .into_iter()
        .filter(|text| !text.contains(char::is_whitespace))
        .filter(|text| Path::new(text).extension().is_some_and(|end| end == "rs"))
        .collect();
    assert!(paths.len() > 20, "the paths are read");
    let sources: Vec<String> = paths.iter().map(|path| unformatted(&read(path))).collect();
    let blocks = text_blocks(&document);
    assert!(!blocks.is_empty());
    for block in blocks {
        let block = unformatted(block);
        let is_there = sources.iter().any(|source| source.contains(&block));
        assert!(is_there, "not there:\n{block}");
    }
}

/// The lines of a message of the compiler but for those that say where the mistake is.
fn words_of_message(message: &str) -> Vec<&str> {
    let is_place = |line: &str| {
        let line = line.trim_start();
        line.starts_with("-->") || line.starts_with(|first: char| first.is_ascii_digit())
    };
    message
        .lines()
        .filter(|line| !is_place(line))
        .map(|line| line.trim_start_matches([' ', '|', '^']))
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn messages_in_documents_are_the_compilers() {
    let message = read("tests/ui/missing_kind/tensor.stderr");
    let words = words_of_message(&message);
    assert_eq!(words.len(), 4, "{message}");
    for document in ["README.md", "docs/guide.md"] {
        let text = read(document);
        let block = text_blocks(&text)
            .into_iter()
            .find(|block| block.starts_with("error[E0277]"))
            .unwrap_or_else(|| panic!("{document} shows the message"));
        assert_eq!(words_of_message(block), words, "{document}");
    }
}
