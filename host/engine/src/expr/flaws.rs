//! Parts of expressions and texts that no author can mean: operators that fail with every value, and
//! texts that look like expressions.
//!
//! Compiling accepts them, because published definitions may contain them. The analysis of a new
//! definition reports them.

use std::collections::BTreeSet;
use std::ops::Range;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, UnaryOpKind};

use super::foreign;
use super::known::{self, Known, Operand};
use super::machine::ORDERINGS;
use super::names;
use super::readings::Step;
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

/// An operation on two values that may fail with all that they can be.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    op: Op,
    operands: [Operand; 2],
    /// Its text.
    written: String,
    /// Bytes in the text.
    pub(crate) at: Range<usize>,
}

#[derive(Clone, Debug)]
enum Op {
    Binary(BinOpKind),
    /// A test or a filter that orders its values.
    Order(Box<str>),
    /// `-` before its only operand, which is both sides here.
    Negate,
}

impl Operation {
    /// Whether more is known if the values of its paths are.
    pub(super) fn has_path(&self) -> bool {
        self.operands.iter().any(Operand::has_path)
    }

    /// Takes the values of these paths for unknown.
    pub(super) fn forget(&mut self, paths: &[known::Path]) {
        for operand in &mut self.operands {
            operand.forget(paths);
        }
    }

    /// The roots of the paths of its operands.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &str> {
        self.operands.iter().flat_map(Operand::roots)
    }

    /// Its flaw, if it fails with all values. `kinds` are those of a path; anything if they are
    /// unknown. `runs` says in which runs the paths have these kinds.
    pub(crate) fn flaw(
        &self,
        runs: &str,
        kinds: &mut dyn FnMut(&str, &[Step]) -> Vec<Known>,
    ) -> Option<Flaw> {
        let [left, right] = &self.operands;
        let (left, right) = (left.knowns(kinds), right.knowns(kinds));
        let mut found = None;
        for left in left {
            for right in &right {
                let failing = self.op.failing(left, *right)?;
                found.get_or_insert(failing);
            }
        }
        let (rule, help) = found?;
        let written = &self.written;
        Some(Flaw {
            message: format!("`{written}` fails {runs}: {rule}"),
            help: help.to_owned(),
            at: self.at.clone(),
            fails: true,
        })
    }
}

/// The runs in which an operation fails, if nothing is known about their inputs.
pub(crate) const EVERY_RUN: &str = "in every run";

impl Op {
    /// The rule that the operands break, and the remedy.
    fn failing(&self, left: Known, right: Known) -> Option<(String, &'static str)> {
        let name = match self {
            Self::Binary(BinOpKind::Lt) => "<",
            Self::Binary(BinOpKind::Lte) => "<=",
            Self::Binary(BinOpKind::Gt) => ">",
            Self::Binary(BinOpKind::Gte) => ">=",
            Self::Order(name) => name,
            Self::Negate => {
                let help = match left {
                    Known::Text => {
                        "a text of digits becomes a number with `x | int` or `x | float`"
                    }
                    _ => "write a number behind it",
                };
                let is_wrong = left == Known::Boolean || !left.is_number();
                return is_wrong.then(|| ("`-` takes a number".to_owned(), help));
            }
            Self::Binary(op) => {
                let (rule, help) = failing(*op, left, right)?;
                return Some((rule.to_owned(), help));
            }
        };
        if left.has_order(right) {
            return None;
        }
        let rule = format!(
            "`{name}` orders values of one kind, and these are {} and {}",
            left.name(),
            right.name()
        );
        let any = |known| left == known || right == known;
        let help = if any(Known::None) {
            "test for null before, or give a default: `x if x is not none else 0`"
        } else if any(Known::Boolean) {
            "test a boolean with `is true`"
        } else if any(Known::Text) {
            "a text of digits becomes a number with `x | int` or `x | float`"
        } else {
            "compare two numbers or two texts"
        };
        Some((rule, help))
    }
}

/// The operations at the top of an expression. `locals` are names that the text sets.
pub(super) fn operations(text: &str, expr: &Expr<'_>, locals: &BTreeSet<String>) -> Vec<Operation> {
    let written = |op, left: &Expr<'_>, right: &Expr<'_>, end: u32| {
        let start = start_of(left).min(start_of(right));
        let at = balanced(text, start as usize..end as usize);
        Operation {
            op,
            operands: [left, right].map(|side| Operand::of(side, locals)),
            written: shorten(text.get(at.clone()).unwrap_or_default()),
            at,
        }
    };
    let end = expr.span().end_offset;
    match expr {
        Expr::UnaryOp(e) if matches!(e.op, UnaryOpKind::Neg) => {
            let at = expr.span().start_offset as usize..end as usize;
            let operand = Operand::of(&e.expr, locals);
            vec![Operation {
                op: Op::Negate,
                operands: [operand.clone(), operand],
                written: shorten(text.get(at.clone()).unwrap_or_default()),
                at,
            }]
        }
        Expr::BinOp(e) => vec![written(Op::Binary(e.op), &e.left, &e.right, end)],
        Expr::Compare(e) => {
            let lefts = std::iter::once(&e.expr).chain(e.ops.iter().map(|op| &op.expr));
            let pairs = lefts.zip(&e.ops);
            let pairs = pairs.filter_map(|(left, op)| {
                let end = op.expr.span().end_offset;
                let binary = match op.op {
                    CompareOpKind::Lt => BinOpKind::Lt,
                    CompareOpKind::Lte => BinOpKind::Lte,
                    CompareOpKind::Gt => BinOpKind::Gt,
                    CompareOpKind::Gte => BinOpKind::Gte,
                    CompareOpKind::In | CompareOpKind::NotIn => BinOpKind::In,
                    CompareOpKind::Eq | CompareOpKind::Ne => return None,
                };
                Some(written(Op::Binary(binary), left, &op.expr, end))
            });
            pairs.collect()
        }
        Expr::Test(e) if ORDERINGS.contains(&e.name) => match e.args.as_slice() {
            [CallArg::Pos(other)] => {
                vec![written(Op::Order(e.name.into()), &e.expr, other, end)]
            }
            _ => Vec::new(),
        },
        Expr::Filter(e) if matches!(e.name, "max" | "min" | "sort") && e.args.is_empty() => {
            /// All pairs of so many items are looked at.
            const MOST: usize = 8;
            let Some(Expr::List(list)) = &e.expr else {
                return Vec::new();
            };
            let items = list.items.get(..MOST).unwrap_or(&list.items);
            let pairs = items.iter().enumerate().flat_map(|(at, left)| {
                let others = items.iter().skip(at.saturating_add(1));
                others.map(move |right| (left, right))
            });
            let pair = |(left, right)| written(Op::Order(e.name.into()), left, right, end);
            pairs.map(pair).collect()
        }
        _ => Vec::new(),
    }
}

/// The bytes of an expression in its text.
pub(super) fn span_of(text: &str, expr: &Expr<'_>) -> Range<usize> {
    balanced(
        text,
        start_of(expr) as usize..expr.span().end_offset as usize,
    )
}

/// Where the first operand of an expression begins: the parser begins the spans of comparisons,
/// properties and filters elsewhere.
fn start_of(expr: &Expr<'_>) -> u32 {
    let mut at = expr;
    loop {
        at = match at {
            Expr::BinOp(e) => &e.left,
            Expr::Compare(e) => &e.expr,
            Expr::GetAttr(e) => &e.expr,
            Expr::GetItem(e) => &e.expr,
            Expr::Slice(e) => &e.expr,
            Expr::Test(e) => &e.expr,
            Expr::Call(e) => &e.expr,
            Expr::IfExpr(e) => &e.true_expr,
            Expr::Filter(e) => match &e.expr {
                Some(inner) => inner,
                None => return expr.span().start_offset,
            },
            other => return other.span().start_offset,
        };
    }
}

/// A part of a text with the parentheses before it that close inside of it.
fn balanced(text: &str, part: Range<usize>) -> Range<usize> {
    let inside = text.get(part.clone()).unwrap_or_default();
    let (mut open, mut missing) = (0_usize, 0_usize);
    for byte in inside.bytes() {
        match byte {
            b'(' => open = open.saturating_add(1),
            b')' if open > 0 => open -= 1,
            b')' => missing = missing.saturating_add(1),
            _ => {}
        }
    }
    let mut start = part.start;
    for _ in 0..missing {
        let before = text.get(..start).unwrap_or_default().trim_end();
        match before.strip_suffix('(') {
            Some(rest) => start = rest.len(),
            None => break,
        }
    }
    start..part.end
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

    /// `{input.x}` or `${input.x}`, or a path of another system: `${secrets.x}`.
    fn other_braces(&mut self, part: &str, brace: usize, offset: usize) {
        const MOST: usize = 8;
        let inside = part.get(brace + 1..).unwrap_or_default();
        let Some((inside, _)) = inside.split_once('}') else {
            return;
        };
        let path = inside.trim();
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_.[]'\"-".contains(c);
        let Some((root, rest)) = path.split_once('.') else {
            return;
        };
        if rest.is_empty() || !path.chars().all(is_path) || self.found.len() == MOST {
            return;
        }
        let dollar = brace > 0 && part.as_bytes().get(brace - 1) == Some(&b'$');
        let help = if names::ROOTS.iter().any(|(name, _)| *name == root) {
            format!("an expression stands in two braces: `{{{{ {path} }}}}`")
        } else if dollar || matches!(root, "secrets" | "secret") {
            let remedy = foreign::remedy(foreign::NAMES, root);
            let Some(remedy) = remedy.filter(|_| !foreign::OF_PROGRAMS.contains(&root)) else {
                return;
            };
            remedy.to_owned()
        } else {
            return;
        };
        let start = brace - usize::from(dollar);
        let end = brace + 1 + inside.len() + 1;
        let written = shorten(part.get(start..end).unwrap_or_default());
        self.found.push(Flaw {
            message: format!("`{written}` is text, and no expression"),
            help,
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
            "'5' > 100",
            "1 <= '2'",
            "none < 1",
            "input.n >= none",
            "true < 2",
            "[1] > 'a'",
            "(input.n | string) < 5",
            "'a' is gt(1)",
            "input.n is lessthan(none)",
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
        let of = |text| shown(&of_condition(text, "/x"));
        assert_eq!(of("input.a and [3, input.n, '10'] | max > 2").len(), 1);
        assert_eq!(of("input.a or [1, none] | sort | first").len(), 1);
        assert_eq!(of("1 < input.a and 1 < 'b' < 'c'").len(), 1);
        assert_eq!(
            of("x and input.n or '5' > 100"),
            [
                "`'5' > 100` fails in every run: `>` orders values of one kind, and these are a text \
              and a number"
            ]
        );
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
            "'a' < 'b'",
            "1 < 2.5",
            "true > false",
            "input.n > 100",
            "(input.n | int) > 100",
            "1 < input.a < 'x'",
            "'1' == 1",
            "none != 1",
            "[1, 2] | max",
            "[input.a, 'b'] | sort",
            "[1, 'b'] | unique",
            "input.a is gt('b')",
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
        check("Bearer ${secrets.gh-token}", "${secrets.gh-token}");
        check("{secrets.gh}", "{secrets.gh}");
        check("#{ secret.gh }", "{ secret.gh }");
        check("${env.HOME}", "${env.HOME}");
        check("${steps.a.outputs.x}", "${steps.a.outputs.x}");
        for text in [
            "",
            "{\"a\": {\"b\": 1}}",
            "{\"a\": {\"b\": \"{{ input.x }}\"}}",
            "{\"a\": {\"b\": {{ input.x }}}}",
            "${HOME}/x ${1}",
            "function() { return input.x; }",
            "{ input }",
            "{input.}",
            "${secrets}",
            "${secrets.}",
            "${this.name} ${JSON.x} ${row.name}",
            "{env.HOME}",
            "a } b",
            "{% if input.x %}{\"a\": {\"b\": 1}}{% endif %}",
        ] {
            assert_eq!(shown(&of_text(text)), [""; 0], "{text}");
        }
    }
}
