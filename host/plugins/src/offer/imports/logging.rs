//! `windlass:log`.

use crate::bindings::host::windlass::log::log::{Host, Level};
use crate::offer::guest::Guest;

impl Host for Guest {
    fn write(&mut self, level: Level, message: String, fields: Vec<(String, String)>) {
        self.flush_printed();
        let Some(call) = &mut self.call else { return };
        let level = match level {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        let (limits, secrets) = (&self.terms.limits, &self.offer.secrets);
        call.log.write(limits, secrets, level, &message, &fields);
    }
}
