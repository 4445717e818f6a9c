//! The places of a definition that take only values of some kinds: durations, lists and texts.

use serde_json::Value;
use windlass_model::Code;
use windlass_model::codes::{BAD_DURATION, BAD_NAME, TOO_LARGE, WRONG_TYPE};
use windlass_model::definition::NodeKind;
use windlass_model::file::{NoTime, moment_ms};
use windlass_model::schema::members::Kind;
use windlass_model::stimulus::canonical;
use windlass_model::{limits, valid};

use super::super::BodyIx;
use super::super::flat::Flat;
use crate::expr::{Known, shorten};

/// A value in its place.
pub(super) struct Place<'a> {
    pub(super) pointer: String,
    /// The body whose values it sees.
    pub(super) body: BodyIx,
    pub(super) value: &'a Value,
    pub(super) wanted: Wanted,
}

/// What a place takes.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// A duration or an instant.
    Moment,
    List,
    /// The name of an event.
    Event,
    Correlation,
    /// What an event is matched by: any value of a limited size.
    Match,
}

/// The code, the message and the remedy of a refused value.
type Refusal = (Code, String, String);

/// The places of a definition.
pub(super) fn places<'a>(flat: &Flat<'a>) -> Vec<Place<'a>> {
    let mut places = Vec::new();
    for (_, node) in flat.nodes() {
        let mut add = |key: &str, value: &'a Value, wanted| {
            places.push(Place {
                pointer: format!("{}/{key}", node.pointer),
                body: node.body,
                value,
                wanted,
            });
        };
        match &node.node.kind {
            NodeKind::Wait(value) => add("wait", value, Wanted::Moment),
            NodeKind::ForEach(each) => add("for-each", &each.list, Wanted::List),
            NodeKind::Event {
                name,
                matches,
                correlation,
            } => {
                add("event", name, Wanted::Event);
                add("event/match", matches, Wanted::Match);
                if let Some(correlation) = correlation {
                    add("event/correlation", correlation, Wanted::Correlation);
                }
            }
            _ => {}
        }
    }
    places
}

impl Wanted {
    /// Why a value is refused in every run.
    pub(super) fn refusal(self, text: &str, value: &Value) -> Option<Refusal> {
        let of_kind = || self.refusal_of_kind(text, Known::of_kind(Kind::of(value)));
        match (self, value) {
            (Self::Moment, Value::String(text)) => {
                let wrong = moment_ms(text, 0).err()?;
                Some((BAD_DURATION, wrong.message, wrong.help))
            }
            (Self::Moment, Value::Number(number)) => {
                let wrong = NoTime::unitless(number);
                Some((BAD_DURATION, wrong.message, wrong.help))
            }
            (Self::List, Value::Number(number)) => {
                let (code, message, _) = of_kind()?;
                let help = format!("for {number} rounds write `{{{{ range({number}) }}}}`");
                Some((code, message, help))
            }
            (Self::Event, Value::String(name)) => {
                let wrong = valid::EVENT.check(name).err()?;
                Some((
                    BAD_NAME,
                    wrong.to_string(),
                    "like `order.placed`".to_owned(),
                ))
            }
            (Self::Correlation, Value::String(name)) => {
                let wrong = valid::CORRELATION.check(name).err()?;
                let help = "like `order-4711`".to_owned();
                Some((BAD_NAME, wrong.to_string(), help))
            }
            (Self::Match, value) => {
                let (most, bytes) = (limits::MATCH_BYTES, canonical(value).len());
                let message =
                    format!("the `match` of an event has at most {most} bytes, and not {bytes}");
                let help = "match by a name or a number, and not by the whole value".to_owned();
                (bytes > most).then_some((TOO_LARGE, message, help))
            }
            _ => of_kind(),
        }
    }

    /// Why every one of several values is refused.
    pub(super) fn refusal_of_all(self, text: &str, known: &[Known]) -> Option<Refusal> {
        let refused = known.iter().map(|known| self.refusal_of_kind(text, *known));
        let refused: Option<Vec<Refusal>> = refused.collect();
        refused?.into_iter().next()
    }

    fn refusal_of_kind(self, text: &str, known: Known) -> Option<Refusal> {
        let taken = match self {
            Self::Moment | Self::Event | Self::Correlation => Known::Text,
            Self::List => Known::List,
            Self::Match => return None,
        };
        if known == taken || known == Known::Anything {
            return None;
        }
        let (code, takes) = match self {
            Self::Moment => (BAD_DURATION, "`wait` takes a duration or an instant"),
            Self::List => (WRONG_TYPE, "a for-each works on a list"),
            Self::Event => (WRONG_TYPE, "the name of an event is a text"),
            Self::Correlation | Self::Match => (WRONG_TYPE, "a correlation id is a text"),
        };
        let help = match (self, known) {
            (Self::Moment, Known::Number | Known::Zero) => {
                "the unit stands behind the braces, like `{{ vars.seconds }}s`"
            }
            (Self::Moment, _) => "like `5s`, `{{ vars.hours }}h` or `2026-01-31T12:00:00Z`",
            (Self::List, Known::Text) => "make a list of the text, like `{{ x | split(',') }}`",
            (Self::List, Known::Map) => "make a list of the object, like `{{ x | items }}`",
            (Self::List, Known::Number | Known::Zero) => {
                "for so many rounds write `{{ range(x) }}`"
            }
            (Self::List, _) => "like `{{ input.lines }}`",
            (..) => "make a text of it, like `{{ x | string }}` or `order-{{ x }}`",
        };
        let (text, name) = (shorten(text), known.name());
        let message = format!("{takes}, and `{text}` is {name}");
        Some((code, message, help.to_owned()))
    }
}
