//! The loaded plugins.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use windlass_model::nearest::did_you_mean;
use windlass_plugins::{Awaited, Isolation, Plugin as Loaded, Purity};

use crate::app::App;
use crate::count::Count;
use crate::extract::{Named, QueryParams};
use crate::json::Json;
use crate::page::{Page, PageAsked};
use crate::problem::Problem;

/// A loaded plugin.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Plugin {
    /// The first half of its node types.
    package: String,
    /// The version of the package.
    version: String,
    /// Its title, for people.
    title: String,
    /// The component, by its digest.
    digest: String,
    /// Whether the plugin can have no side effects.
    pure: bool,
    /// Whether the plugin is a consumer of triggers.
    consumer: bool,
    /// How many workflows have their calls of it delayed, because they keep crashing.
    quarantined: Count,
    /// Its node types.
    nodes: Vec<String>,
}

fn item(plugin: &Loaded) -> Plugin {
    let about = &plugin.description;
    Plugin {
        package: about.package.clone(),
        version: about.version.to_string(),
        title: about.title.clone(),
        digest: plugin.digest.to_string(),
        pure: plugin.purity == Purity::Pure,
        consumer: plugin.consumer().is_some(),
        quarantined: plugin.in_quarantine().len().into(),
        nodes: about.nodes.iter().map(|node| node.name.clone()).collect(),
    }
}

/// The plugins of a host, which are loaded already, so this does not block. Commands use their own
/// process's plugins without this API.
fn loaded(app: &App) -> Result<Vec<Arc<Loaded>>, Box<Problem>> {
    Ok(app.resources().plugins()?.registry().iter())
}

/// List the loaded plugins.
#[utoipa::path(get, path = "/api/v1/plugins", operation_id = "listPlugins", tag = "plugins", params(PageAsked),
    responses((status = 200, description = "A page of plugins.", body = Page<Plugin>)))]
pub(crate) async fn list(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Plugin>>, Box<Problem>> {
    let after = page.after("plugins")?;
    let place = |plugin: &Arc<Loaded>| plugin.name().to_owned();
    let mut all = loaded(&app)?;
    all.sort_by_key(place);
    all.retain(|plugin| after.as_deref().is_none_or(|after| plugin.name() > after));
    page.page("plugins", all, place, |plugin| Ok(item(&plugin)))
        .map(Json)
}

/// A component that is not compiled yet.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Compilation {
    /// The component, by its digest.
    digest: String,
    /// Its size in bytes.
    bytes: Count,
    /// Its package and version, like `shop@1.0.0`, if this machine has loaded the component before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// Whether the compiler works on it; otherwise it waits for its turn.
    running: bool,
}

/// List the components that are being compiled.
///
/// They are in the order of their size, in which they are compiled. Work that needs one of them
/// waits. A component that is compiled moves to the list of plugins.
#[utoipa::path(get, path = "/api/v1/compilations", operation_id = "listCompilations", tag = "plugins", params(PageAsked),
    responses((status = 200, description = "A page of components.", body = Page<Compilation>)))]
pub(crate) async fn compilations(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<Compilation>>, Box<Problem>> {
    let after = page.after("compilations")?;
    let place = |awaited: &Awaited| format!("{:020} {}", awaited.bytes, awaited.digest);
    let mut all = app.resources().plugins()?.awaited();
    all.sort_by_key(place);
    all.retain(|awaited| {
        after
            .as_deref()
            .is_none_or(|after| place(awaited).as_str() > after)
    });
    let item = |awaited: Awaited| {
        Ok(Compilation {
            digest: awaited.digest.to_string(),
            bytes: Count(awaited.bytes),
            name: awaited.name,
            running: awaited.is_running,
        })
    };
    page.page("compilations", all, place, item).map(Json)
}

/// A file in a folder of plugins that cannot be loaded.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PluginFailure {
    /// The file.
    file: String,
    /// The code of the fault.
    code: String,
    /// The fault.
    message: String,
    /// The digest of its previous plugin, which new runs still get.
    #[schema(required = true)]
    kept: Option<String>,
}

/// List the files in the folders of plugins that cannot be loaded.
#[utoipa::path(get, path = "/api/v1/plugin-failures", operation_id = "listPluginFailures", tag = "plugins", params(PageAsked),
    responses((status = 200, description = "A page of files.", body = Page<PluginFailure>)))]
pub(crate) async fn failures(
    State(app): State<App>,
    QueryParams(page): QueryParams<PageAsked>,
) -> Result<Json<Page<PluginFailure>>, Box<Problem>> {
    let after = page.after("plugin failures")?;
    let all = app.resources().plugins()?.failures().into_iter();
    let all = all.map(|(file, failure)| PluginFailure {
        file: file.display().to_string(),
        code: failure.error.code.to_string(),
        message: failure.error.message,
        kept: failure.kept.map(|digest| digest.to_string()),
    });
    let place = |failure: &PluginFailure| failure.file.clone();
    let mut all: Vec<PluginFailure> = all.collect();
    all.sort_by_key(place);
    all.retain(|failure| after.as_deref().is_none_or(|after| *failure.file > *after));
    page.page("plugin failures", all, place, Ok).map(Json)
}

/// A node type.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Node {
    /// The node type's name in workflows.
    id: String,
    /// Its title, for people.
    title: String,
    /// Its description, for people.
    description: String,
    /// Its output ports.
    ports: Vec<String>,
    /// The capabilities that the operator has to grant.
    capabilities: Vec<String>,
    /// Whether a node may suspend its run until an event comes.
    suspends: bool,
    /// JSON Schema of its configuration.
    config: Value,
    /// JSON Schema of its input.
    input: Value,
    /// JSON Schema of its output.
    output: Value,
}

/// The permissions of a plugin: those that it requests and that the operator has granted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PluginGrants {
    /// The destinations of its HTTP requests.
    http: Vec<String>,
    /// The names of the secrets that its requests may contain.
    secrets: Vec<String>,
    /// Whether it may send stimuli and schedule triggers.
    events: bool,
    /// Whether it is called as a consumer of triggers.
    consumer: bool,
}

/// The limits of each call of a plugin.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PluginLimits {
    /// The memory of the instance, in bytes.
    memory_bytes: Count,
    /// The time of a call, in milliseconds, waits included.
    deadline_ms: Count,
    /// The elements of all tables of the instance.
    table_elements: Count,
    /// The input and the output, in bytes each.
    payload_bytes: Count,
    /// The handles that the guest holds at once.
    handles: Count,
    /// The lines that a call logs.
    log_lines: Count,
    /// The bytes that a call logs.
    log_bytes: Count,
    /// The blobs that a call has begun and not finished.
    blob_writers: Count,
    /// The bytes of blobs that a call writes.
    blob_bytes: Count,
    /// The HTTP requests of a call, redirects included.
    http_requests: Count,
    /// The stimuli and triggers of a call.
    events: Count,
    /// The bytes of these stimuli and triggers.
    event_bytes: Count,
}

/// A workflow whose calls of a plugin are delayed, because they keep crashing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Quarantined {
    /// The workflow.
    workflow: String,
    /// How long from now its calls are delayed, in milliseconds.
    for_ms: Count,
}

/// A plugin with its node types.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PluginShown {
    /// The plugin as lists show it.
    plugin: Plugin,
    /// Its description, for people.
    description: String,
    /// The file from which it was read.
    file: String,
    /// The proof that the settings of its package are for it: `library`, `digest`, `signature`,
    /// `file`, or `none`, without which it gets no grants. Null: no settings of its package give it
    /// anything.
    #[schema(required = true)]
    proof: Option<&'static str>,
    /// Its permissions.
    grants: PluginGrants,
    /// The limits of each call.
    limits: PluginLimits,
    /// How long an instance is reused: `warm` by any call, `run` by calls of one run, `call` by none.
    isolation: &'static str,
    /// The workflows whose calls of it are delayed, at most 100.
    quarantine: Vec<Quarantined>,
    /// The interfaces that it imports.
    imports: Vec<String>,
    /// Its node types.
    nodes: Vec<Node>,
}

/// The most workflows in quarantine that an answer lists.
const QUARANTINED: usize = 100;

fn grants(plugin: &Loaded) -> PluginGrants {
    let grants = plugin.grants();
    PluginGrants {
        http: grants.http.iter().map(ToString::to_string).collect(),
        secrets: grants.secrets.clone(),
        events: grants.events,
        consumer: plugin.consumer().is_some(),
    }
}

fn limits(plugin: &Loaded) -> PluginLimits {
    let limits = plugin.limits();
    let deadline_ms = u64::try_from(limits.deadline.as_millis()).unwrap_or(u64::MAX);
    PluginLimits {
        memory_bytes: limits.memory_bytes.into(),
        deadline_ms: Count(deadline_ms),
        table_elements: limits.table_elements.into(),
        payload_bytes: limits.payload_bytes.into(),
        handles: limits.handles.into(),
        log_lines: limits.log_lines.into(),
        log_bytes: limits.log_bytes.into(),
        blob_writers: limits.blob_writers.into(),
        blob_bytes: limits.blob_bytes.into(),
        http_requests: Count(limits.http_requests.into()),
        events: limits.events.into(),
        event_bytes: limits.event_bytes.into(),
    }
}

fn quarantine(plugin: &Loaded) -> Vec<Quarantined> {
    let held = plugin.in_quarantine().into_iter().take(QUARANTINED);
    let quarantined = held.map(|(workflow, rest)| Quarantined {
        workflow: workflow.as_ref().to_owned(),
        for_ms: Count(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX)),
    });
    quarantined.collect()
}

/// Selects a version of a package.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// This version instead of the newest one.
    version: Option<String>,
}

/// Show a plugin.
#[utoipa::path(get, path = "/api/v1/plugins/{package}", operation_id = "getPlugin", tag = "plugins",
    params(("package" = String, Path, description = "Its package."), Which),
    responses((status = 200, description = "The plugin with its nodes.", body = PluginShown)))]
pub(crate) async fn show(
    State(app): State<App>,
    Named(package): Named,
    QueryParams(which): QueryParams<Which>,
) -> Result<Json<PluginShown>, Box<Problem>> {
    let all = loaded(&app)?;
    let names: Vec<_> = all
        .iter()
        .map(|plugin| plugin.description.package.clone())
        .collect();
    let mut of: Vec<_> = all
        .into_iter()
        .filter(|plugin| plugin.description.package == package)
        .collect();
    // Workflows that name no version get the newest one.
    of.sort_by(|a, b| a.description.version.cmp(&b.description.version));
    let missing = || {
        let near = did_you_mean(&package, names.iter().map(String::as_str));
        Problem::not_found(format!("there is no plugin `{package}`")).maybe(near)
    };
    if of.is_empty() {
        return Err(missing());
    }
    if let Some(version) = &which.version {
        of.retain(|plugin| plugin.description.version.to_string() == *version);
    }
    let other = || Problem::not_found(format!("the plugin `{package}` has no such version"));
    let plugin = of.pop().ok_or_else(other)?;
    let nodes = plugin.description.nodes.iter().map(|node| Node {
        id: node.id.to_string(),
        title: node.title.clone(),
        description: node.description.clone(),
        ports: node.ports.clone(),
        capabilities: node.capabilities.clone(),
        suspends: node.suspends,
        config: node.config.clone(),
        input: node.input.clone(),
        output: node.output.clone(),
    });
    Ok(Json(PluginShown {
        plugin: item(&plugin),
        description: plugin.description.description.clone(),
        file: plugin.file.display().to_string(),
        proof: plugin.standing().proof(),
        grants: grants(&plugin),
        limits: limits(&plugin),
        isolation: match plugin.isolation() {
            Isolation::Warm => "warm",
            Isolation::Run => "run",
            Isolation::Call => "call",
        },
        quarantine: quarantine(&plugin),
        imports: plugin.imports.clone(),
        nodes: nodes.collect(),
    }))
}
