//! The allocator of the programs that depend on this crate, and when it returns memory to the
//! system.
//!
//! Executions allocate and free many small values on several threads, which mimalloc does well. By
//! default it keeps freed pages for a second, and a host that makes and frees large values all the
//! time then holds several times the memory that its budgets count.

use std::ffi::c_long;

use libmimalloc_sys::{
    mi_option_get, mi_option_set_default, mi_option_t, mi_option_use_numa_nodes,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, which the bindings leave out: the one before its neighbour.
const PURGE_DELAY: mi_option_t = mi_option_use_numa_nodes - 1;

/// How long the allocator keeps a page after its last value is freed, in milliseconds, unless the
/// variable `MIMALLOC_PURGE_DELAY` says otherwise.
pub const KEEP_MS: c_long = 10;

/// Makes the allocator return freed pages after [`KEEP_MS`]. A program calls this first.
#[expect(
    unsafe_code,
    reason = "the options of the allocator have no safe binding"
)]
pub fn return_pages_soon() {
    // SAFETY: the option exists in the version that is built in, and may be set at any time.
    unsafe { mi_option_set_default(PURGE_DELAY, KEEP_MS) }
}

/// How long the allocator keeps a page after its last value is freed, in milliseconds.
#[expect(
    unsafe_code,
    reason = "the options of the allocator have no safe binding"
)]
pub fn keeps_pages_ms() -> c_long {
    // SAFETY: the option exists in the version that is built in.
    unsafe { mi_option_get(PURGE_DELAY) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_for_a_second_until_the_program_changes_it() {
        assert_eq!(
            keeps_pages_ms(),
            1000,
            "the number of the option has changed"
        );
        return_pages_soon();
        assert_eq!(keeps_pages_ms(), KEEP_MS);
    }
}
