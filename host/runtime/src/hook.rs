//! How a request becomes the input of a run, compiled.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_engine::expr::{Template, Values};
use windlass_model::definition::StartTrigger;
use windlass_model::http::{self, Intake, Typed};
use windlass_model::{Definition, Diagnostic, Payload, Place};

use crate::codes;
use crate::error::Error;

/// The intake of a trigger by `http`.
#[derive(Debug)]
pub(crate) struct Hook {
    query: Option<Typed>,
    params: Option<Typed>,
    input: Option<Template>,
}

/// The triggers of a definition that make the input of a request, by key.
///
/// # Errors
///
/// A schema is refused, or an expression has a mistake.
pub(crate) fn compile(definition: &Definition) -> Result<BTreeMap<String, Hook>, Vec<Diagnostic>> {
    let (mut hooks, mut wrong) = (BTreeMap::new(), Vec::new());
    for (key, trigger) in &definition.triggers {
        let StartTrigger::Http { intake, .. } = trigger else {
            continue;
        };
        if intake.is_plain() {
            continue;
        }
        match Hook::compile(key, intake) {
            Ok(hook) => drop(hooks.insert(key.clone(), hook)),
            Err(found) => wrong.extend(found),
        }
    }
    match wrong.is_empty() {
        true => Ok(hooks),
        false => Err(wrong),
    }
}

impl Hook {
    fn compile(key: &str, intake: &Intake) -> Result<Self, Vec<Diagnostic>> {
        let mut wrong = Vec::new();
        let mut typed = |schema: &Option<serde_json::Value>, name: &str| {
            let compiled = Typed::compile(schema.as_ref()?);
            let refused = |refused: windlass_model::schema::Refused| {
                let place = format!("/triggers/{key}/http/{name}{}", refused.pointer);
                let found = Diagnostic::new(refused.code, refused.message, Place::at(place));
                wrong.push(found);
            };
            compiled.map_err(refused).ok()
        };
        let (query, params) = (
            typed(&intake.query, "query"),
            typed(&intake.params, "params"),
        );
        let place = format!("/triggers/{key}/input");
        let input = intake.input.as_ref();
        let input = match input.map(|input| Template::of_request(input, &place)) {
            Some(Ok(template)) => Some(template),
            Some(Err(found)) => {
                wrong.extend(found);
                None
            }
            None => None,
        };
        match wrong.is_empty() {
            true => Ok(Self {
                query,
                params,
                input,
            }),
            false => Err(wrong),
        }
    }

    /// An estimate of the memory that it takes on the heap, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let typed = [&self.query, &self.params].into_iter().flatten();
        let input = self.input.as_ref().map_or(0, Template::weight);
        typed.map(Typed::weight).sum::<usize>() + input
    }

    /// The input of the run that a request starts, which is JSON.
    ///
    /// # Errors
    ///
    /// The query or a parameter does not fit its schema, or the input cannot be made of the request.
    pub(crate) fn input(&self, request: &Payload) -> Result<Payload, Error> {
        let Some(json) = request.inline() else {
            return Ok(request.clone());
        };
        let typed = [
            ("query", self.query.as_ref()),
            ("params", self.params.as_ref()),
        ];
        let json = match typed.iter().any(|(_, typed)| typed.is_some()) {
            true => http::with_types(json, &typed)
                .map(Bytes::from)
                .map_err(unfit)?,
            false => json.clone(),
        };
        let Some(template) = &self.input else {
            return Ok(Payload::json(json));
        };
        let refused = |message: String, place: &str| {
            unfit(vec![Diagnostic::new(
                codes::INPUT_INVALID,
                message,
                Place::at(place),
            )])
        };
        let mut values = Values::new();
        values
            .request(&json)
            .map_err(|error| refused(error.to_string(), ""))?;
        let made = template.render(&values).map_err(|error| {
            let place = error.pointer.clone();
            refused(
                format!("the input cannot be made of the request: {error}"),
                &place,
            )
        })?;
        Ok(Payload::json(made))
    }
}

fn unfit(found: Vec<Diagnostic>) -> Error {
    let wrong = found.into_iter().map(|mut found| {
        found.code = codes::INPUT_INVALID;
        found
    });
    Error::Input(wrong.collect())
}
