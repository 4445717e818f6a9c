//! Random templates over random data: every operator, filter, test, function and statement.

use serde_json::{Value as Json, json};

use super::super::machine::ORDERINGS;
use super::super::names;

/// Filters with their possible arguments. `$e` is any expression, `$i` a small number, `$s` a text,
/// `$p` a path, `$f` and `$t` the names of a filter and of a test, `$b` a truth value.
pub(super) const FILTERS: &[(&str, &[&str])] = &[
    ("abs", &[""]),
    ("attr", &["$s", "$i", "$p", "$e"]),
    ("batch", &["$i", "$i, $e", "$e"]),
    ("bool", &[""]),
    ("capitalize", &[""]),
    ("chain", &["", "$e", "$e, $e"]),
    ("count", &[""]),
    ("d", &["$e", "$e, $b"]),
    ("default", &["", "$e", "$e, $b"]),
    (
        "dictsort",
        &["", "by='value'", "reverse=$b, case_sensitive=$b"],
    ),
    ("first", &[""]),
    ("float", &["", "$e", "default=$e"]),
    ("format", &["$e", "$e, $e", "$i, $i", "a=$e"]),
    (
        "groupby",
        &["$p", "attribute=$p", "$p, default=$e, case_sensitive=$b"],
    ),
    (
        "indent",
        &["", "$i", "$i, $b, $b", "width=$i, first=$b, blank=$b"],
    ),
    ("int", &["", "$e", "default=$e, base=$i", "$e, 16"]),
    ("items", &[""]),
    ("join", &["", "$s", "$s, $p", "d=$s, attribute=$p", "$e"]),
    ("last", &[""]),
    ("length", &[""]),
    ("lines", &[""]),
    ("list", &[""]),
    ("lower", &[""]),
    (
        "map",
        &[
            "$f",
            "$f, $i",
            "attribute=$p",
            "attribute=$p, default=$e",
            "$f, $s, $s",
        ],
    ),
    ("max", &["", "attribute=$p", "case_sensitive=$b"]),
    ("min", &["", "attribute=$p", "case_sensitive=$b"]),
    ("reject", &["", "$t", "$t, $e"]),
    ("rejectattr", &["$p", "$p, $t", "$p, $t, $e"]),
    ("replace", &["$s, $s", "$e, $e"]),
    ("reverse", &[""]),
    (
        "round",
        &["", "$i", "$i, 'ceil'", "method='floor'", "precision=$i"],
    ),
    ("select", &["", "$t", "$t, $e"]),
    ("selectattr", &["$p", "$p, $t", "$p, $t, $e"]),
    ("slice", &["$i", "$i, $e"]),
    (
        "sort",
        &[
            "",
            "reverse=$b",
            "attribute=$p",
            "attribute='a,n'",
            "case_sensitive=$b",
        ],
    ),
    ("split", &["", "$s", "$s, $i", "none, $i"]),
    ("string", &[""]),
    ("sum", &["", "attribute=$p", "start=$e", "$p, $i"]),
    ("title", &[""]),
    ("tojson", &["", "$i", "indent=$i", "$b"]),
    ("trim", &["", "$s"]),
    ("unique", &["", "attribute=$p", "case_sensitive=$b"]),
    ("upper", &[""]),
    ("zip", &["", "$e", "$e, $e"]),
];

pub(super) const TESTS: &[(&str, &str)] = &[
    ("boolean", ""),
    ("defined", ""),
    ("divisibleby", "$i"),
    ("endingwith", "$s"),
    ("eq", "$e"),
    ("equalto", "$e"),
    ("even", ""),
    ("false", ""),
    ("filter", ""),
    ("float", ""),
    ("ge", "$e"),
    ("greaterthan", "$e"),
    ("gt", "$e"),
    ("in", "$e"),
    ("int", ""),
    ("integer", ""),
    ("iterable", ""),
    ("le", "$e"),
    ("lessthan", "$e"),
    ("lower", ""),
    ("lt", "$e"),
    ("mapping", ""),
    ("ne", "$e"),
    ("none", ""),
    ("number", ""),
    ("odd", ""),
    ("sameas", "$e"),
    ("sequence", ""),
    ("startingwith", "$s"),
    ("string", ""),
    ("test", ""),
    ("true", ""),
    ("undefined", ""),
    ("upper", ""),
];

/// Tests that can be named only in a text: `select('<=', 1)`.
const SIGNS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];

pub(super) const FUNCTIONS: &[(&str, &[&str])] = &[
    ("range", &["$i", "$i, $i", "$i, $i, $i", "$e"]),
    ("dict", &["", "a=$e", "$e", "{'a': $e}, b=$e", "**$e"]),
];

pub(super) const OPERATORS: &[&str] = &[
    "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
    "and", "or",
];

/// All names that the generator can use.
pub(super) fn names() -> Vec<(&'static str, &'static str)> {
    let filters = FILTERS.iter().map(|(name, _)| ("filter", *name));
    let tests = TESTS.iter().map(|(name, _)| ("test", *name));
    let signs = SIGNS.iter().map(|name| ("test", *name));
    let functions = FUNCTIONS.iter().map(|(name, _)| ("function", *name));
    filters.chain(tests).chain(signs).chain(functions).collect()
}

/// Makes templates and data from a seed.
pub(super) struct Random {
    state: u64,
    /// The limit of numbers and of lengths of texts.
    pub(super) scale: u64,
    locals: Vec<&'static str>,
    in_loop: bool,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            scale: 8,
            locals: Vec::new(),
            in_loop: false,
        }
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % bound
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// A value of every kind, with names that templates use.
    pub(super) fn input(&mut self) -> Json {
        json!({
            "a": self.json(2), "b": self.json(2), "n": self.below(20), "f": 2.5,
            "s": self.word(), "xs": [self.below(9), self.below(9), self.below(9)],
            "ws": [self.word(), self.word(), self.word()],
            "rows": [
                {"a": self.below(4), "n": self.word()},
                {"a": self.below(4), "n": self.word(), "c": [{"a": 1}]},
                {"n": self.json(1)},
            ],
            "none": null, "yes": true,
        })
    }

    pub(super) fn json(&mut self, depth: usize) -> Json {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => json!(self.below(100)),
            1 => json!(self.below(1000) as f64 / 8.0),
            2 => json!(self.word()),
            3 => json!(self.below(2) == 0),
            4 => json!(null),
            5 => (0..self.below(4)).map(|_| self.json(depth - 1)).collect(),
            _ => {
                let keys = ["a", "n", "c", "d"];
                let pairs = (0..self.below(4)).map(|i| (keys[i].to_owned(), self.json(depth - 1)));
                Json::Object(pairs.collect())
            }
        }
    }

    fn word(&mut self) -> String {
        let words = [
            "",
            "a",
            "B",
            "abc",
            "Abc def",
            "%s and %d",
            " x  y ",
            "l1\nl2\r\n\nl3\n",
            "äÖß ΐ",
            "<b>&'\"/",
            "1",
            "-17",
            "3.75",
            "0x1f",
            "a,b,,c",
            "aaaa",
            "%(a)s",
            "%5.2f|%-8s",
            "\u{1}",
        ];
        self.pick(&words).to_owned()
    }

    fn text(&mut self) -> String {
        let word = self.word();
        format!(
            "'{}'",
            word.escape_debug()
                .to_string()
                .replace('\'', "\\'")
                .replace("\\\\'", "\\'")
                .replace("\\u{1}", "\\u0001")
        )
    }

    fn small(&mut self) -> String {
        let scale = self.scale;
        let number = self.below(scale as usize) as i64 - if self.below(4) == 0 { 3 } else { 0 };
        number.to_string()
    }

    fn path(&mut self) -> String {
        format!(
            "'{}'",
            self.pick(&["a", "n", "c", "c.0.a", "a.0", "0", "length"])
        )
    }

    fn fill(&mut self, pattern: &str, depth: usize) -> String {
        let mut out = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            if c != '$' {
                out.push(c);
                continue;
            }
            let piece = match chars.next() {
                Some('i') => self.small(),
                Some('s') => self.text(),
                Some('p') => self.path(),
                Some('b') => self.pick(&["true", "false"]).to_owned(),
                Some('f') => {
                    let at = self.below(FILTERS.len());
                    format!("'{}'", FILTERS[at].0)
                }
                Some('t') => match self.below(4) {
                    0 => format!("'{}'", self.pick(SIGNS)),
                    _ => {
                        let at = self.below(TESTS.len());
                        format!("'{}'", TESTS[at].0)
                    }
                },
                _ => self.expression(depth.saturating_sub(1)),
            };
            out.push_str(&piece);
        }
        out
    }

    fn leaf(&mut self) -> String {
        match self.below(12) {
            0 => self.small(),
            1 => self.text(),
            2 => self
                .pick(&[
                    "true",
                    "none",
                    "1.5",
                    "-2.25",
                    "0.0",
                    "18446744073709551615",
                ])
                .to_owned(),
            3 if self.in_loop => format!(
                "loop.{}",
                self.pick(&[
                    "index",
                    "index0",
                    "revindex",
                    "revindex0",
                    "first",
                    "last",
                    "length",
                    "depth",
                    "depth0",
                    "previtem",
                    "nextitem",
                    "cycle(1, 'b')",
                    "changed(1)",
                    "none",
                ])
            ),
            3..=5 if !self.locals.is_empty() => {
                let at = self.below(self.locals.len());
                self.locals[at].to_owned()
            }
            _ => self
                .pick(&[
                    "input.a",
                    "input.b",
                    "input.n",
                    "input.f",
                    "input.s",
                    "input.xs",
                    "input.ws",
                    "input.rows",
                    "input.none",
                    "input.yes",
                    "input.nope",
                    "input",
                    "input.rows[1].c",
                    "input.ws[0]",
                    "input.s",
                    "input.xs",
                    "input.rows",
                ])
                .to_owned(),
        }
    }

    pub(super) fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf();
        }
        let inner = depth - 1;
        match self.below(17) {
            0 => self.leaf(),
            1..=6 => {
                let (name, args) = FILTERS[self.below(FILTERS.len())];
                let args = self.pick(args);
                let args = self.fill(args, depth);
                format!("({})|{name}({args})", self.expression(inner))
            }
            7 => {
                let (name, args) = TESTS[self.below(TESTS.len())];
                let not = self.pick(&["", "not "]);
                // Only values of one kind have an order.
                if ORDERINGS.contains(&name) && self.below(2) == 0 {
                    let (left, right) = (self.fill("$i", depth), self.fill("$i", depth));
                    return format!("{left} is {not}{name}({right})");
                }
                let args = self.fill(args, depth);
                let args = if args.is_empty() {
                    args
                } else {
                    format!("({args})")
                };
                format!("({}) is {not}{name}{args}", self.expression(inner))
            }
            8 | 9 => {
                let (left, right) = (self.expression(inner), self.expression(inner));
                format!("({left}) {} ({right})", self.pick(OPERATORS))
            }
            10 => {
                let (name, args) = FUNCTIONS[self.below(FUNCTIONS.len())];
                let args = self.pick(args);
                format!("{name}({})", self.fill(args, depth))
            }
            11 => {
                let literal = self.pick_literal();
                self.fill(literal, depth)
            }
            12 => {
                let slices = [
                    "[$i:]",
                    "[:$i]",
                    "[$i:$i]",
                    "[::$i]",
                    "[$i:$i:$i]",
                    "[$i]",
                    "[$s]",
                    ".a",
                    "[$e]",
                    ".n.a",
                ];
                let slice = self.pick(&slices);
                let slice = self.fill(slice, depth);
                format!("({}){slice}", self.expression(inner))
            }
            13 => format!("not ({})", self.expression(inner)),
            14 => format!("-({})", self.expression(inner)),
            15 => {
                let otherwise = self.pick(&["", " else ($e)"]);
                let otherwise = self.fill(otherwise, depth);
                let (then, when) = (self.expression(inner), self.expression(inner));
                format!("(({then}) if ({when}){otherwise})")
            }
            _ => {
                let pattern = self.pick(&[
                    "($e) < ($e) <= ($e)",
                    "($e) == ($e) != ($e)",
                    "1 < $i in [$e, $i]",
                ]);
                self.fill(pattern, depth)
            }
        }
    }

    fn pick_literal(&mut self) -> &'static str {
        self.pick(&[
            "[$e, $e]",
            "[]",
            "($e, $e)",
            "($e,)",
            "()",
            "{'a': $e, $s: $e}",
            "{}",
            "[[$i, $i], [$e]]",
            "{$i: $e}",
            "[$e, $e, $e]",
        ])
    }

    /// A text or a single expression.
    pub(super) fn template(&mut self) -> String {
        if self.below(2) == 0 {
            let depth = 1 + self.below(4);
            return format!("{{{{ {} }}}}", self.expression(depth));
        }
        let mut out = "t:".to_owned();
        for _ in 0..=self.below(3) {
            out.push_str(&self.statement(3));
        }
        out
    }

    fn body(&mut self, depth: usize) -> String {
        let statements = (0..=self.below(2)).map(|_| self.statement(depth.saturating_sub(1)));
        statements.collect()
    }

    fn statement(&mut self, depth: usize) -> String {
        if depth == 0 {
            return format!("{{{{ {} }}}}", self.expression(1));
        }
        match self.below(13) {
            0 => " raw <x>\n".to_owned(),
            1..=3 => {
                let depth = self.below(3);
                format!("{{{{ {} }}}};", self.expression(depth))
            }
            4..=6 => self.for_loop(depth),
            7 => {
                let (when, then) = (self.expression(2), self.body(depth));
                let otherwise = self.pick(&["", "{% else %}o", "{% elif $e %}e{% else %}f"]);
                let otherwise = self.fill(otherwise, 1);
                format!("{{% if {when} %}}{then}{otherwise}{{% endif %}}")
            }
            8 => {
                let value = self.expression(2);
                let set = format!("{{% set v = {value} %}}");
                self.locals.push("v");
                set
            }
            9 => {
                let body = self.body(depth);
                let filter =
                    self.pick(&["", "|upper", "|replace('a', 'bb')|title", "|trim|length"]);
                self.locals.push("w");
                format!("{{% set w{filter} %}}{body}{{% endset %}}{{{{ w }}}}")
            }
            10 => {
                let value = self.expression(1);
                self.locals.push("x");
                let body = self.body(depth);
                format!("{{% with x = {value} %}}{body}{{% endwith %}}")
            }
            11 => {
                let body = self.body(depth);
                let filter = self.pick(&["upper", "indent(2)|trim", "split", "length", "reverse"]);
                format!("{{% filter {filter} %}}{body}{{% endfilter %}}")
            }
            _ => {
                let body = self.body(depth);
                let mode = self.pick(&["true", "false", "'html'", "'json'", "'none'"]);
                format!("{{% autoescape {mode} %}}{body}{{% endautoescape %}}")
            }
        }
    }

    fn for_loop(&mut self, depth: usize) -> String {
        let over = self.expression(1);
        let (known, was_in_loop) = (self.locals.len(), self.in_loop);
        let targets = match self.below(5) {
            0 => {
                self.locals.extend(["k", "v"]);
                "k, v"
            }
            _ => {
                self.locals.push("x");
                "x"
            }
        };
        let filter = match self.below(4) {
            0 => format!(" if {}", self.expression(1)),
            _ => String::new(),
        };
        let recursive = self.below(5) == 0;
        self.in_loop = true;
        let mut body = self.body(depth);
        if recursive {
            let again = self.pick(&["{{ loop(x.c) }}", "{{ loop(x.c|default([])) ~ '!' }}"]);
            body.push_str(if targets == "x" { again } else { "" });
        }
        self.in_loop = was_in_loop;
        self.locals.truncate(known);
        let otherwise = if !recursive && self.below(3) == 0 {
            "{% else %}none"
        } else {
            ""
        };
        let recursive = if recursive { " recursive" } else { "" };
        format!("{{% for {targets} in {over}{filter}{recursive} %}}{body}{otherwise}{{% endfor %}}")
    }
}

/// The lists above are written by hand, so this test checks that every name in them exists.
#[test]
fn the_generator_names_nothing_unknown() {
    for (kind, name) in names() {
        let known = match kind {
            "filter" => names::FILTERS,
            "test" => names::TESTS,
            _ => names::FUNCTIONS,
        };
        assert!(known.contains(&name), "{kind} {name}");
    }
}
