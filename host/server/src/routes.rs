//! The routes with their handlers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use windlass_model::http::METHODS;

use crate::api::{
    about, admin, batches, bookmarks, definitions, drafts, events, health, history, letters,
    lifecycle, listing, live, locks, plugins, publishing, resume, runs, schedules, starting,
    stimuli, transfer, triggers, upkeep, webhooks,
};
use crate::app::App;
use crate::codes;
use crate::console;
use crate::cors;
use crate::document::{Document, openapi};
use crate::gate;
use crate::permissions::Permission;
use crate::pools::Pool;
use crate::problem::Problem;
use crate::rules::{ForeignPages, Routes, Rule, Rules};
use crate::session;

/// All routes but those of hooks and of the document itself, each with its rule.
pub(crate) fn documented() -> Routes {
    use Permission as P;
    let by_link = |rule: Rule| rule.in_pool(Pool::Hooks);
    Routes::new(OpenApiRouter::with_openapi(Document::openapi()))
        .add(P::RunsStart.begins(), routes!(starting::start))
        .add(P::RunsStart.begins(), routes!(starting::begin))
        .add(P::RunsRead, routes!(listing::list))
        .add(P::RunsRead, routes!(runs::show))
        .add(P::RunsRead, routes!(runs::input))
        .add(P::RunsRead, routes!(runs::vars))
        .add(P::RunsRead, routes!(runs::journal))
        .add(P::RunsRead, routes!(history::definition))
        .add(P::RunsRead, routes!(history::executions))
        .add(P::RunsRead, routes!(history::execution))
        .add(P::RunsRead, routes!(runs::result))
        .add(P::RunsRead, routes!(live::events))
        .add(P::RunsControl, routes!(lifecycle::cancel))
        .add(P::RunsControl, routes!(lifecycle::pause))
        .add(P::RunsControl, routes!(lifecycle::unpause))
        .add(P::RunsControl.begins(), routes!(lifecycle::retry))
        .add(P::RunsDelete, routes!(lifecycle::delete))
        .add(P::RunsRead, routes!(batches::preview))
        .add(P::RunsControl.begins(), routes!(batches::retry))
        .add(P::RunsControl, routes!(batches::cancel))
        .add(P::RunsDelete, routes!(batches::delete))
        .add(P::RunsRead, routes!(batches::list))
        .add(P::RunsRead, routes!(batches::show))
        .add(P::RunsControl, routes!(batches::stop))
        .add(P::RunsExport, routes!(transfer::export))
        .add(P::RunsImport, routes!(transfer::import))
        .add(P::TriggersRead, routes!(triggers::list))
        .add(P::TriggersRead, routes!(triggers::show))
        .add(P::TriggersControl.begins(), routes!(triggers::schedule))
        .add(P::TriggersControl.begins(), routes!(triggers::fire))
        .add(P::TriggersControl, routes!(triggers::cancel))
        .add(P::TriggersControl, routes!(triggers::reschedule))
        .add(P::TriggersRead, routes!(schedules::list))
        .add(P::TriggersRead, routes!(schedules::show))
        .add(P::TriggersControl.begins(), routes!(schedules::fire))
        .add(P::TriggersControl, routes!(schedules::pause))
        .add(P::TriggersControl, routes!(schedules::unpause))
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
        .add(P::DefinitionsRead, routes!(definitions::text))
        .add(P::DefinitionsRead, routes!(definitions::next))
        .add(P::DefinitionsRead, routes!(history::stored_definition))
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
        .add(P::PluginsRead, routes!(plugins::compilations))
        .add(P::PluginsRead, routes!(plugins::failures))
        .add(P::LocksRead, routes!(locks::list))
        .add(P::HostRead, routes!(admin::show))
        .add(P::HostRead, routes!(about::show))
        .add(P::HostRead, routes!(about::members))
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

/// The router, with the layers that all requests pass.
pub(crate) fn router(app: &App) -> Router {
    let (router, mut rules) = documented().into_parts();
    let (router, _) = router.split_for_parts();
    // The handler answers other methods, too: the methods of a path are those of its triggers.
    rules.note_open(HOOK, &METHODS, Rule::hook());
    rules.note(DOCUMENT, Method::GET, Permission::HostRead.into());
    let router = console_routes(router, &mut rules);
    let state = (app.clone(), Arc::new(rules));
    let router = router
        .route(HOOK, any(webhooks::hook))
        .route(DOCUMENT, get(document))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(state.clone(), gate::gate));
    // A layer costs each request a few allocations.
    let router = match app.names().lists_pages() {
        true => router.layer(middleware::from_fn_with_state(state, cors::cors)),
        false => router,
    };
    router.with_state(app.clone())
}

/// The console, which is no part of the API.
fn console_routes(mut router: Router<App>, rules: &mut Rules) -> Router<App> {
    let mut add = |path: &str, methods: &[Method], handler: MethodRouter<App>| {
        for method in methods {
            rules.note(path, method.clone(), Permission::Public.into());
        }
        router = std::mem::take(&mut router).route(path, handler);
    };
    let get_alone = &[Method::GET];
    add("/", get_alone, get(console::root));
    add("/ui", get_alone, get(console::root));
    for path in console::PAGES {
        add(path, get_alone, get(console::page));
    }
    add("/ui/{*path}", get_alone, get(console::no_page));
    add("/ui/app/{*name}", get_alone, get(console::file));
    let sessions = get(session::show).post(session::begin).delete(session::end);
    let methods = &[Method::GET, Method::POST, Method::DELETE];
    add("/ui/session", methods, sessions);
    router
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
        .help("`/api/openapi.json` lists all routes.")
}

async fn no_method(method: Method, uri: axum::http::Uri) -> Box<Problem> {
    let detail = format!("{} does not know the method {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, &codes::NO_METHOD, detail)
}
