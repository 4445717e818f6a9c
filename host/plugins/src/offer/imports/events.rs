//! `windlass:events`. Stimuli and triggers of a guest are kept with its call and returned to the
//! caller, who makes them part of the commit; they have no effect here.

use windlass_model::limits::MATCH_BYTES;
use windlass_model::{Payload, RunId, stimulus, valid};

use crate::bindings::host::windlass::events::events::{EventError, Host, Scheduled, Stimulus};
use crate::bindings::host::windlass::types::types;
use crate::grant::secrets::Secrets;
use crate::grant::settings::Limits;
use crate::offer::effects::{Effects, ScheduledTrigger, SentStimulus};
use crate::offer::guest::{Guest, Ongoing};
use crate::offer::reader::Reader;

/// The stimuli and triggers of a call so far.
#[derive(Default)]
pub(crate) struct EventWork {
    pub(crate) effects: Effects,
    bytes: usize,
}

impl Host for Guest {
    fn send(&mut self, sent: Stimulus) -> Result<(), EventError> {
        let (call, limits, secrets) = self.asking()?;
        let bytes = sent.name.len()
            + sent.correlation.as_ref().map_or(0, String::len)
            + sent.match_.as_ref().map_or(0, size)
            + sent.input.as_ref().map_or(0, size);
        call.events.count(bytes, limits)?;
        let matches = sent.match_.as_ref().map(value).transpose()?;
        let matches = matches.unwrap_or_default();
        if stimulus::canonical(&matches).len() > MATCH_BYTES {
            let message = format!("a stimulus is matched by at most {MATCH_BYTES} bytes");
            return Err(invalid(&message));
        }
        let asked = SentStimulus {
            matches,
            run: sent.run.as_deref().map(run).transpose()?,
            correlation: sent
                .correlation
                .map(|text| key(text, valid::CORRELATION, secrets))
                .transpose()?,
            input: match sent.input {
                Some(input) => payload(input, call, limits, secrets)?,
                None => Payload::null(),
            },
            name: key(sent.name, valid::EVENT, secrets)?,
        };
        call.events.effects.sent.push(asked);
        Ok(())
    }

    fn schedule(&mut self, trigger: Scheduled) -> Result<(), EventError> {
        let (call, limits, secrets) = self.asking()?;
        let bytes = trigger.node.len() + trigger.payload.as_ref().map_or(0, size);
        call.events.count(bytes, limits)?;
        if let Some(vars) = &trigger.payload {
            let vars = value(vars)?;
            let vars = vars.as_object();
            let vars = vars.ok_or_else(|| invalid("the payload is not a JSON object"))?;
            let named = valid::VARIABLE.check_all(vars.keys());
            named.map_err(|wrong| invalid(&wrong.to_string()))?;
        }
        let scheduled = ScheduledTrigger {
            node: key(trigger.node, valid::NODE, secrets)?,
            at_ms: i64::try_from(trigger.at).map_err(|_| invalid("the instant is too late"))?,
            vars: trigger
                .payload
                .map(|vars| payload(vars, call, limits, secrets))
                .transpose()?,
        };
        call.events.effects.scheduled.push(scheduled);
        Ok(())
    }
}

impl Guest {
    /// The call, if it may send events.
    fn asking(&mut self) -> Result<(&mut Ongoing, &Limits, &Secrets), EventError> {
        let unavailable = |why: &str| EventError::Unavailable(why.to_owned());
        if !self.terms.grants.events {
            let advice = self.terms.advice().map(|advice| format!(": {advice}"));
            return Err(unavailable(&format!(
                "the capability `events` is not granted{}",
                advice.unwrap_or_default()
            )));
        }
        match self.call.as_deref_mut() {
            Some(call) => Ok((call, &self.terms.limits, &self.offer.secrets)),
            None => Err(unavailable(
                "only a call that ends in a commit can send and schedule",
            )),
        }
    }
}

impl EventWork {
    /// The bytes of refused events count, too: a guest must not keep the host busy with checks.
    fn count(&mut self, bytes: usize, limits: &Limits) -> Result<(), EventError> {
        let count = self.effects.sent.len() + self.effects.scheduled.len();
        if count >= limits.events {
            let message = format!("a call may send and schedule {} times", limits.events);
            return Err(EventError::Limit(message));
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > limits.event_bytes {
            let message = format!("a call may send and schedule {} bytes", limits.event_bytes);
            return Err(EventError::Limit(message));
        }
        Ok(())
    }
}

fn size(payload: &types::Payload) -> usize {
    match &payload.body {
        types::Body::Inline(bytes) => bytes.len(),
        types::Body::Text(text) | types::Body::Blob(text) => text.len(),
    }
}

/// A key without secrets. A placeholder counts in its length.
fn key(mut text: String, kind: valid::Kind<'_>, secrets: &Secrets) -> Result<String, EventError> {
    secrets.clean_text(&mut text);
    kind.check(&text)
        .map_err(|wrong| invalid(&wrong.to_string()))?;
    Ok(text)
}

fn run(text: &str) -> Result<RunId, EventError> {
    text.parse()
        .map_err(|_| invalid("the id of the run is not a UUID"))
}

/// A value that the host itself parses.
fn value(payload: &types::Payload) -> Result<serde_json::Value, EventError> {
    let wrong = |error| invalid(&format!("a value is not JSON: {error}"));
    match &payload.body {
        types::Body::Inline(bytes) => serde_json::from_slice(bytes).map_err(wrong),
        types::Body::Text(text) => serde_json::from_str(text).map_err(wrong),
        types::Body::Blob(_) => Err(invalid("a value that is matched or assigned is no blob")),
    }
}

/// A value that is passed unparsed to the receiver of the stimulus.
fn payload(
    payload: types::Payload,
    call: &Ongoing,
    limits: &Limits,
    secrets: &Secrets,
) -> Result<Payload, EventError> {
    let reader = Reader {
        limits,
        blobs: &call.blobs,
        ports: None,
        secrets,
    };
    let payload = reader
        .payload(payload.into())
        .map_err(|failure| EventError::Invalid(failure.message))?;
    match payload.is_json() {
        true => Ok(payload),
        false => Err(invalid("the data of a stimulus is JSON")),
    }
}

fn invalid(why: &str) -> EventError {
    EventError::Invalid(why.to_owned())
}
