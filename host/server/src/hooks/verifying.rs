//! Verification of a request by each trigger that it may start.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use windlass_model::Digest;
use windlass_model::http::Verify;

use super::Direct;
use crate::app::AppInner;
use crate::codes;
use crate::header;
use crate::problem::Problem;
use crate::verify::{headers_of, problem_of_secret, verify};

/// The indices of the triggers that accept a request, each with the delivery that identifies
/// duplicates. Each trigger verifies for itself: a request that one of them refuses still starts
/// the others of the same path, and a plain trigger or a wait of that path (`is_heard`) still gets
/// it.
///
/// # Errors
///
/// A header that one of them reads has different values. Or no trigger accepts the request and no
/// plain trigger or wait gets it: it is not from the sender, or a secret cannot be used. The error
/// does not tell which check failed.
pub(crate) fn accepted(
    app: &AppInner,
    direct: &[Direct],
    is_heard: bool,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Vec<(usize, Option<Digest>)>, Box<Problem>> {
    let schemes = direct.iter().filter_map(|of| of.rules.verify.as_ref());
    for name in schemes.flat_map(headers_of) {
        header::one(headers, name)?;
    }
    let (mut accepted, mut broken) = (Vec::new(), false);
    for (at, trigger) in direct.iter().enumerate() {
        let Some(by) = &trigger.rules.verify else {
            accepted.push((at, None));
            continue;
        };
        let (secrets, is_whole) = secrets(app, trigger, by)?;
        match verify(by, &secrets, headers, body, app.now_ms()) {
            Some(found) => accepted.push((at, found.delivery)),
            None => broken |= !is_whole,
        }
    }
    if is_heard || !accepted.is_empty() {
        return Ok(accepted);
    }
    if broken {
        let detail = "a secret that requests to this hook are verified by cannot be used";
        let reply = StatusCode::SERVICE_UNAVAILABLE;
        return Err(Problem::new(reply, &codes::NO_SECRET, detail)
            .help("The log of the host names the secret."));
    }
    let detail = "the request does not prove that it comes from the sender of this hook";
    Err(Problem::new(
        StatusCode::UNAUTHORIZED,
        &codes::NOT_VERIFIED,
        detail,
    ))
}

/// The values of the usable secrets, and whether these are all that the trigger names.
fn secrets(
    app: &AppInner,
    trigger: &Direct,
    by: &Verify,
) -> Result<(Vec<Arc<str>>, bool), Box<Problem>> {
    let plugins = app.resources().plugins()?;
    let all = plugins.secrets();
    let mut values = Vec::with_capacity(by.secrets().len());
    let mut trouble = Vec::new();
    for name in by.secrets() {
        let value = all.for_workflow(name, &trigger.workflow);
        let wrong = match &value {
            None => Some("the secret is not defined in [secrets], or not for this workflow"),
            Some(value) => problem_of_secret(by, value),
        };
        match (wrong, value) {
            (None, Some(value)) => values.push(value),
            (wrong, _) => trouble.push((name, wrong.unwrap_or_default())),
        }
    }
    if !trouble.is_empty() && app.hooks.may_log(app.options.clock.monotonic()) {
        for (name, wrong) in &trouble {
            let (workflow, trigger) = (&trigger.workflow, &trigger.key);
            tracing::warn!(
                code = %codes::NO_SECRET, %workflow, %trigger, secret = %name,
                "a secret verifies no request: {wrong}"
            );
        }
    }
    Ok((values, trouble.is_empty()))
}
