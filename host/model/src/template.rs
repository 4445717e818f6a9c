//! Texts that are templates.

/// The beginnings of expressions, statements and comments.
const BEGINNINGS: [&str; 3] = ["{{", "{%", "{#"];

/// Where the first expression, statement or comment of a text begins.
pub fn begins_at(text: &str) -> Option<usize> {
    let found = BEGINNINGS
        .iter()
        .filter_map(|beginning| text.find(beginning));
    found.min()
}

/// Whether a text contains an expression, a statement or a comment. Such a text is rendered; any
/// other text is a value as it is written.
pub fn is_template(text: &str) -> bool {
    begins_at(text).is_some()
}
