//! What a node gets as its input, and what its expressions read for it, until its record keeps it.

use std::sync::Arc;

use bytes::Bytes;
use windlass_engine::expr::Template;
use windlass_engine::{Inputs, NodeIx, Open, Read, check};
use windlass_model::definition::Record;
use windlass_model::limits::INLINE_PAYLOAD_BYTES;
use windlass_model::{BlobRef, Body, Digest, ExecutionNo, Payload, ScopeNo, ShortBytes};
use windlass_store::rows::NewBlob;

use super::evaluate::Evaluations;
use super::owned::OwnedRun;
use crate::call_data::Room;

/// What a node gets.
#[derive(Default)]
pub(crate) struct Got {
    read: Read,
    /// Whether the node takes an input, and was about to get it.
    takes: bool,
    /// Whether the input was rendered.
    rendered: bool,
    /// The values to be stored whole: its configuration, and its input.
    with: Option<Bytes>,
    input: Option<Payload>,
    /// The room for them, which the call gives back when it begins.
    _room: Option<Arc<Room>>,
}

impl Got {
    /// How many values were read: outputs and variables.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.read.outputs.len(), self.read.vars.len())
    }

    /// Drops values that were read after that.
    pub(super) fn truncate(&mut self, (outputs, vars): (usize, usize)) {
        self.read.outputs.truncate(outputs);
        self.read.vars.truncate(vars);
    }

    /// The part kept until the execution is recorded; none if the node takes no input.
    pub(super) fn kept(self) -> Option<Box<Self>> {
        self.takes.then(|| Box::new(self))
    }
}

impl Evaluations {
    /// Notes that an expression before the node reads the output of a node.
    pub(super) fn reads_output(&mut self, node: NodeIx, run: ExecutionNo) {
        if let Some(got) = &mut self.got {
            got.read.output(node, run);
        }
    }

    /// Notes that an expression before the node reads a variable.
    pub(super) fn reads_var(&mut self, name: &str, value: &Payload) {
        if let Some(got) = &mut self.got {
            got.read.var(name, value);
        }
    }

    /// Keeps the room for the data of a call as long as they are kept.
    pub(super) fn keeps(&mut self, room: Option<&Arc<Room>>) {
        let got = self.got.as_mut();
        if let Some(got) = got.filter(|got| got.input.is_some() || got.with.is_some()) {
            let kept = std::mem::take(got);
            *got = Got {
                _room: room.map(Arc::clone),
                ..kept
            };
        }
    }
}

/// Whether a value of a template may be stored. A link that resumes a node is a secret.
fn is_storable(template: Option<&Template>) -> bool {
    template.is_none_or(|template| template.needs().links.is_empty())
}

/// Whether expressions make the value of a template, and its check may be stored.
fn is_made(template: &Template) -> bool {
    template.constant().is_none() && is_storable(Some(template))
}

impl OwnedRun {
    /// Notes the configuration that a node gets, before secrets are put into it.
    pub(super) fn gets_with(&mut self, with: &Template, config: &Bytes) {
        let is_kept = self.records_inputs() && config.len() <= INLINE_PAYLOAD_BYTES;
        if let Some(got) = &mut self.evaluations.got {
            got.takes = true;
            got.read.with = is_made(with).then(|| check(config)).flatten();
            got.with = (is_kept && is_storable(Some(with))).then(|| config.clone());
        }
    }

    /// Notes the input that a node gets. An edited input is nowhere else, so it is always stored.
    pub(super) fn gets_input(&mut self, open: &Open, by: Option<&Template>, input: &Payload) {
        let is_kept = open.input.is_some() || self.records_inputs() && is_storable(by);
        if let Some(got) = &mut self.evaluations.got {
            (got.takes, got.rendered) = (true, true);
            // A value that is only passed on is named.
            let made = by.filter(|by| open.input.is_none() && is_made(by) && by.alias().is_none());
            got.read.input = made.and_then(|_| check(input.inline()?));
            got.input = is_kept.then(|| input.clone());
        }
    }

    fn records_inputs(&self) -> bool {
        self.prepared.graph.options().record == Record::Inputs
    }

    /// What the input of an execution was made of, for its record. A large value becomes a blob.
    pub(super) fn inputs_of(
        &self,
        open: &Open,
        got: Option<Box<Got>>,
        record: ExecutionNo,
        large: &mut Vec<NewBlob>,
    ) -> ShortBytes {
        let item = self.state.scope(open.scope);
        // The item of a cancelled execution may be gone.
        let got = got.filter(|_| item.is_some() || open.scope == ScopeNo::ROOT);
        let place = item.map(|item| (item.run, self.position(open.scope)));
        let Some(got) = got else {
            let without = place.map(|(list, at)| Inputs::without(list, at));
            return without
                .map_or_else(ShortBytes::new, |it| it.encode(record, self.last_execution));
        };
        let plan = self.prepared.graph.node(open.node);
        let is_default = open.input.is_none() && plan.is_none_or(|plan| plan.input.is_none());
        let from = match is_default {
            true => Inputs::default_of(open),
            false => Inputs::default(),
        };
        let mut read = got.read;
        read.cut |= from.read.cut;
        let inputs = Inputs {
            item: place,
            read,
            rendered: got.rendered,
            with: got.with,
            input: got.input.map(|input| moved_out(input, large)),
            ..from
        };
        inputs.encode(record, self.last_execution)
    }
}

/// A value as a record or a trigger has it: a large one is a blob.
pub(crate) fn moved_out(input: Payload, large: &mut Vec<NewBlob>) -> Payload {
    let Some(bytes) = input.inline().filter(|it| it.len() > INLINE_PAYLOAD_BYTES) else {
        return input;
    };
    let (digest, size) = (Digest::of(bytes), bytes.len() as u64);
    let bytes = bytes.clone();
    large.push(NewBlob { digest, bytes });
    Payload {
        content_type: input.content_type,
        body: Body::Blob(BlobRef { digest, size }),
    }
}
