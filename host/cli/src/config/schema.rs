//! The JSON Schema of the configuration, and look-ups in it.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::Config;

/// The schema, with every type in place, so that it can be walked without following references.
pub(crate) fn schema() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<Config>()
        .to_value()
}

/// The schema at a path of keys. A map accepts any key.
pub(crate) fn at<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter()
        .try_fold(schema, |schema, key| below(schema, key))
}

fn below<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let choices = || {
        ["oneOf", "anyOf"]
            .into_iter()
            .filter_map(|name| schema.get(name)?.as_array())
    };
    properties(schema)
        .and_then(|known| known.get(key))
        .or_else(|| choices().flatten().find_map(|choice| below(choice, key)))
        .or_else(|| {
            schema
                .get("additionalProperties")
                .filter(|values| values.is_object())
        })
}

/// The properties of a table, if it has fixed keys.
pub(crate) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// The existing key that is nearest to the last key of an unknown path.
pub(crate) fn nearest(schema: &Value, path: &[String]) -> Option<String> {
    let (last, parents) = path.split_last()?;
    let known = properties(at(schema, parents)?)?;
    windlass_model::nearest::nearest(last, known.keys().map(String::as_str)).map(str::to_owned)
}
