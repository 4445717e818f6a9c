//! The loaded plugins.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass_plugins::{Awaited, Plugin as Loaded, Purity};

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

/// A plugin with its node types.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PluginShown {
    /// The plugin as lists show it.
    plugin: Plugin,
    /// Its description, for people.
    description: String,
    /// The interfaces that it imports.
    imports: Vec<String>,
    /// Its node types.
    nodes: Vec<Node>,
}

/// Show a plugin.
#[utoipa::path(get, path = "/api/v1/plugins/{package}", operation_id = "getPlugin", tag = "plugins",
    params(("package" = String, Path, description = "Its package.")),
    responses((status = 200, description = "The plugin with its nodes.", body = PluginShown)))]
pub(crate) async fn show(
    State(app): State<App>,
    Named(package): Named,
) -> Result<Json<PluginShown>, Box<Problem>> {
    let all = loaded(&app)?;
    let mut of: Vec<_> = all
        .into_iter()
        .filter(|plugin| plugin.description.package == package)
        .collect();
    // Workflows that name no version get the newest one.
    of.sort_by(|a, b| a.description.version.cmp(&b.description.version));
    let missing = || Problem::not_found(format!("there is no plugin `{package}`"));
    let plugin = of.pop().ok_or_else(missing)?;
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
        imports: plugin.imports.clone(),
        nodes: nodes.collect(),
    }))
}
