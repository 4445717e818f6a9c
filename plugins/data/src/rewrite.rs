//! Rewrites filters where jaq differs from jq by its language: updates go path by path, and of two
//! operands with several outputs the right one is the outer loop, and of several outputs of an
//! update of `reduce` the last one counts.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::load::{Arena, span};
use jaq_core::path::{Part, Path};

/// No filter can contain these names of variables.
const VALUE: &str = "$ value";
const LEFT: &str = "$ left";
const RIGHT: &str = "$ right";

pub(crate) struct Rewriter<'a> {
    /// The filter, for `$__loc__`.
    pub(crate) code: &'a str,
    pub(crate) arena: &'a Arena,
}

type Boxed<'a> = Box<Term<&'a str>>;

impl<'a> Rewriter<'a> {
    pub(crate) fn definition(&self, mut definition: Def<&'a str>) -> Def<&'a str> {
        definition.body = self.term(definition.body);
        definition
    }

    pub(crate) fn term(&self, term: Term<&'a str>) -> Term<&'a str> {
        match term {
            Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) => term,
            Term::Var("$__loc__") => self.location(term),
            Term::Var(_) => term,
            Term::Str(format, parts) => self.text(format, parts),
            Term::Arr(items) => Term::Arr(items.map(|items| self.boxed(items))),
            Term::Obj(members) => self.object(members),
            Term::Neg(term) => Term::Neg(self.boxed(term)),
            Term::BinOp(left, operator, right) => {
                let (left, right) = (self.boxed(left), self.boxed(right));
                self.operation(left, operator, right)
            }
            Term::Label(name, term) => Term::Label(name, self.boxed(term)),
            Term::Fold(name, items, pattern, arguments) => {
                let mut arguments = self.terms(arguments);
                if let ("reduce", [_, update]) = (name, arguments.as_mut_slice())
                    && !is_single(update)
                {
                    *update = Term::Call("last", vec![std::mem::take(update)]);
                }
                Term::Fold(name, self.boxed(items), self.pattern(pattern), arguments)
            }
            Term::TryCatch(term, catch) => {
                let catch = catch.map(|catch| self.boxed(catch));
                Term::TryCatch(self.boxed(term), catch)
            }
            Term::IfThenElse(cases, otherwise) => {
                let cases = cases.into_iter();
                let cases = cases.map(|(when, then)| (self.term(when), self.term(then)));
                let otherwise = otherwise.map(|otherwise| self.boxed(otherwise));
                Term::IfThenElse(cases.collect(), otherwise)
            }
            Term::Def(definitions, term) => {
                let definitions = definitions.into_iter();
                let definitions = definitions.map(|definition| self.definition(definition));
                Term::Def(definitions.collect(), self.boxed(term))
            }
            Term::Call(name, arguments) => Term::Call(name, self.terms(arguments)),
            Term::Path(term, Path(parts)) => {
                let part = |part| match part {
                    Part::Index(index) => Part::Index(self.term(index)),
                    Part::Range(start, end) => {
                        let bound = |bound: Option<_>| bound.map(|bound| self.term(bound));
                        Part::Range(bound(start), bound(end))
                    }
                };
                let parts = parts.into_iter().map(|(it, optional)| (part(it), optional));
                Term::Path(self.boxed(term), Path(parts.collect()))
            }
        }
    }

    fn boxed(&self, term: Boxed<'a>) -> Boxed<'a> {
        Box::new(self.term(*term))
    }

    fn terms(&self, terms: Vec<Term<&'a str>>) -> Vec<Term<&'a str>> {
        terms.into_iter().map(|term| self.term(term)).collect()
    }

    fn pattern(&self, pattern: Pattern<&'a str>) -> Pattern<&'a str> {
        match pattern {
            Pattern::Var(_) => pattern,
            Pattern::Arr(items) => {
                Pattern::Arr(items.into_iter().map(|item| self.pattern(item)).collect())
            }
            Pattern::Obj(members) => {
                let members = members.into_iter();
                let members = members.map(|(key, item)| (self.term(key), self.pattern(item)));
                Pattern::Obj(members.collect())
            }
        }
    }

    fn operation(
        &self,
        left: Boxed<'a>,
        operator: BinaryOp<&'a str>,
        right: Boxed<'a>,
    ) -> Term<&'a str> {
        let modified = |paths: Boxed<'a>, change| Term::Call("_modify", vec![*paths, change]);
        let value = || Box::new(Term::Var(VALUE));
        let with_value = |change| bound(*right.clone(), VALUE, modified(left.clone(), change));
        match operator {
            BinaryOp::Update => modified(left, *right),
            BinaryOp::Assign => with_value(*value()),
            BinaryOp::UpdateMath(operator) => {
                let operator = BinaryOp::Math(operator);
                with_value(Term::BinOp(Box::new(Term::Id), operator, value()))
            }
            BinaryOp::UpdateAlt => {
                with_value(Term::BinOp(Box::new(Term::Id), BinaryOp::Alt, value()))
            }
            BinaryOp::Math(_) | BinaryOp::Cmp(_) if !is_single(&left) && !is_single(&right) => {
                let variable = |name| Box::new(Term::Var(name));
                let operation = Term::BinOp(variable(LEFT), operator, variable(RIGHT));
                bound(*right, RIGHT, bound(*left, LEFT, operation))
            }
            BinaryOp::Pipe(Some(pattern)) => {
                let operator = BinaryOp::Pipe(Some(self.pattern(pattern)));
                Term::BinOp(left, operator, right)
            }
            _ => Term::BinOp(left, operator, right),
        }
    }

    /// The values of members, the last one as the outer loop.
    fn object(&self, members: Vec<(Term<&'a str>, Option<Term<&'a str>>)>) -> Term<&'a str> {
        let mut loops = Vec::new();
        let members = members.into_iter().map(|(key, value)| {
            if let (Term::Var("$__loc__"), None) = (&key, &value) {
                let name = Term::Str(None, vec![StrPart::Str("__loc__")]);
                return (name, Some(self.location(key)));
            }
            let value = value.map(|value| self.term(value));
            (
                self.term(key),
                value.map(|value| self.looped(&mut loops, value)),
            )
        });
        let object = Term::Obj(members.collect());
        within(loops, object)
    }

    fn text(
        &self,
        format: Option<&'a str>,
        parts: Vec<StrPart<&'a str, Term<&'a str>>>,
    ) -> Term<&'a str> {
        let mut loops = Vec::new();
        let parts = parts.into_iter().map(|part| match part {
            StrPart::Term(term) => {
                let term = self.term(term);
                StrPart::Term(self.looped(&mut loops, term))
            }
            other => other,
        });
        let text = Term::Str(format, parts.collect());
        within(loops, text)
    }

    /// A variable in place of a term that may have several outputs.
    fn looped(
        &self,
        loops: &mut Vec<(&'a str, Term<&'a str>)>,
        term: Term<&'a str>,
    ) -> Term<&'a str> {
        if is_single(&term) {
            return term;
        }
        let name = self.arena.alloc(format!("$ {}", loops.len()));
        loops.push((name, term));
        Term::Var(name)
    }

    fn location(&self, term: Term<&'a str>) -> Term<&'a str> {
        let Term::Var(variable) = term else {
            return term;
        };
        let before = self.code.get(..span(self.code, variable).start);
        let line = before.unwrap_or_default().matches('\n').count() + 1;
        let line = self.arena.alloc(line.to_string());
        let text = |text| Term::Str(None, vec![StrPart::Str(text)]);
        Term::Obj(vec![
            (text("file"), Some(text("<top-level>"))),
            (text("line"), Some(Term::Num(line))),
        ])
    }
}

/// `value as $name | body`
fn bound<'a>(value: Term<&'a str>, name: &'a str, body: Term<&'a str>) -> Term<&'a str> {
    let operator = BinaryOp::Pipe(Some(Pattern::Var(name)));
    Term::BinOp(Box::new(value), operator, Box::new(body))
}

fn within<'a>(loops: Vec<(&'a str, Term<&'a str>)>, body: Term<&'a str>) -> Term<&'a str> {
    let bind = |body, (name, term)| bound(term, name, body);
    loops.into_iter().fold(body, bind)
}

/// Whether a term has one output, seen from its form alone.
fn is_single(term: &Term<&str>) -> bool {
    match term {
        Term::Id | Term::Num(_) | Term::Var(_) | Term::Arr(_) => true,
        Term::Str(_, parts) => parts.iter().all(|part| match part {
            StrPart::Term(term) => is_single(term),
            _ => true,
        }),
        Term::Neg(term) => is_single(term),
        Term::BinOp(left, BinaryOp::Math(_) | BinaryOp::Cmp(_), right) => {
            is_single(left) && is_single(right)
        }
        Term::BinOp(left, BinaryOp::Pipe(None), right) => is_single(left) && is_single(right),
        Term::Path(term, Path(parts)) => {
            let is_index = |part: &Part<Term<&str>>| match part {
                Part::Index(index) => is_single(index),
                Part::Range(None, None) => false,
                Part::Range(start, end) => [start, end]
                    .into_iter()
                    .flatten()
                    .all(|bound| is_single(bound)),
            };
            is_single(term) && parts.iter().all(|(part, _)| is_index(part))
        }
        _ => false,
    }
}
