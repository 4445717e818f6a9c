//! A JSON Schema, a NUL, and the value that is checked against the schema. The whole input is
//! parsed as the description of a plugin, too.

use serde_json::Value;
use windlass_model::schema::Schema;
use windlass_plugins::Description;

use super::halves;

pub(crate) fn run(data: &[u8]) {
    let _ = Description::read("fuzzed", data);
    let (schema, value) = halves(data);
    let Ok(schema) = serde_json::from_slice::<Value>(schema) else {
        return;
    };
    let Ok(compiled) = Schema::compile(&schema) else {
        return;
    };
    let value = serde_json::from_slice(value).unwrap_or(Value::Null);
    let wrong = compiled.check(&value, "/input");
    let again = compiled.check(&value, "/input");
    assert_eq!(wrong, again, "checking is not deterministic");
}
