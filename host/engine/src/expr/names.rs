//! Every name that an expression may use. A test compares these lists with MiniJinja.

/// The names that every expression sees. Those with fixed properties list them.
pub(super) static ROOTS: [(&str, &[&str]); 8] = [
    ("input", &[]),
    ("item", &[]),
    ("index", &[]),
    ("vars", &[]),
    ("nodes", &[]),
    (RUN, &["id", "correlation"]),
    ("workflow", &["name"]),
    ("trigger", &["type", "attempt"]),
];

/// The names that the expressions of tags see, before the run begins.
pub(super) static START: [(&str, &[&str]); 3] = [
    ("input", &[]),
    (RUN, &["id", "correlation"]),
    ("workflow", &["name"]),
];

/// The identity of the run.
pub(super) const RUN: &str = "run";

/// The failure that a condition of `retry` or `on-error` is about. No other expression sees it.
pub(super) static ERROR: (&str, &[&str]) = ("error", &["class", "code", "message", DETAILS]);

/// The request that the input of a run is made of by a trigger. No other expression sees it, and
/// such an expression sees nothing else.
pub(super) static REQUEST: (&str, &[&str]) = (
    "request",
    &[
        "method", "path", "params", "query", "headers", "body", "raw",
    ],
);

/// The event that the input of a run is made of, as for [`REQUEST`].
pub(super) static EVENT: (&str, &[&str]) = ("event", &["name", "match", "correlation", "input"]);

/// The member of [`ERROR`] whose own members depend on the failure: a missing one is no mistake.
pub(super) const DETAILS: &str = "details";

/// The output of a node.
pub(super) const OUTPUT: &str = "output";

/// The link that resumes a node which waits or will wait.
pub(super) const LINK: &str = "link";

/// The properties of a node.
pub(super) const NODE_PROPERTIES: [&str; 2] = [OUTPUT, LINK];

/// The operators, for messages.
pub(super) const OPERATORS: &str = "`+ - * / // % **`, `~` for texts, `== != < <= > >=`, `and`, `or`, \
                                    `not`, `in`, `is`, `a if b else c`";

/// The statements, for messages.
pub(super) const STATEMENTS: &str = "`if`, `for`, `set`, `with` and `filter`";

/// Functions.
pub(super) const FUNCTIONS: &[&str] = &["dict", "range"];

/// Filters: `value | name`.
pub(super) const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// Tests: `value is name`.
pub(super) const TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
];

#[cfg(test)]
mod tests {
    use super::{FILTERS, FUNCTIONS, OPERATORS, STATEMENTS, TESTS};

    #[test]
    fn the_document_lists_every_name() {
        let document = include_str!("../../../../docs/workflow-format.md");
        let section = |title: &str| {
            let from = document.find(&format!("\n{title}")).expect(title);
            let rest = &document[from + 1..];
            &rest[..rest.find('\n').unwrap_or(rest.len())]
        };
        for (title, names) in [
            ("Filters, as in", FILTERS),
            ("Functions: ", FUNCTIONS),
            ("Tests, as in", TESTS),
        ] {
            let listed = section(title);
            let words = names
                .iter()
                .filter(|name| name.starts_with(char::is_alphabetic));
            for name in words {
                let known =
                    listed.contains(&format!("`{name}`")) || listed.contains(&format!("`{name}("));
                assert!(known, "{title} has no `{name}`");
            }
        }
        let known = |title: &str, list: &str| {
            for name in list.split('`').skip(1).step_by(2) {
                assert!(section(title).contains(name), "{title} has no `{name}`");
            }
        };
        known("Statements, as in", STATEMENTS);
        known("Operators: ", OPERATORS);
    }
}
