//! Diagnostics as JSON, with lines and columns.

use serde_json::{Map, Value, json};
use windlass_model::{Place, position};

use crate::Problems;

/// Diagnostics as a JSON array, with lines and columns counted from 1, columns in characters.
pub fn diagnostics(problems: &Problems) -> Value {
    let text = &problems.text;
    let items = problems.diagnostics.iter().map(|diagnostic| {
        let related = diagnostic.related.iter().map(|(place, word)| {
            let mut item = at(text, place);
            item.insert("message".to_owned(), json!(word));
            item
        });
        let related: Vec<_> = related.collect();
        let mut item = at(text, &diagnostic.place);
        item.insert("code".to_owned(), json!(diagnostic.code));
        item.insert("message".to_owned(), json!(diagnostic.message));
        item.insert("help".to_owned(), json!(diagnostic.help));
        item.insert("file".to_owned(), json!(problems.name));
        item.insert("related".to_owned(), json!(related));
        Value::Object(item)
    });
    Value::Array(items.collect())
}

fn at(text: &str, place: &Place) -> Map<String, Value> {
    let mut item = Map::from_iter([("pointer".to_owned(), json!(place.pointer))]);
    if let Some(span) = &place.span {
        let (line, column) = position(text, span.start);
        item.insert("line".to_owned(), json!(line));
        item.insert("column".to_owned(), json!(column));
        item.insert("start".to_owned(), json!(span.start));
        item.insert("end".to_owned(), json!(span.end));
    }
    item
}
