//! How a trigger makes the input of a run of the event or the request that starts it, compiled.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use windlass_engine::expr::{Cause, Template, Values};
use windlass_model::definition::StartTrigger;
use windlass_model::http::{Intake, Parameters, Request, Taking, Typed, Verify};
use windlass_model::{Definition, Diagnostic, Payload, Place};
use windlass_store::stimuli::NewStimulus;

use crate::codes;
use crate::error::Error;

/// A trigger by `http`, or one by `event` that has an `input`.
#[derive(Debug)]
pub(crate) struct Entry {
    cause: Cause,
    taking: Taking,
    input: Option<Template>,
}

/// The entries of a definition, by the key of the trigger.
///
/// # Errors
///
/// A schema is refused, or an expression has a mistake.
pub(crate) fn compile(definition: &Definition) -> Result<BTreeMap<String, Entry>, Vec<Diagnostic>> {
    let (mut entries, mut wrong) = (BTreeMap::new(), Vec::new());
    for (key, trigger) in &definition.triggers {
        let compiled = match trigger {
            StartTrigger::Event { input: Some(_), .. } | StartTrigger::Http { .. } => {
                Entry::compile(key, trigger)
            }
            _ => continue,
        };
        match compiled {
            Ok(entry) => drop(entries.insert(key.clone(), entry)),
            Err(found) => wrong.extend(found),
        }
    }
    match wrong.is_empty() {
        true => Ok(entries),
        false => Err(wrong),
    }
}

/// What starts the runs of a trigger, and the template of their input.
pub(crate) fn template(trigger: &StartTrigger) -> Option<(Cause, Option<&Value>)> {
    match trigger {
        StartTrigger::Event { input, .. } => Some((Cause::Event, input.as_ref())),
        StartTrigger::Http { intake, .. } => Some((Cause::Request, intake.input.as_ref())),
        StartTrigger::Cron { .. } | StartTrigger::Every { .. } => None,
    }
}

impl Entry {
    /// An estimate of the memory that it takes on the heap, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let typed = [&self.taking.query, &self.taking.params];
        let typed = typed.into_iter().flatten().map(Typed::weight);
        typed.sum::<usize>() + self.input.as_ref().map_or(0, Template::weight)
    }

    /// Whether an expression makes the input.
    pub(crate) fn has_template(&self) -> bool {
        self.input.is_some()
    }

    fn compile(key: &str, trigger: &StartTrigger) -> Result<Self, Vec<Diagnostic>> {
        let mut wrong = Vec::new();
        let taking = match trigger {
            StartTrigger::Http { intake, verify, .. } => {
                taking(key, intake, verify.as_ref(), &mut wrong)
            }
            _ => Taking::default(),
        };
        let (cause, input) = template(trigger).unwrap_or((Cause::Event, None));
        let place = format!("/triggers/{key}/input");
        let compiled = input.map(|input| Template::of_cause(cause, input, &place));
        let input = compiled.transpose().unwrap_or_else(|found| {
            wrong.extend(found);
            None
        });
        match wrong.is_empty() {
            true => Ok(Self {
                cause,
                taking,
                input,
            }),
            false => Err(wrong),
        }
    }

    /// The input of the run that a request starts.
    ///
    /// # Errors
    ///
    /// The query or a parameter does not fit its schema, or the input cannot be made of the request.
    pub(crate) fn of_request(
        &self,
        request: &Request,
        params: &Parameters,
    ) -> Result<Payload, Error> {
        let json = request.taken(params, &self.taking).map_err(unfit)?;
        match &self.input {
            Some(template) => self.made(template, &json),
            None => Ok(Payload::json(json)),
        }
    }

    /// The input of the run that an event starts; `input` is that of the event, as JSON.
    ///
    /// # Errors
    ///
    /// The input cannot be made of the event.
    pub(crate) fn of_event(&self, event: &NewStimulus, input: &Bytes) -> Result<Payload, Error> {
        let Some(template) = &self.input else {
            return Ok(Payload::json(input.clone()));
        };
        let (name, correlation) = (Value::from(&*event.name), event.correlation.as_deref());
        let correlation = Value::from(correlation);
        let mut json =
            format!(r#"{{"name":{name},"correlation":{correlation},"match":"#).into_bytes();
        json.extend_from_slice(&event.matches);
        json.extend_from_slice(br#","input":"#);
        json.extend_from_slice(input);
        json.push(b'}');
        self.made(template, &json)
    }

    fn made(&self, template: &Template, json: &[u8]) -> Result<Payload, Error> {
        let refused = |message: String, place: &str| {
            let place = Place::at(place);
            unfit(vec![Diagnostic::new(codes::INPUT_INVALID, message, place)])
        };
        let mut values = Values::new();
        values
            .cause(self.cause, json)
            .map_err(|error| refused(error.to_string(), ""))?;
        let made = template.render(&values).map_err(|error| {
            let what = self.cause.name();
            let message = format!("the input cannot be made of the {what}: {error}");
            refused(message, &error.pointer)
        })?;
        Ok(Payload::json(made))
    }
}

/// What a trigger takes of its requests.
fn taking(
    key: &str,
    intake: &Intake,
    verify: Option<&Verify>,
    wrong: &mut Vec<Diagnostic>,
) -> Taking {
    let mut typed = |schema: &Option<Value>, name: &str| {
        let compiled = Typed::compile(schema.as_ref()?);
        let refused = |refused: windlass_model::schema::Refused| {
            let place = format!("/triggers/{key}/http/{name}{}", refused.pointer);
            let found = Diagnostic::new(refused.code, refused.message, Place::at(place));
            wrong.push(found);
        };
        compiled.map_err(refused).ok()
    };
    Taking {
        query: typed(&intake.query, "query"),
        params: typed(&intake.params, "params"),
        raw: intake.raw,
        payload: matches!(verify, Some(Verify::Github { .. })),
    }
}

fn unfit(found: Vec<Diagnostic>) -> Error {
    let wrong = found.into_iter().map(|mut found| {
        found.code = codes::INPUT_INVALID;
        found
    });
    Error::Input(wrong.collect())
}
