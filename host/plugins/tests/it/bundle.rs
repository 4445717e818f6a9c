//! Components inside a program.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_model::Digest;
use windlass_plugins::{Bundle, Folders, LoadEvent, Options};

use crate::rig::{Rig, built, call, output};

/// A bundle of the component `echo`, as a program contains it.
fn echo() -> &'static [u8] {
    let rig = Rig::new();
    let component = std::fs::read(built("echo")).unwrap();
    let bundle = rig.host.pack(vec![("echo".to_owned(), component)]);
    Box::leak(bundle.unwrap().into_boxed_slice())
}

/// A host in an empty directory with a bundle in its program.
fn with(bytes: &'static [u8], change: impl FnOnce(&mut Options)) -> Rig {
    Rig::in_dir(tempfile::tempdir().unwrap(), |options| {
        options.bundle = Bundle::read(bytes).unwrap();
        options.library = options.bundle.digests().collect();
        change(options);
    })
}

/// The files of compiled code in the cache of a host.
fn compiled(rig: &Rig) -> usize {
    let mut count = 0;
    for folder in std::fs::read_dir(rig.dir.path().join("compiled")).unwrap() {
        let files = std::fs::read_dir(folder.unwrap().path()).unwrap();
        let code = files.filter(|file| {
            let path = file.as_ref().unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            name.ends_with(".cwasm") && !name.ends_with(".ahead.cwasm")
        });
        count += code.count();
    }
    count
}

#[track_caller]
fn echoes(rig: &Rig) {
    let plugin = rig.host.registry().iter().remove(0);
    let returned = rig.fiber(&plugin, call("echo/echo", &Value::Null, &json!({ "a": 1 })));
    assert_eq!(output(returned), json!({ "a": 1 }));
}

#[test]
fn the_components_in_the_program_run_without_a_compilation() {
    let bytes = echo();
    let rig = with(bytes, |_| ());
    let events = rig.host.scan(&[]);
    let [LoadEvent::Loaded { file, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(file, Path::new("built-in:echo.wasm"));
    assert_eq!(compiled(&rig), 0);
    echoes(&rig);
    // The next start maps the code, and unpacks nothing.
    let Rig { host, io, dir, .. } = rig;
    drop((host, events, io));
    let kept = dir.path().join("compiled");
    let digest = Bundle::read(bytes).unwrap().digests().next().unwrap();
    let folder = std::fs::read_dir(kept).unwrap().next().unwrap().unwrap();
    let code = folder.path().join(format!("{}.ahead.cwasm", digest.hex()));
    assert!(code.is_file());
    let rig = Rig::in_dir(dir, |options| {
        options.bundle = Bundle::read(bytes).unwrap();
        options.library = options.bundle.digests().collect();
    });
    rig.host.scan(&[]);
    echoes(&rig);
    // Code that others have changed is not run: that of the program is.
    let mut damaged = std::fs::read(&code).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&code, &damaged).unwrap();
    let rig = Rig::in_dir(rig.dir, |options| {
        options.bundle = Bundle::read(bytes).unwrap();
        options.library = options.bundle.digests().collect();
    });
    rig.host.scan(&[]);
    echoes(&rig);
    assert!(std::fs::read(&code).unwrap() != damaged, "it is made anew");
    let plugin = rig.host.registry().iter().remove(0);
    // A later program may have another library: runs find the component by its digest.
    let bytes = rig.host.component(&plugin.digest).unwrap();
    assert_eq!(Digest::of(&bytes), plugin.digest);
}

#[test]
fn components_of_the_program_are_compiled_for_this_processor_once_and_replaced() {
    let rig = with(echo(), |_| ());
    rig.host.scan(&[]);
    let before = rig.host.registry().iter().remove(0);
    let made = rig.host.compile_bundle().unwrap().unwrap();
    assert_eq!((made.digest, compiled(&rig)), (before.digest, 1));
    assert!(rig.host.is_replaced(&before) && !rig.host.is_replaced(&made));
    let now = rig.host.registry().iter().remove(0);
    assert!(Arc::ptr_eq(&now, &made));
    echoes(&rig);
    assert!(rig.host.compile_bundle().unwrap().is_none());
}

#[test]
fn a_folder_in_place_of_the_bundle_is_used_alone_with_the_code_of_the_bundle() {
    let rig = with(echo(), |options| options.load_bundle = false);
    assert!(rig.host.scan(&[]).is_empty());
    let folder = rig.dir.path().join("library");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(built("echo"), folder.join("echo.wasm")).unwrap();
    let mut folders = Folders::new(vec![folder.clone()]);
    let mut loaded = Vec::new();
    folders.look(&rig.host, &mut |event| loaded.push(event));
    let [LoadEvent::Loaded { file, .. }] = loaded.as_slice() else {
        panic!("{loaded:?}")
    };
    assert_eq!(*file, folder.join("echo.wasm"));
    assert_eq!(compiled(&rig), 0);
    echoes(&rig);
    assert!(rig.host.compile_bundle().unwrap().is_none());
}

#[test]
fn a_denied_component_of_the_program_is_not_loaded() {
    let bytes = echo();
    let digest = Bundle::read(bytes).unwrap().digests().next().unwrap();
    let rig = with(bytes, |options| {
        options.denied.insert(digest);
    });
    let events = rig.host.scan(&[]);
    let [LoadEvent::Failed { error, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(error.code, windlass_plugins::codes::DENIED);
    assert!(rig.host.registry().iter().is_empty());
    assert!(rig.host.compile_bundle().unwrap().is_none());
}

#[test]
fn a_bundle_that_is_cut_is_refused() {
    let bytes = echo();
    for end in [1, 40, bytes.len() / 2, bytes.len() - 1] {
        let error = Bundle::read(&bytes[..end]).unwrap_err();
        assert_eq!(error.code, windlass_plugins::codes::MALFORMED, "{end}");
    }
    assert!(Bundle::read(&[]).unwrap().is_empty());
}
