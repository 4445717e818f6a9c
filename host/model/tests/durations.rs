//! Durations in workflow files are those of `tests/cases/durations.txt`, which guests read too.

use windlass_model::file::read;

#[test]
fn durations_of_files_are_the_listed_ones() {
    let cases = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/cases/durations.txt"
    );
    let cases = std::fs::read_to_string(cases).unwrap();
    let mut checked = 0;
    for line in cases.lines().filter(|line| !line.starts_with('#')) {
        let (text, expected) = line.split_once('\t').unwrap();
        let file = serde_json::json!({
            "workflow": "w",
            "nodes": { "a": { "use": "data/set", "timeout": text } },
        });
        let read = read(&file.to_string(), "w.json");
        let definition = read.definition;
        let found = definition.and_then(|it| it.nodes.values().next().unwrap().timeout_ms);
        let told = read.diagnostics.first();
        let told = told.map_or("", |it| it.message.as_str());
        let read = match found {
            Some(ms) => ms.to_string(),
            None => {
                let reasons = [
                    ("is not a duration", "malformed"),
                    ("is empty", "malformed"),
                    ("has no unit", "unitless"),
                    ("is negative", "negative"),
                    ("is too long", "too-long"),
                    ("has years or months", "vague"),
                ];
                let reason = reasons.iter().find(|(words, _)| told.contains(words));
                reason.map_or(told, |(_, reason)| reason).to_owned()
            }
        };
        assert_eq!(read, expected, "{text:?}");
        checked += 1;
    }
    assert!(checked > 60, "{checked}");
}
