//! The routes with their handlers, and the OpenAPI document.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get};
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::{Response as Described, ResponseBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{
    admin, bookmarks, definitions, drafts, events, health, letters, lifecycle, live, locks,
    plugins, publishing, resume, runs, starting, stimuli, transfer, triggers, upkeep, webhooks,
};
use crate::app::App;
use crate::codes;
use crate::former_paths;
use crate::gate;
use crate::permissions::Permission;
use crate::pools::Pool;
use crate::problem::{MEDIA, Problem};
use crate::rules::{self, ForeignPages, Routes, Rule};

/// The parts of the document that are not generated from the handlers.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Windlass", description = "Workflows whose nodes are WebAssembly components.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")),
    // Its path contains slashes, which a path of a document cannot: it is routed by hand.
    paths(webhooks::hook),
    components(schemas(Problem)),
    modifiers(&Token),
)]
struct Document;

/// The name of the token in the document.
const TOKEN: &str = "token";

/// Adds the token to the document, for all operations that do not say otherwise.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        if let Some(components) = &mut document.components {
            components.add_security_scheme(TOKEN, SecurityScheme::Http(bearer));
        }
        let no_scopes: [String; 0] = [];
        document.security = Some(vec![SecurityRequirement::new(TOKEN, no_scopes)]);
    }
}

/// All routes but those of hooks and of the document itself, each with its rule.
fn documented() -> Routes {
    use Permission as P;
    let by_link = |rule: Rule| rule.in_pool(Pool::Hooks);
    Routes::new(OpenApiRouter::with_openapi(Document::openapi()))
        .add(P::RunsStart.begins(), routes!(starting::start))
        .add(P::RunsStart.begins(), routes!(starting::begin))
        .add(P::RunsRead, routes!(runs::list))
        .add(P::RunsRead, routes!(runs::show))
        .add(P::RunsRead, routes!(runs::executions))
        .add(P::RunsRead, routes!(runs::result))
        .add(P::RunsRead, routes!(live::events))
        .add(P::RunsControl, routes!(lifecycle::cancel))
        .add(P::RunsControl, routes!(lifecycle::pause))
        .add(P::RunsControl, routes!(lifecycle::unpause))
        .add(P::RunsControl.begins(), routes!(lifecycle::retry))
        .add(P::RunsDelete, routes!(lifecycle::delete))
        .add(P::RunsExport, routes!(transfer::export))
        .add(P::RunsImport, routes!(transfer::import))
        .add(P::TriggersRead, routes!(triggers::list))
        .add(P::TriggersRead, routes!(triggers::show))
        .add(P::TriggersControl.begins(), routes!(triggers::schedule))
        .add(P::TriggersControl.begins(), routes!(triggers::fire))
        .add(P::TriggersControl, routes!(triggers::cancel))
        .add(P::TriggersControl, routes!(triggers::reschedule))
        .add(P::StimuliSend.begins(), routes!(stimuli::send))
        .add(
            P::StimuliSend.begins().foreign(ForeignPages::NeedToken),
            routes!(events::take),
        )
        .add(P::StimuliRead, routes!(stimuli::list))
        .add(P::BookmarksRead, routes!(bookmarks::list))
        .add(P::BookmarksResume.begins(), routes!(bookmarks::resume))
        .add(P::DeadLettersRead, routes!(letters::list))
        .add(P::DeadLettersRead, routes!(letters::show))
        .add(P::DeadLettersControl, routes!(letters::delete))
        .add(P::DeadLettersControl.begins(), routes!(letters::replay))
        .add(P::DeadLettersControl, routes!(letters::purge))
        .add(P::DefinitionsRead, routes!(definitions::list))
        .add(P::DefinitionsRead, routes!(definitions::show))
        .add(P::DefinitionsRead, routes!(definitions::next))
        .add(P::DefinitionsPublish, routes!(publishing::publish))
        .add(P::DefinitionsPublish, routes!(publishing::retract))
        .add(P::DefinitionsPublish, routes!(publishing::revert))
        .add(P::DefinitionsPublish, routes!(drafts::publish))
        .add(P::DraftsRead, routes!(drafts::list))
        .add(P::DraftsRead, routes!(drafts::show))
        .add(P::DraftsWrite, routes!(drafts::save))
        .add(P::DraftsWrite, routes!(drafts::discard))
        .add(P::PluginsRead, routes!(plugins::list))
        .add(P::PluginsRead, routes!(plugins::show))
        .add(P::LocksRead, routes!(locks::list))
        .add(P::HostRead, routes!(admin::show))
        .add(P::HostPause, routes!(admin::pause))
        .add(P::HostPause, routes!(admin::unpause))
        .add(P::HostReload, routes!(upkeep::refresh))
        .add(P::HostReload, routes!(upkeep::reload))
        .add(
            Rule::from(P::HostRead).in_pool(Pool::Health),
            routes!(health::metrics),
        )
        .add(Rule::free(), routes!(health::livez))
        .add(Rule::free(), routes!(health::readyz))
        .add(P::Public, routes!(health::page))
        .add(by_link(P::Public.into()), routes!(resume::ask))
        .add(by_link(P::Public.begins()), routes!(resume::resume))
}

/// The document that describes the HTTP API: OpenAPI 3.1.
pub fn openapi() -> OpenApi {
    let (router, rules) = documented().into_parts();
    let mut document = router.into_openapi();
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in rules::operations(item) {
            // Only the hook, which is routed by hand, has no registered rule.
            let rule = rules.get(path, &method).unwrap_or_else(Rule::hook);
            describe(rule, path, &method, operation);
        }
    }
    document
}

/// Adds the requirements of an operation, and its common responses, to the document.
fn describe(rule: Rule, path: &str, method: &Method, operation: &mut Operation) {
    rules::mark(operation, rule.permission);
    if rule.permission == Permission::Public {
        operation.security = Some(Vec::new());
    } else {
        add(operation, &WITH_TOKEN);
    }
    if !rule.is_free {
        add(operation, &WITH_NAME);
    }
    if rule.changes(method) {
        add(operation, &WITH_CHANGE);
    }
    if operation.request_body.is_some() {
        add(operation, &WITH_BODY);
    }
    if path != "/livez" {
        add(operation, &ANY);
    }
}

/// Common responses of all requests.
const ANY: [(&str, &str); 6] = [
    (
        "400",
        "A parameter, a header or a part of the path cannot be understood.",
    ),
    ("404", "The object does not exist."),
    (
        "422",
        "What the request says is not of the right shape, or cannot be done.",
    ),
    (
        "429",
        "Too many requests wait for runs, or a rate is exceeded: `Retry-After` says when to try \
        again.",
    ),
    (
        "500",
        "A bug in the host, or its store is damaged. It has logged what happened.",
    ),
    (
        "503",
        "The host is paused, shutting down or busy: `Retry-After` says when to try again.",
    ),
];

/// Common responses of requests that need a token.
const WITH_TOKEN: [(&str, &str); 1] = [("401", "The token is missing or wrong.")];

/// Common responses of requests that have to name this host correctly.
const WITH_NAME: [(&str, &str); 1] = [(
    "421",
    "The request has no token, and its `Host` is no name of this host.",
)];

/// Common responses of requests that change something.
const WITH_CHANGE: [(&str, &str); 1] = [(
    "403",
    "The request comes from a page in a browser that is not of this host.",
)];

/// Common responses of requests with a body.
const WITH_BODY: [(&str, &str); 3] = [
    ("408", "The body has not come in time."),
    ("413", "The body is larger than it may be."),
    ("415", "The body is of a media type that is not taken."),
];

fn add(operation: &mut Operation, problems: &[(&str, &str)]) {
    for (status, description) in problems {
        let known = &mut operation.responses.responses;
        known
            .entry((*status).to_owned())
            .or_insert_with(|| RefOr::T(problem(description)));
    }
}

fn problem(description: &str) -> Described {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new()
        .description(description)
        .content(MEDIA, Content::new(Some(schema)))
        .build()
}

/// The router, with the layers that all requests pass.
pub(crate) fn router(app: &App) -> Router {
    let (router, mut rules) = documented().into_parts();
    let (router, _) = router.split_for_parts();
    let methods = [
        (Method::GET, MethodFilter::GET),
        (Method::POST, MethodFilter::POST),
        (Method::PUT, MethodFilter::PUT),
        (Method::PATCH, MethodFilter::PATCH),
        (Method::DELETE, MethodFilter::DELETE),
    ];
    let mut hooks = MethodRouter::new();
    for (method, filter) in methods {
        hooks = hooks.on(filter, webhooks::hook);
        rules.note(HOOK, method, Rule::hook());
    }
    rules.note(DOCUMENT, Method::GET, Permission::HostRead.into());
    let state = (app.clone(), Arc::new(rules));
    let router = router
        .route(HOOK, hooks)
        .route(DOCUMENT, get(document))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(state, gate::gate))
        .with_state(app.clone());
    // Layers of a router run after it has chosen a route: only an outer router can rewrite paths.
    Router::new()
        .fallback_service(router)
        .layer(middleware::from_fn(former_paths::rewrite))
}

/// The pattern of the paths of hooks.
const HOOK: &str = "/hooks/{*path}";

/// The path of the document.
const DOCUMENT: &str = "/api/openapi.json";

async fn document(State(app): State<App>) -> Result<Response, Box<Problem>> {
    let document = app.ask(|_| openapi().to_json().map_err(|error| Problem::bug(&error)));
    let media = [(header::CONTENT_TYPE, "application/json")];
    Ok((media, document.await?).into_response())
}

async fn no_path(uri: axum::http::Uri) -> Box<Problem> {
    let detail = format!("there is nothing at {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, &codes::NO_PATH, detail)
        .help("`/api/openapi.json` lists what there is.")
}

async fn no_method(method: Method, uri: axum::http::Uri) -> Box<Problem> {
    let detail = format!("{} does not know the method {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, &codes::NO_METHOD, detail)
}
