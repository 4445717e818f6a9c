//! Renders the outputs of items and runs when they end.

use std::sync::Arc;

use windlass_engine::{Command, Event, Judged, apply_judged, fail_output};
use windlass_model::{ExecutionNo, Payload, ScopeNo, Seq, Status};
use windlass_store::write::NewItem;

use super::commit::{Ending, Step};
use super::halfway::Cut;
use super::memory::Unread;
use super::owned::OwnedRun;
use crate::codes;
use crate::shared::{Base, Bursts, RuntimeShared};

impl OwnedRun {
    /// Completes a step whose event is applied: the outputs of items, and that of the run. After a
    /// cut nothing more is rendered. If the step goes aside, it is completed further later.
    pub(super) fn complete(
        &mut self,
        step: &mut Step,
        cut: Option<&Cut>,
        shared: &RuntimeShared,
    ) -> Result<(), Unread> {
        let (base, bursts) = (&shared.base, &shared.bursts);
        self.emit(step, cut, base, bursts)?;
        step.finish = self.finish(step, cut, base, bursts)?;
        Ok(())
    }

    /// Renders the outputs of for-each items as often as the engine requests it. The consequences
    /// belong to the same step.
    fn emit(
        &mut self,
        step: &mut Step,
        cut: Option<&Cut>,
        base: &Base,
        bursts: &Bursts,
    ) -> Result<(), Unread> {
        let graph = Arc::clone(&self.prepared);
        while let Some(command) = step.commands.get(step.carried) {
            match command {
                Command::OpenScope { scope, .. } => self.memory.open_scope(*scope),
                Command::CloseScope(scope) => self.memory.close_scope(*scope),
                Command::DropList(list) => {
                    self.memory.forget_list(*list);
                    step.lists_done.push(*list);
                }
                Command::Emit {
                    scope,
                    list,
                    index,
                    output,
                } => {
                    let (scope, list, index, output) = (*scope, *list, *index, *output);
                    let rendered = match cut {
                        Some(cut) => Err(Unread::Value(cut.of_item())),
                        None => self.item_output(scope, output, base),
                    };
                    let result = match rendered {
                        Ok(output) => {
                            self.keep_item(step, list, index, output);
                            Ok(())
                        }
                        Err(Unread::Value(failure)) => Err(failure),
                        Err(unread) => return Err(unread),
                    };
                    if let Some(event) = &mut step.event {
                        event.rendered(&result);
                    }
                    let event = Event::Emitted { scope, result };
                    let at = (step.now_ms, bursts.max_steps);
                    let (state, judged) = (&mut self.state, Judged::default());
                    if let Ok(more) = apply_judged(&graph.graph, state, event, judged, at) {
                        step.commands.extend(more);
                    }
                }
                _ => {}
            }
            step.carried += 1;
        }
        Ok(())
    }

    fn keep_item(&mut self, step: &mut Step, list: Seq, index: u32, output: Payload) {
        self.memory.keep_item(list, index, output.clone());
        step.items.push(NewItem {
            list,
            index,
            output,
        });
    }

    /// The output of one item.
    fn item_output(
        &mut self,
        scope: ScopeNo,
        from: Option<ExecutionNo>,
        base: &Base,
    ) -> Result<Payload, Unread> {
        if let Some(run) = from {
            return self.memory.output(base.store.as_ref(), run);
        }
        let prepared = Arc::clone(&self.prepared);
        let graph = &prepared.graph;
        let container = self.state.scope(scope).map(|scope| scope.node);
        let body = container.and_then(|node| graph.body(graph.body_of(node)));
        match body.and_then(|body| body.output.as_ref()) {
            Some(template) => self.render_after(scope, template, base),
            None => Ok(Payload::null()),
        }
    }

    /// The end of the run, if the step ends it. Renders the workflow's output; if that fails, the
    /// run is faulted after all, and its completed nodes are undone where possible.
    fn finish(
        &mut self,
        step: &mut Step,
        cut: Option<&Cut>,
        base: &Base,
        bursts: &Bursts,
    ) -> Result<Option<Ending>, Unread> {
        let Some((Status::Completed, output)) = ended(&step.commands) else {
            return Ok(failed(&step.commands));
        };
        let failure = match cut {
            Some(cut) => cut.of_run(),
            None => match self.final_output(output, base) {
                Ok(output) => {
                    let output = Some(output);
                    return Ok(Some(Ending {
                        status: Status::Completed,
                        output,
                        failure: None,
                    }));
                }
                Err(Unread::Value(mut failure)) => {
                    failure.code = codes::OUTPUT;
                    failure.message = format!("the workflow's output: {}", failure.message);
                    Some(failure)
                }
                Err(unread) => return Err(unread),
            },
        };
        step.commands.pop();
        if let Some(event) = &mut step.event {
            event.output_failed(failure.as_ref());
        }
        let graph = Arc::clone(&self.prepared);
        let at = (step.now_ms, bursts.max_steps);
        let more = fail_output(&graph.graph, &mut self.state, failure, at);
        step.commands.extend(more);
        Ok(failed(&step.commands))
    }

    fn final_output(&mut self, from: Option<ExecutionNo>, base: &Base) -> Result<Payload, Unread> {
        if let Some(run) = from {
            return self.memory.output(base.store.as_ref(), run);
        }
        let prepared = Arc::clone(&self.prepared);
        match prepared.graph.output() {
            Some(template) => self.render_after(ScopeNo::ROOT, template, base),
            None => Ok(Payload::null()),
        }
    }
}

/// The final status in these commands, and the execution whose output is the run's.
fn ended(commands: &[Command]) -> Option<(Status, Option<ExecutionNo>)> {
    match commands.last() {
        Some(Command::Finish { status, output, .. }) => Some((*status, *output)),
        _ => None,
    }
}

/// The end of the run in these commands, if it has no output.
fn failed(commands: &[Command]) -> Option<Ending> {
    match commands.last() {
        Some(Command::Finish {
            status, failure, ..
        }) => Some(Ending {
            status: *status,
            output: None,
            failure: failure.clone(),
        }),
        _ => None,
    }
}
