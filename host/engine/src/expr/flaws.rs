//! Parts of expressions and texts that no author can mean: operators that fail with every value, and
//! texts that look like expressions.
//!
//! Compiling accepts them, because published definitions may contain them. The analysis of a new
//! definition reports them.

use std::ops::Range;

use minijinja::Value;
use minijinja::machinery::ast::{BinOpKind, Expr, UnaryOpKind};
use minijinja::value::ValueKind;

use super::names;
use super::source::shorten;

/// A part that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// The flaw, in one sentence.
    pub(crate) message: String,
    /// The remedy.
    pub(crate) help: String,
    /// Bytes in the text.
    pub(crate) at: Range<usize>,
    /// Whether evaluating the part fails, rather than giving a surprising text.
    pub(crate) fails: bool,
}

/// The knowledge about the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Anything,
    Number,
    Zero,
    Boolean,
    Text,
    List,
    Map,
    None,
}

impl Known {
    fn is_number(self) -> bool {
        matches!(
            self,
            Self::Number | Self::Zero | Self::Boolean | Self::Anything
        )
    }

    fn of_constant(value: &Value) -> Self {
        match value.kind() {
            ValueKind::Bool => Self::Boolean,
            ValueKind::Number if f64::try_from(value.clone()).is_ok_and(|it| it == 0.0) => {
                Self::Zero
            }
            ValueKind::Number => Self::Number,
            ValueKind::String => Self::Text,
            ValueKind::Seq | ValueKind::Iterable => Self::List,
            ValueKind::Map => Self::Map,
            ValueKind::None => Self::None,
            _ => Self::Anything,
        }
    }

    fn of(expr: &Expr<'_>) -> Self {
        match expr {
            Expr::Const(constant) => Self::of_constant(&constant.value),
            Expr::UnaryOp(e) => match e.op {
                UnaryOpKind::Not => Self::Boolean,
                UnaryOpKind::Neg => Self::Number,
            },
            Expr::BinOp(e) => match e.op {
                BinOpKind::Concat => Self::Text,
                BinOpKind::Sub
                | BinOpKind::Div
                | BinOpKind::FloorDiv
                | BinOpKind::Rem
                | BinOpKind::Pow => Self::Number,
                BinOpKind::In
                | BinOpKind::Eq
                | BinOpKind::Ne
                | BinOpKind::Lt
                | BinOpKind::Lte
                | BinOpKind::Gt
                | BinOpKind::Gte => Self::Boolean,
                BinOpKind::Add | BinOpKind::Mul | BinOpKind::ScAnd | BinOpKind::ScOr => {
                    Self::Anything
                }
            },
            Expr::Compare(_) | Expr::Test(_) => Self::Boolean,
            Expr::Filter(e) => match e.name {
                "capitalize" | "join" | "lower" | "string" | "title" | "tojson" | "trim"
                | "upper" => Self::Text,
                "count" | "float" | "int" | "length" => Self::Number,
                _ => Self::Anything,
            },
            Expr::List(_) => Self::List,
            Expr::Map(_) => Self::Map,
            _ => Self::Anything,
        }
    }
}

/// The operator at the top of an expression, if it fails with all values that its operands can have.
pub(super) fn of_operator(text: &str, expr: &Expr<'_>) -> Option<Flaw> {
    let (rule, help) = match expr {
        Expr::UnaryOp(e) if matches!(e.op, UnaryOpKind::Neg) => {
            if Known::of(&e.expr).is_number() && !is_boolean(&e.expr) {
                return None;
            }
            ("`-` takes a number", "write a number behind it")
        }
        Expr::BinOp(e) => failing(e.op, Known::of(&e.left), Known::of(&e.right))?,
        _ => return None,
    };
    // The parser begins the span of `in` at the token before its left side.
    let start = match expr {
        Expr::BinOp(e) if matches!(e.op, BinOpKind::In) => e.left.span(),
        other => other.span(),
    };
    let at = start.start_offset as usize..expr.span().end_offset as usize;
    let written = shorten(text.get(at.clone()).unwrap_or_default());
    Some(Flaw {
        message: format!("`{written}` fails in every run: {rule}"),
        help: help.to_owned(),
        at,
        fails: true,
    })
}

fn is_boolean(expr: &Expr<'_>) -> bool {
    Known::of(expr) == Known::Boolean
}

/// The rule that the operands break, and the remedy.
fn failing(op: BinOpKind, left: Known, right: Known) -> Option<(&'static str, &'static str)> {
    const NUMBERS: &str = "write numbers without quotes; a text of digits becomes a number with \
                           `x | int` or `x | float`";
    const ZERO: &str = "test the divisor before: `a / b if b != 0 else 0`";
    let numbers = left.is_number() && right.is_number();
    let any = left == Known::Anything || right == Known::Anything;
    Some(match op {
        BinOpKind::Add => {
            let alike = left == right && matches!(left, Known::Text | Known::List);
            let joinable = |it| {
                matches!(
                    it,
                    Known::Anything
                        | Known::Text
                        | Known::List
                        | Known::Number
                        | Known::Zero
                        | Known::Boolean
                )
            };
            if alike || numbers || (any && joinable(left) && joinable(right)) {
                return None;
            }
            let help = match left == Known::Text || right == Known::Text {
                true => "to join texts, write `~`, which takes values of all types",
                false => "a missing value becomes a number with `x | default(0)`",
            };
            ("`+` takes two numbers, two texts or two lists", help)
        }
        BinOpKind::Mul => {
            let repeats = |it, count: Known| {
                matches!(it, Known::Text | Known::List | Known::Anything) && count.is_number()
            };
            if numbers || repeats(left, right) || repeats(right, left) {
                return None;
            }
            (
                "`*` takes two numbers, or a text or list and a whole number",
                NUMBERS,
            )
        }
        BinOpKind::Sub if !numbers => ("`-` takes two numbers", NUMBERS),
        BinOpKind::Div if !numbers => ("`/` takes two numbers", NUMBERS),
        BinOpKind::FloorDiv if !numbers => ("`//` takes two numbers", NUMBERS),
        BinOpKind::Rem if !numbers => ("`%` takes two numbers", NUMBERS),
        BinOpKind::Pow if !numbers => ("`**` takes two numbers", NUMBERS),
        BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem if right == Known::Zero => {
            ("nothing can be divided by zero", ZERO)
        }
        BinOpKind::In
            if matches!(
                right,
                Known::Number | Known::Zero | Known::Boolean | Known::None
            ) =>
        {
            (
                "`in` looks into a text, a list or an object",
                "write a list, like `x in [1, 2]`",
            )
        }
        _ => return None,
    })
}

/// Reads the parts of a text that are no expressions, in order.
#[derive(Debug, Default)]
pub(super) struct Plain {
    open: usize,
    stray: Option<usize>,
    found: Vec<Flaw>,
}

impl Plain {
    /// The next part, which begins at an offset of the whole text.
    pub(super) fn part(&mut self, part: &str, offset: usize) {
        let mut stray = None;
        for (at, byte) in part.bytes().enumerate() {
            match byte {
                b'{' => {
                    self.open = self.open.saturating_add(1);
                    self.other_braces(part, at, offset);
                }
                b'}' if self.open > 0 => self.open -= 1,
                b'}' if stray.is_some_and(|before| before + 1 == at) => {
                    self.stray.get_or_insert(offset + at - 1);
                }
                b'}' => stray = Some(at),
                _ => {}
            }
        }
    }

    /// `{input.x}` or `${input.x}`.
    fn other_braces(&mut self, part: &str, brace: usize, offset: usize) {
        const MOST: usize = 8;
        let inside = part.get(brace + 1..).unwrap_or_default();
        let Some((inside, _)) = inside.split_once('}') else {
            return;
        };
        let path = inside.trim();
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_.[]'\"".contains(c);
        let Some((root, rest)) = path.split_once('.') else {
            return;
        };
        let known = names::ROOTS.iter().any(|(name, _)| *name == root);
        if !known || rest.is_empty() || !path.chars().all(is_path) || self.found.len() == MOST {
            return;
        }
        let dollar = brace > 0 && part.as_bytes().get(brace - 1) == Some(&b'$');
        let start = brace - usize::from(dollar);
        let end = brace + 1 + inside.len() + 1;
        let written = shorten(part.get(start..end).unwrap_or_default());
        self.found.push(Flaw {
            message: format!("`{written}` is text, and no expression"),
            help: format!("an expression stands in two braces: `{{{{ {path} }}}}`"),
            at: offset + start..offset + end,
            fails: false,
        });
    }

    pub(super) fn finish(mut self) -> Vec<Flaw> {
        if let Some(at) = self.stray {
            self.found.push(Flaw {
                message: "`}}` is text here: no `{{` stands before it".to_owned(),
                help: "an expression begins with `{{`: `{{ input.x }}`".to_owned(),
                at: at..at + 2,
                fails: false,
            });
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::readings::{Findings, of_condition, of_template};

    fn shown(findings: &Findings) -> Vec<String> {
        let flaws = findings.flaws.iter();
        flaws.map(|(_, flaw)| flaw.message.clone()).collect()
    }

    fn of_text(text: &str) -> Findings {
        let mut found = Findings::default();
        of_template(&text.into(), &[], "/x", &mut found);
        found
    }

    #[test]
    fn operators_that_fail_with_every_value_are_flaws() {
        for text in [
            "'n' + 1",
            "1 + 'n'",
            "'a' - 'b'",
            "input.n - 'b'",
            "'a' / input.n",
            "5 / 0",
            "input.n % 0",
            "input.n // 0.0",
            "(1) - ('a')",
            "-'a'",
            "none + 1",
            "[1] + 'a'",
            "'a' * 'b'",
            "{} * 2",
            "'a' ** 2",
            "input.n in 5",
            "('a' ~ input.n) - 1",
            "(input.n | upper) + 1",
        ] {
            let found = of_condition(text, "/x");
            assert_eq!(found.flaws.len(), 1, "{text}: {:?}", shown(&found));
            let (_, flaw) = &found.flaws[0];
            assert!(flaw.fails);
            assert_eq!(&text[flaw.at.clone()], text);
            let inside = format!("größer {{{{ {text} }}}}.");
            let found = of_text(&inside);
            assert_eq!(&inside[found.flaws[0].1.at.clone()], text);
        }
        let deep = of_condition("input.a and ([1 - 'a'] | length > 2 or f(x=1 / 0))", "/x");
        assert_eq!(shown(&deep).len(), 2, "{deep:?}");
    }

    #[test]
    fn operators_that_can_work_are_none() {
        for text in [
            "'a' + 'b'",
            "'a' + input.n",
            "input.n + 1",
            "1 + true",
            "'a' * 3",
            "3 * [1]",
            "input.a * input.b",
            "'a' ~ 1",
            "5 / 2",
            "5 / input.n",
            "-5",
            "-input.n",
            "- (input.n | int)",
            "'a' in 'abc'",
            "'a' in input",
            "[1] + [2]",
            "(input.n | length) + 1",
            "2 ** -1",
        ] {
            assert_eq!(shown(&of_condition(text, "/x")), [""; 0], "{text}");
        }
    }

    #[test]
    fn texts_that_look_like_expressions_are_flaws() {
        let check = |text: &str, part: &str| {
            let found = of_text(text);
            let [(_, flaw)] = found.flaws.as_slice() else {
                panic!("{text}: {found:?}");
            };
            assert_eq!(&text[flaw.at.clone()], part, "{text}");
            assert!(!flaw.fails);
        };
        check("input.x }}", "}}");
        check("{{ input.x }} and }}", "}}");
        check("{ input.x }}", "{ input.x }");
        check("${input.x}", "${input.x}");
        check("Dear {input.name}, ä", "{input.name}");
        check(
            "ä ${ nodes.a.output['b'] } {{ input.x }}",
            "${ nodes.a.output['b'] }",
        );
        for text in [
            "",
            "{\"a\": {\"b\": 1}}",
            "{\"a\": {\"b\": \"{{ input.x }}\"}}",
            "{\"a\": {\"b\": {{ input.x }}}}",
            "${HOME}/x ${1}",
            "function() { return input.x; }",
            "{ input }",
            "{input.}",
            "a } b",
            "{% if input.x %}{\"a\": {\"b\": 1}}{% endif %}",
        ] {
            assert_eq!(shown(&of_text(text)), [""; 0], "{text}");
        }
    }
}
