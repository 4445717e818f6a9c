//! The document that describes the HTTP API: OpenAPI 3.1, generated from the handlers.
//!
//! Generators of clients read it, so operation ids are unique, each response has a description, and
//! each named shape stands in the document once; `tests/openapi.rs` checks that.

use std::collections::BTreeMap;

use axum::http::Method;
use utoipa::Modify;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::response::{Response as Described, ResponseBuilder};
use utoipa::openapi::schema::{ArrayItems, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Schema};

use crate::api::webhooks;
use crate::permissions::Permission;
use crate::problem::{MEDIA, Problem};
use crate::routes::documented;
use crate::rules::{self, Rule};

/// The parts of the document that are not generated from the handlers.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Windlass", description = "Workflows whose nodes are WebAssembly components.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")),
    // Its path contains slashes, which a path of a document cannot: it is routed by hand.
    paths(webhooks::hook),
    components(schemas(Problem)),
    modifiers(&Token),
    tags(
        (name = "runs", description = "Runs: start, list, wait, control, follow, move."),
        (name = "batches", description = "One operation on many runs."),
        (name = "triggers", description = "Pending work of runs, and the schedules of workflows."),
        (name = "stimuli", description = "Events that start workflows and resume runs."),
        (name = "bookmarks", description = "Waits of runs, and resuming them."),
        (name = "dead letters", description = "Stimuli and triggers that could not be delivered."),
        (name = "definitions", description = "Published workflows."),
        (name = "drafts", description = "Workflows that are not published yet."),
        (name = "plugins", description = "Loaded plugins."),
        (name = "locks", description = "Locks that are held."),
        (name = "admin", description = "The host: pause it, and make it read definitions again."),
        (name = "hooks", description = "Webhooks that workflows define."),
        (name = "events", description = "CloudEvents."),
        (name = "resume", description = "Resume links for people."),
        (name = "health", description = "Health, metrics and the pages of codes."),
    ),
)]
pub(crate) struct Document;

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

/// The beginning of the names of pages.
const PAGES: &str = "Page_";

/// The beginning of the paths of hooks.
const HOOKS: &str = "/hooks/";

/// The document that describes the HTTP API: OpenAPI 3.1.
pub fn openapi() -> OpenApi {
    let (router, rules) = documented().into_parts();
    let mut document = router.into_openapi();
    if let Some(components) = &mut document.components {
        name_items(&mut components.schemas);
    }
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in rules::operations(item) {
            // Only the hook, which is routed by hand, has no registered rule.
            let rule = rules.get(path, &method).unwrap_or_else(Rule::hook);
            if path.starts_with(HOOKS) {
                // One handler answers all methods.
                operation.operation_id = Some(format!("{}Hook", method.as_str().to_lowercase()));
            }
            optional(operation);
            stream(operation);
            describe(rule, path, &method, operation);
        }
    }
    document
}

/// Refers to the items of pages by name: generic types carry the whole schema of their items, of
/// which a generator would make a second type.
fn name_items(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    for (name, page) in schemas {
        if let Some(item) = name.strip_prefix(PAGES)
            && let RefOr::T(Schema::Object(page)) = page
            && let Some(RefOr::T(Schema::Array(items))) = page.properties.get_mut("items")
        {
            let item = Ref::from_schema_name(item);
            items.items = ArrayItems::RefOrSchema(Box::new(RefOr::Ref(item)));
        }
    }
}

/// A stream of events has no schema: a generator takes one for the schema of the whole body, and a
/// checker of answers for that of a single event.
fn stream(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response
            && let Some(RefOr::T(content)) = response.content.get_mut("text/event-stream")
        {
            content.schema = None;
        }
    }
}

/// A header that may be left out is a text where it is sent, and never `null`.
fn optional(operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(Parameter {
            schema: Some(RefOr::T(Schema::Object(schema))),
            ..
        }) = parameter
            && let SchemaType::Array(types) = &schema.schema_type
            && let Some(kind) = types.iter().find(|kind| **kind != Type::Null)
        {
            schema.schema_type = kind.clone().into();
        }
    }
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
        "The request has the wrong shape, or cannot be carried out.",
    ),
    (
        "429",
        "Too many requests wait for runs, or a rate is exceeded: `Retry-After` says when to try \
        again.",
    ),
    (
        "500",
        "A bug in the host, or its store is damaged. The log has the cause.",
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
