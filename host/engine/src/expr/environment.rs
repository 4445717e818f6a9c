//! The MiniJinja environment that provides small filters and tests.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior};

/// The limit of the result of one template, in bytes.
pub const RESULT_BYTES: usize = 4 * 1024 * 1024;

/// The limit of tokens of code in one text or condition. The parser descends at most once per
/// token, so this also bounds the stack.
pub const TOKENS: usize = 1_000;

/// Nothing in this environment has a side effect. `namespace` has none either, but is left out:
/// with it a loop could build a value deep enough to overflow the stack.
pub(super) static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_syntax(syntax());
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
