//! The worker that calls the sweeper.

use std::time::Duration;

use windlass_model::Incarnation;
use windlass_periodic::{Periodic, Rest};

use super::{Round, Sweeper};

/// Begins with a round at once, and ends within a slice. `member` returns the current incarnation
/// of the process.
///
/// # Errors
///
/// The system cannot start another thread.
pub(crate) fn start(
    sweeper: Sweeper,
    member: impl Fn() -> Incarnation + Send + 'static,
) -> std::io::Result<Periodic> {
    let every = Duration::from_millis(sweeper.options().every_ms.max(1));
    Periodic::start("retention", move |bell| {
        round(&sweeper, member(), &|| bell.is_stopped());
        Rest::exactly(every)
    })
}

fn round(sweeper: &Sweeper, member: Incarnation, stop: &dyn Fn() -> bool) {
    match sweeper.round(member, stop) {
        Ok(None) => {}
        Ok(Some(round)) if round.forgotten == 0 && round.swept == 0 => {}
        Ok(Some(round)) => {
            let Round {
                forgotten,
                swept,
                longest,
            } = round;
            tracing::info!(
                forgotten,
                swept,
                ?longest,
                "deleted runs whose retention is over"
            );
        }
        Err(error) => {
            tracing::warn!(code = %error.code(), %error, "cannot delete runs whose retention is over");
        }
    }
}
