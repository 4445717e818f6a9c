//! The description of a plugin: the document that `describe` returns.
//!
//! `wit/DESCRIBE.md` defines the format. A document is checked to its end, so that an
//! author sees every mistake at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use semver::Version;
use serde::Deserialize;
use serde_json::Value;
use windlass_model::limits;
use windlass_model::schema::Schema;

use crate::codes;
use crate::error::Error;

/// The largest document, in bytes.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;
/// The most node types in one document.
pub(crate) const MAX_NODES: usize = 256;
/// The longest name, in bytes.
const MAX_NAME: usize = 64;
/// The version of the format that this host reads.
const FORMAT: u64 = 1;

/// The description of a component.
#[derive(Clone, Debug)]
pub struct Description {
    /// First half of each node type.
    pub package: String,
    /// Of the package.
    pub version: Version,
    /// Its title, for people.
    pub title: String,
    /// Its description, for people.
    pub description: String,
    /// In the order of the document.
    pub nodes: Vec<Arc<NodeType>>,
    /// Present if it consumes triggers.
    pub consumer: Option<Consumer>,
}

/// One node type.
#[derive(Clone, Debug)]
pub struct NodeType {
    /// As `package/name`.
    pub id: Arc<str>,
    /// Second half of the id.
    pub name: String,
    /// Its title, for people.
    pub title: String,
    /// Its description, for people.
    pub description: String,
    /// The name of an icon, or empty.
    pub icon: String,
    /// JSON Schema of the node's `with` after rendering.
    pub config: Value,
    /// JSON Schema of its input.
    pub input: Value,
    /// JSON Schema of its output.
    pub output: Value,
    /// Every port that it may take; `error` belongs to the host and is not among them.
    pub ports: Vec<String>,
    /// The capabilities that the operator has to grant.
    pub capabilities: Vec<String>,
    /// Whether the outcomes `suspend` and `again` occur.
    pub suspends: bool,
    /// Hints about its needs.
    pub resources: Resources,
    /// The members of `config` that are passed as written, without rendering (`x-raw`).
    pub raw: BTreeSet<String>,
}

/// The needs of a node type, in its own words. The operator's limits take precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Resources {
    /// The memory of one instance.
    pub memory_bytes: Option<u64>,
    /// A reasonable duration of one call.
    pub deadline_ms: Option<u64>,
    /// `warm`, `run` or `call`.
    pub instance: Option<String>,
}

/// The triggers that a plugin consumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Types of triggers; `*` is every type.
    pub types: Vec<String>,
    /// Names of routes.
    pub routes: Vec<String>,
}

impl Description {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// [`codes::DESCRIPTION`] or, if every mistake is in a schema, [`codes::SCHEMA`], with one line
    /// per mistake.
    pub fn read(subject: &str, bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_BYTES {
            let message = format!("the description is over {MAX_BYTES} bytes long");
            return Err(Error::new(codes::DESCRIPTION, subject, message));
        }
        let document: Value = serde_json::from_slice(bytes).map_err(|error| {
            Error::new(
                codes::DESCRIPTION,
                subject,
                format!("the description is not JSON: {error}"),
            )
        })?;
        let mut reader = Reader::default();
        let read = reader.document(&document);
        match read {
            Some(description) if reader.faults.is_empty() => Ok(description),
            _ => {
                let code = if reader.only_schemas {
                    codes::SCHEMA
                } else {
                    codes::DESCRIPTION
                };
                Err(Error::faults(code, subject, &reader.faults))
            }
        }
    }

    /// The node type of this name, without the package.
    pub fn node(&self, name: &str) -> Option<&Arc<NodeType>> {
        self.nodes.iter().find(|node| node.name == name)
    }
}

struct Reader {
    faults: Vec<String>,
    only_schemas: bool,
    /// The size of the compiled patterns in all schemas so far.
    patterns_bytes: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            faults: Vec::new(),
            only_schemas: true,
            patterns_bytes: 0,
        }
    }
}

impl Reader {
    fn fault(&mut self, fault: impl Into<String>) {
        self.only_schemas = false;
        self.faults.push(fault.into());
    }

    fn document(&mut self, document: &Value) -> Option<Description> {
        if !document.is_object() {
            self.fault("the description is not a JSON object");
            return None;
        }
        match document.get("windlass").map(Value::as_u64) {
            Some(Some(FORMAT)) => {}
            Some(Some(other)) => {
                self.fault(format!("/windlass: this host knows format 1, not {other}"));
                // The rest of a document in an unknown format cannot be checked.
                return None;
            }
            _ => self.fault("/windlass: the number of the format is missing"),
        }
        let package = self.name(document, "package", "").unwrap_or_default();
        let version = self.version(document);
        let title = self.text(document, "title", "", &package);
        let description = self.text(document, "description", "", "");
        let nodes = self.nodes(document, &package);
        let consumer = document
            .get("consumer")
            .and_then(|consumer| self.consumer(consumer));
        Some(Description {
            package,
            version: version?,
            title,
            description,
            nodes,
            consumer,
        })
    }

    fn version(&mut self, document: &Value) -> Option<Version> {
        let Some(text) = document.get("version").and_then(Value::as_str) else {
            self.fault("/version: the version of the package is missing");
            return None;
        };
        match Version::parse(text) {
            Ok(version) => Some(version),
            Err(error) => {
                self.fault(format!(
                    "/version: `{text}` is no semantic version: {error}"
                ));
                None
            }
        }
    }

    fn nodes(&mut self, document: &Value, package: &str) -> Vec<Arc<NodeType>> {
        let list = match document.get("nodes") {
            None => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => {
                self.fault("/nodes: not an array");
                return Vec::new();
            }
        };
        if list.len() > MAX_NODES {
            self.fault(format!(
                "/nodes: {} node types, and {MAX_NODES} at most",
                list.len()
            ));
            return Vec::new();
        }
        let mut names = BTreeSet::new();
        let mut nodes = Vec::with_capacity(list.len());
        for (position, node) in list.iter().enumerate() {
            let at = format!("/nodes/{position}");
            if let Some(node) = self.node(node, &at, package) {
                if !names.insert(node.name.clone()) {
                    self.fault(format!("{at}/name: `{}` is there twice", node.name));
                }
                nodes.push(Arc::new(node));
            }
        }
        nodes
    }

    fn node(&mut self, node: &Value, at: &str, package: &str) -> Option<NodeType> {
        if !node.is_object() {
            self.fault(format!("{at}: not an object"));
            return None;
        }
        let name = self.name(node, "name", at)?;
        let ports = match node.get("ports") {
            None => vec!["done".to_owned()],
            Some(_) => self.texts(node, "ports", at),
        };
        if ports.iter().any(|port| port == "error") {
            self.fault(format!("{at}/ports: the port `error` is the host's"));
        }
        let config = self.schema(node, "config", at);
        Some(NodeType {
            id: format!("{package}/{name}").into(),
            title: self.text(node, "title", at, &name),
            description: self.text(node, "description", at, ""),
            icon: self.text(node, "icon", at, ""),
            raw: raw_members(&config),
            config,
            input: self.schema(node, "input", at),
            output: self.schema(node, "output", at),
            ports,
            capabilities: self.texts(node, "capabilities", at),
            suspends: self.flag(node, "suspends", at),
            resources: self.resources(node, at),
            name,
        })
    }

    fn consumer(&mut self, consumer: &Value) -> Option<Consumer> {
        if !consumer.is_object() {
            self.fault("/consumer: not an object");
            return None;
        }
        let types = match consumer.get("types") {
            None => vec!["*".to_owned()],
            Some(_) => self.texts(consumer, "types", "/consumer"),
        };
        Some(Consumer {
            types,
            routes: self.texts(consumer, "routes", "/consumer"),
        })
    }

    fn name(&mut self, from: &Value, member: &str, at: &str) -> Option<String> {
        let Some(text) = from.get(member).and_then(Value::as_str) else {
            self.fault(format!("{at}/{member}: the name is missing"));
            return None;
        };
        let mut bytes = text.bytes();
        let fits = text.len() <= MAX_NAME
            && bytes.next().is_some_and(|first| first.is_ascii_lowercase())
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !fits {
            let shown: String = text.chars().take(MAX_NAME).collect();
            self.fault(format!(
                "{at}/{member}: `{}` is not [a-z][a-z0-9-]*, {MAX_NAME} characters at most",
                shown.escape_debug()
            ));
            return None;
        }
        Some(text.to_owned())
    }

    fn text(&mut self, from: &Value, member: &str, at: &str, absent: &str) -> String {
        match from.get(member) {
            None | Some(Value::Null) => absent.to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(_) => {
                self.fault(format!("{at}/{member}: not a string"));
                String::new()
            }
        }
    }

    fn flag(&mut self, from: &Value, member: &str, at: &str) -> bool {
        match from.get(member) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.fault(format!("{at}/{member}: neither true nor false"));
                false
            }
        }
    }

    fn texts(&mut self, from: &Value, member: &str, at: &str) -> Vec<String> {
        let Some(value) = from.get(member) else {
            return Vec::new();
        };
        let texts: Option<Vec<String>> = value.as_array().and_then(|list| {
            list.iter()
                .map(|text| text.as_str().map(str::to_owned))
                .collect()
        });
        texts.unwrap_or_else(|| {
            self.fault(format!("{at}/{member}: not an array of strings"));
            Vec::new()
        })
    }

    fn resources(&mut self, node: &Value, at: &str) -> Resources {
        let Some(value) = node.get("resources") else {
            return Resources::default();
        };
        let resources = Resources::deserialize(value).unwrap_or_else(|error| {
            self.fault(format!("{at}/resources: {error}"));
            Resources::default()
        });
        if let Some(instance) = resources.instance.as_deref()
            && !matches!(instance, "warm" | "run" | "call")
        {
            self.fault(format!(
                "{at}/resources/instance: not `warm`, `run` or `call`"
            ));
        }
        resources
    }

    fn schema(&mut self, node: &Value, member: &str, at: &str) -> Value {
        let Some(schema) = node.get(member) else {
            return Value::Bool(true);
        };
        let mut schema = schema.clone();
        if let Value::Object(members) = &mut schema {
            // The format has one draft.
            members.remove("$schema");
        }
        let schema = schema;
        if schema.is_object() || schema == Value::Bool(true) {
            self.compiles(&schema, member, at);
        } else {
            self.faults
                .push(format!("{at}/{member}: a schema is an object or `true`"));
        }
        schema
    }
}

impl Reader {
    /// Compiles schemas in the same way as their users, so that no user refuses one.
    fn compiles(&mut self, schema: &Value, member: &str, at: &str) {
        if self.patterns_bytes > limits::PLUGIN_PATTERNS_BYTES {
            return;
        }
        let compiled = Schema::of_plugin(schema);
        match compiled.and_then(|schema| schema.defaults_fit().map(|()| schema)) {
            Ok(schema) => self.patterns_bytes += schema.patterns_bytes(),
            Err(refused) if refused.code == windlass_model::codes::BAD_SCHEMA => {
                self.faults
                    .push(format!("{at}/{member}: no JSON Schema: {refused}"));
            }
            Err(refused) => self.faults.push(format!("{at}/{member}: {refused}")),
        }
        if self.patterns_bytes > limits::PLUGIN_PATTERNS_BYTES {
            self.faults.push(format!(
                "{at}/{member}: the patterns of all schemas compile to over {} KiB together",
                limits::PLUGIN_PATTERNS_BYTES / 1024
            ));
        }
    }
}

fn raw_members(config: &Value) -> BTreeSet<String> {
    let Some(Value::Object(properties)) = config.get("properties") else {
        return BTreeSet::new();
    };
    properties
        .iter()
        .filter(|(_, schema)| schema.get("x-raw") == Some(&Value::Bool(true)))
        .map(|(name, _)| name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_a_description_begin_no_line_of_a_message() {
        let hostile = "1\nerror[WL-X001]: gone\r\u{1b}[2J";
        let description = json!({
            "windlass": 1,
            "version": hostile,
            "nodes": [{
                "name": "a",
                "config": { "$ref": hostile },
                "input": { "pattern": format!("({hostile}") },
            }],
        });
        let json = serde_json::to_vec(&description).unwrap();
        let error = Description::read(hostile, &json).expect_err("it is refused");
        let said = format!("{error}");
        assert!(said.contains("␊error[WL-X001]: gone␍␛[2J"), "{said}");
        for line in said.lines() {
            assert!(!line.trim_start().starts_with("error["), "{said}");
        }
        assert!(!said.contains(['\u{1b}', '\r']), "{said}");
    }
}
