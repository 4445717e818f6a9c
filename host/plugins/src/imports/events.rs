//! `windlass:events`. This host has no stimuli yet, and says so.

use crate::bindings::host::windlass::events::events::{EventError, Host, Scheduled, Stimulus};
use crate::guest::Guest;

impl Host for Guest {
    fn send(&mut self, _stimulus: Stimulus) -> Result<(), EventError> {
        Err(self.unavailable())
    }

    fn schedule(&mut self, _trigger: Scheduled) -> Result<(), EventError> {
        Err(self.unavailable())
    }
}

impl Guest {
    fn unavailable(&self) -> EventError {
        EventError::Unavailable(match self.terms.grants.events {
            true => "this host does not send events".to_owned(),
            false => "the capability `events` is not granted".to_owned(),
        })
    }
}
