//! Sessions of the console: a browser sends the token once, and from then on a cookie.
//!
//! No page can read the cookie (`HttpOnly`), and no page of another site makes a browser send it
//! (`SameSite=Strict`). A request with the cookie is still checked like one without a token: it has
//! to use a name of this host, and not come from a foreign page. Any host with the same keyring and
//! token accepts the cookie, until its end or until the token changes. A logout ends it in this
//! process at once.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::codes;
use crate::extract::Document;
use crate::host::Authority;
use crate::json::Json;
use crate::permissions::Caller;
use crate::problem::Problem;

mod text;

use text::Session;

/// How long a session is good, in milliseconds: 12 hours.
const LIFE_MS: i64 = 12 * 60 * 60 * 1000;

/// The beginning of the name of the cookie; the port of the host follows, since a browser sends the
/// cookies of a name to all of its ports.
const COOKIE: &str = "windlass-session-";

/// The sessions ended by logout that this process remembers. Beyond it, those that end first by
/// themselves are forgotten.
const ENDED: usize = 10_000;

/// The sessions that a logout has ended, with their ends.
#[derive(Debug, Default)]
pub(crate) struct Ended(Mutex<HashMap<[u8; 16], i64>>);

impl Ended {
    fn add(&self, session: &Session, now_ms: i64) {
        let mut ended = self.0.lock();
        ended.retain(|_, until_ms| *until_ms > now_ms);
        if ended.len() >= ENDED {
            let first = ended.iter().min_by_key(|(_, until_ms)| **until_ms);
            if let Some(id) = first.map(|(id, _)| *id) {
                ended.remove(&id);
            }
        }
        ended.insert(session.id, session.until_ms);
    }

    fn has(&self, session: &Session) -> bool {
        self.0.lock().contains_key(&session.id)
    }
}

/// The session by which a request is sent; none without a cookie that is good now.
pub(crate) async fn of(app: &App, headers: &HeaderMap) -> Option<Session> {
    app.token()?;
    let text = cookie(headers)?.to_owned();
    let read = app.ask(move |app| {
        let links = app.resources().links()?;
        let Some(token) = app.token() else {
            return Ok(None);
        };
        let read = Session::read(links.keys(), &text, token);
        Ok(read.map_err(windlass_runtime::Error::Keys)?)
    });
    // Without a keyring no session is good, and the request is one without the token.
    let session = read.await.ok().flatten()?;
    let is_good = session.until_ms > app.now_ms() && !app.ended_sessions().has(&session);
    is_good.then_some(session)
}

/// The value of the cookie of this host.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let name = cookie_name(headers);
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    let mut values = pairs.filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    });
    let first = values.next();
    // Of two cookies one is not from this host.
    first.filter(|_| values.next().is_none())
}

/// The name of the cookie for the port that a browser has in its address.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let port = host.and_then(Authority::read).and_then(|host| host.port);
    match port {
        Some(port) => format!("{COOKIE}{port}"),
        None => format!("{COOKIE}0"),
    }
}

/// Whether a browser needs a session here, and has one.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    /// Requests need the token or a session.
    needed: bool,
    /// The request was sent by a session.
    open: bool,
}

/// Report whether a browser needs a session.
pub(crate) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Json<Shown> {
    Json(Shown {
        needed: app.token().is_some(),
        open: caller == Caller::Session,
    })
}

/// The token of the host, for a session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    token: String,
}

/// Begin a session.
pub(crate) async fn begin(
    State(app): State<App>,
    headers: HeaderMap,
    Document(login): Document<Login>,
) -> Result<Response, Box<Problem>> {
    match app.caller(Some(login.token.trim())) {
        Caller::Token => {}
        Caller::Local => return Err(no_token()),
        Caller::Stranger | Caller::Session => {
            let detail = "this is not the token of this host";
            return Err(
                Problem::new(StatusCode::UNAUTHORIZED, &codes::UNAUTHORISED, detail)
                    .help("`[server] token` or `WINDLASS_SERVER__TOKEN` has it."),
            );
        }
    }
    let session = Session::until(app.now_ms().saturating_add(LIFE_MS));
    let text = app
        .ask(move |app| {
            let links = app.resources().links()?;
            let token = app.token().ok_or_else(no_token)?;
            let text = session.text(links.keys(), token);
            Ok(text.map_err(windlass_runtime::Error::Keys)?)
        })
        .await?;
    Ok(setting(&headers, &text, LIFE_MS / 1000))
}

fn no_token() -> Box<Problem> {
    let detail = "this host has no token, so there is no session to begin";
    Problem::parameter(detail).help("Open the console without one.")
}

/// End the session of the request.
pub(crate) async fn end(State(app): State<App>, headers: HeaderMap) -> Response {
    if let Some(session) = of(&app, &headers).await {
        app.ended_sessions().add(&session, app.now_ms());
    }
    setting(&headers, "", 0)
}

/// An answer that sets the cookie for so many seconds.
fn setting(headers: &HeaderMap, value: &str, seconds: i64) -> Response {
    let name = cookie_name(headers);
    // A page that came over TLS says so by its origin; the host itself speaks plain HTTP.
    let origin = headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
    let secure = match origin.is_some_and(|origin| origin.starts_with(b"https://")) {
        true => "; Secure",
        false => "",
    };
    let cookie =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}
