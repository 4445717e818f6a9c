//! The commented sample: every setting with its meaning and its default.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::schema::{properties, schema};

/// Bound on the width of a comment.
const WIDTH: usize = 92;

/// The text of `docs/windlass.sample.toml`.
pub(crate) fn sample() -> String {
    let mut text = String::from(
        "# windlass.toml: every setting with its default. All of it may be left out.\n\
         #\n\
         # A flag wins, then WINDLASS_SECTION__SETTING from the environment, then\n\
         # windlass.toml in this directory or the nearest one above, then windlass/config.toml\n\
         # in the user's configuration directory (XDG). Generated: `windlass config sample`.\n",
    );
    let schema = schema();
    if let Some(sections) = properties(&schema) {
        for (name, section) in sections {
            write_section(&mut text, name, section);
        }
    }
    text
}

fn write_section(text: &mut String, path: &str, section: &Value) {
    text.push('\n');
    comment(text, section);
    if let Some(example) = section.get("x-sample").and_then(Value::as_str) {
        // A map of tables brings its own headings.
        if !example.starts_with('[') {
            let _ = writeln!(text, "[{path}]");
        }
        for line in example.lines() {
            let _ = writeln!(text, "# {line}");
        }
        return;
    }
    let _ = writeln!(text, "[{path}]");
    let empty = Map::new();
    let known = properties(section).unwrap_or(&empty);
    let is_table = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("object");
    for (name, setting) in known.iter().filter(|(_, setting)| !is_table(setting)) {
        comment(text, setting);
        match setting.get("default") {
            Some(Value::Null) | None => {
                let _ = writeln!(text, "# {name} = …");
            }
            Some(default) => {
                let _ = writeln!(text, "# {name} = {default}");
            }
        }
    }
    for (name, table) in known.iter().filter(|(_, setting)| is_table(setting)) {
        write_section(text, &format!("{path}.{name}"), table);
    }
}

fn comment(text: &mut String, schema: &Value) {
    let Some(description) = schema.get("description").and_then(Value::as_str) else {
        return;
    };
    let mut line = String::from("#");
    for word in description.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_checked_in_sample_is_up_to_date() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/windlass.sample.toml"
        );
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, sample()).unwrap();
        }
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(checked_in, sample(), "run the test again with BLESS=1");
    }

    #[test]
    fn the_sample_with_its_settings_uncommented_is_the_default() {
        let settings: String = sample()
            .lines()
            .filter(|line| !line.ends_with('…') && !line.contains("= {"))
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| is_key(key)) => rest,
                _ => line,
            })
            .filter(|line| !line.starts_with("secrets =") && !line.starts_with("http ="))
            .filter(|line| !line.starts_with("isolation ="))
            .fold(String::new(), |text, line| text + line + "\n");
        let config: Config = toml::from_str(&settings).unwrap();
        assert_eq!(config, Config::default());
    }

    fn is_key(text: &str) -> bool {
        text.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    }
}
