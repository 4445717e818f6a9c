//! What the input of an execution was made of, as the execution's record keeps it.
//!
//! Rendering is pure: the same definition and the same values give the same input. So a record names
//! the values that were read, and the input can be rendered again. Of a
//! variable, whose value may be replaced later, it keeps a mark that only the same value has.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_model::{Body, Digest, ExecutionNo, Payload, ShortBytes};

use super::detail::{WirePayload, put, take};
use super::moving::{Renumber, one};
use super::{Corrupt, Open};
use crate::graph::NodeIx;

/// The input is the output of the record before.
const BEFORE: u8 = 1;
const FROM: u8 = 1 << 1;
const ITEM: u8 = 1 << 2;
const READ: u8 = 1 << 3;
const RENDERED: u8 = 1 << 4;
const WITH: u8 = 1 << 5;
const INPUT: u8 = 1 << 6;
const NONE: u8 = 1 << 7;

/// The bytes of names and numbers of values that a record keeps.
pub const READ_BYTES: usize = 8 * 1024;

/// The bytes that a value counts for, besides its name.
const VALUE_BYTES: usize = 24;

/// The largest result of expressions that has a check, in bytes.
const CHECKED_BYTES: usize = 256 * 1024;

/// A mark of a value: the beginning of the SHA-256 of its content.
pub type Mark = [u8; 16];

/// The mark of a value.
pub fn mark(value: &Payload) -> Mark {
    let Digest(digest) = match &value.body {
        Body::Inline(bytes) => Digest::of(bytes),
        Body::Blob(blob) => blob.digest,
    };
    digest.first_chunk().copied().unwrap_or_default()
}

/// A shorter mark, of the result of expressions; none for a large one. A result that is rendered
/// again and has another check is not the same.
pub fn check(result: &[u8]) -> Option<[u8; 8]> {
    let Digest(digest) = match result.len() {
        ..=CHECKED_BYTES => Digest::of(result),
        _ => return None,
    };
    digest.first_chunk().copied()
}

/// The values that the expressions of an execution read. Of several with one name the last counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Read {
    /// The records whose outputs were read, by node. A node that is not here had no output.
    pub outputs: Vec<(NodeIx, ExecutionNo)>,
    /// The variables. One that is not here was not assigned.
    pub vars: Vec<(String, Mark)>,
    /// Whether more was read than [`READ_BYTES`] hold.
    pub cut: bool,
    /// The check of the configuration, if expressions made it.
    pub with: Option<[u8; 8]>,
    /// The check of the input, if expressions made it.
    pub input: Option<[u8; 8]>,
}

impl Read {
    fn has_room(&mut self, bytes: usize) -> bool {
        if self.cut {
            return false;
        }
        let names = self.vars.iter().map(|(name, _)| VALUE_BYTES + name.len());
        let held = names.sum::<usize>() + self.outputs.len() * VALUE_BYTES;
        self.cut |= held + bytes > READ_BYTES;
        !self.cut
    }

    /// Notes the output of a node.
    pub fn output(&mut self, node: NodeIx, run: ExecutionNo) {
        if self.has_room(VALUE_BYTES) {
            self.outputs.push((node, run));
        }
    }

    /// Notes a variable.
    pub fn var(&mut self, name: &str, value: &Payload) {
        if self.has_room(VALUE_BYTES + name.len()) {
            self.vars.push((name.to_owned(), mark(value)));
        }
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the input of an execution was made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// The records whose outputs made the default input, with their nodes, which count only where
    /// several records make an object. Empty for an entry, and for a node with an input of its own.
    pub from: Vec<(NodeIx, ExecutionNo)>,
    /// In a for-each: the record whose output is the list, and the positions of the items around
    /// the execution, the outermost first.
    pub item: Option<(ExecutionNo, Vec<u32>)>,
    /// The values that its expressions read.
    pub read: Read,
    /// Whether the input was rendered: the execution may have failed before.
    pub rendered: bool,
    /// Whether the record tells the place of the execution alone: the node takes no input, or the
    /// execution ended before it was about to get one.
    pub none: bool,
    /// Its configuration, if that is stored whole.
    pub with: Option<Bytes>,
    /// Its input, if that is stored whole.
    pub input: Option<Payload>,
}

impl Inputs {
    /// What the default input of an execution is made of. `gathers`: it is an object by node.
    pub fn default_of(open: &Open) -> Self {
        let mut inputs = Self::default();
        for (node, run) in &open.from {
            if inputs.read.has_room((inputs.from.len() + 1) * VALUE_BYTES) {
                inputs.from.push((*node, *run));
            }
        }
        inputs
    }

    /// What the record of an execution without an input tells: the list and the positions of the
    /// items around it.
    pub fn without(list: ExecutionNo, at: Vec<u32>) -> Self {
        Self {
            item: Some((list, at)),
            none: true,
            ..Self::default()
        }
    }

    /// Encodes it for a record with this number, which follows another one.
    pub fn encode(&self, record: ExecutionNo, previous: Option<ExecutionNo>) -> ShortBytes {
        let near = |run: &ExecutionNo| record.0.wrapping_sub(run.0);
        let is_before = matches!(&*self.from, [(_, run)] if Some(*run) == previous);
        let mut flags = 0;
        let mut set = |flag: u8, on: bool| flags |= if on { flag } else { 0 };
        set(BEFORE, is_before);
        set(FROM, !is_before && !self.from.is_empty());
        set(ITEM, self.item.is_some());
        set(READ, !self.read.is_empty());
        set(RENDERED, self.rendered);
        set(WITH, self.with.is_some());
        set(INPUT, self.input.is_some());
        set(NONE, self.none);
        let mut bytes = ShortBytes::from_slice(&[flags]);
        if is_before {
            // The node counts where it is the only one of several.
            let node = self.from.first().map_or(0, |(node, _)| node.0);
            bytes = put(bytes, &node);
        } else if !self.from.is_empty() {
            let from: Vec<_> = self
                .from
                .iter()
                .map(|(node, run)| (node, near(run)))
                .collect();
            bytes = put(bytes, &from);
        }
        if let Some((list, at)) = &self.item {
            bytes = put(bytes, &(near(list), at));
        }
        if !self.read.is_empty() {
            let mut read = self.read.clone();
            for (_, run) in &mut read.outputs {
                *run = ExecutionNo(near(run));
            }
            bytes = put(bytes, &read);
        }
        if let Some(with) = &self.with {
            bytes = put(bytes, with);
        }
        if let Some(input) = &self.input {
            bytes = put(bytes, &WirePayload::of(input));
        }
        bytes
    }

    /// Decodes it; none if the record has none.
    ///
    /// # Errors
    ///
    /// The bytes are damaged, or of an unknown version.
    pub fn decode(
        bytes: &[u8],
        record: ExecutionNo,
        previous: Option<ExecutionNo>,
    ) -> Result<Option<Self>, Corrupt> {
        let Some((flags, mut rest)) = bytes.split_first() else {
            return Ok(None);
        };
        let damaged = Corrupt {
            what: "input",
            reason: "its record is damaged, or of an unknown version",
        };
        if flags & NONE != 0 && *flags != NONE | ITEM {
            return Err(damaged);
        }
        let far = |near: i64| ExecutionNo(record.0.wrapping_sub(near));
        let mut inputs = Self {
            rendered: flags & RENDERED != 0,
            none: flags & NONE != 0,
            ..Self::default()
        };
        if let Some(node) = take(flags & BEFORE, &mut rest)? {
            inputs.from = vec![(NodeIx(node), previous.ok_or(damaged)?)];
        }
        if let Some(from) = take(flags & FROM, &mut rest)? {
            let from: Vec<(NodeIx, i64)> = from;
            let from = from.into_iter();
            inputs.from = from.map(|(node, near)| (node, far(near))).collect();
        }
        let item: Option<(i64, Vec<u32>)> = take(flags & ITEM, &mut rest)?;
        inputs.item = item.map(|(list, at)| (far(list), at));
        inputs.read = take(flags & READ, &mut rest)?.unwrap_or_default();
        for (_, run) in &mut inputs.read.outputs {
            *run = far(run.0);
        }
        inputs.with = take(flags & WITH, &mut rest)?;
        inputs.input =
            take::<WirePayload>(flags & INPUT, &mut rest)?.map(WirePayload::into_payload);
        rest.is_empty().then_some(Some(inputs)).ok_or(damaged)
    }

    /// Renumbers the records that it names.
    ///
    /// # Errors
    ///
    /// It names a record that has no new number.
    pub fn renumber(&mut self, to: &mut Renumber<'_>) -> Result<(), Corrupt> {
        let list = self.item.iter_mut().map(|(list, _)| list);
        let read = self.from.iter_mut().chain(&mut self.read.outputs);
        let mut all = list.chain(read.map(|(_, run)| run));
        all.try_for_each(|run| one(run, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Inputs {
        Inputs {
            from: vec![(NodeIx(4), ExecutionNo(90)), (NodeIx(5), ExecutionNo(7))],
            item: Some((ExecutionNo(1 << 40), vec![3, 0])),
            read: Read {
                outputs: vec![(NodeIx(1), ExecutionNo(99))],
                vars: vec![("n".to_owned(), mark(&Payload::null()))],
                cut: false,
                with: check(b"{}"),
                input: None,
            },
            rendered: true,
            none: false,
            with: Some(Bytes::from_static(b"{}")),
            input: Some(Payload::json("[1]")),
        }
    }

    #[test]
    fn inputs_survive_their_encoding_and_the_usual_ones_take_two_bytes() {
        let (no, previous) = (ExecutionNo(100), Some(ExecutionNo(99)));
        let usual = Inputs {
            from: vec![(NodeIx(2), ExecutionNo(99))],
            rendered: true,
            ..Inputs::default()
        };
        let without = Inputs::without(ExecutionNo(98), vec![3]);
        for inputs in [all(), usual.clone(), without.clone(), Inputs::default()] {
            let bytes = inputs.encode(no, previous);
            assert_eq!(Inputs::decode(&bytes, no, previous), Ok(Some(inputs)));
        }
        assert_eq!(usual.encode(no, previous).len(), 2);
        assert_eq!(without.encode(no, previous).len(), 4);
        assert_eq!(Inputs::decode(&[], no, previous), Ok(None));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let (no, previous) = (ExecutionNo(100), Some(ExecutionNo(99)));
        let bytes = all().encode(no, previous);
        for end in 1..bytes.len() {
            assert!(
                Inputs::decode(&bytes[..end], no, previous).is_err(),
                "{end}"
            );
        }
        assert!(Inputs::decode(&[128], no, previous).is_err());
        assert!(Inputs::decode(&[BEFORE, 0], no, None).is_err());
    }

    #[test]
    fn values_that_were_read_are_kept_up_to_their_bound() {
        let mut read = Read::default();
        for number in 0..1_000 {
            read.var(&format!("v{number}"), &Payload::null());
        }
        assert!(read.cut);
        let bytes: usize = read
            .vars
            .iter()
            .map(|(name, _)| name.len() + VALUE_BYTES)
            .sum();
        assert!(bytes <= READ_BYTES && bytes > READ_BYTES - 100, "{bytes}");
    }
}
