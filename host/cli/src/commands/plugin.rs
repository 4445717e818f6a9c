//! `windlass plugin`.

mod archive;
mod build;
mod dev;
mod example;
mod host;
mod languages;
mod new;
mod test;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_model::definition::UseRef;
use windlass_model::secrets::Reference;
use windlass_model::{Body, Digest, LogLine, Outcome, Payload, RunId, Seq};
use windlass_plugins::{
    Call, CallContext, Consumer, Host, LoadEvent, NodeType, Plugin, Proof, Purity, Standing,
    bind_secrets, secret_handles,
};

use super::not_by_host;
use crate::app::Context;
use crate::commands::took;
use crate::error::{Expected, sentence};
use crate::exit::Exit;
use crate::output::{self, Output, table};
use crate::wire::{self, Machine, compile};
use crate::{codes, failure, input};

/// The subcommands of `plugin`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the plugins, and those that cannot be loaded
    List,
    /// Compile all plugins into the cache, so that a host that starts next has their code
    #[command(
        after_help = "Run it with the new version of the program and the configuration of the host, \
                      before the new host takes over from the old one. It exits with 21 if a plugin \
                      cannot be loaded."
    )]
    Warm,
    /// Show a plugin's nodes, its imports and its grants
    Inspect(Inspect),
    /// Run one node by itself, without a workflow
    Call(CallArguments),
    /// Make the project of a new plugin
    New(new::Arguments),
    /// Build a plugin's project into a component
    Build(build::Arguments),
    /// Build a plugin's project at each save, and call the plugin with its examples
    Dev(dev::Arguments),
    /// Run the tests of a plugin: its author's, its examples, and those that every plugin passes
    Test(test::Arguments),
    /// Write the contract between host and plugins into a folder, as WIT
    #[command(
        after_help = "Tools for components read the folder: wit-bindgen, componentize-py, \
                            jco. Its worlds are in plugin.wit; choose the smallest that has the \
                            functions of your plugin."
    )]
    Wit(Wit),
}

/// The arguments of `plugin wit`.
#[derive(Debug, Args)]
pub(crate) struct Wit {
    /// The folder; files of an earlier version in it are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The files of the contract, by path in the folder.
static CONTRACT: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/wit.rs"));

/// The arguments of `plugin inspect`.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// The name of a package, or a file
    plugin: String,
    /// Also show the schemas
    #[arg(long)]
    schemas: bool,
}

/// The arguments of `plugin call`.
#[derive(Debug, Args)]
pub(crate) struct CallArguments {
    /// The node type, like `data/jq` or `data/jq@1`
    node: String,
    /// The plugin's file, in place of the installed plugins
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", allow_negative_numbers = true)]
    with: Vec<String>,
    /// The input: JSON, @FILE or KEY=VALUE; may be repeated, and is merged
    #[arg(short, long, value_name = "INPUT", allow_negative_numbers = true)]
    input: Vec<String>,
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let machine = || -> anyhow::Result<_> { Machine::new(context.configure("warn")?) };
        let remote = context.server.is_some();
        match self {
            Self::New(arguments) => arguments.run(context),
            Self::Build(arguments) => arguments.run(context),
            Self::Dev(arguments) => arguments.run(context),
            Self::Test(arguments) => arguments.run(context),
            Self::Wit(wit) => wit.run(context),
            Self::List if remote => host::list(context),
            // This process inspects a file itself.
            Self::Inspect(inspect) if remote && !Path::new(&inspect.plugin).is_file() => {
                host::inspect(context, &inspect.plugin)
            }
            Self::Call(_) | Self::Warm if remote => Err(not_by_host().into()),
            Self::List => list(context, &machine()?),
            Self::Warm => warm(context, &machine()?),
            Self::Inspect(inspect) => inspect.run(context, &machine()?),
            Self::Call(call) => call.run(context, &machine()?),
        }
    }
}

impl Wit {
    fn run(&self, context: &Context) -> anyhow::Result<Exit> {
        let written = write_contract(&self.directory);
        written.map_err(|(path, error)| {
            let text = format!("cannot write {}: {error}", path.display());
            Expected::new(codes::OUTPUT, text)
        })?;
        let directory = self.directory.display().to_string();
        let files: Vec<_> = CONTRACT.iter().map(|(name, _)| *name).collect();
        let item = json!({ "directory": directory, "files": files });
        let output = &context.output;
        output.show(&item, || {
            format!("{} files are in {directory}", files.len())
        })?;
        Ok(Exit::Done)
    }
}

/// Writes the files of the contract; an error names the path.
fn write_contract(directory: &Path) -> Result<(), (PathBuf, std::io::Error)> {
    for (name, text) in CONTRACT {
        let path = directory.join(name);
        let folder = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(folder).map_err(|error| (folder.to_owned(), error))?;
        std::fs::write(&path, text).map_err(|error| (path, error))?;
    }
    Ok(())
}

fn list(context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
    let host = machine.host(compile::noted(context.output))?;
    let mut failed = Vec::new();
    for event in host.scan(&wire::plugin_directories(&machine.config)) {
        if let LoadEvent::Failed { file, error, .. } = event {
            failed.push((file, error));
        }
    }
    let plugins = host.registry().iter();
    let mut items: Vec<_> = plugins.iter().map(|plugin| summary(plugin)).collect();
    items.extend(failed.iter().map(|(file, error)| {
        json!({ "file": file, "error": { "code": error.code, "message": error.message } })
    }));
    context.output.list(&items, || {
        let rows = plugins.iter().map(|plugin| {
            let nodes: Vec<_> = plugin
                .description
                .nodes
                .iter()
                .map(|node| node.name.as_str())
                .collect();
            vec![
                plugin.description.package.clone(),
                plugin.description.version.to_string(),
                nodes.join(", "),
                purity(plugin).to_owned(),
                proof(plugin.standing()).to_owned(),
                plugin.file.display().to_string(),
            ]
        });
        table(
            &["package", "version", "nodes", "effects", "proof", "file"],
            rows.collect(),
        )
    })?;
    if context.output.is_text() {
        for plugin in plugins
            .iter()
            .filter(|it| *it.standing() == Standing::Unproved)
        {
            context.output.warn(&unproved(plugin));
        }
        for (file, error) in &failed {
            context.output.warn(&format!(
                "[{}] {}: {}",
                error.code,
                output::file(file),
                error.message
            ));
        }
        if plugins.is_empty() {
            let places = wire::plugin_directories(&machine.config);
            let places: Vec<_> = places
                .iter()
                .map(|place| place.display().to_string())
                .collect();
            context
                .output
                .note(&format!("There are no plugins in {}.", places.join(" or ")));
        }
    }
    Ok(Exit::Done)
}

/// Compiles everything that a host with this configuration would compile.
fn warm(context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
    let output = &context.output;
    let host = machine.host(compile::noted(*output))?;
    let (mut files, mut failed) = (0_u64, 0_u64);
    for event in host.scan(&wire::plugin_directories(&machine.config)) {
        match event {
            LoadEvent::Loaded { .. } => files += 1,
            LoadEvent::Failed { file, error, .. } => {
                failed += 1;
                let file = output::file(&file);
                output.warn(&format!("[{}] {file}: {}", error.code, error.message));
            }
            LoadEvent::Ignored { path, why } => {
                output.warn(&format!("{} is ignored: {why}", output::file(&path)));
            }
            LoadEvent::Compiling { .. }
            | LoadEvent::Compiled { .. }
            | LoadEvent::Removed { .. } => {}
        }
    }
    while host.compile_bundle()?.is_some() {}
    let cache = wire::cache(&machine.config)?;
    let cache = cache.display().to_string();
    let item = json!({ "compiled": files, "failed": failed, "cache": cache });
    output.show(&item, || {
        format!("The code of {files} plugins is in {cache}")
    })?;
    Ok(match failed {
        0 => Exit::Done,
        _ => Exit::Plugin,
    })
}

fn purity(plugin: &Plugin) -> &'static str {
    match plugin.purity {
        Purity::Pure => "pure",
        Purity::Effectful => "effects",
    }
}

/// The proof that the settings of a package apply to a component.
fn proof(standing: &Standing) -> &'static str {
    match standing {
        Standing::Unnamed => "",
        Standing::Unproved => "none",
        Standing::Proved(Proof::Library) => "library",
        Standing::Proved(Proof::Digest(_)) => "digest",
        Standing::Proved(Proof::Signature(_)) => "signature",
        Standing::Proved(Proof::File(_)) => "file",
    }
}

/// How to make the settings apply to a component that has no proof.
pub(crate) fn unproved(plugin: &Plugin) -> String {
    let (code, digest) = (windlass_plugins::codes::UNPROVED, plugin.digest);
    let (name, package) = (plugin.name(), &plugin.description.package);
    let file = plugin.file.display();
    format!(
        "[{code}] {name} in {file} gets none of the grants of `{package}`: nothing proves that \
         they are for it; if they are, write in [plugins.grants.{package}]: digest = \"{digest}\""
    )
}

/// The facts about a plugin.
pub(crate) fn summary(plugin: &Plugin) -> Value {
    let nodes: Vec<_> = plugin
        .description
        .nodes
        .iter()
        .map(|node| &node.id)
        .collect();
    json!({
        "package": plugin.description.package,
        "version": plugin.description.version.to_string(),
        "title": plugin.description.title,
        "digest": plugin.digest,
        "file": plugin.file,
        "pure": plugin.purity == Purity::Pure,
        "nodes": nodes,
        "consumer": plugin.consumer().is_some(),
        "proof": match plugin.standing() {
            Standing::Unnamed => Value::Null,
            standing => json!(proof(standing)),
        },
    })
}

/// The triggers that a consumer takes.
fn consumed(consumer: &Consumer) -> String {
    let types = match consumer.types.iter().any(|it| it == "*") {
        true => "every trigger".to_owned(),
        false => format!("triggers of the types {}", consumer.types.join(", ")),
    };
    match consumer.routes.as_slice() {
        [] => format!("{types} without a route"),
        [route] => format!("{types} of the route {route}"),
        routes => format!("{types} of the routes {}", routes.join(", ")),
    }
}

impl Inspect {
    fn run(&self, context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
        let plugin = self.find(&context.output, machine)?;
        let item = self.item(&plugin);
        context
            .output
            .show(&item, || self.text(&plugin, &context.output))?;
        Ok(Exit::Done)
    }

    fn find(&self, output: &Output, machine: &Machine) -> anyhow::Result<Arc<Plugin>> {
        let path = Path::new(&self.plugin);
        if path.is_file() {
            return Ok(machine.host(compile::noted(*output))?.load_file(path)?);
        }
        let host = machine.loaded_host(output)?;
        let plugins = host.registry().iter();
        let newest = plugins
            .iter()
            .rfind(|plugin| plugin.description.package == self.plugin);
        newest.cloned().ok_or_else(|| {
            let names = plugins
                .iter()
                .map(|plugin| plugin.description.package.as_str());
            let hint = windlass_model::nearest::did_you_mean(&self.plugin, names);
            let help = hint.map_or_else(String::new, |hint| format!("{hint} "));
            let text = format!("There is no plugin, and no file, `{}`", self.plugin);
            Expected::new(codes::NO_PLUGIN, text)
                .help(format!("{help}`windlass plugin list` lists the plugins."))
                .exit(Exit::NotFound)
                .into()
        })
    }

    fn item(&self, plugin: &Plugin) -> Value {
        let nodes: Vec<_> = plugin
            .description
            .nodes
            .iter()
            .map(|node| {
                json!({
                    "id": node.id,
                    "title": node.title,
                    "description": node.description,
                    "ports": node.ports,
                    "capabilities": node.capabilities,
                    "suspends": node.suspends,
                    "config": node.config,
                    "input": node.input,
                    "output": node.output,
                })
            })
            .collect();
        let limits = plugin.limits();
        let grants = plugin.grants();
        let http: Vec<_> = grants.http.iter().map(ToString::to_string).collect();
        let mut item = summary(plugin);
        if let Value::Object(members) = &mut item {
            members.insert("description".into(), json!(plugin.description.description));
            members.insert("imports".into(), json!(plugin.imports));
            let refused: Vec<&str> = plugin.refused_imports().collect();
            members.insert("refused_imports".into(), json!(refused));
            members.insert("nodes".into(), json!(nodes));
            let consumes = plugin.description.consumer.as_ref();
            let consumes = consumes.map(|it| json!({ "types": it.types, "routes": it.routes }));
            members.insert("consumes".into(), json!(consumes));
            let grants = json!({
                "http": http,
                "secrets": grants.secrets,
                "events": grants.events,
                "consumer": grants.consumer,
            });
            members.insert("grants".into(), grants);
            let limits = json!({
                "memory_bytes": limits.memory_bytes,
                "deadline_ms": limits.deadline.as_millis(),
                "payload_bytes": limits.payload_bytes,
            });
            members.insert("limits".into(), limits);
        }
        item
    }

    fn text(&self, plugin: &Plugin, output: &Output) -> String {
        let paint = output.data;
        let about = &plugin.description;
        let mut text = format!(
            "{} {}\n",
            paint.strong(plugin.name()),
            output::name(&about.title)
        );
        let mut line = |name: &str, value: String| {
            if !value.is_empty() {
                // Writing into a string cannot fail.
                let _ = writeln!(text, "{name:<10} {}", value.replace('\n', "\n           "));
            }
        };
        line("about", about.description.clone());
        line("file", output::file(&plugin.file));
        line("digest", plugin.digest.to_string());
        let effects = match plugin.purity {
            Purity::Pure => "none: its imports prove that it is pure",
            Purity::Effectful => "it can reach out (http or events), as far as it is granted",
        };
        line("effects", effects.to_owned());
        line("imports", plugin.imports.join("\n"));
        let refused: Vec<&str> = plugin.refused_imports().collect();
        if !refused.is_empty() {
            let refused = refused.join("\n");
            line(
                "refused",
                format!("{refused}\nthis host does not offer them: they refuse every access"),
            );
        }
        if let Some(consumer) = &about.consumer {
            let takes = consumed(consumer);
            line(
                "consumes",
                match plugin.consumer() {
                    Some(_) => takes,
                    None => format!("nothing: it takes {takes}, and `consumer` is not granted"),
                },
            );
        }
        match plugin.standing() {
            Standing::Unnamed => {}
            Standing::Proved(proof) => line("proved by", proof.to_string()),
            Standing::Unproved => line("proved by", unproved(plugin)),
        }
        let grants = plugin.grants();
        let mut granted: Vec<_> = grants
            .http
            .iter()
            .map(|grant| format!("http {grant}"))
            .collect();
        granted.extend(grants.secrets.iter().map(|name| format!("secret {name}")));
        granted.extend(grants.events.then(|| "events".to_owned()));
        granted.extend(plugin.consumer().map(|_| "consumer".to_owned()));
        line("granted", granted.join("\n"));
        for node in &about.nodes {
            self.node_text(&mut text, node, output);
        }
        text
    }

    fn node_text(&self, text: &mut String, node: &NodeType, output: &Output) {
        let paint = output.data;
        // Writing into a string cannot fail.
        let _ = writeln!(text, "\n{} {}", paint.strong(&node.id), node.title);
        if !node.description.is_empty() {
            let _ = writeln!(text, "  {}", node.description);
        }
        let _ = writeln!(text, "  ports      {}", node.ports.join(", "));
        if !node.capabilities.is_empty() {
            let _ = writeln!(text, "  wants      {}", node.capabilities.join(", "));
        }
        for (name, schema) in [
            ("config", &node.config),
            ("input", &node.input),
            ("output", &node.output),
        ] {
            if self.schemas {
                let schema = format!("{schema:#}").replace('\n', "\n             ");
                let _ = writeln!(text, "  {name:<10} {schema}");
            } else {
                let _ = writeln!(text, "  {name:<10} {}", outline(schema));
            }
        }
    }
}

/// The properties of a schema on one line; optional ones end with a question mark.
fn outline(schema: &Value) -> String {
    let Some(Value::Object(properties)) = schema.get("properties") else {
        let kind = schema.get("type").and_then(Value::as_str);
        return kind.unwrap_or("anything").to_owned();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let names = properties.keys().map(|name| {
        let must = required.is_some_and(|required| required.iter().any(|must| must == name));
        if must {
            name.clone()
        } else {
            format!("{name}?")
        }
    });
    format!("{{ {} }}", names.collect::<Vec<_>>().join(", "))
}

impl CallArguments {
    fn run(self, context: &Context, machine: &Machine) -> anyhow::Result<Exit> {
        let output = &context.output;
        let (host, plugin, node) = self.find(output, machine)?;
        let config = input::parse_for(&self.with, Some(&node.config))?;
        let data = input::parse_for(&self.input, Some(&node.input))?;
        let call = call_of(&node, config, &data)?;
        let returned = machine.tokio.block_on(Arc::clone(&plugin).execute(call));
        drop(host);
        let bytes = |payload: &Payload| content(payload, &returned.blobs);
        logs(output, &returned.logs);
        cost(output, returned.took, returned.memory_bytes);
        match returned.result {
            Err(failed) => {
                let failure = windlass_server::Failure::from(&failed);
                let text = format!("{} failed: {}", node.id, failure::message(&failure));
                let expected = Expected::new(failed.code, text)
                    .note(failure::note(&failure))
                    .help(format!("It is a failure of class `{}`.", failure.class));
                Err(expected.into())
            }
            Ok(outcome) => {
                print_outcome(output, &outcome, &bytes)?;
                Ok(Exit::Done)
            }
        }
    }

    fn find(
        &self,
        output: &Output,
        machine: &Machine,
    ) -> anyhow::Result<(Arc<Host>, Arc<Plugin>, Arc<NodeType>)> {
        let wanted = wanted(&self.node)?;
        let host = match &self.file {
            None => machine.loaded_host(output)?,
            Some(file) => {
                let host = machine.host(compile::noted(*output))?;
                let plugin = host.load_file(file)?;
                host.registry().insert(file, &plugin)?;
                host
            }
        };
        let (plugin, node) = host.registry().node(&wanted).map_err(|missing| {
            let nearest = missing
                .nearest
                .map(|near| format!("Did you mean `{near}`? "));
            let help = "`windlass plugin list` lists the plugins.";
            Expected::new(codes::NO_PLUGIN, sentence(&missing.message))
                .help(format!("{}{help}", nearest.unwrap_or_default()))
                .exit(Exit::NotFound)
        })?;
        Ok((host, plugin, node))
    }
}

fn wanted(text: &str) -> Result<UseRef, Expected> {
    let (path, requirement) = match text.split_once('@') {
        Some((path, requirement)) => (path, Some(requirement.to_owned())),
        None => (text, None),
    };
    match path.split_once('/') {
        Some((package, name)) => Ok(UseRef {
            package: package.into(),
            name: name.into(),
            requirement,
        }),
        None => Err(
            Expected::new(codes::USAGE, format!("`{text}` names no node type"))
                .help("Write `package/name`, as `windlass plugin inspect PACKAGE` shows it."),
        ),
    }
}

/// A call of a node as a run would make it.
fn call_of(node: &NodeType, mut config: Value, data: &Value) -> anyhow::Result<Call> {
    let secrets = bind_secrets(&mut config);
    check(node, &mut config, data)?;
    let config = bytes::Bytes::from(config.to_string());
    let (config, secrets) = secret_handles(config, &secrets)
        .map_err(|failure| anyhow::Error::msg(failure.message.clone()))?;
    Ok(Call {
        node_type: Arc::clone(&node.id),
        config: Payload::json(config),
        input: Payload::of(data),
        cx: cx(secrets),
        slot_key: 0,
        timeout: None,
        queued: None,
    })
}

/// The bytes of a payload, which may be among the blobs of its call.
fn content(payload: &Payload, blobs: &[(Digest, bytes::Bytes)]) -> bytes::Bytes {
    match &payload.body {
        Body::Inline(bytes) => bytes.clone(),
        Body::Blob(blob) => blobs
            .iter()
            .find(|(digest, _)| *digest == blob.digest)
            .map(|(_, bytes)| bytes.clone())
            .unwrap_or_default(),
    }
}

/// Completes the configuration by its defaults, and checks it and the input, as a run would.
fn check(node: &NodeType, config: &mut Value, data: &Value) -> Result<(), Expected> {
    use windlass_model::schema::Schema;
    let mut unable = None;
    if let Ok(schema) = Schema::of_plugin(&node.config) {
        match schema.completed(config.take(), "") {
            Ok(completed) => *config = completed,
            Err(found) => unable = Some(*found),
        }
    }
    for (what, schema, value) in [
        ("--with", &node.config, &*config),
        ("--input", &node.input, data),
    ] {
        let Ok(schema) = Schema::compile(schema) else {
            continue;
        };
        let wrong = match unable.take() {
            Some(found) => vec![found],
            None => schema.check(value, ""),
        };
        if wrong.is_empty() {
            continue;
        }
        let all: Vec<_> = wrong
            .iter()
            .map(|diagnostic| format!("{}: {}", diagnostic.place.pointer, diagnostic.message))
            .collect();
        let text = format!("{what} does not fit {}: {}", node.id, all.join("; "));
        let package = node.id.split('/').next().unwrap_or_default();
        let help = format!(
            "`windlass plugin inspect {package} --schemas` shows the schemas of its nodes."
        );
        return Err(Expected::new(codes::INPUT, text).help(help));
    }
    Ok(())
}

/// The context of the call. Secret references in its configuration are resolved as in a definition.
fn cx(secrets: Arc<[Reference]>) -> CallContext {
    let no_run = RunId(uuid::Uuid::nil());
    CallContext {
        node: Some("call".into()),
        secrets,
        ..CallContext::new(no_run, "plugin-call".into(), Seq(1))
    }
}

fn logs(output: &Output, lines: &[LogLine]) {
    for line in lines {
        let fields: String = line
            .fields
            .iter()
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        output.note(&format!("{:<5} {}{fields}", line.level, line.message));
    }
}

fn cost(output: &Output, time: Duration, memory_bytes: u64) {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let text = format!("took {}, memory {} KiB", took(us), memory_bytes / 1024);
    output.note(&output.notes.dim(text));
}

fn print_outcome(
    output: &Output,
    outcome: &Outcome,
    bytes: &dyn Fn(&Payload) -> bytes::Bytes,
) -> anyhow::Result<()> {
    let shown = |payload: &Payload| {
        let bytes = bytes(payload);
        serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()))
    };
    match outcome {
        Outcome::Done(done) => {
            let value = shown(&done.output);
            let ports = if done.ports.is_empty() {
                vec!["done".to_owned()]
            } else {
                done.ports.clone()
            };
            if ports != ["done"] {
                output.note(&format!("ports {}", ports.join(", ")));
            }
            output.show_document(
                &json!({ "outcome": "done", "ports": ports, "output": value }),
                || format!("{value:#}"),
            )
        }
        Outcome::Suspend(suspension) => {
            let item = json!({ "outcome": "suspend", "bookmarks": suspension.bookmarks });
            output.show_document(&item, || format!("{item:#}"))
        }
        Outcome::Again(again) => {
            let item = json!({ "outcome": "again", "after_ms": again.after_ms });
            output.show_document(&item, || format!("{item:#}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wit_parser::{Resolve, WorldItem};

    /// The interfaces that a world imports, without versions.
    fn imports(resolve: &Resolve, world: &str) -> Vec<String> {
        let package = resolve.packages.iter().find(|(_, package)| {
            let name = &package.name;
            (name.namespace.as_str(), name.name.as_str()) == ("windlass", "plugin")
        });
        let (package, _) = package.unwrap();
        let world = resolve.select_world(&[package], Some(world)).unwrap();
        let imports = resolve.worlds[world].imports.values();
        let names = imports.filter_map(|item| match item {
            WorldItem::Interface { id, .. } => resolve.interfaces[*id].name.clone(),
            _ => None,
        });
        let mut names: Vec<_> = names.filter(|name| name != "types").collect();
        names.sort();
        names
    }

    #[test]
    fn tools_for_wit_read_the_written_contract() {
        let directory = tempfile::tempdir().unwrap();
        write_contract(directory.path()).unwrap();
        // A second time, over the files of the first.
        write_contract(directory.path()).unwrap();
        let mut resolve = Resolve::default();
        resolve.push_dir(directory.path()).unwrap();
        let none: [&str; 0] = [];
        assert_eq!(imports(&resolve, "pure"), none);
        assert_eq!(imports(&resolve, "checking"), none);
        assert_eq!(imports(&resolve, "logging"), ["context", "log"]);
        let waiting = ["clock", "context", "log", "random"];
        assert_eq!(imports(&resolve, "waiting"), waiting);
        assert_eq!(
            imports(&resolve, "reading"),
            ["blobs", "context", "log", "memory"]
        );
        assert_eq!(
            imports(&resolve, "net"),
            ["clock", "context", "http", "log", "random"]
        );
        assert_eq!(
            imports(&resolve, "events"),
            ["clock", "context", "events", "log", "random"]
        );
        let full = [
            "blobs", "clock", "context", "events", "http", "log", "memory", "random",
        ];
        assert_eq!(imports(&resolve, "full"), full);
        assert_eq!(
            imports(&resolve, "consumer"),
            ["clock", "context", "log", "memory"]
        );
        assert!(directory.path().join("DESCRIBE.md").is_file());
    }
}
