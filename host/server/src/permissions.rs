//! What a request needs to be allowed to do: a permission by name for each route.
//!
//! A route and its permission are registered in one call ([`Routes::add`]), so a route without
//! one does not exist. The table is looked up before a request takes a slot or its body is read.

use std::collections::HashMap;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use serde_json::Value;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::app::App;

/// By what name the document says which permission an operation needs.
pub(crate) const IN_DOCUMENT: &str = "x-permission";

/// What a caller may do. The token of the host holds all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permission {
    /// Nothing is needed: the address itself was given to the caller.
    Public,
    /// Look at runs, their executions and results, and follow them.
    RunsRead,
    /// Create runs and let them begin.
    RunsStart,
    /// Cancel, pause, unpause and retry runs.
    RunsControl,
    /// Delete runs that have ended.
    RunsDelete,
    /// Take a run away with its whole history.
    RunsExport,
    /// Bring a run with its whole history.
    RunsImport,
    /// Bring a run that no known key has signed, together with `RunsImport`.
    ImportsUnsigned,
    /// Look at triggers.
    TriggersRead,
    /// Schedule, fire, cancel and move triggers.
    TriggersControl,
    /// Send stimuli and CloudEvents.
    StimuliSend,
    /// Look at stimuli that wait.
    StimuliRead,
    /// Look at bookmarks.
    BookmarksRead,
    /// Resume runs by their bookmarks.
    BookmarksResume,
    /// Look at dead letters.
    DeadLettersRead,
    /// Replay and delete dead letters.
    DeadLettersControl,
    /// Look at definitions.
    DefinitionsRead,
    /// Publish, revert and retract definitions.
    DefinitionsPublish,
    /// Look at drafts.
    DraftsRead,
    /// Save and discard drafts.
    DraftsWrite,
    /// Look at plugins.
    PluginsRead,
    /// Look at locks.
    LocksRead,
    /// Look at the state of the host, its metrics and the description of its API.
    HostRead,
    /// Pause and unpause the host.
    HostPause,
    /// Let the host look at definitions and their files again.
    HostReload,
}

impl Permission {
    /// Its name, as configuration and the document have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::RunsRead => "runs.read",
            Self::RunsStart => "runs.start",
            Self::RunsControl => "runs.control",
            Self::RunsDelete => "runs.delete",
            Self::RunsExport => "runs.export",
            Self::RunsImport => "runs.import",
            Self::ImportsUnsigned => "imports.unsigned",
            Self::TriggersRead => "triggers.read",
            Self::TriggersControl => "triggers.control",
            Self::StimuliSend => "stimuli.send",
            Self::StimuliRead => "stimuli.read",
            Self::BookmarksRead => "bookmarks.read",
            Self::BookmarksResume => "bookmarks.resume",
            Self::DeadLettersRead => "dead-letters.read",
            Self::DeadLettersControl => "dead-letters.control",
            Self::DefinitionsRead => "definitions.read",
            Self::DefinitionsPublish => "definitions.publish",
            Self::DraftsRead => "drafts.read",
            Self::DraftsWrite => "drafts.write",
            Self::PluginsRead => "plugins.read",
            Self::LocksRead => "locks.read",
            Self::HostRead => "host.read",
            Self::HostPause => "host.pause",
            Self::HostReload => "host.reload",
        }
    }
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A request with the token of the host.
    Token,
    /// A request without a token, to a host that wants none.
    Local,
    /// A request without the token that the host wants.
    Stranger,
}

impl Caller {
    /// Whether the caller has this permission.
    pub(crate) fn may(self, permission: Permission) -> bool {
        match self {
            Self::Token | Self::Local => true,
            Self::Stranger => permission == Permission::Public,
        }
    }
}

/// The permission of each route, by the pattern of its path and the method.
#[derive(Default)]
pub(crate) struct Needed(HashMap<String, Vec<(Method, Permission)>>);

impl Needed {
    /// The permission that a request needs. A path that is no route, and a method that a route
    /// does not know, are answered to callers who may look at the host: others learn nothing of
    /// what there is.
    pub(crate) fn of(&self, request: &Request) -> Permission {
        let path = request.extensions().get::<MatchedPath>();
        let methods = path.and_then(|path| self.0.get(path.as_str()));
        // The router answers HEAD by the handler of GET.
        let method = match *request.method() {
            Method::HEAD => &Method::GET,
            ref method => method,
        };
        let known = methods.into_iter().flatten();
        let mut known = known.filter(|(known, _)| known == method);
        known
            .next()
            .map_or(Permission::HostRead, |(_, permission)| *permission)
    }

    pub(crate) fn note(&mut self, path: &str, method: Method, permission: Permission) {
        let methods = self.0.entry(path.to_owned()).or_default();
        methods.push((method, permission));
    }
}

/// Routes that are put together, each with its permission.
pub(crate) struct Routes {
    router: OpenApiRouter<App>,
    needed: Needed,
}

impl Routes {
    pub(crate) fn new(router: OpenApiRouter<App>) -> Self {
        Self {
            router,
            needed: Needed::default(),
        }
    }

    /// Adds routes, all of which need one permission.
    pub(crate) fn add(mut self, permission: Permission, routes: UtoipaMethodRouter<App>) -> Self {
        let (schemas, mut paths, methods) = routes;
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations(item) {
                self.needed.note(path, method, permission);
                mark(operation, permission);
            }
        }
        self.router = self.router.routes((schemas, paths, methods));
        self
    }

    pub(crate) fn into_parts(self) -> (OpenApiRouter<App>, Needed) {
        (self.router, self.needed)
    }
}

/// Says in the document which permission an operation needs.
pub(crate) fn mark(operation: &mut Operation, permission: Permission) {
    let extensions = operation.extensions.get_or_insert_with(Extensions::default);
    extensions.insert(IN_DOCUMENT.to_owned(), Value::from(permission.name()));
}

/// The operations of a path that the host has methods for.
pub(crate) fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}
