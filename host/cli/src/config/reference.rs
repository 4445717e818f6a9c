//! Generates the reference of the configuration from its types.

use std::fmt::Write as _;

use serde_json::Value;

use super::bounds::Bound;
use super::schema::{properties, schema};

const INTRODUCTION: &str = r#"# Configuration

Generated from the settings themselves: run `cargo xtask bless` after a change. The same as a
file to copy from: [windlass.sample.toml](windlass.sample.toml), or `windlass config sample`.

Every setting has a default. A setting comes from the first of these sources that has it:

1. a flag: `--store`, `--plugins`, `--log`, `--log-format`, or any setting as
   `--set scheduler.workers=2`;
2. the environment: `WINDLASS_SCHEDULER__SCAN_INTERVAL=2s`, with two underscores between the
   section and the setting, and one for each hyphen;
3. the project file: `windlass.toml` in the current directory or the nearest one above, or the
   file that `--config` names;
4. the user file: `windlass/config.toml` in the user's configuration directory, usually
   `~/.config`;
5. the default.

`windlass config show --origin` shows each value and its source. An unknown setting is a
warning that names the nearest one; a wrong value is an error that points into the file. The
bounds of a number, a duration or a size stand in brackets behind its meaning.

Relative paths in a file count from the directory of that file, others from the current one.
Durations are written `200ms`, `5s`, `10m`, `1h30m`, `7d`; sizes `512B`, `64KiB`, `4MiB`, `1GiB`;
rates `10/s`, `100/m`, `1000/h`.
"#;

/// The text of `docs/configuration.md`.
fn reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    let schema = schema();
    for (name, section) in properties(&schema).unwrap() {
        write_section(&mut text, name, section);
    }
    text
}

fn write_section(text: &mut String, path: &str, section: &Value) {
    let about = |schema: &Value| {
        let about = schema
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        about.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    writeln!(text, "\n## `[{path}]`\n\n{}\n", about(section)).unwrap();
    if let Some(example) = section.get("x-sample").and_then(Value::as_str) {
        let heading = if example.starts_with('[') {
            String::new()
        } else {
            format!("[{path}]\n")
        };
        writeln!(text, "```toml\n{heading}{example}\n```").unwrap();
    }
    let known: Vec<_> = properties(section).into_iter().flatten().collect();
    let is_table = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("object");
    if known.iter().any(|(_, setting)| !is_table(setting)) {
        writeln!(text, "| setting | default | meaning |\n|---|---|---|").unwrap();
    }
    for (name, setting) in known.iter().filter(|(_, setting)| !is_table(setting)) {
        let default = match setting.get("default") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(value) => format!("`{value}`"),
        };
        let bounds = Bound::of(&format!("{path}.{name}"));
        let bounds = bounds.map_or_else(String::new, |bound| format!(" ({})", bound.text()));
        writeln!(
            text,
            "| `{name}` | {default} | {}{bounds} |",
            about(setting)
        )
        .unwrap();
    }
    for (name, table) in known.iter().filter(|(_, setting)| is_table(setting)) {
        write_section(text, &format!("{path}.{name}"), table);
    }
}

#[test]
fn the_checked_in_reference_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, reference()).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(checked_in, reference(), "run the test again with BLESS=1");
}
