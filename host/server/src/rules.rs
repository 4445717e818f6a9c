//! The rule of each route: the permission that a request needs, whether it begins work, the pool of
//! its slot, and the treatment of pages of another origin.
//!
//! A route and its rule are registered in one call ([`Routes::add`]), so every route has a rule.
//! The rule is looked up before a request takes a slot or its body is read.

use std::collections::HashMap;

use axum::extract::{MatchedPath, Query, Request};
use axum::http::Method;
use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use windlass_model::nearest::nearest;

use crate::app::App;
use crate::permissions::Permission;
use crate::pools::Pool;
use crate::problem::Problem;

/// The member of the document that names the permission of an operation.
const IN_DOCUMENT: &str = "x-permission";

/// How the gate treats a request from a page of another origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForeignPages {
    /// Refuses the request if it changes something.
    Refused,
    /// As `Refused`, unless the request has the token, which no page knows.
    NeedToken,
    /// Lets the handler decide about a request without the token: a signature proves its sender.
    Handled,
}

/// The rule of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) permission: Permission,
    /// Every caller gets an answer, in every state of the host.
    pub(crate) is_free: bool,
    /// Starts work, which is refused while the host is paused.
    pub(crate) begins: bool,
    /// Changes something even with a method that is safe on other routes.
    always_changes: bool,
    pub(crate) pool: Pool,
    pub(crate) foreign_pages: ForeignPages,
}

impl From<Permission> for Rule {
    fn from(permission: Permission) -> Self {
        Self {
            permission,
            is_free: false,
            begins: false,
            always_changes: false,
            pool: Pool::Requests,
            foreign_pages: ForeignPages::Refused,
        }
    }
}

impl Permission {
    /// The rule of a route that starts work.
    pub(crate) fn begins(self) -> Rule {
        Rule {
            begins: true,
            ..self.into()
        }
    }
}

impl Rule {
    /// The rule of health: it gets an answer in every state of the host.
    pub(crate) fn free() -> Self {
        Self {
            is_free: true,
            ..Permission::Public.into()
        }
    }

    /// The rule of hooks: their triggers verify the callers, and any method may start a run.
    pub(crate) fn hook() -> Self {
        Self {
            always_changes: true,
            ..Permission::Public.begins()
        }
        .in_pool(Pool::Hooks)
        .foreign(ForeignPages::Handled)
    }

    pub(crate) fn in_pool(self, pool: Pool) -> Self {
        Self { pool, ..self }
    }

    pub(crate) fn foreign(self, foreign_pages: ForeignPages) -> Self {
        Self {
            foreign_pages,
            ..self
        }
    }

    /// Whether a request by this method may change something.
    pub(crate) fn changes(&self, method: &Method) -> bool {
        self.always_changes || !method.is_safe()
    }
}

/// The rules of all routes, by the pattern of the path and the method.
#[derive(Default)]
pub(crate) struct Rules {
    rules: HashMap<String, Vec<(Method, Rule)>>,
    /// The rules of routes whose handler answers every further method, too.
    open: HashMap<String, Rule>,
    /// The names of the query parameters of a documented route.
    parameters: HashMap<String, Vec<(Method, Vec<String>)>>,
}

impl Rules {
    /// The rule of a request. An unknown path, and a method that a route does not have, need the
    /// permission to read the host: other callers learn nothing about the routes.
    pub(crate) fn of(&self, request: &Request) -> Rule {
        let (path, method) = route(request);
        self.get(path, method).unwrap_or_else(|| {
            let first = self.rules.get(path).and_then(|methods| methods.first());
            Rule {
                permission: Permission::HostRead,
                ..first.map_or(Permission::HostRead.into(), |(_, rule)| *rule)
            }
        })
    }

    /// The rule of a route.
    pub(crate) fn get(&self, path: &str, method: &Method) -> Option<Rule> {
        let methods = self.rules.get(path)?;
        let known = methods.iter().find(|(known, _)| known == method);
        let known = known.map(|(_, rule)| rule);
        known.or_else(|| self.open.get(path)).copied()
    }

    /// The methods of the path of a request.
    pub(crate) fn methods(&self, request: &Request) -> Vec<Method> {
        let (path, _) = route(request);
        let methods = self.rules.get(path).into_iter().flatten();
        let mut methods: Vec<_> = methods.map(|(method, _)| method.clone()).collect();
        if methods.contains(&Method::GET) {
            methods.push(Method::HEAD);
        }
        methods
    }

    /// Refuses a query with a parameter that the route does not have: a misspelt filter would
    /// select everything. Public links are accepted with further parameters, which
    /// mail programs add.
    pub(crate) fn check_query(&self, rule: Rule, request: &Request) -> Result<(), Box<Problem>> {
        if request.uri().query().is_none() {
            return Ok(());
        }
        let (path, method) = route(request);
        let methods = self.parameters.get(path).into_iter().flatten();
        let mut known = methods.filter(|(known, _)| known == method);
        let Some((_, names)) = known
            .next()
            .filter(|_| rule.permission != Permission::Public)
        else {
            return Ok(());
        };
        // The handler refuses a query that cannot be read.
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
        let Query(pairs) = pairs.unwrap_or_default();
        let is_known = |name: &str| names.iter().any(|it| it == name);
        let Some((name, _)) = pairs.iter().find(|(name, _)| !is_known(name)) else {
            return Ok(());
        };
        let shown: String = name.chars().take(SHOWN).collect();
        let problem = Problem::parameter(format!("there is no query parameter `{shown}` here"));
        let near = nearest(name, names.iter().map(String::as_str));
        Err(problem.help(match (near, names.as_slice()) {
            (Some(near), _) => format!("Did you mean `{near}`?"),
            (None, []) => "This request has no query parameters.".to_owned(),
            (None, names) => format!("The parameters are `{}`.", names.join("`, `")),
        }))
    }

    pub(crate) fn note(&mut self, path: &str, method: Method, rule: Rule) {
        let methods = self.rules.entry(path.to_owned()).or_default();
        methods.push((method, rule));
    }

    /// Adds the rule of a route whose handler answers every method, those of `methods` with success.
    pub(crate) fn note_open(&mut self, path: &str, methods: &[&str], rule: Rule) {
        let methods = methods
            .iter()
            .filter_map(|method| method.parse::<Method>().ok());
        for method in methods {
            self.note(path, method, rule);
        }
        self.open.insert(path.to_owned(), rule);
    }

    fn note_parameters(&mut self, path: &str, method: Method, operation: &Operation) {
        let all = operation.parameters.iter().flatten();
        let names = all.filter_map(|parameter| match parameter {
            RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => {
                Some(parameter.name.clone())
            }
            _ => None,
        });
        let names = names.collect();
        let methods = self.parameters.entry(path.to_owned()).or_default();
        methods.push((method, names));
    }
}

/// How many characters of an unknown name an answer shows.
const SHOWN: usize = 64;

/// The pattern of the path, and the method of the handler.
fn route(request: &Request) -> (&str, &Method) {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str);
    // The router answers HEAD with the handler of GET.
    let method = match *request.method() {
        Method::HEAD => &Method::GET,
        ref method => method,
    };
    (path, method)
}

/// Collects routes, each with its rule.
pub(crate) struct Routes {
    router: OpenApiRouter<App>,
    rules: Rules,
}

impl Routes {
    pub(crate) fn new(router: OpenApiRouter<App>) -> Self {
        Self {
            router,
            rules: Rules::default(),
        }
    }

    /// Adds routes that share a rule.
    pub(crate) fn add(mut self, rule: impl Into<Rule>, routes: UtoipaMethodRouter<App>) -> Self {
        let rule = rule.into();
        let (schemas, mut paths, methods) = routes;
        for (path, item) in &mut paths.paths {
            for (method, operation) in operations(item) {
                self.rules.note(path, method.clone(), rule);
                self.rules.note_parameters(path, method, operation);
            }
        }
        self.router = self.router.routes((schemas, paths, methods));
        self
    }

    pub(crate) fn into_parts(self) -> (OpenApiRouter<App>, Rules) {
        (self.router, self.rules)
    }
}

/// Adds the permission that an operation needs to the document.
pub(crate) fn mark(operation: &mut Operation, permission: Permission) {
    let extensions = operation.extensions.get_or_insert_with(Extensions::default);
    extensions.insert(IN_DOCUMENT.to_owned(), Value::from(permission.name()));
}

/// The operations of a path.
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
