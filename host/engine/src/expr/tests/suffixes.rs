//! What stands behind an expression is never ignored: an expression and what makes no longer one of
//! it are refused together, at every place that holds an expression.

use minijinja::machinery::{parse, parse_expr};
use serde_json::json;
use windlass_model::Diagnostic;
use windlass_test_seeds::Seeds;

use super::super::environment::syntax;
use super::super::{Condition, Template};
use super::random::Random;

/// Pairs of an expression and a suffix.
const PAIRS: Seeds = Seeds::new(100_000, 200_000);

/// How an expression ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Text,
    Number,
    Name,
    /// `true`, `false`, `none`
    Word,
    Member,
    Index,
    Paren,
    Bracket,
    Brace,
    Filter,
    /// A test that has no argument, and would take one.
    Test,
}

const ENDS: &[(End, &[&str])] = &[
    (
        End::Text,
        &[
            "'x'",
            "\"it's\"",
            "'a\\'b'",
            "''",
            "'{{'",
            "'&& ;'",
            "'a' 'b'",
            "input.a is eq 'x'",
            "input.a is startingwith \"x\"",
        ],
    ),
    (
        End::Number,
        &[
            "5",
            "0",
            "1.5",
            "0x1F",
            "1e3",
            "1_000",
            "18446744073709551616",
            "input.n is divisibleby 3",
        ],
    ),
    (End::Name, &["input", "vars", "nodes"]),
    (
        End::Word,
        &["true", "false", "none", "input.a is sameas none"],
    ),
    (
        End::Member,
        &["input.kind", "vars.x", "nodes.a.output", "input['a'].b"],
    ),
    (End::Index, &["input.list.0", "input.list.0.1"]),
    (
        End::Paren,
        &[
            "(1 + 2)",
            "('x')",
            "range(3)",
            "input.x | default('y')",
            "input.n is divisibleby(3)",
            "('x' if input.a)",
        ],
    ),
    (
        End::Bracket,
        &["[1, 'x']", "[]", "input['a']", "input.l[1:]", "input.l[:2]"],
    ),
    (End::Brace, &["{'a': 1}", "{}", "{'a': 'x'}"]),
    (
        End::Filter,
        &["input.x | upper", "'x' | length", "input.l | first | lower"],
    ),
    (
        End::Test,
        &["input.x is defined", "input.x is not none", "'x' is string"],
    ),
];

/// What can precede an expression that does not begin with `not`.
const HEADS: &[&str] = &[
    "input.a == ",
    "input.a != ",
    "input.a < ",
    "input.a and ",
    "input.a == 'x' and ",
    "'x' or ",
    "input.a ~ ",
    "'x' in ",
    "'x' not in ",
    "1 if input.a else ",
    "'x' if input.a == 'x' else ",
    "input.a | default('x') == ",
];

/// How a suffix begins, which decides where it could continue an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// A sign that is no operator: never.
    Junk,
    /// A sign or an operator without what has to follow, or with junk behind it: never.
    Operator,
    /// A word that is no operator. A test would take it as its argument.
    Word,
    /// A number, a list or a map. A test would take it as its argument.
    Value,
    /// A text. A test would take it as its argument, and a text before would be joined with it.
    Text,
}

/// Suffixes, and whether they may follow without white space.
const SUFFIXES: &[(Begin, bool, &str)] = &[
    (Begin::Junk, true, "&& input.total > 1000"),
    (Begin::Junk, true, "&&"),
    (Begin::Junk, true, "& 1"),
    (Begin::Junk, true, "; junk"),
    (Begin::Junk, true, ";"),
    (Begin::Junk, true, "? 1 : 2"),
    (Begin::Junk, true, "?? 'y'"),
    (Begin::Junk, true, "?.a"),
    (Begin::Junk, true, "! input.b"),
    (Begin::Junk, true, "!"),
    (Begin::Junk, true, "@"),
    (Begin::Junk, true, "@a"),
    (Begin::Junk, true, "$x"),
    (Begin::Junk, true, "${ input.b }"),
    (Begin::Junk, true, "`x`"),
    (Begin::Junk, true, "# comment"),
    (Begin::Junk, true, "\\"),
    (Begin::Junk, true, "^ 2"),
    (Begin::Junk, true, "€"),
    (Begin::Junk, true, "“x”"),
    (Begin::Junk, true, "\u{0}"),
    (Begin::Junk, true, "\u{a0}and input.b"),
    (Begin::Junk, true, "🐍"),
    (Begin::Junk, true, "'open"),
    (Begin::Junk, true, "\"open"),
    (Begin::Junk, true, "'open\\'"),
    (Begin::Operator, true, "}"),
    (Begin::Operator, true, ")"),
    (Begin::Operator, true, "]"),
    (Begin::Operator, true, "), ("),
    (Begin::Operator, true, ","),
    (Begin::Operator, true, ", input.b"),
    (Begin::Operator, true, "= 1"),
    (Begin::Operator, true, ": 1"),
    (Begin::Operator, true, "|"),
    (Begin::Operator, true, "|| input.b"),
    (Begin::Operator, true, "| 5"),
    (Begin::Operator, true, "=="),
    (Begin::Operator, true, "=== 1"),
    (Begin::Operator, true, "!== 1"),
    (Begin::Operator, true, "<> 1"),
    (Begin::Operator, true, "=> 1"),
    (Begin::Operator, true, "<"),
    (Begin::Operator, true, "*"),
    (Begin::Operator, true, "**"),
    (Begin::Operator, true, "/"),
    (Begin::Operator, true, "%"),
    (Begin::Operator, true, "~"),
    (Begin::Operator, true, "== 'x' && input.b"),
    (Begin::Operator, true, "~ 'x' ; junk"),
    (Begin::Operator, true, "== 'x' ? 1 : 2"),
    (Begin::Operator, true, "== 'x' 5"),
    (
        Begin::Operator,
        true,
        "~ 99999999999999999999999999999999999999999",
    ),
    (
        Begin::Operator,
        true,
        "== 'x' 99999999999999999999999999999999999999999",
    ),
    (Begin::Operator, true, "== 'x' 1_"),
    (Begin::Operator, false, "."),
    (Begin::Operator, false, "..a"),
    (Begin::Operator, false, ". 'a'"),
    (Begin::Operator, false, "("),
    (Begin::Operator, false, "["),
    (Begin::Operator, false, "{"),
    (Begin::Operator, false, "+"),
    (Begin::Operator, false, "-"),
    (Begin::Operator, false, "and"),
    (Begin::Operator, false, "or"),
    (Begin::Operator, false, "is"),
    (Begin::Operator, false, "is not"),
    (Begin::Operator, false, "and && input.b"),
    (Begin::Operator, false, "or 'x' || input.b"),
    (Begin::Operator, false, "and 'x' && 'y'"),
    (Begin::Operator, false, "is eq 'x' ; junk"),
    (Begin::Word, false, "in"),
    (Begin::Word, false, "not"),
    (Begin::Word, false, "not input.b"),
    (Begin::Word, false, "if"),
    (Begin::Word, false, "if input.b else"),
    (Begin::Word, false, "if 'x' && input.b else 'y'"),
    (Begin::Word, false, "else input.b"),
    (Begin::Word, false, "for x in input.l"),
    (Begin::Word, false, "AND input.b"),
    (Begin::Word, false, "THEN"),
    (Begin::Word, false, "junk"),
    (Begin::Word, false, "größe"),
    (Begin::Value, false, "5"),
    (Begin::Value, false, "5 5"),
    (Begin::Value, false, "{}"),
    (Begin::Text, false, "'y'"),
    (Begin::Text, false, "\"y\" 5"),
];

/// A place that holds an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Condition,
    Failure,
    Value,
    Text,
    Statement,
}

const HOLDERS: [Holder; 5] = [
    Holder::Condition,
    Holder::Failure,
    Holder::Value,
    Holder::Text,
    Holder::Statement,
];

impl Holder {
    fn write(self, expression: &str) -> String {
        match self {
            Self::Condition | Self::Failure => expression.to_owned(),
            Self::Value => format!("{{{{ {expression} }}}}"),
            Self::Text => format!("a {{{{ {expression} }}}} b"),
            Self::Statement => format!("{{% if {expression} %}}x{{% endif %}}"),
        }
    }

    fn read(self, text: &str) -> Result<(), Vec<Diagnostic>> {
        match self {
            Self::Condition => Condition::compile(text, "/edges/0").map(drop),
            Self::Failure => Condition::about_failure(text, "/retry/when").map(drop),
            _ => Template::compile(&json!(text), &[], "/with").map(drop),
        }
    }

    /// MiniJinja's parser alone.
    fn parsed(self, text: &str) -> bool {
        match self {
            Self::Condition | Self::Failure => parse_expr(text).is_ok(),
            _ => parse(text, "text", syntax()).is_ok(),
        }
    }
}

struct Pair {
    end: End,
    begin: Begin,
    holder: Holder,
    expression: String,
    suffixed: String,
}

impl Pair {
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (end, last) = ENDS[random.below(ENDS.len())];
        let mut expression = last[random.below(last.len())].to_owned();
        let mut holder = HOLDERS[random.below(HOLDERS.len())];
        for _ in 0..random.below(3) {
            let head = HEADS[random.below(HEADS.len())];
            expression.insert_str(0, head);
            // The condition of a statement is a choice only in parentheses.
            if holder == Holder::Statement && head.contains(" if ") {
                holder = Holder::Text;
            }
        }
        if random.below(4) == 0 {
            expression.insert_str(0, "not ");
        }
        let (begin, suffix, glued) = loop {
            let (begin, glued, suffix) = SUFFIXES[random.below(SUFFIXES.len())];
            let continues = match begin {
                Begin::Junk | Begin::Operator => false,
                Begin::Word | Begin::Value => end == End::Test,
                Begin::Text => matches!(end, End::Test | End::Text),
            };
            if !continues {
                break (begin, suffix, glued);
            }
        };
        let space = ["", " ", "\n", "\t ", "  "];
        let space = space[usize::from(!glued) + random.below(space.len() - 1)];
        let suffixed = format!("{expression}{space}{suffix}");
        Self {
            end,
            begin,
            holder,
            expression,
            suffixed,
        }
    }

    fn suffixed(&self) -> String {
        self.holder.write(&self.suffixed)
    }
}

#[test]
fn an_expression_and_a_suffix_are_never_accepted_together() {
    let seeds = PAIRS.range();
    let mut seen = std::collections::BTreeSet::new();
    for seed in seeds.clone() {
        let pair = Pair::of(seed);
        seen.insert((pair.end, pair.begin as u8, pair.holder as u8));
        let told = format!(
            "WINDLASS_SEED={seed}: {:?} {:?}",
            pair.holder, pair.suffixed
        );
        let alone = pair.holder.read(&pair.holder.write(&pair.expression));
        assert!(
            alone.is_ok(),
            "{told} is wrong without its suffix: {alone:?}"
        );
        let text = pair.suffixed();
        let Err(wrong) = pair.holder.read(&text) else {
            panic!("{told} is accepted");
        };
        for wrong in &wrong {
            let within = wrong.place.within.clone().unwrap();
            assert!(wrong.help.is_some(), "{told} gets no advice: {wrong:?}");
            assert!(
                text.get(within.clone()).is_some(),
                "{told} has no place {within:?}"
            );
        }
        // A sign that is never read is the place of the mistake, however the parser goes on.
        if pair.begin == Begin::Junk {
            let end = text.find(&pair.suffixed).unwrap() + pair.expression.len();
            let places: Vec<_> = wrong.iter().map(|it| it.place.within.clone()).collect();
            let at = places.iter().flatten().any(|within| within.end > end);
            assert!(at, "{told} has its mistake at {places:?}");
        }
    }
    if PAIRS.are_all(&seeds) {
        let every = ENDS.len() * 3 * HOLDERS.len();
        assert!(seen.len() > every, "only {} kinds of pairs", seen.len());
    }
}

/// Behind a text MiniJinja's parser takes what cannot be read for the end.
#[test]
fn a_reader_that_ignores_an_unreadable_suffix_is_noticed() {
    PAIRS.find("MiniJinja's parser alone", |seed| {
        let pair = Pair::of(seed);
        pair.holder.parsed(&pair.suffixed())
            && pair.end != End::Test
            && !matches!(
                pair.holder,
                Holder::Value | Holder::Text | Holder::Statement
            )
    });
}

/// The signs of other languages are named wherever they stand, with the word to write instead.
#[test]
fn a_foreign_sign_is_named_behind_each_kind_of_token() {
    let advice = [
        ("&& input.b", "`&&` means nothing", "write `and`"),
        ("|| input.b", "`||` means nothing", "write `or`"),
        ("!input.b", "`!` means nothing", "write `not x`"),
        (
            "? 1 : 2",
            "`?` means nothing",
            "write `a if condition else b`",
        ),
        (
            "; junk",
            "`;` means nothing",
            "an expression is one value: leave the semicolon out",
        ),
        ("=== 1", "`===` means nothing", "write `==`"),
    ];
    for (_, ends) in ENDS {
        for end in *ends {
            for (sign, message, help) in advice {
                for holder in HOLDERS {
                    let text = holder.write(&format!("{end} {sign}"));
                    let wrong = holder.read(&text).unwrap_err();
                    let [wrong] = wrong.as_slice() else {
                        panic!("{text}: {wrong:?}");
                    };
                    assert!(wrong.message.starts_with(message), "{text}: {wrong:?}");
                    assert_eq!(wrong.help.as_deref(), Some(help), "{text}");
                    let within = wrong.place.within.clone().unwrap();
                    assert!(sign.starts_with(&text[within]), "{text}: {wrong:?}");
                }
            }
        }
    }
}
