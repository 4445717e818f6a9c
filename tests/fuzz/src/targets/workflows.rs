//! A workflow file: JSON if the first byte is a brace, otherwise YAML.

use windlass_engine::Graph;
use windlass_model::file;

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let name = if data.first() == Some(&b'{') {
        "fuzzed.json"
    } else {
        "fuzzed.yaml"
    };
    let read = file::read(text, name);
    for diagnostic in &read.diagnostics {
        if let Some(span) = &diagnostic.place.span {
            assert!(
                span.start <= span.end && span.end <= text.len(),
                "a span that is not in the file"
            );
        }
    }
    let Some(definition) = &read.definition else {
        assert!(!read.diagnostics.is_empty(), "refused without a reason");
        return;
    };
    let canonical = read.canonical().unwrap();
    let again = file::read_canonical(&canonical);
    let again = again.unwrap_or_else(|wrong| panic!("the canonical form is refused: {wrong:?}"));
    assert_eq!(&again, definition, "the canonical form says something else");
    let _ = Graph::compile(definition, &|_| Vec::new());
}
