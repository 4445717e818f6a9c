//! Which handler answers what, and the document that says so.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::{Response as Described, ResponseBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr};
use utoipa::{Modify, OpenApi as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{
    admin, bookmarks, definitions, drafts, events, health, instances, letters, lifecycle, live,
    locks, plugins, publishing, resume, starting, stimuli, transfer, triggers, upkeep, webhooks,
};
use crate::app::App;
use crate::codes;
use crate::gate;
use crate::problem::{MEDIA, Problem};

/// What the document says besides the handlers.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Windlass", description = "Workflows whose nodes are WebAssembly components.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")),
    // Its path has slashes, which a path of a document cannot have: it is routed by hand.
    paths(webhooks::hook),
    components(schemas(Problem)),
    modifiers(&Token),
)]
struct Document;

/// The token that requests bring, by its name in the document.
const TOKEN: &str = "token";

/// Says what requests bring, unless an operation says otherwise.
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

fn documented() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(starting::start, instances::list))
        .routes(routes!(instances::show, lifecycle::delete))
        .routes(routes!(instances::runs))
        .routes(routes!(instances::result))
        .routes(routes!(live::events))
        .routes(routes!(starting::run))
        .routes(routes!(lifecycle::cancel))
        .routes(routes!(lifecycle::pause))
        .routes(routes!(lifecycle::unpause))
        .routes(routes!(lifecycle::retry))
        .routes(routes!(transfer::export))
        .routes(routes!(transfer::import))
        .routes(routes!(triggers::schedule, triggers::list))
        .routes(routes!(triggers::show))
        .routes(routes!(triggers::fire))
        .routes(routes!(triggers::cancel))
        .routes(routes!(triggers::reschedule))
        .routes(routes!(stimuli::send, stimuli::list))
        .routes(routes!(bookmarks::list))
        .routes(routes!(bookmarks::resume))
        .routes(routes!(letters::list))
        .routes(routes!(letters::show, letters::delete))
        .routes(routes!(letters::replay))
        .routes(routes!(letters::purge))
        .routes(routes!(definitions::list))
        .routes(routes!(
            definitions::show,
            publishing::publish,
            publishing::retract
        ))
        .routes(routes!(definitions::next))
        .routes(routes!(publishing::revert))
        .routes(routes!(drafts::list))
        .routes(routes!(drafts::show, drafts::save, drafts::discard))
        .routes(routes!(drafts::publish))
        .routes(routes!(plugins::list))
        .routes(routes!(plugins::show))
        .routes(routes!(locks::list))
        .routes(routes!(admin::show, admin::pause))
        .routes(routes!(admin::unpause))
        .routes(routes!(upkeep::refresh))
        .routes(routes!(upkeep::reload))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(health::page))
        .routes(routes!(resume::ask, resume::resume))
        .routes(routes!(events::take))
}

/// The document that describes the HTTP API: OpenAPI 3.1.
pub fn openapi() -> OpenApi {
    let mut document = documented().into_openapi();
    for (path, item) in &mut document.paths.paths {
        let operations = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ];
        for operation in operations.into_iter().flatten() {
            if gate::is_open(path) {
                operation.security = Some(Vec::new());
            } else {
                add(operation, &WITH_TOKEN);
            }
            if operation.request_body.is_some() {
                add(operation, &WITH_BODY);
            }
            if path != "/livez" {
                add(operation, &ANY);
            }
        }
    }
    document
}

/// What any request may be answered with.
const ANY: [(&str, &str); 6] = [
    (
        "400",
        "A parameter, a header or a part of the path cannot be understood.",
    ),
    ("404", "It is not there."),
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

/// What a request that needs a token may be answered with.
const WITH_TOKEN: [(&str, &str); 1] = [("401", "The token is missing or wrong.")];

/// What a request with a body may be answered with.
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

/// The handlers, with what all requests pass.
pub(crate) fn router(app: &App) -> Router {
    let (router, _) = documented().split_for_parts();
    let hooks = MethodFilter::GET
        .or(MethodFilter::POST)
        .or(MethodFilter::PUT)
        .or(MethodFilter::PATCH)
        .or(MethodFilter::DELETE);
    router
        .route("/hooks/{*path}", on(hooks, webhooks::hook))
        .route("/api/openapi.json", get(document))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(app.clone(), gate::gate))
        .with_state(app.clone())
}

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

async fn no_method(method: axum::http::Method, uri: axum::http::Uri) -> Box<Problem> {
    let detail = format!("{} does not know the method {method}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, &codes::NO_METHOD, detail)
}
