//! The tags of a run, which its workflow makes of the input when the run begins.

use serde_json::Value;
use windlass_engine::expr::{StepBudget, Values};
use windlass_model::{Diagnostic, Payload, Place, RunId, Tags, valid};

use crate::catalog::Prepared;
use crate::codes;
use crate::error::Error;

/// The work of the expressions of all tags of a run: about as much as a step may do without going aside.
const WORK: u64 = 1024 * 1024;

/// The tags of a run with this input, which fits its schema.
///
/// # Errors
///
/// An expression fails, or a tag is not valid.
pub(super) fn of(
    prepared: &Prepared,
    input: &Payload,
    id: RunId,
    correlation: Option<&str>,
) -> Result<Tags, Error> {
    let Some(template) = prepared.graph.tags() else {
        return Ok(Tags::new());
    };
    let needs = template.needs();
    let mut values = Values::new();
    values.within(&StepBudget::with_work(WORK));
    if needs.input
        && let Some(json) = input.inline()
    {
        let parsed = values.input(json);
        parsed.map_err(|error| refused(&error.to_string()))?;
    }
    if needs.run {
        values.run(&id.to_string(), correlation);
    }
    if needs.workflow {
        values.workflow(&prepared.name);
    }
    let made = template
        .render(&values)
        .map_err(|error| refused(&error.to_string()))?;
    let made: serde_json::Map<String, Value> = serde_json::from_slice(&made)
        .map_err(|error| refused(&format!("they are not JSON: {error}")))?;
    let mut tags = Tags::new();
    for (name, value) in made {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Array(_) | Value::Object(_) => {
                let reason = format!("`{name}` is a list or a map, and not a text");
                return Err(refused(&reason));
            }
        };
        valid::TAG
            .check(&text)
            .map_err(|wrong| refused(&format!("`{name}`: {wrong}")))?;
        tags.insert(name, text);
    }
    Ok(tags)
}

/// The error names the tag: its place is in the workflow, and not in the input.
fn refused(reason: &str) -> Error {
    let message = format!("the tags of the run cannot be made: {reason}");
    Error::Input(vec![Diagnostic::new(codes::TAGS, message, Place::at(""))])
}
