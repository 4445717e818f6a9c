//! Finds the triggers that a request to a hook may start.

use std::sync::Arc;

use serde_json::Value;
use windlass_model::http::{self, Parameters, Respond, Verify};
use windlass_model::{Digest, TraceContext};
use windlass_runtime::operations::{Delivery, stimulus_hash};
use windlass_store::published::BindingRow;
use windlass_store::stimuli::BookmarkQuery;
use windlass_store::{Store, within};

use super::Rules;
use crate::app::AppInner;
use crate::problem::Problem;

/// The triggers that a request may start.
#[derive(Clone)]
pub(crate) struct Found {
    /// The stimulus of plain triggers and of waits, if there are any.
    pub(crate) plain: Option<Digest>,
    /// Direct triggers, all with the same path.
    pub(crate) direct: Vec<Direct>,
    /// The key by which calls of the hook are counted: its method and its path, with the parameters
    /// as in the definition.
    pub(crate) counted: Digest,
}

/// A direct trigger of a published workflow.
#[derive(Clone)]
pub(crate) struct Direct {
    pub(crate) workflow: String,
    pub(crate) key: String,
    pub(crate) definition: Digest,
    pub(crate) params: Parameters,
    pub(crate) rules: Arc<Rules>,
}

impl Direct {
    /// The delivery of a request to the trigger.
    pub(crate) fn delivery(
        &self,
        delivery: Option<Digest>,
        request: &Arc<http::Request>,
        trace: Option<TraceContext>,
    ) -> Delivery {
        Delivery {
            definition: self.definition,
            workflow: self.workflow.clone(),
            trigger: self.key.clone(),
            delivery,
            request: Arc::clone(request),
            params: self.params.clone(),
            trace,
        }
    }
}

impl Found {
    /// Whether a trigger verifies its requests.
    pub(crate) fn verifies(&self) -> bool {
        let mut direct = self.direct.iter();
        direct.any(|direct| direct.rules.verify.is_some())
    }

    /// The triggers that a page of another origin may start: only those whose scheme needs a proof
    /// that such a page cannot give.
    pub(crate) fn for_foreign_page(mut self) -> Self {
        self.plain = None;
        self.direct.retain(|direct| {
            let by = direct.rules.verify.as_ref();
            by.is_some_and(Verify::excludes_pages)
        });
        self
    }

    /// Whether the request may start anything or resume a run.
    pub(crate) fn is_empty(&self) -> bool {
        self.plain.is_none() && self.direct.is_empty()
    }

    /// Whether a trigger answers with the output of a node.
    pub(crate) fn responds(&self) -> bool {
        let responds = |direct: &Direct| direct.rules.respond != Respond::Accepted;
        self.direct.iter().any(responds)
    }
}

/// The bytes of the triggers whose paths have the shape of a request, about 10,000 triggers. A request
/// with more is refused: anyone may send it.
const BINDINGS_BYTES: u64 = 4 * 1024 * 1024;

/// Finds the triggers that a request may start; none if there is no such hook, which is so for every
/// method that no definition may name. Writes nothing.
pub(crate) fn find(
    app: &AppInner,
    method: &str,
    path: &str,
) -> Result<Option<Found>, Box<Problem>> {
    if !http::METHODS.contains(&method) {
        return Ok(None);
    }
    let store = app.store();
    let edition = store.edition();
    let plain = stimulus_hash(http::STIMULUS, &http::matches(method, path))?;
    let rows = within(BINDINGS_BYTES, || store.bindings(http::shape(method, path)))?;
    // A plain hook that is cached wrongly must not hide direct triggers.
    let is_known = rows.is_empty() && app.hooks.has(plain);
    let is_heard = is_known || store.is_heard(plain, app.now_ms())?;
    let matching = rows.into_iter().filter_map(|row| {
        let of = pattern(&row, method)?;
        let params = http::parameters(&of, path)?;
        Some((http::rank(&of), of, params, row))
    });
    let mut matching: Vec<_> = matching.collect();
    let best = matching.iter().map(|(rank, ..)| rank).min().cloned();
    // The path of a plain trigger is all literal, and literal paths rank first.
    let best = best.filter(|best| !(is_heard && best.contains(&true)));
    matching.retain(|(rank, ..)| Some(rank) == best.as_ref());
    let counted = match matching.first() {
        Some((_, of, ..)) => Digest::of(format!("{method}\0{of}").as_bytes()),
        None => plain,
    };
    let mut direct = Vec::with_capacity(matching.len());
    for (_, _, params, row) in matching {
        let Some(rules) = rules(app, &row)? else {
            continue;
        };
        direct.push(Direct {
            workflow: row.workflow,
            key: row.binding.key,
            definition: row.definition,
            params,
            rules,
        });
    }
    let alone = match (is_heard, direct.as_slice()) {
        (false, [direct]) => direct.params.is_empty().then(|| direct.clone()),
        (true, []) if edition.is_some() => alone(store, plain)?,
        _ => None,
    };
    if let Some(direct) = alone {
        let found = Found {
            plain: None,
            direct: vec![direct],
            counted,
        };
        app.hooks.note_known(edition, method, path, found);
    }
    let plain = is_heard.then_some(plain);
    let is_there = plain.is_some() || !direct.is_empty();
    Ok(is_there.then_some(Found {
        plain,
        direct,
        counted,
    }))
}

/// The only trigger of a plain hook, if no run waits for its requests.
fn alone(store: &dyn Store, plain: Digest) -> Result<Option<Direct>, Box<Problem>> {
    let waits = BookmarkQuery {
        run: None,
        name: None,
        correlation: None,
        hash: Some(plain),
        after: None,
        limit: 1,
    };
    if !store.bookmarks(&waits)?.is_empty() {
        return Ok(None);
    }
    let rows = within(BINDINGS_BYTES, || store.bindings(plain))?;
    let [row] = rows.as_slice() else {
        return Ok(None);
    };
    Ok(Some(Direct {
        workflow: row.workflow.clone(),
        key: row.binding.key.clone(),
        definition: row.definition,
        params: Parameters::default(),
        rules: Arc::default(),
    }))
}

/// The methods with which requests to a path may start anything or resume a run. A path without any
/// costs ten reads of the store.
pub(crate) fn methods(app: &AppInner, path: &str) -> Result<Vec<&'static str>, Box<Problem>> {
    let mut methods = Vec::new();
    for method in http::METHODS {
        if find(app, method, path)?.is_some() {
            methods.push(method);
            methods.extend((method == "GET").then_some("HEAD"));
        }
    }
    Ok(methods)
}

/// The path with which a trigger is published, if it is for this method.
fn pattern(row: &BindingRow, method: &str) -> Option<String> {
    let matches: Value = serde_json::from_slice(&row.binding.matches).ok()?;
    if matches.get("method")?.as_str()? != method {
        return None;
    }
    matches.get("path")?.as_str().map(str::to_owned)
}

/// The rules of a trigger. None if its definition does not contain it, which no publication allows.
fn rules(app: &AppInner, row: &BindingRow) -> Result<Option<Arc<Rules>>, Box<Problem>> {
    let key = &row.binding.key;
    if let Some(known) = app.hooks.rules(row.definition, key) {
        return Ok(Some(known));
    }
    let definition = app.definition(row.definition)?;
    let trigger = definition.as_ref().and_then(|all| all.triggers.get(key));
    Ok(trigger.and_then(|trigger| app.hooks.note_rules(row.definition, key, trigger)))
}
