//! Members of an answer, and conversion of problems into our errors.

use std::sync::Arc;

use reqwest::{StatusCode, Url};
use serde_json::{Map, Value};
use windlass_display::Problems;
use windlass_model::Code;
use windlass_model::diagnostic::{Diagnostic, Place};
use windlass_runtime::codes::INPUT_INVALID;
use windlass_server::Cause;

use super::Answer;
use crate::codes;
use crate::error::{Expected, bug, classify, of_input, sentence};
use crate::exit::Exit;

/// The members of an item that the command shows, under the names of the API.
pub(crate) fn picked(mut item: Value, keys: &[&str]) -> Value {
    let mut picked = Map::new();
    for key in keys {
        picked.insert((*key).to_owned(), taken(&mut item, key));
    }
    Value::Object(picked)
}

/// Takes a member out of an answer.
pub(crate) fn taken(item: &mut Value, key: &str) -> Value {
    item.get_mut(key).map(Value::take).unwrap_or_default()
}

/// A required text of an answer.
pub(crate) fn text<'v>(answer: &'v Value, key: &str) -> anyhow::Result<&'v str> {
    let text = answer.get(key).and_then(Value::as_str);
    Ok(text.ok_or_else(|| unusable(&format!("it says no `{key}`")))?)
}

/// A moment of an answer, in epoch milliseconds; 0 without one.
pub(crate) fn at_ms(item: &Value, key: &str) -> i64 {
    let at = item.get(key).and_then(Value::as_str);
    let at: Option<jiff::Timestamp> = at.and_then(|at| at.parse().ok());
    at.map_or(0, jiff::Timestamp::as_millisecond)
}

/// A required number of an answer.
pub(crate) fn number(answer: &Value, key: &str) -> anyhow::Result<u64> {
    let number = answer.get(key).and_then(Value::as_u64);
    Ok(number.ok_or_else(|| unusable(&format!("it says no `{key}`")))?)
}

/// A required boolean of an answer.
pub(crate) fn truth(answer: &Value, key: &str) -> anyhow::Result<bool> {
    let truth = answer.get(key).and_then(Value::as_bool);
    Ok(truth.ok_or_else(|| unusable(&format!("it says no `{key}`")))?)
}

/// The required items of an answer.
pub(crate) fn items(answer: &mut Value, key: &str) -> anyhow::Result<Vec<Value>> {
    match taken(answer, key) {
        Value::Array(items) => Ok(items),
        _ => Err(unusable(&format!("it has no `{key}`")).into()),
    }
}

/// The error for an answer that the command cannot use.
pub(crate) fn unusable(why: &str) -> Expected {
    Expected::new(
        codes::SERVER_ANSWER,
        format!("The answer of the host cannot be used: {why}"),
    )
    .help("Look whether it is a windlass of this version that `--server` names.")
    .exit(Exit::Unreachable)
}

/// The diagnostics of a workflow or an input in an answer.
pub(crate) fn mistakes(answer: &Value, key: &str) -> Vec<Diagnostic> {
    let found = answer.get(key).and_then(Value::as_array);
    let mistake = |found: &Value| {
        let text = |key: &str| found.get(key).and_then(Value::as_str);
        let mut place = Place::at(text("pointer")?);
        let within = |end: &str| found.get("within")?.get(end)?.as_u64()?.try_into().ok();
        place.within = within("start")
            .zip(within("end"))
            .map(|(start, end)| start..end);
        let mut read = Diagnostic::new(Code::read(text("code")?), text("detail")?, place);
        read.help = text("help").map(str::to_owned);
        Some(read)
    };
    found.into_iter().flatten().filter_map(mistake).collect()
}

/// A problem of RFC 9457 as one of our errors. A problem of this process carries its cause, which
/// says more than the document.
pub(super) fn problem(base: &Url, answer: Answer) -> Expected {
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if let Some(expected) = of_mistakes(&problem) {
        return expected;
    }
    match answer.cause {
        Some(cause) => of_cause(cause),
        None => of_document(base, answer.status, &problem),
    }
}

fn of_mistakes(problem: &Value) -> Option<Expected> {
    let code = Code::read(problem.get("code")?.as_str()?);
    let found = mistakes(problem, "errors");
    if found.is_empty() {
        return None;
    }
    Some(match code == INPUT_INVALID {
        true => of_input(code, &found),
        false => Expected::of_file(Problems {
            name: "the request".to_owned(),
            text: "".into(),
            diagnostics: found,
        }),
    })
}

fn of_cause(cause: Cause) -> Expected {
    fn whole<E: std::error::Error + Send + Sync + 'static>(error: Arc<E>) -> Expected {
        let text = error.to_string();
        // Only the answer holds the error, so this is its last reference.
        Arc::into_inner(error).map_or_else(|| bug(&text), |error| classify(error.into()))
    }
    match cause {
        Cause::Store(error) => whole(error),
        Cause::Runtime(error) => whole(error),
        Cause::Locks(error) => whole(error),
        Cause::Bug(text) => bug(&text),
    }
}

fn of_document(base: &Url, status: StatusCode, problem: &Value) -> Expected {
    let text = |key: &str| problem.get(key).and_then(Value::as_str);
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let detail = format!("The host at {base} wants another token");
        return Expected::new(codes::SERVER_UNAUTHORISED, detail)
            .help("Give it by `--token` or in $WINDLASS_TOKEN.")
            .exit(Exit::Unauthorised);
    }
    let (Some(code), Some(detail)) = (text("code"), text("detail")) else {
        let detail = format!("The server at {base} is no Windlass host: it answers {status}");
        return Expected::new(codes::SERVER_UNREACHABLE, detail).exit(Exit::Unreachable);
    };
    let code = Code::read(code);
    let exit = match status {
        StatusCode::NOT_FOUND => Exit::NotFound,
        StatusCode::CONFLICT => Exit::Conflict,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Exit::Unreachable,
        status if status.is_client_error() => match Exit::of(&code) {
            Exit::Plugin => Exit::Plugin,
            _ => Exit::Usage,
        },
        _ => Exit::of(&code),
    };
    // Commands have their own code for requests that are too late.
    let code = match code == windlass_server::codes::TOO_LATE {
        true => codes::TOO_LATE,
        false => code,
    };
    let expected = Expected::new(code, sentence(detail)).exit(exit);
    match text("help") {
        Some(help) => expected.help(sentence(help)),
        None => expected,
    }
}
