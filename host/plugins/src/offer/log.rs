//! The lines that a guest logs during one call.
//!
//! Lines beyond the limits are dropped and counted. Control characters are made visible, so that a
//! line stays one line and cannot control a terminal.

use windlass_model::LogLine;

use crate::clean::escape;
use crate::grant::secrets::Secrets;
use crate::grant::settings::Limits;

/// The most fields of a line that are read.
const MAX_FIELDS: usize = 32;

/// The lines so far.
#[derive(Debug, Default)]
pub(crate) struct Log {
    lines: Vec<LogLine>,
    bytes: usize,
    dropped: u64,
}

impl Log {
    pub(crate) fn write(
        &mut self,
        limits: &Limits,
        secrets: &Secrets,
        level: &str,
        message: &str,
        fields: &[(String, String)],
    ) {
        let bytes = fields.iter().fold(message.len(), |sum, (name, value)| {
            sum + name.len() + value.len()
        });
        if fields.len() > MAX_FIELDS || !self.has_room(limits, bytes) {
            self.dropped += 1;
            return;
        }
        let clean = |text: &str| escape(&secrets.redact(text));
        self.lines.push(LogLine {
            level: level.to_owned(),
            message: clean(message),
            fields: fields
                .iter()
                .map(|(name, value)| (clean(name), clean(value)))
                .collect(),
        });
    }

    /// Adds lines that the guest printed, from which secrets are removed already. Lines without a
    /// sign are left out.
    pub(crate) fn print(&mut self, limits: &Limits, level: &str, text: &str) {
        for line in text.lines().filter(|line| !line.trim_ascii().is_empty()) {
            if !self.has_room(limits, line.len()) {
                self.dropped += 1;
                continue;
            }
            self.lines.push(LogLine {
                level: level.to_owned(),
                message: escape(line),
                fields: Vec::new(),
            });
        }
    }

    /// Counts lines that were dropped elsewhere.
    pub(crate) fn drop_lines(&mut self, lines: u64) {
        self.dropped += lines;
    }

    /// Takes room for a line, if there is any.
    fn has_room(&mut self, limits: &Limits, bytes: usize) -> bool {
        let sum = self.bytes.saturating_add(bytes);
        let has_room = self.lines.len() < limits.log_lines && sum <= limits.log_bytes;
        if has_room {
            self.bytes = sum;
        }
        has_room
    }

    /// The lines of the call that ends, with the number of dropped lines.
    pub(crate) fn take(&mut self) -> Vec<LogLine> {
        let mut lines = std::mem::take(&mut self.lines);
        if self.dropped > 0 {
            lines.push(LogLine {
                level: "warn".to_owned(),
                message: format!("{} lines over the limit were dropped", self.dropped),
                fields: Vec::new(),
            });
        }
        self.bytes = 0;
        self.dropped = 0;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::secrets::{Secret, Source};

    fn check(messages: &[&str], limits: &Limits) -> Vec<String> {
        let mut log = Log::default();
        for message in messages {
            log.write(limits, &Secrets::default(), "info", message, &[]);
        }
        log.take().into_iter().map(|line| line.message).collect()
    }

    #[test]
    fn control_characters_are_escaped() {
        let lines = check(&["a\nb\u{1b}[31m", "ü ok"], &Limits::default());
        assert_eq!(lines, ["a␊b␛[31m", "ü ok"]);
    }

    #[test]
    fn lines_beyond_the_limits_are_dropped_and_counted() {
        let limits = Limits {
            log_lines: 2,
            log_bytes: 10,
            ..Limits::default()
        };
        assert_eq!(
            check(&["123456", "123456", "1", "2"], &limits),
            ["123456", "1", "2 lines over the limit were dropped"]
        );
    }

    #[test]
    fn a_secret_is_replaced_by_its_name() {
        let secret = Secret {
            source: Source::Value("hunter22".to_owned()),
            to: Vec::new(),
            workflows: None,
        };
        let secrets = Secrets::new([("token".to_owned(), secret)].into()).unwrap();
        let mut log = Log::default();
        log.write(&Limits::default(), &secrets, "info", "sent hunter22", &[]);
        assert_eq!(log.take()[0].message, "sent [secret token]");
        assert_eq!(format!("{secrets:?}"), r#"{"token"}"#);
    }
}
