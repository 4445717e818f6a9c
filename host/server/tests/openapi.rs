//! The checked-in document is the one that the handlers generate.

use std::path::Path;

#[test]
fn the_document_that_is_checked_in_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let mut document = windlass_server::openapi().to_pretty_json().unwrap();
    document.push('\n');
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == document,
        "docs/openapi.json is stale: `BLESS=1 cargo test -p windlass-server --test openapi`"
    );
}

#[test]
fn every_operation_says_how_it_may_fail() {
    let document = serde_json::to_value(windlass_server::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 30);
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let responses = operation["responses"].as_object().unwrap();
            let good = responses.keys().any(|status| status.starts_with('2'));
            assert!(good, "{method} {path} never succeeds");
            let problems = responses
                .iter()
                .filter(|(status, _)| !status.starts_with('2'));
            for (status, response) in problems {
                let content = &response["content"]["application/problem+json"];
                assert!(
                    content.is_object(),
                    "{method} {path} {status} is no problem"
                );
            }
            if path != "/livez" {
                assert!(responses.contains_key("503"), "{method} {path}");
            }
        }
    }
}
