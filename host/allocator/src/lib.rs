//! The allocator of the programs that depend on this crate, and when it returns memory to the
//! system.
//!
//! Executions allocate and free many small values on several threads, and values of megabytes beside
//! them. jemalloc does both: freed large values join with their neighbours and serve the next ones,
//! of any thread and any size.

use std::ffi::{CStr, c_char};

use tikv_jemalloc_sys::mallctl;
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The options. Each core has one arena, in place of four: the threads that run steps are as many as
/// the cores, and an arena keeps gaps of its own. A thread of the allocator returns freed pages to
/// the system in the course of a second.
const OPTIONS: &CStr =
    c"narenas_ratio:1,background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0";

/// The options, where the allocator reads them before `main`. The variable `MALLOC_CONF` changes
/// single ones.
#[expect(
    unsafe_code,
    reason = "the allocator reads its options from a symbol of the program"
)]
#[cfg_attr(not(target_vendor = "apple"), unsafe(export_name = "malloc_conf"))]
#[cfg_attr(target_vendor = "apple", unsafe(export_name = "_rjem_malloc_conf"))]
pub static MALLOC_CONF: Option<&'static c_char> = {
    // SAFETY: the pointer is that of a constant, which is never freed.
    Some(unsafe { &*OPTIONS.as_ptr() })
};

/// How long the allocator keeps freed pages, in milliseconds: the longest, for pages that were all
/// freed at once. None if the allocator does not say.
#[expect(
    unsafe_code,
    reason = "the options of the allocator have no safe binding"
)]
pub fn keeps_pages_ms() -> Option<isize> {
    let (mut value, mut size) = (0_isize, size_of::<isize>());
    // SAFETY: the option has the type `ssize_t`, and value and size are those of this frame.
    let error = unsafe {
        mallctl(
            c"opt.dirty_decay_ms".as_ptr(),
            (&raw mut value).cast(),
            &raw mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    (error == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_reads_the_options_of_the_program() {
        assert_eq!(keeps_pages_ms(), Some(1000));
    }
}
