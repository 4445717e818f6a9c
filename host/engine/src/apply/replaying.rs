//! Repeats the steps of a run from its stored events.

use windlass_model::Status;

use super::judging::{Judged, Judgement, Way};
use super::recorded::{Change, Recorded};
use super::recording::corrupt;
use super::{Command, Cx, Event, apply_judged, fail_output, reopen};
use crate::expr::Values;
use crate::graph::Graph;
use crate::state::{Corrupt, RunState};

/// Takes a run from one state to the next by a stored event, and returns the commands of that step.
/// The event of a run with another version of its workflow needs [`Recorded::refit`] before.
///
/// # Errors
///
/// The event does not fit the state, which may be changed then.
pub fn replay(
    graph: &Graph,
    state: &mut RunState,
    mut recorded: Recorded,
) -> Result<Vec<Command>, Corrupt> {
    recorded.prepare(graph, state)?;
    let at = (recorded.now_ms, recorded.max_steps);
    let (event, judged) = match recorded.change {
        Change::Event(event) => (event, Judged::default()),
        Change::Begun => return Err(corrupt("the run has begun before")),
        Change::Lost => return Err(corrupt("the events before it are not known")),
        Change::Reopened(how, _) => {
            let values = Values::new();
            let cx = Cx {
                now_ms: at.0,
                random: 0,
                values: &values,
                failing: Ok(&values),
                max_steps: at.1,
            };
            let closed = |_| corrupt("the run cannot be reopened");
            return reopen(graph, state, how, &cx).map_err(closed);
        }
        Change::Decided {
            seq,
            run,
            end,
            refuted,
            way,
            all,
        } => {
            let open = state.run_of(seq).ok_or_else(stale)?;
            let plan = graph.node(open.node).ok_or_else(stale)?;
            let edges = plan.outbound.len();
            let way = match way {
                Way::Done(_) if all => Way::Done(vec![true; edges]),
                Way::Done(taken) | Way::Handled(_, taken) if taken.len() != edges => {
                    return Err(corrupt("it decides about other edges"));
                }
                way => way,
            };
            // The decision alone counts.
            let event = Event::Done {
                seq,
                run,
                ports: Vec::new(),
                end,
            };
            (event, Judged(Some(Judgement { refuted, way })))
        }
    };
    let applied = apply_judged(graph, state, event, judged, at);
    let mut commands = applied.map_err(|_| stale())?;
    let mut failures = recorded.items.into_iter().peekable();
    let (mut carried, mut rendered) = (0, 0);
    while let Some(command) = commands.get(carried) {
        carried += 1;
        let Command::Emit { scope, .. } = *command else {
            continue;
        };
        let result = match failures.next_if(|(nth, _)| *nth == rendered) {
            Some((_, failure)) => Err(failure),
            None => Ok(()),
        };
        rendered += 1;
        let event = Event::Emitted { scope, result };
        // An item that was closed meanwhile has no output.
        if let Ok(more) = apply_judged(graph, state, event, Judged::default(), at) {
            commands.extend(more);
        }
    }
    if failures.next().is_some() {
        return Err(corrupt("it has failures of more items than the step"));
    }
    if let Some(failure) = recorded.output {
        let completed = matches!(
            commands.last(),
            Some(Command::Finish {
                status: Status::Completed,
                ..
            })
        );
        if !completed {
            return Err(corrupt("the output of a run fails that has not completed"));
        }
        commands.pop();
        commands.extend(fail_output(graph, state, failure, at));
    }
    Ok(commands)
}

fn stale() -> Corrupt {
    corrupt("its trigger is not open")
}
