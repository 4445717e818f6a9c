//! Mistakes of syntax: where an expression stops making sense, and the remedy.
//!
//! MiniJinja's parser says what it did not expect but not where. It reads from left to right, so
//! the token at which it stops is the last one of the shortest beginning of the text that fails
//! in the same way; a bisection finds it with a few parses.

use std::ops::Range;

use minijinja::machinery::{Span, Token, tokenize};

use super::environment::syntax;
use super::foreign::{self, SIGNS, WORDS};
use super::names;
use super::read::{self, END_OF_INPUT};

/// A mistake of syntax.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) help: Option<String>,
    /// Bytes in the text.
    pub(super) at: Range<usize>,
}

impl Wrong {
    fn new(message: impl Into<String>, help: impl Into<String>, at: Range<usize>) -> Self {
        Self {
            message: message.into(),
            help: Some(help.into()),
            at,
        }
    }
}

/// Explains the message of the parser about a text that is one expression (`bare`) or contains
/// expressions.
pub(super) fn explain(text: &str, bare: bool, message: &str) -> Wrong {
    let tokens = Tokens::of(text, bare);
    let at = tokens.stop(message);
    if let Some(wrong) = braces(text, bare, &tokens, &at, message) {
        return wrong;
    }
    if let Some(wrong) = sign(text, bare, &tokens, &at) {
        return wrong;
    }
    if let Some(wrong) = word(&tokens, &at) {
        return wrong;
    }
    if let Some(wrong) = incomplete(text, &tokens, &at, message) {
        return wrong;
    }
    let help = match tokens.around(at.start).1 {
        Some((Token::Pipe, _)) => "a filter has a name, like `x | upper`".to_owned(),
        Some((Token::Dot, _)) => "a member is `x.name`, `x[0]` or `x['any name']`".to_owned(),
        Some((Token::Ident("is" | "not"), _)) => {
            "a test has a name, like `x is defined`".to_owned()
        }
        _ => format!("operators are {}", names::OPERATORS),
    };
    Wrong::new(message, help, at)
}

/// The tokens of a text, up to the first one that cannot be read.
struct Tokens<'t> {
    text: &'t str,
    bare: bool,
    all: Vec<(Token<'t>, Range<usize>)>,
    /// Where a token begins that cannot be read.
    unread: Option<usize>,
}

fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

impl<'t> Tokens<'t> {
    fn of(text: &'t str, bare: bool) -> Self {
        let (mut all, mut unread) = (Vec::new(), None);
        for token in tokenize(text, bare, syntax()) {
            match token {
                Ok((token, span)) => all.push((token, range(span))),
                Err(_) => {
                    let behind = all.last().map_or(0, |(_, at): &(_, Range<usize>)| at.end);
                    let rest = text.get(behind..).unwrap_or_default();
                    unread = Some(behind + (rest.len() - rest.trim_start().len()));
                    break;
                }
            }
        }
        Self {
            text,
            bare,
            all,
            unread,
        }
    }

    /// The token at which the parser stops with this message; the end of the text if it wants more.
    fn stop(&self, message: &str) -> Range<usize> {
        let fails = |count: usize| {
            let end = count.checked_sub(1).and_then(|last| self.all.get(last));
            let part = self.text.get(..end.map_or(0, |(_, at)| at.end));
            self.fails_with(part.unwrap_or_default(), message)
        };
        let (mut low, mut high) = (0, self.all.len());
        if fails(high) {
            while low < high {
                let middle = low.midpoint(high);
                if fails(middle) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            let stopped = low.checked_sub(1).and_then(|last| self.all.get(last));
            let ended = message.starts_with(END_OF_INPUT);
            if let Some((_, at)) = stopped.filter(|_| !ended) {
                return at.clone();
            }
        }
        let start = self.unread.unwrap_or(self.text.len());
        let next = self.text.get(start..).and_then(|rest| rest.chars().next());
        start..start + next.map_or(0, char::len_utf8)
    }

    fn fails_with(&self, part: &str, message: &str) -> bool {
        let error = match self.bare {
            true => read::expression(part).err(),
            false => read::text(part).err(),
        };
        error.is_some_and(|error| error == message)
    }

    /// The token that begins at an offset, and the one before it.
    fn around(&self, at: usize) -> (Option<&Token<'t>>, Option<&(Token<'t>, Range<usize>)>) {
        let here = self.all.iter().position(|(_, range)| range.start >= at);
        let index = here.unwrap_or(self.all.len());
        let token = self.all.get(index).map(|(token, _)| token);
        (
            token,
            index.checked_sub(1).and_then(|before| self.all.get(before)),
        )
    }

    /// The last opening token of these that is not closed before an offset.
    fn open(&self, until: usize) -> Option<(&'static str, &'static str, Range<usize>)> {
        let mut open = Vec::new();
        for (token, at) in self.all.iter().take_while(|(_, at)| at.start < until) {
            match token {
                Token::VariableStart => open.push(("{{", "}}", at.clone())),
                Token::BlockStart => open.push(("{%", "%}", at.clone())),
                Token::ParenOpen => open.push(("(", ")", at.clone())),
                Token::BracketOpen => open.push(("[", "]", at.clone())),
                Token::BraceOpen => open.push(("{", "}", at.clone())),
                Token::VariableEnd
                | Token::BlockEnd
                | Token::ParenClose
                | Token::BracketClose
                | Token::BraceClose => drop(open.pop()),
                _ => {}
            }
        }
        open.pop()
    }
}

/// Braces that do not fit.
fn braces(
    text: &str,
    bare: bool,
    tokens: &Tokens<'_>,
    at: &Range<usize>,
    message: &str,
) -> Option<Wrong> {
    const TEXT: &str = "to write `{{` as text, write `{{ \"{{\" }}`";
    if bare {
        return None;
    }
    for many in ["{{{{", "{{{"] {
        if let Some(start) = text.find(many) {
            let message = format!("`{many}` has too many braces");
            let help = "an expression stands in two: `{{ … }}`";
            return Some(Wrong::new(message, help, start..start + many.len()));
        }
    }
    let (token, before) = tokens.around(at.start);
    let after_open = matches!(before, Some((Token::VariableStart, _)));
    if after_open && matches!(token, Some(Token::VariableEnd)) {
        let start = before.map_or(at.start, |(_, at)| at.start);
        let message = "there is no expression between the braces";
        return Some(Wrong::new(message, TEXT, start..at.end));
    }
    let (opening, closing, opened) = tokens.open(at.start)?;
    if opening == "{{" && matches!(token, Some(Token::BraceClose)) {
        let message = "an expression ends with `}}`, and here is one brace";
        return Some(Wrong::new(
            message,
            format!("write `}}}}`; {TEXT}"),
            at.clone(),
        ));
    }
    let ended = message.starts_with(END_OF_INPUT) || tokens.unread.is_none();
    // Prose after an opening brace that is not closed makes the parser stop before the end.
    let never_closed = opened.start + 2 <= text.len()
        && !text.get(opened.end..).unwrap_or_default().contains(closing);
    if ended && never_closed && matches!(opening, "{{" | "{%") {
        let message = format!("`{opening}` is not closed");
        let help = match opening {
            "{{" => format!("write `}}}}` behind the expression; {TEXT}"),
            _ => "write `%}` behind the statement".to_owned(),
        };
        return Some(Wrong::new(message, help, opened));
    }
    None
}

/// A sign of another language at the place where the parser stops.
fn sign(text: &str, bare: bool, tokens: &Tokens<'_>, at: &Range<usize>) -> Option<Wrong> {
    // The longest sign has three characters, so it begins at most two before the place.
    let begin = (0..=at.start.min(2)).rev().map(|back| at.start - back);
    let inside_text = |start: usize| {
        let around = tokens.all.iter().find(|(_, range)| range.contains(&start));
        let is_text = |token: &Token<'_>| {
            matches!(
                token,
                Token::Str(_) | Token::String(_) | Token::TemplateData(_)
            )
        };
        around.is_some_and(|(token, _)| is_text(token))
    };
    for start in begin {
        let Some(rest) = text.get(start..).filter(|_| !inside_text(start)) else {
            continue;
        };
        let found = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign));
        let Some((sign, remedy)) = found.filter(|(sign, _)| start + sign.len() > at.start) else {
            continue;
        };
        return Some(Wrong::new(
            format!("`{sign}` means nothing"),
            *remedy,
            start..start + sign.len(),
        ));
    }
    let (token, before) = tokens.around(at.start);
    let begins = match before {
        None => bare,
        Some((token, _)) => matches!(token, Token::VariableStart),
    };
    if begins && matches!(token, Some(Token::Dot)) {
        let message = "an expression does not begin with a dot";
        let help = "write `input.x` or `nodes.NAME.output.x`";
        return Some(Wrong::new(message, help, at.clone()));
    }
    if matches!(token, Some(Token::Pipe)) && matches!(before, Some((Token::Pipe, _))) {
        let start = before.map_or(at.start, |(_, at)| at.start);
        let message = "`||` means nothing";
        return Some(Wrong::new(message, "write `or`", start..at.end));
    }
    None
}

/// A word of another language at the place where the parser stops, or before it.
fn word(tokens: &Tokens<'_>, at: &Range<usize>) -> Option<Wrong> {
    let here = tokens
        .all
        .iter()
        .position(|(_, range)| range.start >= at.start)?;
    let stopped = tokens.all.get(here)?;
    let before = here.checked_sub(1).and_then(|index| tokens.all.get(index));
    let ident = |token: &Token<'_>| match token {
        Token::Ident(name) => foreign::remedy(WORDS, name).map(|remedy| (name.to_string(), remedy)),
        _ => None,
    };
    // `if x then y`: the choice has its value first here.
    let first = tokens
        .all
        .iter()
        .find(|(token, _)| !matches!(token, Token::VariableStart | Token::TemplateData(_)));
    if let Some((Token::Ident("if"), range)) = first {
        let message = "an expression does not begin with `if`";
        let help = match tokens.bare {
            true => "a condition stands alone: leave `if` out",
            false => "a choice is `a if condition else b`",
        };
        return Some(Wrong::new(message, help, range.clone()));
    }
    for (token, range) in [Some(stopped), before].into_iter().flatten() {
        if let Some((name, remedy)) = ident(token) {
            let message = format!("`{name}` means nothing at this place");
            return Some(Wrong::new(message, remedy, range.clone()));
        }
    }
    None
}

/// An expression that lacks a part.
fn incomplete(text: &str, tokens: &Tokens<'_>, at: &Range<usize>, message: &str) -> Option<Wrong> {
    if message == "unexpected end of string" {
        let help = "a text begins and ends with the same quote: `'…'`";
        return Some(Wrong::new(
            "the quote of a text is not closed",
            help,
            at.clone(),
        ));
    }
    if message == "unexpected end of comment" {
        let message = "`{#` begins a comment, which is not closed";
        let help = "write `#}` behind the comment; to write `{#` as text, write `{{ \"{#\" }}`";
        return Some(Wrong::new(message, help, at.start..at.start + "{#".len()));
    }
    if message == "unexpected end of raw block" {
        let message = "`{% raw %}` is not ended";
        let help = "write `{% endraw %}` behind the text";
        return Some(Wrong::new(message, help, at.clone()));
    }
    if message == "invalid float" || message == "'_' may not occur at end of number" {
        let help = "numbers are like `1000`, `1_000`, `1.5` and `1e3`";
        return Some(Wrong::new("a number is not complete", help, at.clone()));
    }
    if message.starts_with("invalid integer") {
        let message = "a number has at most 128 bits";
        return Some(Wrong::new(
            message,
            "write it as a text, in quotes",
            at.clone(),
        ));
    }
    if let Some(name) = message.strip_prefix("unknown statement ") {
        let message = format!("there is no statement `{}`", cut(name));
        let ends = name == "end" || name.starts_with("end");
        let help = match ends {
            true => {
                "`{% if %}` ends with `{% endif %}`, `{% for %}` with `{% endfor %}`".to_owned()
            }
            false => format!("there are {}", names::STATEMENTS),
        };
        return Some(Wrong::new(message, help, at.clone()));
    }
    if text.trim().is_empty() {
        let help = "write an expression, or leave the condition out";
        return Some(Wrong::new("the condition is empty", help, at.clone()));
    }
    let end = at.start >= text.len();
    let (token, before) = tokens.around(at.start);
    let closes = matches!(
        token,
        Some(
            Token::VariableEnd
                | Token::BlockEnd
                | Token::ParenClose
                | Token::BracketClose
                | Token::BraceClose
        )
    );
    if message.contains("expected end of block") && end {
        let start = tokens
            .all
            .iter()
            .rfind(|(token, _)| matches!(token, Token::BlockStart));
        let range = start.map_or(at.clone(), |(_, range)| range.clone());
        let message = "a statement is not ended";
        let help = "`{% if %}` ends with `{% endif %}`, `{% for %}` with `{% endfor %}`";
        return Some(Wrong::new(message, help, range));
    }
    if end || closes {
        if let Some((opening @ ("(" | "[" | "{"), closing, opened)) = tokens.open(at.start)
            && text.get(at.clone()) != Some(closing)
            && !message.contains("expected expression")
        {
            let message = format!("`{opening}` is not closed");
            return Some(Wrong::new(
                message,
                format!("write `{closing}` behind it"),
                opened,
            ));
        }
        if end || matches!(token, Some(Token::VariableEnd | Token::BlockEnd)) {
            let last = before.map(|(_, range)| range.clone());
            let written = last
                .clone()
                .and_then(|range| text.get(range))
                .unwrap_or_default();
            let message = format!("a value is missing behind `{}`", cut(written));
            let help = "both sides of an operator have a value";
            return Some(Wrong::new(message, help, last.unwrap_or(at.clone())));
        }
    }
    let written = cut(text.get(at.clone()).unwrap_or_default());
    if closes
        && tokens
            .open(at.start)
            .is_none_or(|(opening, ..)| opening == "{{")
    {
        let message = format!("`{written}` closes nothing");
        return Some(Wrong::new(
            message,
            "leave it out, or open it before",
            at.clone(),
        ));
    }
    if message == "unexpected input after expression"
        || message.contains("expected end of variable")
    {
        let message = format!("`{written}` cannot follow here: an operator is missing before it");
        let help = format!("operators are {}", names::OPERATORS);
        return Some(Wrong::new(message, help, at.clone()));
    }
    if message == "unexpected character" {
        let message = format!("`{}` means nothing", written.escape_debug());
        let help = match written.chars().all(char::is_alphanumeric) {
            true => "names consist of a-z, A-Z, 0-9 and `_`; another member is `input['größe']`",
            false => "a text stands in quotes: `'…'`",
        };
        return Some(Wrong::new(message, help, at.clone()));
    }
    None
}

/// A token as a message shows it.
fn cut(text: &str) -> String {
    const CHARS: usize = 40;
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
