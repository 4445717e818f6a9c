//! The gate that every request passes before its handler: permission, rates, a slot, room for its
//! answer, a time limit.

use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use std::sync::Arc;
use windlass_runtime::Error;

use crate::answers;
use crate::app::App;
use crate::codes;
use crate::connections::{Asks, Busy, Connection};
use crate::header;
use crate::permissions::Caller;
use crate::pools::{Pool, Slot};
use crate::problem::Problem;
use crate::rooms::Charge;
use crate::rules::{ForeignPages, Rule, Rules};
use crate::session;

/// The slot of a request in progress, and the room for its body and its answer. A request that waits
/// for long returns slot and room before. The slot ends with the request. Work that the request leaves
/// in the store, because its client is gone or its time is over, is bounded by the turns that it holds
/// there. Clones are the same room.
#[derive(Clone)]
pub(crate) struct Room(Arc<Held>);

struct Held {
    pool: Pool,
    slot: Mutex<Option<Slot>>,
    answer: Mutex<Option<Charge>>,
    body: Mutex<Option<Charge>>,
    connection: Option<Connection>,
}

/// A waiting request, in the pool of waiting requests. Its connection does not count as idle.
pub(crate) struct Waiting {
    _slot: Slot,
    _busy: Option<Busy>,
}

impl Room {
    /// Moves the request to a pool of waiting requests.
    pub(crate) fn wait(&self, app: &App, pool: Pool) -> Result<Waiting, Box<Problem>> {
        let slot = app.pools.try_enter(pool)?;
        self.0.slot.lock().take();
        self.0.answer.lock().take();
        let connection = self.0.connection.as_ref();
        Ok(Waiting {
            _slot: slot,
            _busy: connection.map(|connection| connection.busy(Asks::Work)),
        })
    }

    /// Takes room for the body, which grows to so many bytes. It is held until the request ends, or
    /// until [`Self::body_is_gone`].
    pub(crate) async fn for_body(&self, app: &App, bytes: usize) -> Result<(), Box<Problem>> {
        let mut held = self.0.body.lock().take();
        let grown = app.bodies.grow(&mut held, bytes).await;
        *self.0.body.lock() = held;
        grown
    }

    /// Returns the room for the body: the request has handed its data on.
    pub(crate) fn body_is_gone(&self) {
        self.0.body.lock().take();
    }

    /// Takes room for the answer, in bytes, before the handler reads data for it. A request that
    /// has room already keeps it.
    pub(crate) async fn for_answer(&self, app: &App, bytes: usize) -> Result<(), Box<Problem>> {
        if self.0.answer.lock().is_some() {
            return Ok(());
        }
        self.for_more(app, bytes).await
    }

    /// Returns the room for the answer.
    pub(crate) fn no_answer(&self) {
        self.0.answer.lock().take();
    }

    /// Takes this room for the answer, in bytes, in place of what it has. A request that waits for
    /// more holds none, and no slot: requests without large answers go on.
    pub(crate) async fn for_more(&self, app: &App, bytes: usize) -> Result<(), Box<Problem>> {
        self.0.answer.lock().take();
        let charge = match app.answers.try_make(bytes) {
            Some(charge) => charge,
            None => {
                let had_slot = self.0.slot.lock().take().is_some();
                let charge = app.answers.make(bytes).await?;
                if had_slot {
                    let slot = app.pools.enter(self.0.pool).await?;
                    *self.0.slot.lock() = Some(slot);
                }
                charge
            }
        };
        *self.0.answer.lock() = Some(charge);
        Ok(())
    }
}

tokio::task_local! {
    /// The room of the request that this task handles.
    static CURRENT: Room;
}

/// The room of the request that this task handles; none for a call without the gate.
pub(crate) fn current() -> Option<Room> {
    CURRENT.try_with(Clone::clone).ok()
}

/// A browser sends the request on behalf of a page of another origin. Only a call of a hook passes
/// the gate with this mark: its handler decides, since a signature proves the sender.
#[derive(Clone, Copy)]
pub(crate) struct ForeignPage;

/// Passes a request to its handler, or answers it.
pub(crate) async fn gate(
    State((app, rules)): State<(App, Arc<Rules>)>,
    request: Request,
    next: Next,
) -> Response {
    let rule = rules.of(&request);
    let metrics = Arc::clone(&app.options.metrics);
    let response = pass(app, &rules, rule, request, next).await;
    if rule.pool == Pool::Hooks {
        metrics.http.hooks.add(response.status().as_u16());
    }
    response
}

async fn pass(app: App, rules: &Rules, rule: Rule, mut request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<ConnectInfo<Connection>>();
    let connection = connection.map(|ConnectInfo(connection)| connection.clone());
    let asks = if rule.pool == Pool::Health || rule.is_free {
        Asks::Health
    } else {
        Asks::Work
    };
    let _busy = connection.as_ref().map(|connection| connection.busy(asks));
    if rule.is_free {
        return next.run(request).await;
    }
    let caller = match caller(&app, rule, request.headers()).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    match allowed(&app, caller, rule, connection.as_ref(), &request) {
        Ok((caller, page)) => {
            request.extensions_mut().insert(caller);
            if let Some(page) = page {
                request.extensions_mut().insert(page);
            }
        }
        Err(problem) => return problem.into_response(),
    }
    if let Err(problem) = rules.check_query(rule, &request) {
        return problem.into_response();
    }
    if let Err(problem) = admitted(&app, rule.pool, connection.as_ref(), request.headers()) {
        return problem.into_response();
    }
    if let Some(problem) = closed(&app, rule, request.method()) {
        return problem.into_response();
    }
    // A hook may wait because its trigger asks for it.
    let waits = rule.pool == Pool::Hooks
        || request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|pair| pair.starts_with("wait=")));
    let reads = rule.pool == Pool::Requests && !rule.changes(request.method());
    // A request takes the room before its slot: while readers wait for room, they hold no slots.
    let answer = match reads && !waits {
        true => app.answers.make(answers::READ).await.map(Some),
        false => Ok(None),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(problem) => return problem.into_response(),
    };
    let slot = match app.pools.enter(rule.pool).await {
        Ok(slot) => slot,
        Err(problem) => return problem.into_response(),
    };
    let bounds = app.bounds();
    let most_ms = bounds.timeout_ms + if waits { bounds.wait_ms } else { 0 };
    // Twice the time: a slow body has a limit and an answer of its own.
    let most = Duration::from_millis(most_ms.saturating_mul(2));
    // A handler that does not ask for the slot drops its clone before it begins.
    let room = Room(Arc::new(Held {
        pool: rule.pool,
        slot: Mutex::new(Some(slot)),
        answer: Mutex::new(answer),
        body: Mutex::default(),
        connection,
    }));
    request.extensions_mut().insert(room.clone());
    let handled = CURRENT.scope(room.clone(), next.run(request));
    let answered = tokio::time::timeout(most, handled).await;
    let answered = match answered {
        Ok(response) => {
            let making = room.0.answer.lock().take();
            Ok(app.answers.charge(rule.pool, response, making).await)
        }
        Err(late) => Err(late),
    };
    // Ends the slot, and the room for making the answer.
    room.no_answer();
    room.body_is_gone();
    drop(room);
    match answered {
        Ok(response) => response,
        Err(_) => {
            let detail = "the request took longer than it may; its effects in the host go on";
            let reply = StatusCode::SERVICE_UNAVAILABLE;
            Problem::new(reply, &codes::TOO_LONG, detail).into_response()
        }
    }
}

/// The caller of a request: by its token, or else by the cookie of its browser.
async fn caller(app: &App, rule: Rule, headers: &HeaderMap) -> Result<Caller, Box<Problem>> {
    let caller = app.caller(bearer(headers)?);
    // The console calls no hook.
    let may_have_cookie = caller == Caller::Stranger && rule.pool != Pool::Hooks;
    if may_have_cookie && session::of(app, headers).await.is_some() {
        return Ok(Caller::Session);
    }
    Ok(caller)
}

/// Whether the caller has the permission, names this host correctly, and the request is not sent by
/// a page of another origin in the browser of a permitted caller.
fn allowed(
    app: &App,
    caller: Caller,
    rule: Rule,
    connection: Option<&Connection>,
    request: &Request,
) -> Result<(Caller, Option<ForeignPage>), Box<Problem>> {
    let (headers, uri) = (request.headers(), request.uri());
    if !caller.may(rule.permission) {
        let detail = "the request does not have the token of this host";
        return Err(
            Problem::new(StatusCode::UNAUTHORIZED, &codes::UNAUTHORISED, detail)
                .help("Send it as `Authorization: Bearer TOKEN`."),
        );
    }
    let has_token = caller == Caller::Token;
    let local = connection.map(Connection::local);
    if !has_token && !app.names().are_used(headers, uri, local) {
        let detail = "the header `Host` has a name that this host does not have";
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            &codes::NOT_OUR_NAME,
            detail,
        )
        .help("Use `localhost` or the address, send the token, or list the name in `hosts` of [server]."));
    }
    // A page cannot know the token.
    let excepted = has_token && rule.foreign_pages != ForeignPages::Refused;
    if !rule.changes(request.method()) || excepted || !app.names().is_foreign(headers) {
        return Ok((caller, None));
    }
    match rule.foreign_pages {
        ForeignPages::Handled => Ok((caller, Some(ForeignPage))),
        ForeignPages::Refused | ForeignPages::NeedToken => Err(foreign_page()),
    }
}

/// The answer to a page of another origin.
pub(crate) fn foreign_page() -> Box<Problem> {
    let detail = "a web page of another origin sent the request";
    Problem::new(StatusCode::FORBIDDEN, &codes::FOREIGN_PAGE, detail).help(
        "List the origin of the page in `origins` of [server], or set `public-url` if the page \
        is this host's behind a proxy.",
    )
}

/// Whether the connection and the client of a request may send it now.
fn admitted(
    app: &App,
    pool: Pool,
    connection: Option<&Connection>,
    headers: &HeaderMap,
) -> Result<(), Box<Problem>> {
    let Some(connection) = connection else {
        return Ok(());
    };
    if pool != Pool::Health && connection.is_reserved() {
        return Err(Problem::busy(
            "all connections for requests are in use (`[server] connections`): send the request again later",
        ));
    }
    if pool == Pool::Hooks {
        app.admit_client(connection.peer(), headers)?;
    }
    Ok(())
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Box<Problem>> {
    let value = header::one(headers, AUTHORIZATION.as_str())?;
    let credentials = value.and_then(|value| value.to_str().ok()?.split_once(' '));
    let bearer = credentials.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    Ok(bearer.map(|(_, token)| token.trim()))
}

/// The reason why requests are refused for now.
fn closed(app: &App, rule: Rule, method: &Method) -> Option<Box<Problem>> {
    if !rule.changes(method) {
        return None;
    }
    if app.is_draining() {
        return Some(Error::Draining.into());
    }
    let paused = app.runtime().and_then(|runtime| runtime.paused());
    (paused.is_some() && rule.begins).then(|| Error::Paused.into())
}
