//! The headers of a response as a value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use windlass::prelude::*;
use windlass::schemars::{Schema, SchemaGenerator, json_schema};

/// Headers whose values cannot be told apart when they are joined, because each may have commas
/// (RFC 9110, section 5.3; RFC 6265, section 3). They are lists even if they have one value.
const LISTS: [&str; 3] = ["set-cookie", "www-authenticate", "proxy-authenticate"];

/// Headers by name, in lower case.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Headers(BTreeMap<String, Value>);

impl Headers {
    pub(crate) fn of(all: &[(String, String)]) -> Self {
        let mut headers = BTreeMap::<String, Vec<&str>>::new();
        for (name, value) in all {
            let values = headers.entry(name.to_ascii_lowercase()).or_default();
            values.push(value);
        }
        let joined = |(name, values): (String, Vec<&str>)| {
            let value = match LISTS.contains(&name.as_str()) {
                true => json!(values),
                false => Value::String(values.join(", ")),
            };
            (name, value)
        };
        Self(headers.into_iter().map(joined).collect())
    }
}

impl JsonSchema for Headers {
    fn schema_name() -> Cow<'static, str> {
        "Headers".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let list = json!({ "type": "array", "items": { "type": "string" } });
        let lists: windlass::serde_json::Map<String, Value> = LISTS
            .iter()
            .map(|name| ((*name).to_owned(), list.clone()))
            .collect();
        json_schema!({
            "type": "object",
            "properties": lists,
            "additionalProperties": { "type": "string" },
        })
    }
}
