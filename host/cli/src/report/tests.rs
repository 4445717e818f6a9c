//! Errors that contain foreign text, printed.

use windlass_display::visible::is_hidden;
use windlass_model::Code;

use crate::error::Expected;
use crate::output::{Format, Output, Paint};

#[test]
fn control_characters_of_an_error_are_shown() {
    let hostile = "\x1b[2J\x1b]0;title\x07\u{9b}2J\u{202e}x\0\u{7f}\r";
    let error = Expected::new(Code::new("WL-U001"), hostile).help(hostile);
    let output = Output {
        format: Format::Text,
        data: Paint(false),
        notes: Paint(false),
        watched: false,
    };
    let shown = super::text(&output, &error);
    assert!(shown.contains("␛[2J"), "{shown}");
    assert!(!shown.chars().any(is_hidden), "{shown:?}");
}
