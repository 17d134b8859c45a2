//! The steps of the tour, whose text is that of the tutorial.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

/// Replaces each `<!-- tutorial: HEADING -->` of a page by the section of the tutorial under this heading.
pub(crate) fn with_steps(page: &str, tutorial: &str) -> Result<String, String> {
    let mut parts = page.split("<!-- tutorial: ");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (heading, rest) = part
            .split_once(" -->")
            .ok_or("a comment of the page does not end")?;
        result += &rendered(section(tutorial, heading)?);
        result += rest;
    }
    Ok(result)
}

/// Returns the text of the section with a heading.
fn section<'a>(tutorial: &'a str, heading: &str) -> Result<&'a str, String> {
    let begin = format!("\n## {heading}\n");
    let (_, section) = tutorial
        .split_once(&begin)
        .ok_or_else(|| format!("the tutorial has no section `{heading}`"))?;
    Ok(section.split("\n## ").next().unwrap_or(section))
}

/// Returns the HTML of a text. Links are left out, since they lead to other pages of the documentation, as are the lines of programs
/// that only their tests need.
fn rendered(text: &str) -> String {
    let text: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect();
    let text = text.join("\n");
    let events = Parser::new_ext(&text, Options::ENABLE_TABLES).filter(|event| {
        !matches!(
            event,
            Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link)
        )
    });
    let mut result = String::new();
    html::push_html(&mut result, events);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_text_of_their_section() {
        let tutorial = "# T\n\n## One\n\nA [link](x.md).\n\n```rust\nlet a = 1;\n# hidden\n```\n\n## Two\n\nB\n";
        let page = "<main><!-- tutorial: One --></main>";
        assert_eq!(
            with_steps(page, tutorial).unwrap(),
            "<main><p>A link.</p>\n<pre><code class=\"language-rust\">let a = 1;\n</code></pre>\n</main>"
        );
        let problem = with_steps("<!-- tutorial: Three -->", tutorial).unwrap_err();
        assert_eq!(problem, "the tutorial has no section `Three`");
    }
}
