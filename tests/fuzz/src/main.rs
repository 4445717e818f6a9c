//! `windlass-fuzz TARGET FILE…` replays inputs. Compiled with `--cfg fuzzing`, as
//! `cargo xtask fuzz` does, the program is libFuzzer for the target in `WINDLASS_FUZZ`.
#![cfg_attr(fuzzing, no_main)]
#![cfg_attr(
    fuzzing,
    expect(
        unsafe_code,
        reason = "the entry that libFuzzer calls is made by a macro"
    )
)]
#![expect(clippy::print_stderr, reason = "it is a command for people")]

use std::alloc::System;

use cap::Cap;
use windlass_fuzz::Target;

/// Counts the allocated bytes, and aborts beyond the budget of an input.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn run(target: &Target, data: &[u8]) {
    let limit = ALLOCATOR.allocated().saturating_add(target.memory_bytes);
    // The limit is above the allocated bytes, so setting it succeeds.
    let _ = ALLOCATOR.set_limit(limit);
    (target.run)(data);
    let _ = ALLOCATOR.set_limit(usize::MAX);
}

fn named(name: &str) -> &'static Target {
    windlass_fuzz::target(name).unwrap_or_else(|| {
        let names: Vec<_> = windlass_fuzz::TARGETS.iter().map(|it| it.name).collect();
        eprintln!("no target `{name}`; there are {}", names.join(", "));
        std::process::exit(2)
    })
}

#[cfg(fuzzing)]
static TARGET: std::sync::LazyLock<&'static Target> =
    std::sync::LazyLock::new(|| named(&std::env::var("WINDLASS_FUZZ").unwrap_or_default()));

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| -> libfuzzer_sys::Corpus {
    if data.len() > TARGET.input_bytes {
        return libfuzzer_sys::Corpus::Reject;
    }
    run(&TARGET, data);
    libfuzzer_sys::Corpus::Keep
});

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let name = args.next().unwrap_or_default();
    let target = named(&name.to_string_lossy());
    let mut inputs = 0_u64;
    for place in args {
        let place = std::path::PathBuf::from(place);
        let mut files = if place.is_dir() {
            let entries = std::fs::read_dir(place)?.map(|entry| Ok(entry?.path()));
            entries.collect::<std::io::Result<Vec<_>>>()?
        } else {
            vec![place]
        };
        files.sort();
        for file in files {
            let data = std::fs::read(&file)?;
            // Printed before the run, so that the last line names the input of a crash.
            eprintln!("{}", file.display());
            run(target, &data);
            inputs += 1;
        }
    }
    eprintln!("{inputs} inputs");
    Ok(())
}
