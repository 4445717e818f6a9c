//! The tables of `docs/workflow-format.md`, which are made of the schema. `BLESS=1` writes them anew.

use std::fmt::Write as _;

use serde_json::Value;

use super::{JSON_SCHEMA, Kinds, keys, node, trigger, workflow};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/workflow-format.md");
const BEGIN: &str = "<!-- table: ";
const END: &str = "<!-- end of table -->";

struct Schema(Value);

impl Schema {
    fn definition(&self, name: &str) -> &Value {
        &self.0["$defs"][name]
    }

    /// The definition that a schema refers to.
    fn target(&self, schema: &Value) -> Option<&Value> {
        self.0.pointer(schema["$ref"].as_str()?.strip_prefix('#')?)
    }

    /// The table of this name.
    fn table(&self, name: &str) -> String {
        match name {
            "Workflow" => self.rows(workflow(), &self.0),
            "kinds of triggers" => self.kinds(trigger(), |kind| self.trigger(kind)),
            "keys of triggers" => self.own(trigger(), |kind| self.trigger(kind)),
            "kinds of nodes" => self.kinds(node(), |_| self.definition("Node")),
            "keys of kinds of nodes" => self.own(node(), |_| self.definition("Node")),
            "keys of nodes" => self.rows(&node().common, self.definition("Node")),
            name => self.rows(keys(name), self.definition(name)),
        }
    }

    fn trigger(&self, kind: &str) -> &Value {
        let all = self.definition("Trigger")["oneOf"].as_array().unwrap();
        let mut maps = all.iter().filter_map(|it| self.target(it));
        maps.find(|map| map["required"][0] == kind).unwrap()
    }

    fn rows(&self, keys: &[&str], map: &Value) -> String {
        let mut table = "| key | default | meaning |\n|---|---|---|\n".to_owned();
        for key in keys {
            let (default, meaning) = self.about(map, key);
            writeln!(table, "| `{key}` | {default}| {meaning} |").unwrap();
        }
        table
    }

    fn kinds<'s>(&self, kinds: &Kinds, map: impl Fn(&str) -> &'s Value) -> String {
        let mut table = "| key | meaning |\n|---|---|\n".to_owned();
        for kind in &kinds.names {
            let (_, meaning) = self.about(map(kind), kind);
            writeln!(table, "| `{kind}` | {meaning} |").unwrap();
        }
        table
    }

    /// The keys that belong to a kind. A key that means the same in several kinds has one row.
    fn own<'s>(&self, kinds: &Kinds, map: impl Fn(&str) -> &'s Value) -> String {
        let mut rows: Vec<(String, String, String)> = Vec::new();
        for kind in &kinds.names {
            let own = kinds.own.get(kind).into_iter().flatten();
            for key in own.filter(|key| !kinds.names.contains(key)) {
                let (default, meaning) = self.about(map(kind), key);
                let rest = format!("{default}| {meaning}");
                let key = format!("`{key}`");
                match rows.iter_mut().find(|row| row.0 == key && row.2 == rest) {
                    Some((_, of, _)) => write!(of, ", `{kind}`").unwrap(),
                    None => rows.push((key, format!("`{kind}`"), rest)),
                }
            }
        }
        let mut table = "| key | beside | default | meaning |\n|---|---|---|---|\n".to_owned();
        for (key, of, rest) in rows {
            writeln!(table, "| {key} | {of} | {rest} |").unwrap();
        }
        table
    }

    /// The default and the meaning of a key.
    fn about(&self, map: &Value, key: &str) -> (String, String) {
        let schema = &map["properties"][key];
        let target = self.target(schema).unwrap_or(schema);
        let text = schema.get("description").or(target.get("description"));
        let text = text.unwrap_or_else(|| panic!("`{key}` has a description"));
        let text = text.as_str().unwrap().trim_end_matches('.');
        let (meaning, default) = text.split_once(". Default: ").unwrap_or((text, ""));
        let beside = map["dependentRequired"].as_object();
        let beside = beside.into_iter().flat_map(|all| all.values());
        let mut required = beside.chain([&map["required"]]).filter_map(Value::as_array);
        let default = match default {
            "" if required.any(|keys| keys.iter().any(|it| it == key)) => "needed ".to_owned(),
            "" => String::new(),
            default => format!("{} ", linked(default)),
        };
        let choices = self.choices(schema);
        let joint = match choices.first().map(|it| it.starts_with("`{")) {
            Some(true) => "; or ",
            Some(false) => ": ",
            None => "",
        };
        let meaning = format!("{}{joint}{}", small(meaning), choices.join(", "));
        (default, linked(&meaning))
    }

    /// The words that a value may be, and the maps beside them.
    fn choices(&self, schema: &Value) -> Vec<String> {
        let target = self.target(schema).unwrap_or(schema);
        let list = |name: &str| target[name].as_array().into_iter().flatten();
        let words = list("enum").chain(
            self.target(&target["items"])
                .into_iter()
                .flat_map(|it| it["enum"].as_array().into_iter().flatten()),
        );
        let mut choices: Vec<String> = words
            .map(|word| format!("`{}`", word.as_str().unwrap()))
            .collect();
        for one in list("oneOf").chain(list("anyOf")) {
            let about = self.target(one).unwrap_or(one);
            let shape = match (&one["const"], about["required"].as_array()) {
                (Value::String(word), _) => word.clone(),
                (_, Some(keys)) if about.get("description").is_some() => {
                    let keys = keys
                        .iter()
                        .map(|key| format!("{}: …", key.as_str().unwrap()));
                    format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
                }
                _ => {
                    choices.extend(self.choices(one));
                    continue;
                }
            };
            let about = about["description"].as_str().unwrap().trim_end_matches('.');
            choices.push(format!("`{shape}` ({})", small(about)));
        }
        choices
    }
}

/// The text with a small letter at its beginning.
fn small(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            format!("{}{}", first.to_lowercase(), letters.as_str())
        }
        _ => text.to_owned(),
    }
}

/// The text as it stands in a table: codes lead to their pages.
fn linked(text: &str) -> String {
    let mut parts = text.split("WL-");
    let mut linked = parts.next().unwrap().replace('|', "\\|");
    for part in parts {
        let (code, rest) = part.split_at(4);
        write!(linked, "[WL-{code}](errors/WL-{code}.md){rest}").unwrap();
    }
    linked
}

#[test]
fn the_tables_of_the_reference_page_are_those_of_the_schema() {
    let schema = Schema(serde_json::from_str(JSON_SCHEMA).unwrap());
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut parts = page.split(BEGIN);
    let mut made = parts.next().unwrap().to_owned();
    let mut count = 0;
    for part in parts {
        let (name, rest) = part.split_once(" -->\n").unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let table = schema.table(name);
        assert!(table.lines().count() > 2, "the schema has `{name}`");
        write!(made, "{BEGIN}{name} -->\n{table}{END}{after}").unwrap();
        count += 1;
    }
    assert_eq!(count, 10);
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(PAGE, made).unwrap();
    }
    assert!(
        page == made,
        "docs/workflow-format.md is stale: run the test again with BLESS=1"
    );
}

#[test]
fn the_reader_asks_for_no_key_that_the_schema_lacks() {
    let sources = [
        include_str!("../edge.rs"),
        include_str!("../hook.rs"),
        include_str!("../kind.rs"),
        include_str!("../node.rs"),
        include_str!("../policy.rs"),
        include_str!("../trigger.rs"),
        include_str!("../workflow.rs"),
    ];
    let mut asked = 0;
    for line in sources.iter().flat_map(|source| source.lines()) {
        let arm = line.trim_start().strip_prefix('"');
        let arm = arm.and_then(|arm| arm.split_once("\" =>"));
        let arm = arm.into_iter().flat_map(|(keys, _)| keys.split("\" | \""));
        let got = line.split("get(\"").skip(1);
        let got = got
            .filter_map(|rest| rest.split_once('"'))
            .map(|(key, _)| key);
        for key in arm
            .chain(got)
            .filter(|key| !["", "properties"].contains(key))
        {
            asked += 1;
            let known = JSON_SCHEMA.contains(&format!("\"{key}\": {{"));
            assert!(known, "`{key}`: {line}");
        }
    }
    assert!(asked > 80, "{asked}");
}
