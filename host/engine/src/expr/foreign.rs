//! Words and signs of other languages that authors write in expressions, with their counterparts
//! here. The tables are only for messages: no entry changes what an expression means.

/// A word or sign, and the remedy.
type Entry = (&'static str, &'static str);

/// The remedy for a word or sign.
pub(super) fn remedy(table: &[Entry], written: &str) -> Option<&'static str> {
    let found = table.iter().find(|(known, _)| *known == written);
    found.map(|(_, remedy)| *remedy)
}

/// Signs of JavaScript, C, SQL, shells, jq and other template languages. A sign that contains
/// another one precedes it.
pub(super) const SIGNS: &[Entry] = &[
    ("===", "write `==`"),
    ("!==", "write `!=`"),
    (
        "=~",
        "there are no patterns: use a test, like `x is startingwith('a')`, or a node `data/jq`",
    ),
    (
        "=>",
        "there are no functions: `map(attribute='price')`, `selectattr` and `groupby` take the name of a member",
    ),
    ("<>", "write `!=`"),
    ("&&", "write `and`"),
    ("||", "write `or`"),
    ("??", "write `x | default(y)`"),
    (
        "?.",
        "write `.`, and `x | default(y)` for a member that may be missing",
    ),
    ("?", "write `a if condition else b`"),
    (
        "++",
        "an expression changes nothing: write `x + 1`, and assign it with a `set` node",
    ),
    (
        "--",
        "an expression changes nothing: write `x - 1`, and assign it with a `set` node",
    ),
    (
        "+=",
        "an expression changes nothing: write `x + y`, and assign it with a `set` node",
    ),
    (
        "-=",
        "an expression changes nothing: write `x - y`, and assign it with a `set` node",
    ),
    ("!", "write `not x`"),
    (
        "=",
        "to compare, write `==`; a `set` node assigns variables",
    ),
    (
        "${",
        "an expression stands in `{{ … }}`, without a dollar sign",
    ),
    (
        "$",
        "names have no dollar sign: write `input.x` or `nodes.NAME.output.x`",
    ),
    ("`", "a text stands in quotes, `'…'`, and `~` joins texts"),
    ("“", "a text stands in straight quotes: `'…'`"),
    ("”", "a text stands in straight quotes: `'…'`"),
    ("„", "a text stands in straight quotes: `'…'`"),
    ("‘", "a text stands in straight quotes: `'…'`"),
    ("’", "a text stands in straight quotes: `'…'`"),
    ("×", "write `*`"),
    ("÷", "write `/`"),
    ("≠", "write `!=`"),
    ("≤", "write `<=`"),
    ("≥", "write `>=`"),
    ("^", "write `x ** 2` for a power"),
    ("&", "write `and`; `~` joins texts"),
    (";", "an expression is one value: leave the semicolon out"),
    (
        "@",
        "names have no `@`: write `input.x` or `nodes.NAME.output.x`",
    ),
    ("#", "an expression has no comment: leave it out"),
    ("\\", "a backslash stands only in a text, like `'\\n'`"),
];

/// Words of other languages that stand where an operator or a value is wanted.
pub(super) const WORDS: &[Entry] = &[
    ("AND", "write `and`"),
    ("And", "write `and`"),
    ("OR", "write `or`"),
    ("Or", "write `or`"),
    ("NOT", "write `not`"),
    ("Not", "write `not`"),
    ("IN", "write `in`"),
    ("IS", "write `is`"),
    ("eq", "write `==`"),
    ("ne", "write `!=`"),
    ("lt", "write `<`"),
    ("le", "write `<=`"),
    ("gt", "write `>`"),
    ("ge", "write `>=`"),
    ("equals", "write `==`"),
    ("contains", "write `'x' in text`"),
    (
        "like",
        "there are no patterns: use a test, like `x is startingwith('a')`",
    ),
    (
        "matches",
        "there are no patterns: use a test, like `x is startingwith('a')`",
    ),
    ("between", "write `1 <= x and x <= 5`"),
    (
        "instanceof",
        "write a test, like `x is string` or `x is number`",
    ),
    (
        "typeof",
        "write a test, like `x is string` or `x is number`",
    ),
    ("then", "a choice is `a if condition else b`"),
    (
        "elif",
        "a choice is `a if condition else b if other else c`",
    ),
    (
        "for",
        "there are no comprehensions: use filters, like `map(attribute='price')` or `selectattr('done')`",
    ),
    (
        "lambda",
        "there are no functions: `map(attribute='price')` and `selectattr('done')` take the name of a member",
    ),
    (
        "function",
        "there are no functions: `map(attribute='price')` and `selectattr('done')` take the name of a member",
    ),
    ("return", "an expression is its value: leave `return` out"),
    (
        "let",
        "an expression changes nothing: a `set` node assigns variables",
    ),
    (
        "const",
        "an expression changes nothing: a `set` node assigns variables",
    ),
    (
        "var",
        "an expression changes nothing: a `set` node assigns variables",
    ),
    (
        "new",
        "an expression makes no objects: write `{ 'name': value }`",
    ),
    (
        "await",
        "an expression reads values that are there: `nodes.NAME.output` after an edge from NAME",
    ),
    (
        "f",
        "a text has no expressions inside: join it with `~`, like `'Dear ' ~ input.name`",
    ),
];

/// Names at the beginning of a path, as other systems have them.
pub(super) const NAMES: &[Entry] = &[
    ("secrets", SECRETS),
    ("secret", SECRETS),
    (
        "env",
        "expressions see no environment: pass the value as `input` or keep it in `vars`; a secret is `{ secret: NAME }` in the `with` of a node",
    ),
    (
        "ENV",
        "expressions see no environment: pass the value as `input` or keep it in `vars`; a secret is `{ secret: NAME }` in the `with` of a node",
    ),
    (
        "process",
        "expressions see no environment: pass the value as `input` or keep it in `vars`; a secret is `{ secret: NAME }` in the `with` of a node",
    ),
    (
        "os",
        "expressions see no environment: pass the value as `input` or keep it in `vars`; a secret is `{ secret: NAME }` in the `with` of a node",
    ),
    ("inputs", "the input of the run is `input`"),
    ("params", "the input of the run is `input`"),
    ("parameters", "the input of the run is `input`"),
    ("args", "the input of the run is `input`"),
    (
        "payload",
        "the input of the run is `input`, the result of a node `nodes.NAME.output`",
    ),
    (
        "body",
        "the input of the run is `input`, the result of a node `nodes.NAME.output`",
    ),
    (
        "data",
        "the input of the run is `input`, the result of a node `nodes.NAME.output`",
    ),
    (
        "event",
        "the input of the run is `input`, the result of a node `nodes.NAME.output`",
    ),
    (
        "msg",
        "the input of the run is `input`, the result of a node `nodes.NAME.output`",
    ),
    (
        "json",
        "the input of the run is `input`, the result of a node `nodes.NAME.output`",
    ),
    ("context", "the run is `run`, its input `input`"),
    ("ctx", "the run is `run`, its input `input`"),
    ("github", "the run is `run`, its input `input`"),
    ("execution", "the run is `run`, its input `input`"),
    (
        "this",
        "there is no `this`: write `input.x`, `vars.x` or `item.x`",
    ),
    (
        "self",
        "there is no `self`: write `input.x`, `vars.x` or `item.x`",
    ),
    ("output", "the result of a node is `nodes.NAME.output`"),
    ("outputs", "the result of a node is `nodes.NAME.output`"),
    ("result", "the result of a node is `nodes.NAME.output`"),
    ("results", "the result of a node is `nodes.NAME.output`"),
    ("response", "the result of a node is `nodes.NAME.output`"),
    ("previous", "the result of a node is `nodes.NAME.output`"),
    ("node", "the result of a node is `nodes.NAME.output`"),
    ("step", "the result of a node is `nodes.NAME.output`"),
    ("steps", "the result of a node is `nodes.NAME.output`"),
    ("needs", "the result of a node is `nodes.NAME.output`"),
    ("jobs", "the result of a node is `nodes.NAME.output`"),
    ("tasks", "the result of a node is `nodes.NAME.output`"),
    ("activities", "the result of a node is `nodes.NAME.output`"),
    ("states", "the result of a node is `nodes.NAME.output`"),
    ("var", "a variable is `vars.NAME`"),
    ("variable", "a variable is `vars.NAME`"),
    ("variables", "a variable is `vars.NAME`"),
    (
        "each",
        "inside a for-each, the item is `item` and its position `index`",
    ),
    (
        "element",
        "inside a for-each, the item is `item` and its position `index`",
    ),
    (
        "it",
        "inside a for-each, the item is `item` and its position `index`",
    ),
    (
        "matrix",
        "inside a for-each, the item is `item` and its position `index`",
    ),
    (
        "i",
        "inside a for-each, the position of the item is `index`",
    ),
    ("null", "write `none`: `x is none`, `x == none`"),
    ("nil", "write `none`: `x is none`, `x == none`"),
    ("Null", "write `none`: `x is none`, `x == none`"),
    ("NULL", "write `none`: `x is none`, `x == none`"),
    (
        "undefined",
        "write a test: `x is defined` or `x is undefined`",
    ),
    ("TRUE", "write `true`"),
    ("FALSE", "write `false`"),
    (
        "JSON",
        "text of JSON is `x | tojson`; to read JSON, use a node `data/jq` with the filter `fromjson`",
    ),
    (
        "Math",
        "write a filter: `x | round`, `x | abs`, `[a, b] | max`, `[a, b] | min`",
    ),
    ("Object", "write a filter: `x | items`, `x | list`"),
    ("Array", "write a filter: `x | list`, `x | length`"),
    ("now", CLOCK),
    ("today", CLOCK),
    ("Date", CLOCK),
    ("date", CLOCK),
    ("datetime", CLOCK),
    ("timestamp", CLOCK),
    ("default", "an edge for all other cases is `a -> b: else`"),
    ("otherwise", "an edge for all other cases is `a -> b: else`"),
    (
        "else",
        "an edge for all other cases is `a -> b: else`; for a further case write its condition alone",
    ),
    (
        "success",
        "an edge is taken when its node is done: leave the condition out",
    ),
    (
        "failure",
        "failures leave by another port: `on-error: route` at the node and the edge `a.error -> b`",
    ),
];

/// Those of [`NAMES`] that are also words of programs: a text with one of them may be a program.
pub(super) const OF_PROGRAMS: &[&str] =
    &["this", "self", "JSON", "Math", "Object", "Array", "Date"];

const SECRETS: &str = "expressions see no secrets: in the `with` of a node write `{ secret: NAME }` \
                       as the whole value, or `{ secret: NAME, prefix: \"Bearer \" }`";

const CLOCK: &str = "an expression reads no clock, so that a step that is repeated gives the same \
                     result: pass the time as `input`, or take it from the output of a node";

const CHANCE: &str = "an expression draws no random numbers, so that a step that is repeated gives \
                      the same result: `run.id` is unique for each run; other values come from \
                      `input` or from a node";

const LENGTH: &str = "write the filter: `x | length`";

/// Functions, and methods of values.
pub(super) const FUNCTIONS: &[Entry] = &[
    ("len", LENGTH),
    ("length", LENGTH),
    ("size", LENGTH),
    ("count", LENGTH),
    ("now", CLOCK),
    ("today", CLOCK),
    ("date", CLOCK),
    ("Date", CLOCK),
    ("time", CLOCK),
    ("timestamp", CLOCK),
    ("utcnow", CLOCK),
    ("random", CHANCE),
    ("rand", CHANCE),
    ("uuid", CHANCE),
    ("uuid4", CHANCE),
    ("guid", CHANCE),
    (
        "env",
        "expressions see no environment: pass the value as `input` or keep it in `vars`",
    ),
    (
        "getenv",
        "expressions see no environment: pass the value as `input` or keep it in `vars`",
    ),
    ("secret", SECRETS),
    ("contains", "write `'x' in text`"),
    ("includes", "write `'x' in text`"),
    ("has", "write `'x' in value`, or `value.x is defined`"),
    ("hasOwnProperty", "write `value.x is defined`"),
    ("indexOf", "write `'x' in text`"),
    ("startsWith", "write the test: `text is startingwith('x')`"),
    ("startswith", "write the test: `text is startingwith('x')`"),
    ("endsWith", "write the test: `text is endingwith('x')`"),
    ("endswith", "write the test: `text is endingwith('x')`"),
    ("toUpperCase", "write the filter: `x | upper`"),
    ("toUpper", "write the filter: `x | upper`"),
    ("toLowerCase", "write the filter: `x | lower`"),
    ("toLower", "write the filter: `x | lower`"),
    ("strip", "write the filter: `x | trim`"),
    ("toJSON", "write the filter: `x | tojson`"),
    ("toJson", "write the filter: `x | tojson`"),
    ("to_json", "write the filter: `x | tojson`"),
    ("stringify", "write the filter: `x | tojson`"),
    ("dumps", "write the filter: `x | tojson`"),
    (
        "fromJSON",
        "use a node `data/jq` with the filter `fromjson`",
    ),
    (
        "fromJson",
        "use a node `data/jq` with the filter `fromjson`",
    ),
    (
        "from_json",
        "use a node `data/jq` with the filter `fromjson`",
    ),
    (
        "fromjson",
        "use a node `data/jq` with the filter `fromjson`",
    ),
    ("parse", "use a node `data/jq` with the filter `fromjson`"),
    ("loads", "use a node `data/jq` with the filter `fromjson`"),
    ("str", "write the filter: `x | string`"),
    ("String", "write the filter: `x | string`"),
    ("toString", "write the filter: `x | string`"),
    ("Number", "write the filter: `x | int` or `x | float`"),
    ("parseInt", "write the filter: `x | int`"),
    ("parseFloat", "write the filter: `x | float`"),
    ("Boolean", "write the filter: `x | bool`"),
    ("concat", "`~` joins texts, and `+` joins lists"),
    ("append", "`+` joins lists: `x + [y]`"),
    ("push", "`+` joins lists: `x + [y]`"),
    ("coalesce", "write the filter: `x | default(y)`"),
    ("get", "write `x.name | default(y)`"),
    ("keys", "write the filter: `x | list`"),
    ("values", "write the filter: `x | items`"),
    ("isEmpty", "write `not x`, or `x | length == 0`"),
    ("is_empty", "write `not x`, or `x | length == 0`"),
    ("empty", "write `not x`, or `x | length == 0`"),
    (
        "success",
        "an edge is taken when its node is done: leave the condition out",
    ),
    (
        "failure",
        "failures leave by another port: `on-error: route` at the node and the edge `a.error -> b`",
    ),
    (
        "always",
        "write `on-error: continue` at the node before, and an edge without a condition",
    ),
    (
        "namespace",
        "`namespace` is not available: compute the value with filters or in a node",
    ),
];

/// Filters of Jinja in other systems, Go templates, Liquid and Twig.
pub(super) const FILTERS: &[Entry] = &[
    ("date", CLOCK),
    ("strftime", CLOCK),
    ("to_datetime", CLOCK),
    ("len", LENGTH),
    ("size", LENGTH),
    ("toUpperCase", "write `upper`"),
    ("toLowerCase", "write `lower`"),
    ("upcase", "write `upper`"),
    ("downcase", "write `lower`"),
    ("uppercase", "write `upper`"),
    ("lowercase", "write `lower`"),
    ("strip", "write `trim`"),
    ("to_json", "write `tojson`"),
    ("toJson", "write `tojson`"),
    ("toJSON", "write `tojson`"),
    ("json", "write `tojson`"),
    ("json_encode", "write `tojson`"),
    (
        "from_json",
        "use a node `data/jq` with the filter `fromjson`",
    ),
    (
        "fromjson",
        "use a node `data/jq` with the filter `fromjson`",
    ),
    (
        "fromJson",
        "use a node `data/jq` with the filter `fromjson`",
    ),
    ("str", "write `string`"),
    ("number", "write `int` or `float`"),
    ("quote", "write `tojson`"),
    ("keys", "write `list`"),
    ("values", "write `items`"),
    (
        "filter",
        "write `select('odd')`, or `selectattr('name')` for a member",
    ),
    ("where", "write `selectattr('name', 'eq', value)`"),
    ("concat", "`~` joins texts, and `+` joins lists"),
    (
        "flatten",
        "write `sum(start=[])`, or use a node `data/jq` with the filter `flatten`",
    ),
    ("safe", "results are not escaped: leave it out"),
    (
        "escape",
        "results are not escaped; a node `text/template` can do it",
    ),
    (
        "e",
        "results are not escaped; a node `text/template` can do it",
    ),
    ("random", CHANCE),
    (
        "b64encode",
        "use a node `data/jq` with the filter `@base64`",
    ),
    ("base64", "use a node `data/jq` with the filter `@base64`"),
    ("urlencode", "use a node `data/jq` with the filter `@uri`"),
    (
        "regex_replace",
        "use `replace` for a fixed text, or a node `data/jq` with the filter `gsub`",
    ),
    ("combine", "use a node `data/jq` with the filter `*`"),
    // Of jq.
    ("tostring", "write `string`"),
    ("tonumber", "write `int` or `float`"),
    ("ascii_upcase", "write `upper`"),
    ("ascii_downcase", "write `lower`"),
    ("to_entries", "write `items`"),
    ("from_entries", JQ),
    ("with_entries", JQ),
    ("map_values", JQ),
    ("paths", JQ),
    ("del", JQ),
    ("add", "write `sum`, or `join` for texts"),
    ("has", "write `'x' in value`"),
    ("contains", "write `'x' in text`"),
    ("startswith", "write the test: `text is startingwith('x')`"),
    ("endswith", "write the test: `text is endingwith('x')`"),
    ("sort_by", "write `sort(attribute='name')`"),
    ("group_by", "write `groupby('name')`"),
    ("unique_by", "write `unique(attribute='name')`"),
    ("min_by", "write `min(attribute='name')`"),
    ("max_by", "write `max(attribute='name')`"),
    ("toarray", "write `[x]`"),
    ("tostream", JQ),
    ("csv", JQ),
    (
        "sub",
        "write `replace` for a fixed text, or use a node `data/jq`",
    ),
    (
        "gsub",
        "write `replace` for a fixed text, or use a node `data/jq`",
    ),
    ("floor", "write `round(method='floor')`"),
    ("ceil", "write `round(method='ceil')`"),
    ("sqrt", "write `x ** 0.5`"),
    // Of Jinja, Liquid and Ansible.
    ("truncate", "write a slice: `x[:20]`"),
    ("wordcount", "write `split | length`"),
    ("pprint", "write `tojson(indent=2)`"),
    ("ternary", "write `a if condition else b`"),
    ("append", "`~` joins texts, and `+` joins lists"),
    (
        "b64decode",
        "use a node `data/jq` with the filter `@base64d`",
    ),
    ("striptags", "use a node `data/jq` with the filter `gsub`"),
    (
        "regex_search",
        "use a node `data/jq` with the filter `test`",
    ),
];

const JQ: &str = "use a node `data/jq`, which has it";

/// Tests.
pub(super) const TESTS: &[Entry] = &[
    ("empty", "write `not x`, or `x | length == 0`"),
    ("null", "write `x is none`"),
    ("nil", "write `x is none`"),
    ("list", "write `x is sequence`"),
    ("array", "write `x is sequence`"),
    ("dict", "write `x is mapping`"),
    ("object", "write `x is mapping`"),
    ("map", "write `x is mapping`"),
    ("str", "write `x is string`"),
    ("text", "write `x is string`"),
    ("bool", "write `x is boolean`"),
    ("contains", "write `'x' in text`"),
    ("present", "write `x is defined`"),
    ("exists", "write `x is defined`"),
    ("greater", "write `>`"),
    ("less", "write `<`"),
    ("equal", "write `==`"),
    (
        "match",
        "there are no patterns: use a test, like `x is startingwith('a')`",
    ),
];

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::{FILTERS, FUNCTIONS, NAMES, SIGNS, TESTS, WORDS};

    #[test]
    fn no_foreign_word_has_a_meaning_here() {
        for (word, _) in FILTERS {
            assert!(!names::FILTERS.contains(word), "{word}");
        }
        for (word, _) in TESTS {
            assert!(!names::TESTS.contains(word), "{word}");
        }
        for (word, _) in FUNCTIONS {
            assert!(!names::FUNCTIONS.contains(word), "{word}");
        }
        for (word, _) in NAMES {
            assert!(!names::ROOTS.iter().any(|(root, _)| root == word), "{word}");
        }
    }

    #[test]
    fn every_entry_can_be_found() {
        for table in [SIGNS, WORDS, NAMES, FUNCTIONS, FILTERS, TESTS] {
            for (at, (written, remedy)) in table.iter().enumerate() {
                let first = table.iter().position(|(other, _)| other == written);
                assert_eq!(first, Some(at), "{written} is there twice");
                assert!(!remedy.is_empty(), "{written} has no remedy");
            }
        }
        for (at, (sign, _)) in SIGNS.iter().enumerate() {
            let hidden = SIGNS
                .iter()
                .take(at)
                .any(|(before, _)| sign.starts_with(before));
            assert!(!hidden, "a part of {sign} precedes it");
        }
    }
}
