//! The page of a plugin: its description, and the examples of its nodes with the results that they
//! gave.

use serde_json::{Value, json};
use windlass_plugins::{Consumer, Description, NodeType, Plugin, Purity};

use super::json::pretty;
use super::markdown::{block, code, paragraphs, prose};
use super::members::{Members, Row, members};
use crate::commands::plugin::call::log_line;
use crate::commands::plugin::example::{Ask, Example, Ran};
use crate::commands::plugin::inspect::consumed;

/// The most bytes of a page.
pub(super) const PAGE_BYTES: usize = 1 << 20;

/// The most examples of one node.
const EXAMPLES: usize = 20;

/// The most lines of a log.
const LOG_LINES: usize = 50;

/// The most names of ports or capabilities that are listed.
const NAMES: usize = 50;

/// A plugin as its page shows it.
pub(super) struct Subject<'a> {
    pub(super) description: &'a Description,
    pub(super) purity: Purity,
    pub(super) imports: &'a [String],
}

impl<'a> Subject<'a> {
    pub(super) fn of(plugin: &'a Plugin) -> Self {
        Self {
            description: &plugin.description,
            purity: plugin.purity,
            imports: &plugin.imports,
        }
    }
}

/// An example that was called, with its result.
pub(super) struct Called<'a> {
    pub(super) example: &'a Example,
    pub(super) ran: Ran,
}

/// A page in the making. It grows by whole parts: a part without room ends the page.
#[derive(Default)]
struct Page {
    text: String,
    is_full: bool,
}

impl Page {
    fn part(&mut self, part: impl AsRef<str>) {
        let part = part.as_ref();
        if self.is_full || part.is_empty() {
            return;
        }
        let gap = if self.text.is_empty() { "" } else { "\n" };
        if self.text.len() + gap.len() + part.len() + 1 > PAGE_BYTES {
            self.is_full = true;
            let end = format!("\nThe page ends here: it has at most {PAGE_BYTES} bytes.\n");
            self.text.push_str(&end);
            return;
        }
        self.text.push_str(gap);
        self.text.push_str(part);
        self.text.push('\n');
    }
}

/// The page. Its length is bounded.
pub(super) fn page(subject: &Subject<'_>, called: &[Called<'_>]) -> String {
    let about = subject.description;
    let mut page = Page::default();
    let name = code(&about.package);
    page.part(match prose(&about.title) {
        title if title.is_empty() || about.title == about.package => format!("# {name}"),
        title => format!("# {name}: {title}"),
    });
    paragraphs(&about.description)
        .iter()
        .for_each(|it| page.part(it));
    page.part(format!(
        "* Version {}.\n* {}",
        about.version,
        effects(subject)
    ));
    for node in &about.nodes {
        let is_of = |it: &&Called<'_>| matches!(&it.example.ask, Ask::Node { node: of, .. } if of.id == node.id);
        the_node(&mut page, &about.package, node);
        examples(&mut page, called.iter().filter(is_of));
    }
    if let Some(consumer) = &about.consumer {
        let is_trigger = |it: &&Called<'_>| matches!(it.example.ask, Ask::Trigger { .. });
        the_consumer(&mut page, &about.package, consumer);
        examples(&mut page, called.iter().filter(is_trigger));
    }
    page.text
}

/// Whether the plugin is pure, in a sentence.
fn effects(subject: &Subject<'_>) -> String {
    if subject.purity == Purity::Pure {
        return "Pure: none of its imports has effects.".to_owned();
    }
    let has_effects = |name: &&String| {
        ["windlass:http/", "windlass:events/"]
            .iter()
            .any(|it| name.starts_with(it))
    };
    let imports = subject.imports.iter().filter(has_effects);
    format!("With effects: it imports {}.", listed(imports))
}

/// Names as code.
fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let mut shown: Vec<String> = names
        .by_ref()
        .take(NAMES)
        .map(|it| code(it.as_ref()))
        .collect();
    let further = names.count();
    if further > 0 {
        shown.push(format!("{further} more"));
    }
    shown.join(", ")
}

fn the_node(page: &mut Page, package: &str, node: &NodeType) {
    page.part(format!("## {}", code(&node.id)));
    let title = prose(&node.title);
    if !title.is_empty() {
        page.part(format!("**{title}**"));
    }
    paragraphs(&node.description)
        .iter()
        .for_each(|it| page.part(it));
    let mut facts = vec![format!("* Ports: {}.", listed(&node.ports))];
    if !node.capabilities.is_empty() {
        let grants = code(&format!("[plugins.grants.{package}]"));
        let asked = listed(&node.capabilities);
        facts.push(format!(
            "* Asks for {asked}, which {grants} of `windlass.toml` grants."
        ));
    }
    if node.suspends {
        facts.push("* May wait: it suspends, or is called again later.".to_owned());
    }
    facts.extend(needs(node));
    page.part(facts.join("\n"));
    for (head, schema, is_config) in [
        ("### Configuration: `with`", &node.config, true),
        ("### Input", &node.input, false),
        ("### Output", &node.output, false),
    ] {
        page.part(head);
        values(page, &members(schema, is_config));
    }
}

/// The hints of a node about its needs.
fn needs(node: &NodeType) -> Option<String> {
    let resources = &node.resources;
    let memory = resources
        .memory_bytes
        .map(|bytes| format!("{bytes} bytes of memory"));
    let time = resources
        .deadline_ms
        .map(|ms| format!("{ms} ms for a call"));
    let instance = resources.instance.as_deref().map(|it| match it {
        "run" => "an instance of its own for each run".to_owned(),
        "call" => "an instance of its own for each call".to_owned(),
        _ => "an instance that keeps its memory".to_owned(),
    });
    let needs: Vec<String> = [memory, time, instance].into_iter().flatten().collect();
    (!needs.is_empty()).then(|| format!("* Needs {}.", needs.join(", ")))
}

/// The values of a schema: the value itself, and its members as a table.
fn values(page: &mut Page, found: &Members) {
    let whole = &found.whole;
    if found.is_open && found.rows.is_empty() {
        page.part("Any value.");
    } else if whole.kind != "object" || found.rows.is_empty() {
        let rules = [whole.kind.as_str(), whole.bounds.as_str()];
        let rules: Vec<&str> = rules.into_iter().filter(|it| !it.is_empty()).collect();
        let rules = rules.join(", ");
        let mut letters = rules.chars();
        let first = letters.next().map(|it| it.to_ascii_uppercase());
        let rules: String = first.into_iter().chain(letters).collect();
        page.part(format!("{rules}."));
    } else if !whole.bounds.is_empty() {
        page.part(format!("An object: {}.", whole.bounds));
    }
    page.part(&whole.meaning);
    if !found.rows.is_empty() {
        page.part(table(&found.rows));
    }
    if found.is_cut {
        page.part("Further members are left out.");
    } else if found.is_closed && !found.rows.is_empty() {
        page.part("Other members are refused.");
    }
}

/// A table of members, without the columns that are empty in each row.
fn table(rows: &[Row]) -> String {
    type Cell = fn(&Row) -> &str;
    let columns: [(&str, Cell); 6] = [
        ("member", |row| &row.member),
        ("type", |row| &row.kind),
        ("required", |row| if row.required { "yes" } else { "" }),
        ("default", |row| &row.default),
        ("bounds", |row| &row.bounds),
        ("meaning", |row| &row.meaning),
    ];
    let has_text = |(_, cell): &&(&str, Cell)| rows.iter().any(|row| !cell(row).is_empty());
    let columns: Vec<_> = columns.iter().filter(has_text).collect();
    let line = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
    let mut lines = vec![
        line(columns.iter().map(|(head, _)| *head).collect()),
        format!("|{}", "---|".repeat(columns.len())),
    ];
    let cells = |row| line(columns.iter().map(|(_, cell)| cell(row)).collect());
    lines.extend(rows.iter().map(cells));
    lines.join("\n")
}

fn the_consumer(page: &mut Page, package: &str, consumer: &Consumer) {
    page.part("## Consumer");
    page.part(format!(
        "It takes {}.",
        consumed(consumer, &|names| listed(names))
    ));
    let grants = code(&format!("[plugins.grants.{package}]"));
    page.part(format!(
        "A host asks it if it came with the host, or if {grants} of `windlass.toml` has \
         `consumer = true`."
    ));
}

/// The examples of a node or of the consumer.
fn examples<'a>(page: &mut Page, called: impl Iterator<Item = &'a Called<'a>>) {
    let mut called = called;
    called
        .by_ref()
        .take(EXAMPLES)
        .for_each(|it| example(page, it));
    let further = called.count();
    if further > 0 {
        page.part(format!("{further} further examples are left out."));
    }
}

fn example(page: &mut Page, called: &Called<'_>) {
    let Called { example, ran } = called;
    page.part(format!("### Example: {}", code(&example.name)));
    let mut shown = |what: &str, value: &Value| {
        page.part(what);
        page.part(block("json", &pretty(value)));
    };
    match &example.ask {
        Ask::Node { with, input, .. } => {
            if *with != json!({}) {
                shown("Configuration:", with);
            }
            if !input.is_null() {
                shown("Input:", input);
            }
        }
        Ask::Trigger {
            kind,
            node,
            payload,
        } => {
            let mut trigger = serde_json::Map::new();
            trigger.insert("type".to_owned(), json!(kind.name()));
            let node = node.as_deref().map(|it| ("node".to_owned(), json!(it)));
            let payload = payload.clone().map(|it| ("payload".to_owned(), it));
            trigger.extend(node.into_iter().chain(payload));
            shown("Trigger:", &trigger.into());
        }
    }
    result(page, ran);
}

fn result(page: &mut Page, ran: &Ran) {
    let got = &ran.got;
    let text = || block("text", &got.message);
    let value = || block("json", &pretty(&got.value));
    let (what, detail) = match (got.class, got.what) {
        (Some(class), _) => (
            format!("It fails with a failure of class `{class}`:"),
            text(),
        ),
        (None, "done") if got.ports == ["done"] => ("Output:".to_owned(), value()),
        (None, "done") => (format!("Output, by {}:", listed(&got.ports)), value()),
        (None, "suspend") => ("It waits, at these bookmarks:".to_owned(), value()),
        (None, "again") => ("It asks to be called again:".to_owned(), value()),
        (None, "execute") if !got.value.is_null() => (
            "Decision `execute`, with these variables:".to_owned(),
            value(),
        ),
        (None, "reject") => ("Decision `reject`:".to_owned(), text()),
        (None, "later") => ("Decision `later`:".to_owned(), value()),
        (None, other) => (format!("Decision `{other}`."), String::new()),
    };
    page.part(what);
    page.part(detail);
    if !ran.effects.is_empty() {
        page.part("Effects:");
        page.part(block("json", &pretty(&json!(ran.effects))));
    }
    let mut lines = ran.logs.iter();
    let mut log: Vec<String> = lines.by_ref().take(LOG_LINES).map(log_line).collect();
    let further = lines.count();
    if further > 0 {
        log.push(format!("… {further} further lines"));
    }
    if !log.is_empty() {
        page.part("Log:");
        page.part(block("text", &log.join("\n")));
    }
}
