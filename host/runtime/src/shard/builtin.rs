//! Nodes that the host runs itself: `set`, `wait`, `end` and `fail`.

use windlass_engine::Open;
use windlass_engine::expr::Template;
use windlass_model::file::{NoTime, moment_ms};
use windlass_model::{Class, Failure, JsonText, Payload, limits};

use super::memory::Unread;
use super::outcome::Settled;
use super::owned::OwnedRun;
use super::work::{Address, Patch};
use crate::codes;
use crate::shared::Base;

impl OwnedRun {
    /// The end of the wait of a `wait` node.
    pub(super) fn wait_until(
        &mut self,
        to: Address,
        open: &Open,
        template: &Template,
        patch: &Patch,
        base: &Base,
    ) -> Result<Settled, Unread> {
        let json = self.render(open.scope, template, patch, base)?;
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
        let until_ms = match &value {
            serde_json::Value::String(text) => {
                moment_ms(text, to.started_ms).map_err(|wrong| wrong.to_string())
            }
            serde_json::Value::Number(number) => {
                let help = "in an expression the unit stands behind the braces, like \
                            `{{ vars.seconds }}s`";
                Err(format!("{}; {help}", NoTime::unitless(number)))
            }
            other => Err(format!("{other} is neither a duration nor an instant")),
        };
        match until_ms {
            Ok(until_ms) => Ok(Settled::Wait { until_ms }),
            Err(reason) => {
                let message = format!("cannot tell how long to wait: {reason}");
                Err(Unread::Value(Failure::new(
                    Class::Invalid,
                    codes::RENDER,
                    message,
                )))
            }
        }
    }

    /// The variables that a `set` node assigns. All of its templates see the values from before the
    /// node.
    pub(super) fn assignments(
        &mut self,
        open: &Open,
        assignments: &[(String, Template)],
        patch: &Patch,
        base: &Base,
    ) -> Result<Settled, Unread> {
        let mut assigned = Patch::with_capacity(assignments.len());
        for (name, template) in assignments {
            assigned.push((
                name.clone(),
                self.render(open.scope, template, patch, base)?,
            ));
        }
        Ok(Settled::Set(assigned))
    }

    /// The result of an `end` node.
    pub(super) fn end(
        &mut self,
        open: &Open,
        terminate: bool,
        output: Option<&Template>,
        patch: &Patch,
        base: &Base,
    ) -> Result<Settled, Unread> {
        let output = match output {
            Some(template) => Payload::json(self.render(open.scope, template, patch, base)?),
            None => Payload::null(),
        };
        Ok(Settled::Done {
            output,
            ports: Vec::new(),
            end: Some(terminate),
        })
    }

    /// The failure of a `fail` node.
    pub(super) fn fail(
        &mut self,
        open: &Open,
        message: &Template,
        data: Option<&Template>,
        patch: &Patch,
        base: &Base,
    ) -> Result<Settled, Unread> {
        let json = self.render(open.scope, message, patch, base)?;
        let message = match serde_json::from_slice(&json) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(other) => other.to_string(),
            Err(_) => String::from_utf8_lossy(&json).into_owned(),
        };
        let mut failure = Failure::new(Class::Permanent, codes::FAIL_NODE, message);
        if let Some(data) = data {
            let json = self.render(open.scope, data, patch, base)?;
            failure.details = details(&json, &failure.message).map_err(Unread::Value)?;
        }
        Ok(Settled::Failed(failure))
    }
}

/// The details of a failure: JSON text. `null` is the same as none.
fn details(json: &[u8], message: &str) -> Result<Option<JsonText>, Failure> {
    let most = limits::DETAILS_BYTES;
    if json.len() > most {
        let size = json.len();
        let message = format!(
            "the `data` of the node is {size} bytes of JSON, and the details of a failure have at \
             most {most}; the message of the node: {message}"
        );
        return Err(Failure::new(
            Class::Limit,
            codes::DETAILS_TOO_LARGE,
            message,
        ));
    }
    let details = JsonText::checked(json).map_err(|error| {
        let message = format!("the `data` of the node cannot be the details of a failure: {error}");
        Failure::new(Class::Invalid, codes::RENDER, message)
    })?;
    Ok(Some(details).filter(|details| details.as_str() != "null"))
}
