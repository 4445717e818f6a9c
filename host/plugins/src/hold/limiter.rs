//! Bounds the memories and tables of an instance.
//!
//! wasmtime's own limiter counts each memory by itself; a component may have several, so the sums
//! are kept here. A refused growth is remembered: the guest's reaction, usually a crash, is then
//! reported as an exceeded limit.
//!
//! Growth is also charged to the budget of the process. If the budget has no room, the guest is
//! ended: the same call may find room a moment later, so the guest's reaction to a refusal would be
//! useless.

use wasmtime::ResourceLimiter;

use super::Stop;
use crate::hold::budget::Account;

/// The size of an instance, and its bounds.
pub(crate) struct Limiter {
    /// Its account in the budget.
    pub(crate) account: Account,
    memory: usize,
    max_memory: usize,
    elements: usize,
    max_elements: usize,
    refused: bool,
}

impl Limiter {
    pub(crate) fn new(account: Account, max_memory: usize, max_elements: usize) -> Self {
        Self {
            account,
            memory: 0,
            max_memory,
            elements: 0,
            max_elements,
            refused: false,
        }
    }

    /// Bytes of all memories together.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether a growth was refused since the last call of this function.
    pub(crate) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        if total > self.max_memory || maximum.is_some_and(|maximum| desired > maximum) {
            self.refused |= total > self.max_memory;
            return Ok(false);
        }
        if !self.account.charge((total - self.memory) as u64) {
            return Err(Stop::NoMemory.into());
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self
            .elements
            .saturating_add(desired.saturating_sub(current));
        if total > self.max_elements || maximum.is_some_and(|maximum| desired > maximum) {
            self.refused |= total > self.max_elements;
            return Ok(false);
        }
        self.elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

/// Core instances inside one component: those of Python need 38.
pub(crate) const MAX_INSTANCES: usize = 200;
/// Tables inside one component.
pub(crate) const MAX_TABLES: usize = 32;
/// Memories inside one component.
pub(crate) const MAX_MEMORIES: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hold::budget::tests::account;

    fn limiter(total: u64) -> Limiter {
        Limiter::new(account(total), 100, 10)
    }

    #[test]
    fn growth_beyond_the_budget_ends_the_guest() {
        // The whole budget is used by the instance itself.
        let mut limiter = limiter(crate::hold::budget::INSTANCE_BYTES);
        assert!(limiter.memory_growing(0, 60, None).is_err());
        assert_eq!(limiter.memory(), 0);
        assert!(limiter.account.look(Duration::ZERO));
    }

    #[test]
    fn memories_are_summed() {
        let mut limiter = limiter(1 << 20);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.take_refused());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert_eq!(limiter.memory(), 100);
        assert!(!limiter.take_refused());
    }

    #[test]
    fn a_memorys_own_maximum_is_no_limit_of_the_host() {
        let mut limiter = limiter(1 << 20);
        assert!(!limiter.memory_growing(0, 60, Some(50)).unwrap());
        assert!(!limiter.take_refused());
    }
}
