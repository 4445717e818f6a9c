//! The memory that results take, counted before it is allocated.

/// Counts memory before it is allocated.
pub trait Memory {
    /// Counts so many bytes. False: there is no room for them.
    fn charge(&mut self, bytes: usize) -> bool;

    /// Returns bytes that were counted.
    fn discharge(&mut self, bytes: usize);
}

/// Memory without a budget: only the limit of the result bounds it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncounted;

impl Memory for Uncounted {
    fn charge(&mut self, _: usize) -> bool {
        true
    }

    fn discharge(&mut self, _: usize) {}
}

/// Why a result cannot grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It would have more bytes than its limit.
    Limit,
    /// There is no room.
    Memory,
}

/// A result that is charged before it grows. Unless it is taken, it returns its memory.
pub(crate) struct Growing<'a> {
    bytes: Vec<u8>,
    charged: usize,
    limit: usize,
    memory: &'a mut dyn Memory,
}

impl<'a> Growing<'a> {
    pub(crate) fn new(limit: usize, memory: &'a mut dyn Memory) -> Self {
        Self {
            bytes: Vec::new(),
            charged: 0,
            limit,
            memory,
        }
    }

    pub(crate) fn push(&mut self, more: &[u8]) -> Result<(), Full> {
        let filled = self.bytes.len().saturating_add(more.len());
        if filled > self.limit {
            return Err(Full::Limit);
        }
        if filled > self.charged {
            // It doubles, so that few bytes are copied.
            let room = self.charged.saturating_mul(2).max(filled).min(self.limit);
            if !self.memory.charge(room - self.charged) {
                return Err(Full::Memory);
            }
            self.charged = room;
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// Counts memory beside the result.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Full> {
        match self.memory.charge(bytes) {
            true => Ok(()),
            false => Err(Full::Memory),
        }
    }

    /// Returns memory beside the result.
    pub(crate) fn discharge(&mut self, bytes: usize) {
        self.memory.discharge(bytes);
    }

    /// The result. Its bytes stay charged, at least its length and at most its capacity.
    pub(crate) fn take(mut self) -> Vec<u8> {
        self.charged = 0;
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Growing<'_> {
    fn drop(&mut self) {
        self.memory.discharge(self.charged);
    }
}
