//! Finds mistakes in a configuration before anything runs.

use crate::Request;
use crate::config::not_a_duration;
use std::collections::BTreeMap;
use windlass::http::shown_url;
use windlass::prelude::*;

impl Check for Request {
    fn check(configuration: &Configuration) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(message) = configuration.text("/method").and_then(method) {
            found.push(Finding::error(message).member("/method"));
        }
        if let Some(message) = configuration.text("/url").and_then(url) {
            found.push(Finding::error(message).member("/url"));
        }
        if let Some(message) = configuration.text("/timeout").and_then(timeout) {
            found.push(Finding::error(message).member("/timeout"));
        }
        found.extend(headers(configuration));
        found.extend(expected(configuration));
        found.extend(bodies(configuration));
        for what in ["query", "form"] {
            found.extend(fields(configuration, what));
        }
        found
    }
}

fn method(text: &str) -> Option<String> {
    if text.is_empty() || !text.bytes().all(is_token) {
        return Some(format!("{text:?} is no method; write one like GET or POST"));
    }
    let not_offered = ["CONNECT", "TRACE"];
    let not_offered = not_offered.iter().any(|it| text.eq_ignore_ascii_case(it));
    not_offered.then(|| format!("the method {text} is not offered"))
}

/// The mistake in an address; the host reads it in full before the request.
fn url(text: &str) -> Option<String> {
    let shown = shown_url(text);
    let (scheme, rest) = match text.trim().split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => {
            return Some(format!(
                "{shown:?} is no absolute address; begin it with https:// or http://"
            ));
        }
    };
    if !matches!(scheme.as_str(), "http" | "https") {
        return Some(format!("the scheme of {shown:?} is neither http nor https"));
    }
    let ends = |c: char| matches!(c, '/' | '\\' | '?' | '#');
    let authority = rest.split(ends).next().unwrap_or_default();
    if authority.contains('@') {
        return Some(format!(
            "user and password do not belong into the address {shown:?}; keep them in a secret, and \
             write `authorization: {{ secret: NAME }}` into `headers`"
        ));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, ""),
    };
    if host.is_empty() {
        return Some(format!("the address {shown:?} has no host"));
    }
    let is_port = port.is_empty() || port.parse::<u16>().is_ok();
    let is_host = !host.contains([' ', '<', '>', '^', '|', '%'])
        && (host.starts_with('[') || !host.contains(':'));
    (!is_port || !is_host).then(|| format!("the host or the port of {shown:?} is malformed"))
}

fn timeout(text: &str) -> Option<String> {
    match windlass::parse_duration(text) {
        Ok(Duration::ZERO) => Some("timeout: a request without any time always fails".to_owned()),
        Ok(_) => None,
        Err(why) => Some(not_a_duration(text, why)),
    }
}

fn headers(configuration: &Configuration) -> Vec<Finding> {
    let headers = configuration.config.get("headers");
    let headers = headers.and_then(Value::as_object).into_iter().flatten();
    let mut found = Vec::new();
    for (name, value) in headers {
        let member = format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
        if name.is_empty() || !name.bytes().all(is_token) {
            let message = format!("{name:?} is no name of a header");
            found.push(Finding::error(message).member(&member));
        }
        let Some(text) = value.as_str() else {
            continue;
        };
        if !text.chars().all(|c| c == '\t' || matches!(c, ' '..='~')) {
            let message = format!(
                "the value of the header {name} has a character that no header may have: ASCII \
                 without control characters is allowed"
            );
            found.push(Finding::error(message).member(&member));
        }
    }
    found
}

fn expected(configuration: &Configuration) -> Option<Finding> {
    let expected = configuration.config.get("expect")?.as_array()?;
    let mut statuses = expected.iter().filter_map(Value::as_u64);
    let wrong = statuses.find(|it| !(200..1_000).contains(it))?;
    let message = format!("no response has the status {wrong}; statuses are 200 to 999");
    Some(Finding::error(message).member("/expect"))
}

/// A request has one body.
fn bodies(configuration: &Configuration) -> Option<Finding> {
    let is_given = |name: &&&str| {
        let pointer = format!("/{name}");
        let inside = format!("{pointer}/");
        let unknown = &configuration.unknown;
        configuration.config.get(**name).is_some()
            || unknown
                .iter()
                .any(|it| *it == pointer || it.starts_with(&inside))
    };
    let given: Vec<_> = ["json", "form", "body"].iter().filter(is_given).collect();
    (given.len() > 1).then(|| Finding::error(crate::body::ONE_BODY))
}

fn fields(configuration: &Configuration, what: &str) -> Option<Finding> {
    let fields = configuration.config.get(what)?;
    let fields = BTreeMap::<String, Value>::deserialize(fields).ok()?;
    let wrong = crate::body::form(what, &fields).err()?;
    Some(Finding::error(wrong.message()).member(format!("/{what}")))
}

/// A character of a method or of a header's name (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
