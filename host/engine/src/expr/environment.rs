//! The one MiniJinja environment that every expression is compiled and evaluated in.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Output, State, UndefinedBehavior, Value};

/// Instructions that one evaluation may take.
pub const FUEL: u64 = 100_000;

/// Bytes that the result of one template may have.
pub const RESULT_BYTES: usize = 4 * 1024 * 1024;

/// Tokens of code in one text or condition. The parser descends once per token at worst, so
/// this bounds the stack too.
pub const TOKENS: usize = 1_000;

/// How deep loops and blocks may nest at run time.
const RECURSION: usize = 64;

/// Nothing in here has a side effect. `namespace` is left out although it has none outside:
/// with it a loop could build a value deep enough to overflow the stack.
pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(RECURSION);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_syntax(syntax());
    env.set_formatter(format_in_text);
    env.remove_global("debug");
    env.remove_global("namespace");
    env.remove_filter("pprint");
    env.remove_filter("safe");
    env.remove_filter("escape");
    env.remove_filter("e");
    env
});

/// Text keeps its last newline, which MiniJinja would cut.
pub(super) fn syntax() -> SyntaxConfig {
    let mut builder = SyntaxConfig::builder();
    builder.keep_trailing_newline(true);
    // Only the delimiters can be wrong, and they are the default ones.
    builder.build().unwrap_or_default()
}

/// Lists and maps inside text are written as JSON, which is what people expect to see there.
fn format_in_text(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), minijinja::Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            let mut bytes = Vec::new();
            super::write::json(value, &mut bytes, RESULT_BYTES)
                .map_err(|error| error.into_minijinja())?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            out.write_str(&text)?;
            Ok(())
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}
