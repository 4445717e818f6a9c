//! A template or condition, a NUL, and the JSON of its `input`.

use serde_json::Value;
use windlass_engine::expr::{Condition, RESULT_BYTES, Template, Values};
use windlass_model::{Class, Code, Failure, JsonText};

use super::halves;

/// The `input` of expressions if the fuzz input contains no JSON.
const INPUT: &[u8] = br#"{"text":"a b c","list":[1,2,3,"x",null],"map":{"k":{"n":1.5}},"n":7,
    "wide":100000000000000,"big":"0123456789012345678901234567890123456789"}"#;

/// The values of one evaluation: evaluations from the same values share one budget.
fn values(json: &[u8]) -> Values {
    let mut values = Values::new();
    if values.input(json).is_err() {
        values.input(INPUT).unwrap();
    }
    values.var("v", b"[3,1,2]").unwrap();
    values.output("a", Some(b"\"out\"")).unwrap();
    values.run("0198", Some("key"));
    values.workflow("fuzzed");
    values.trigger("start", 1);
    let mut failure = Failure::new(Class::Permanent, Code::new("WL-R040"), "fuzzed");
    failure.details = JsonText::checked(json).ok();
    values.error(&failure).unwrap();
    values
}

pub(crate) fn run(data: &[u8]) {
    let (text, json) = halves(data);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if let Ok(template) = Template::compile(&Value::from(text), &[], "/with") {
        let first = template.render(&values(json));
        if let Ok(bytes) = &first {
            assert!(bytes.len() <= RESULT_BYTES, "a result over its bound");
            assert!(
                serde_json::from_slice::<Value>(bytes).is_ok(),
                "a result that is no JSON"
            );
        }
        let again = template.render(&values(json));
        assert_eq!(first.ok(), again.ok(), "rendering is not deterministic");
    }
    // It sees all that other conditions see, and the failure.
    if let Ok(condition) = Condition::about_failure(text, "/when") {
        let first = condition.test(&values(json)).ok();
        let again = condition.test(&values(json)).ok();
        assert_eq!(first, again, "testing is not deterministic");
    }
}
