//! One expression or text, compiled.

use std::ops::Range;

use minijinja::machinery::{Token, ast::Stmt, tokenize};
use minijinja::{ErrorKind, Value};
use windlass_model::visible::sentence;
use windlass_model::weight::{block, list};
use windlass_model::{Diagnostic, Place};

use super::codes;
use super::environment::{TOKENS, syntax};
use super::error::{ExprError, ExprErrorKind};
use super::grammar;
use super::machine::{self, FUEL, Fault, Limit, Tree, WORK, is_detail};
use super::missing::{Chain, missing};
use super::needs::{About, Findings, Mistake, Needs, Path, path};
use super::read::{self, say};
use super::values::Values;
use super::write::WriteError;

/// The most that a byte of an expression takes in the compiled tree: `[0,0,0]` has a value for each
/// second one.
const TREE_BYTES: usize = 24;

/// How much of the pointer to an expression is kept for errors, in bytes.
const POINTER_BYTES: usize = 512;

/// One expression or text, compiled.
#[derive(Debug)]
pub(super) struct Source {
    written: Box<str>,
    pointer: Box<str>,
    code: Code,
    /// Every path that is looked up; an error names the undefined one.
    paths: Box<[Path]>,
    /// Those with positions in lists, for the same purpose.
    chains: Box<[Chain]>,
}

#[derive(Debug)]
enum Code {
    /// A plain path needs no interpreter.
    Path,
    Tree(Tree),
}

/// A text with an expression, and the place of the text.
#[derive(Clone, Copy)]
pub(super) struct Written<'t> {
    pub(super) text: &'t str,
    pub(super) pointer: &'t str,
}

impl Written<'_> {
    /// A mistake in a part of the text, which begins at an offset.
    fn mistake(
        self,
        code: windlass_model::Code,
        message: &str,
        help: Option<String>,
        offset: usize,
        at: &Range<usize>,
    ) -> Diagnostic {
        let message = format!("{message} in `{}`", shorten(self.text));
        let place = Place::inside(self.pointer, offset + at.start..offset + at.end);
        Diagnostic {
            help,
            ..Diagnostic::new(code, message, place)
        }
    }

    /// The mistake that the parser found in `part`, which begins at an offset.
    fn syntax(self, part: &str, bare: bool, offset: usize, error: &str) -> Vec<Diagnostic> {
        let wrong = grammar::explain(part, bare, error);
        vec![self.mistake(codes::SYNTAX, &wrong.message, wrong.help, offset, &wrong.at)]
    }
}

/// A compiled source with its needs, or its mistakes.
type Compiled = Result<(Source, Needs), Vec<Diagnostic>>;

impl Source {
    /// Compiles a bare expression, which begins at an offset in the text of `written`.
    pub(super) fn expression(
        text: &str,
        written: Written<'_>,
        offset: usize,
        about: About,
    ) -> Compiled {
        check_length(text, true, written.pointer)?;
        let ast =
            read::expression(text).map_err(|error| written.syntax(text, true, offset, &error))?;
        let findings = Findings::of_expr(text, &ast, about);
        let code = |_: &Findings| match path(&ast) {
            Some(_) => Code::Path,
            None => Code::Tree(Tree::of_expr(text, &ast)),
        };
        finish(code, findings, written, offset)
    }

    /// Compiles text with expressions. If the text is a single expression, the result keeps its
    /// type; otherwise the result is a string.
    pub(super) fn text(text: &str, pointer: &str, about: About) -> Compiled {
        let written = Written { text, pointer };
        check_length(text, false, pointer)?;
        let trimmed = text.trim();
        let before = text.len() - text.trim_start().len();
        let ast =
            read::text(trimmed).map_err(|error| written.syntax(trimmed, false, before, &error))?;
        if let Some((inner, offset)) = single(&ast, trimmed) {
            let written = Written {
                text: trimmed,
                pointer,
            };
            return Self::expression(inner, written, before + offset, about);
        }
        drop(ast);
        // White space around a text is part of it, unless the text is a single expression.
        let ast = read::text(text).map_err(|error| written.syntax(text, false, 0, &error))?;
        let findings = Findings::of_stmt(text, &ast, about);
        let code = |found: &Findings| Code::Tree(Tree::of_text(text, &ast, &found.locals));
        finish(code, findings, written, 0)
    }

    /// An estimate of the memory that it takes on the heap, in bytes.
    pub(super) fn weight(&self) -> usize {
        let texts = block(self.written.len()) + block(self.pointer.len());
        let paths = self.paths.iter().map(|path| {
            let rest = path.rest.iter().map(|name| block(name.len()));
            let own = list::<Box<str>>(path.rest.len()) + block(path.root.len());
            rest.sum::<usize>() + own
        });
        let tree = match &self.code {
            Code::Path => 0,
            Code::Tree(_) => self.written.len().saturating_mul(TREE_BYTES),
        };
        let chains = list::<Chain>(self.chains.len());
        let chains = chains + self.chains.iter().map(Chain::weight).sum::<usize>();
        texts + list::<Path>(self.paths.len()) + paths.sum::<usize>() + chains + tree
    }

    /// The path, if the source is a single path.
    pub(super) fn as_path(&self) -> Option<&Path> {
        match self.code {
            Code::Path => self.paths.first(),
            Code::Tree(_) => None,
        }
    }

    /// Evaluates it. The result may be undefined.
    pub(super) fn value(&self, values: &Values) -> Result<Value, ExprError> {
        let result = match &self.code {
            Code::Path => {
                let path = self.as_path();
                let found = path.and_then(|path| values.lookup(&path.root, &path.rest));
                if found.is_none() && path.is_some_and(|path| is_detail(&path.root, &path.rest)) {
                    return Ok(machine::silent());
                }
                return found.ok_or_else(|| self.undefined(values));
            }
            Code::Tree(tree) => machine::run(tree, values),
        };
        result.map_err(|fault| self.stopped(fault, values))
    }

    /// Appends its value as JSON to `out`, which may hold at most `limit` bytes afterwards.
    pub(super) fn write(
        &self,
        value: &Value,
        out: &mut Vec<u8>,
        limit: usize,
        values: &Values,
    ) -> Result<(), ExprError> {
        machine::write(value, out, limit, values)
            .map_err(|fault| self.stopped(fault, values))?
            .map_err(|error| self.unwritten(error, values))
    }

    fn stopped(&self, fault: Fault, values: &Values) -> ExprError {
        match fault {
            Fault::Error(error) => self.failed(&error, values),
            Fault::Limit(limit) => self.over(limit, values),
            Fault::Interrupted => {
                let message = "the evaluation was interrupted";
                self.error(ExprErrorKind::Interrupted, message)
            }
        }
    }

    /// The error of a result that is undefined.
    pub(super) fn undefined(&self, values: &Values) -> ExprError {
        let message = missing(&self.paths, &self.chains, values);
        let message = message.unwrap_or_else(|| "the result is undefined".to_owned());
        self.error(ExprErrorKind::Undefined, message)
    }

    /// The error of a result that could not be written.
    fn unwritten(&self, error: WriteError, values: &Values) -> ExprError {
        match error.kind {
            ExprErrorKind::Undefined => self.undefined(values),
            kind => self.error(kind, error.message),
        }
    }

    pub(super) fn error(&self, kind: ExprErrorKind, message: impl Into<String>) -> ExprError {
        ExprError {
            kind,
            message: sentence(message),
            expression: shorten(&self.written),
            pointer: self.pointer.to_string(),
        }
    }

    fn over(&self, limit: Limit, values: &Values) -> ExprError {
        let (kind, message) = match limit {
            Limit::Steps => (
                ExprErrorKind::Fuel,
                format!("evaluating takes more than {FUEL} steps"),
            ),
            Limit::Work => (
                ExprErrorKind::Work,
                format!("evaluating reads and writes more than {WORK} bytes"),
            ),
            Limit::Memory => (
                ExprErrorKind::Memory,
                format!(
                    "evaluating takes more than {} bytes of memory",
                    values.budget().bounds().memory
                ),
            ),
            Limit::Depth => (
                ExprErrorKind::TooDeep,
                "operands, statements or loops nest too deeply".to_owned(),
            ),
            Limit::Nesting => (
                ExprErrorKind::TooDeep,
                "a value nests too deeply".to_owned(),
            ),
        };
        self.error(kind, message)
    }

    fn failed(&self, error: &minijinja::Error, values: &Values) -> ExprError {
        let kind = match error.kind() {
            ErrorKind::UndefinedError => return self.undefined(values),
            ErrorKind::WriteFailure => ExprErrorKind::TooLarge,
            ErrorKind::InvalidOperation
            | ErrorKind::NonPrimitive
            | ErrorKind::NonKey
            | ErrorKind::BadSerialization
            | ErrorKind::CannotUnpack
            | ErrorKind::TooManyArguments
            | ErrorKind::MissingArgument => ExprErrorKind::Type,
            _ => ExprErrorKind::Other,
        };
        self.error(kind, say(error))
    }
}

/// The inside of `{{ … }}` and its offset, if the whole text is a single expression, with nothing
/// but comments and white space around it.
pub(super) fn single<'a>(ast: &Stmt<'_>, text: &'a str) -> Option<(&'a str, usize)> {
    let Stmt::Template(template) = ast else {
        return None;
    };
    // White space beside a comment is none of the text's, but `{% raw %} {% endraw %}` means it.
    let comments = !text.contains("{%");
    let around = |part: &&Stmt<'_>| match part {
        Stmt::EmitRaw(raw) => comments && raw.raw.trim().is_empty(),
        _ => false,
    };
    let mut parts = template.children.iter().filter(|part| !around(part));
    let (Some(Stmt::EmitExpr(_)), None) = (parts.next(), parts.next()) else {
        return None;
    };
    let (mut start, mut end) = (None, None);
    for (token, span) in tokenize(text, false, syntax()).map_while(Result::ok) {
        match token {
            Token::VariableStart => start = Some(span.end_offset as usize),
            Token::VariableEnd => end = Some(span.start_offset as usize),
            _ => {}
        }
    }
    let start = start?;
    Some((text.get(start..end?)?, start))
}

fn finish(
    code: impl FnOnce(&Findings) -> Code,
    findings: Findings,
    written: Written<'_>,
    offset: usize,
) -> Compiled {
    if findings.mistakes.is_empty() {
        let source = Source {
            written: written.text.into(),
            pointer: shown(written.pointer).into(),
            code: code(&findings),
            paths: findings.paths.into(),
            chains: findings.chains.into(),
        };
        return Ok((source, findings.needs));
    }
    let mistakes = findings.mistakes.into_iter();
    let diagnostic = |it: Mistake| written.mistake(it.code, &it.message, it.help, offset, &it.at);
    Err(mistakes.map(diagnostic).collect())
}

/// A pointer as far as errors show it. Pointers contain names from outside, and a long name may be
/// above many expressions.
fn shown(pointer: &str) -> &str {
    pointer
        .get(..pointer.floor_char_boundary(POINTER_BYTES))
        .unwrap_or_default()
}

/// Refuses code so long that parsing it could overflow the stack.
pub(super) fn check_length(text: &str, bare: bool, pointer: &str) -> Result<(), Vec<Diagnostic>> {
    let code = tokenize(text, bare, syntax())
        .take_while(Result::is_ok)
        .filter(|token| !matches!(token, Ok((Token::TemplateData(_), _))))
        .take(TOKENS + 1)
        .count();
    if code <= TOKENS {
        return Ok(());
    }
    let message = format!("an expression has at most {TOKENS} names, operators and values");
    let diagnostic = Diagnostic::new(codes::TOO_LONG, message, Place::at(pointer))
        .help("compute a part of it in a `set` node, or let a node do it");
    Err(vec![diagnostic])
}

/// Shortens long text for messages.
pub(crate) fn shorten(text: &str) -> String {
    const CHARS: usize = 120;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
