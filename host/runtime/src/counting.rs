//! Counts the memory that a thread of a test holds on the heap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The system's allocator, with a count for each thread.
struct Counting;

fn count(bytes: usize, sign: isize) {
    // A thread that ends may free memory after its count has gone.
    let _ = HELD.try_with(|held| held.set(held.get() + sign * bytes.cast_signed()));
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe; this one passes everything on"
)]
// SAFETY: everything goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The bytes that this thread has allocated and not freed.
pub(crate) fn held() -> isize {
    HELD.with(Cell::get)
}
