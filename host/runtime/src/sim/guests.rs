//! The random answers of simulated guests: all answers that a real guest can give.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_model::{
    Again, Bookmark, Class, Code, Done, Failure, JsonText, Origin, Outcome, Payload, Position,
    Suspension,
};
use windlass_plugins::{Cancel, Crash, Disposition, Effects, Quarantine, Returned as Back, codes};

use super::dice::Dice;
use super::graphs::OFTEN;
use crate::shard::work::{Address, Answer, Ask, Patch, Returned, Work};

/// The limit of a call without its own limit, in milliseconds.
const LIMIT_MS: u64 = 60_000;

/// How often a node may ask to be called again.
const PHASES: u32 = 3;

/// A call in progress in a guest.
pub(super) struct Calling {
    pub(super) to: Address,
    /// When it returns, on the monotonic clock.
    pub(super) ready_ms: u64,
    cancel: Cancel,
    reply: Reply,
    workflow: Arc<str>,
    /// How long the plugin takes no call of the workflow.
    pub(super) put_off: Option<Duration>,
    /// Whether the host dies instead of the return.
    kills: bool,
}

/// Guests that crash repeatedly, and the quarantine of one process for them.
pub(super) struct Crashing {
    quarantine: Quarantine,
    dice: Dice,
}

/// Consecutive crashes before a quarantine.
const QUARANTINE_AFTER: u32 = 3;

impl Crashing {
    pub(super) fn new(dice: Dice) -> Self {
        Self {
            quarantine: Quarantine::new(Some(QUARANTINE_AFTER)),
            dice,
        }
    }

    /// How long the call is postponed. A call that is not postponed may crash.
    fn meet(&mut self, workflow: &str, now_ms: u64, reply: &mut Reply) -> Option<Duration> {
        let now = Duration::from_millis(now_ms);
        if let Some(left) = self.quarantine.delay(workflow, now) {
            let message = "simulated: put off".to_owned();
            reply.fail(Failure::new(Class::Retryable, codes::QUARANTINED, message));
            return Some(left);
        }
        let crashes = match reply {
            Reply::Decide(_) => 40,
            Reply::Execute(..) => 90,
        };
        if self.dice.below(100) < crashes {
            reply.fail(failure(Class::Trap));
        }
        None
    }

    fn hear(&self, calling: &Calling, now_ms: u64) {
        if calling.put_off.is_some() {
            return;
        }
        match calling.reply.class() {
            None => self.quarantine.well(&calling.workflow),
            Some(Class::Trap) => {
                let now = Duration::from_millis(now_ms);
                self.quarantine
                    .crashed(&calling.workflow, Crash::Abort, now);
            }
            Some(_) => {}
        }
    }
}

enum Reply {
    Decide(Result<Disposition, Failure>),
    Execute(Result<Outcome, Failure>, Patch),
}

impl Calling {
    /// Passes a call to a guest.
    pub(super) fn begin(
        work: Work,
        (now_ms, wall_ms): (u64, i64),
        dice: &mut Dice,
        crashing: Option<&mut Crashing>,
    ) -> Self {
        let (timeout, cx, mut reply) = match work.ask {
            Ask::Accept(accept) => (accept.timeout, accept.cx, Reply::Decide(disposition(dice))),
            Ask::Execute(call, patch) => {
                let outcome = outcome(call.cx.phase, wall_ms, dice);
                (call.timeout, call.cx, Reply::Execute(outcome, patch))
            }
        };
        let put_off = crashing.and_then(|crashing| crashing.meet(&cx.workflow, now_ms, &mut reply));
        if put_off.is_some() {
            return Self {
                to: work.to,
                ready_ms: now_ms,
                cancel: cx.cancel,
                reply,
                workflow: cx.workflow,
                put_off,
                kills: false,
            };
        }
        let takes_ms = match dice.below(100) {
            0..80 => dice.below(3),
            80..93 => dice.between(3, 500),
            93..98 => dice.between(500, 45_000),
            // The guest hangs until it is interrupted.
            _ => u64::MAX,
        };
        let limit_ms = timeout.map_or(LIMIT_MS, |timeout| {
            u64::try_from(timeout.as_millis()).unwrap().min(LIMIT_MS)
        });
        if takes_ms > limit_ms {
            reply.fail(failure(Class::Deadline));
        }
        Self {
            to: work.to,
            ready_ms: now_ms + takes_ms.min(limit_ms),
            cancel: cx.cancel,
            reply,
            workflow: cx.workflow,
            put_off: None,
            kills: false,
        }
    }

    /// Kills the host at this time, unless the call is cancelled before.
    pub(super) fn kill_at(&mut self, at_ms: u64) {
        self.kills = true;
        self.ready_ms = at_ms;
    }

    /// Lets the call return no earlier than this.
    pub(super) fn wait_until(&mut self, at_ms: u64) {
        self.ready_ms = self.ready_ms.max(at_ms);
    }

    /// Whether the host dies now.
    pub(super) fn kills(&self) -> bool {
        self.kills && !self.cancel.is_cancelled()
    }

    /// Whether it can return now.
    pub(super) fn is_ready(&self, now_ms: u64) -> bool {
        now_ms >= self.ready_ms || self.cancel.is_cancelled()
    }

    /// The result of the call.
    pub(super) fn end(mut self, now_ms: u64, crashing: Option<&Crashing>) -> Returned {
        if self.cancel.is_cancelled() && now_ms < self.ready_ms {
            self.reply.fail(failure(Class::Cancelled));
        }
        if let Some(crashing) = crashing {
            crashing.hear(&self, now_ms);
        }
        let put_off = self.put_off;
        let answer = match self.reply {
            Reply::Decide(result) => Answer::Accepted(back(result, put_off)),
            Reply::Execute(result, patch) => Answer::Executed(back(result, put_off), patch),
        };
        Returned {
            to: self.to,
            answer,
        }
    }
}

impl Reply {
    /// The class of the failure, if the reply is one.
    fn class(&self) -> Option<Class> {
        match self {
            Self::Decide(result) => result.as_ref().err().map(|failure| failure.class),
            Self::Execute(result, _) => result.as_ref().err().map(|failure| failure.class),
        }
    }

    fn fail(&mut self, failure: Failure) {
        match self {
            Self::Decide(result) => *result = Err(failure),
            Self::Execute(result, _) => *result = Err(failure),
        }
    }
}

pub(super) fn back<T>(result: Result<T, Failure>, put_off: Option<Duration>) -> Back<T> {
    Back {
        result,
        logs: Vec::new(),
        blobs: Vec::new(),
        effects: Effects::default(),
        progress: None,
        took: std::time::Duration::from_micros(10),
        memory_bytes: 0,
        put_off,
        hold: None,
    }
}

fn failure(class: Class) -> Failure {
    let code = Code::new("WL-P001");
    Failure::new(class, code, format!("simulated: {}", class.name()))
}

/// The failure with details and an origin, or without.
fn detailed(mut failure: Failure, dice: &mut Dice) -> Failure {
    if dice.once_in(2) {
        failure.details = JsonText::of(&json!({ "n": dice.below(4) })).ok();
    }
    if dice.once_in(4) {
        failure.origin = Some(Box::new(Origin {
            stack: dice.once_in(2).then(|| "at work".to_owned()),
            position: Some(Position {
                source: None,
                line: 1,
                column: 2,
            }),
        }));
    }
    failure
}

fn disposition(dice: &mut Dice) -> Result<Disposition, Failure> {
    match dice.below(100) {
        0..86 => Ok(Disposition::Execute { vars: None }),
        86..92 => {
            let vars = serde_json::json!({ "x": dice.once_in(2), "y": dice.below(3) });
            let vars = Some(Payload::of(&vars));
            Ok(Disposition::Execute { vars })
        }
        92..94 => Ok(Disposition::Handled),
        94..97 => Ok(Disposition::Later {
            after_ms: dice.below(20_000),
        }),
        97 => Ok(Disposition::Reject(failure(Class::Rejected))),
        _ => Err(failure(*dice.pick(&[Class::Trap, Class::Retryable]))),
    }
}

fn outcome(phase: u32, wall_ms: i64, dice: &mut Dice) -> Result<Outcome, Failure> {
    match dice.below(100) {
        0..7 => Err(detailed(failure(Class::Retryable), dice)),
        7..12 => {
            let classes = [
                Class::Permanent,
                Class::Invalid,
                Class::Trap,
                Class::Deadline,
                Class::Limit,
            ];
            Err(detailed(failure(*dice.pick(&classes)), dice))
        }
        12..18 if phase < PHASES => Ok(Outcome::Again(Again {
            after_ms: dice.below(5_000),
            state: dice.once_in(2).then(|| Payload::json("1")),
        })),
        18..22 if phase < PHASES => Ok(Outcome::Suspend(suspension(wall_ms, dice))),
        _ => {
            let ports: &[&[&str]] = &[&[], &["done"], &["p"], &["q"], &["p", "q"], &["done", "p"]];
            let ports = dice.pick(ports).iter().map(|port| (*port).to_owned());
            Ok(Outcome::Done(Done {
                output: Payload::of(&serde_json::json!(dice.below(10))),
                ports: ports.collect(),
            }))
        }
    }
}

/// One or two bookmarks. One of them may never be resumed and expires.
fn suspension(wall_ms: i64, dice: &mut Dice) -> Suspension {
    let mark = |name: &str, expires_ms: Option<i64>| Bookmark {
        name: name.to_owned(),
        matches: serde_json::Value::Null,
        correlation: None,
        private: false,
        auto_burn: true,
        metadata: None,
        expires_ms,
    };
    let expires_ms = wall_ms.saturating_add_unsigned(dice.below(20_000));
    let mut bookmarks = vec![mark(OFTEN, dice.once_in(2).then_some(expires_ms))];
    if dice.once_in(3) {
        bookmarks.push(mark("never", Some(expires_ms)));
    }
    Suspension {
        bookmarks,
        state: dice.once_in(2).then(|| Payload::json("2")),
    }
}
