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

#[test]
fn the_lines_of_a_crash_stay_lines() {
    let output = Output {
        format: Format::Text,
        data: Paint(false),
        notes: Paint(false),
        watched: false,
    };
    let message = "it crashed; the end of its stderr: panic: no␊main.run()␊␉main.go:66";
    let shown = super::text(&output, &Expected::new(Code::new("WL-R030"), message));
    let expected = "error[WL-R030]: it crashed; the end of its stderr:\n    panic: no\n    \
                    main.run()\n        main.go:66\n  more: windlass explain WL-R030\n";
    assert_eq!(shown, expected);
    // One line stays where it is.
    let message = "it crashed; the end of its stderr: no";
    let shown = super::text(&output, &Expected::new(Code::new("WL-R030"), message));
    assert!(shown.starts_with("error[WL-R030]: it crashed; the end of its stderr: no\n"));
}
