//! Regular expressions in schemas.
//!
//! Matching takes time linear in the text and in the compiled pattern. Look-around and
//! back-references make that impossible, and a repetition of a repetition compiles to a large
//! program; both are refused when the schema is read.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Regex, ValidationOptions};
use serde_json::json;

use super::Refused;
use crate::{codes, limits};

/// Sizes of patterns below this are not distinguished, in bytes.
const SMALLEST: usize = 1024;

/// Steps for each byte of a text and each [`SMALLEST`] bytes of a program.
const STEPS: u64 = 8;

/// The validator's options for patterns.
pub(super) fn options<'i>() -> ValidationOptions<'i> {
    linear(limits::PATTERN_PROGRAM_BYTES)
}

fn linear<'i>(program_bytes: usize) -> ValidationOptions<'i> {
    let engine: PatternOptions<Regex> = PatternOptions::regex()
        .size_limit(program_bytes)
        .dfa_size_limit(limits::PATTERN_CACHE_BYTES);
    jsonschema::options().offline().with_pattern_options(engine)
}

/// The patterns of a schema.
#[derive(Default)]
pub(super) struct Patterns<'a> {
    known: HashMap<&'a str, u64>,
    programs: usize,
}

impl<'a> Patterns<'a> {
    /// The size of all compiled patterns, in bytes.
    pub(super) fn programs(&self) -> usize {
        self.programs
    }

    /// The steps of a pattern for each byte of a text.
    pub(super) fn weight(&mut self, pattern: &'a str, pointer: &str) -> Result<u64, Refused> {
        if let Some(weight) = self.known.get(pattern) {
            return Ok(*weight);
        }
        let program = weigh(pattern).map_err(|(message, help)| {
            Refused::new(codes::SCHEMA_PATTERN, pointer, message).help(help)
        })?;
        self.programs += program;
        if self.programs > limits::PATTERNS_BYTES {
            let message = format!(
                "the patterns compile to over {} KiB together",
                limits::PATTERNS_BYTES / 1024
            );
            return Err(Refused::new(codes::SCHEMA_BOUNDS, pointer, message));
        }
        let weight = STEPS * (program / SMALLEST) as u64;
        self.known.insert(pattern, weight);
        Ok(weight)
    }
}

/// Whether a pattern has a group with flags. JSON Schema knows none, and a class that ignores case
/// takes milliseconds to compile.
fn has_inline_flags(pattern: &str) -> bool {
    let (mut chars, mut in_class) = (pattern.char_indices(), false);
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => drop(chars.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let rest = pattern.get(at + 1..).unwrap_or_default();
                let flag = rest.strip_prefix('?').and_then(|rest| rest.chars().next());
                let is_flag = flag.is_some_and(|flag| flag == '-' || flag.is_alphabetic());
                if is_flag && !rest.starts_with("?P<") {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// The size of a compiled pattern in bytes, rounded up to a power of two.
fn weigh(pattern: &str) -> Result<usize, (String, &'static str)> {
    let shown = super::clipped(pattern);
    if pattern.len() > limits::PATTERN_BYTES {
        let message = format!(
            "the pattern `{shown}` is over {} bytes long",
            limits::PATTERN_BYTES
        );
        return Err((message, "split it into several patterns under `allOf`"));
    }
    if has_inline_flags(pattern) {
        let message = format!("the pattern `{shown}` sets flags, like `(?i)`");
        return Err((
            message,
            "write the pattern without flags: `[aA]` in place of `(?i)a`",
        ));
    }
    let schema = json!({ "pattern": pattern });
    let compiles = |bytes: &usize| linear(*bytes).build(&schema).is_ok();
    let sizes = (0..).map(|doublings| SMALLEST << doublings);
    let mut sizes = sizes.take_while(|bytes| *bytes <= limits::PATTERN_PROGRAM_BYTES);
    if let Some(bytes) = sizes.find(compiles) {
        return Ok(bytes);
    }
    if compiles(&(limits::PATTERN_PROGRAM_BYTES * 64)) {
        let message =
            format!("the pattern `{shown}` is too large once its repetitions are unrolled");
        let help = "use `minLength` and `maxLength` in place of large counts of repetitions";
        return Err((message, help));
    }
    let message = format!(
        "the pattern `{shown}` is no regular expression without look-around and back-references"
    );
    let help = "write it without `(?=`, `(?!`, `(?<=`, `(?<!` and `\\1`; `allOf`, `anyOf` and \
                `not` combine patterns";
    Err((message, help))
}
