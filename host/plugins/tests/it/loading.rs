//! Loads files: into a plugin, or with an error.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_model::Digest;
use windlass_model::definition::UseRef;
use windlass_plugins::{CompileReport, Options};

use crate::rig::{Rig, bare, built, output};

#[track_caller]
fn refused(name: &str, code: &str) {
    let rig = Rig::new();
    let error = rig.host.load_file(&built(name)).unwrap_err();
    assert_eq!(error.code.as_str(), code, "{error}");
    assert!(error.subject.ends_with(&format!("{name}.wasm")));
}

#[test]
fn files_that_are_no_plugin_are_refused_with_the_reason() {
    refused("garbage", "WL-P001");
    refused("wrong-world", "WL-P005");
    refused("unknown-import", "WL-P006");
    refused("describe-loop", "WL-P007");
    refused("start-loop", "WL-P007");
    refused("describe-garbage", "WL-P008");
    refused("describe-other", "WL-P008");
}

#[track_caller]
fn refused_bytes(bytes: Vec<u8>, change: impl FnOnce(&mut Options), code: &str) {
    let rig = Rig::with(change);
    let error = rig.host.load_bytes("test.wasm", bytes).unwrap_err();
    assert_eq!(error.code.as_str(), code, "{error}");
}

#[test]
fn files_that_are_cut_or_too_large_are_refused() {
    let whole = std::fs::read(built("echo")).unwrap();
    refused_bytes(whole[..whole.len() / 2].to_vec(), |_| (), "WL-P001");
    refused_bytes(Vec::new(), |_| (), "WL-P001");
    refused_bytes(
        whole,
        |options| options.max_component_bytes = 1000,
        "WL-P002",
    );
}

#[test]
fn a_component_with_too_many_parts_is_refused() {
    let modules: String = (0..600).map(|_| "(core module)").collect();
    let bytes = wat::parse_str(format!("(component {modules})")).unwrap();
    refused_bytes(bytes, |_| (), "WL-P003");
}

#[test]
fn a_core_module_with_too_large_a_world_is_refused_before_it_is_wrapped() {
    let world = |bytes: usize| {
        let data = "x".repeat(bytes);
        let text = format!("(module (@custom \"component-type:w\" \"{data}\"))");
        wat::parse_str(text).unwrap()
    };
    refused_bytes(world((1 << 20) + 1), |_| (), "WL-P003");
    // It is read, and is none.
    refused_bytes(world(1 << 20), |_| (), "WL-P011");
}

#[test]
fn a_core_module_without_names_of_the_contract_is_refused() {
    let rig = Rig::new();
    let error = rig.wat("(module)").unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P005");
    let error = rig
        .wat("(module (import \"env\" \"f\" (func)))")
        .unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P011");
}

#[test]
fn compiled_code_is_never_taken_from_outside() {
    let rig = Rig::alone();
    rig.plugin("echo");
    let compiled = files(&rig, "cwasm").pop().unwrap();
    let error = rig.host.load_file(&compiled).unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P012");
}

#[test]
fn the_same_bytes_are_the_same_plugin() {
    let rig = Rig::new();
    let echo = rig.plugin("echo");
    let bytes = std::fs::read(built("echo")).unwrap();
    let again = rig.host.load_bytes("other name", bytes).unwrap();
    assert!(Arc::ptr_eq(&echo, &again));
}

#[test]
fn a_plugin_that_is_gone_comes_back_by_its_digest() {
    let rig = Rig::new();
    let digest = rig.plugin("echo").digest;
    let echo = rig.host.plugin(&digest).unwrap();
    assert_eq!(echo.digest, digest);
    output(rig.fiber(&echo, bare("echo/echo")));
    let error = rig.host.plugin(&Digest::of(b"never seen")).unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P017");
}

fn files(rig: &Rig, ending: &str) -> Vec<std::path::PathBuf> {
    let versions = std::fs::read_dir(rig.dir.path().join("compiled")).unwrap();
    versions
        .flat_map(|version| std::fs::read_dir(version.unwrap().path()).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|is| is == ending))
        .collect()
}

/// Checks that a damaged file in the cache has no visible effect.
#[track_caller]
fn damaged(ending: &str, damage: impl Fn(Vec<u8>) -> Vec<u8>) {
    let rig = Rig::alone();
    rig.plugin("echo");
    let Rig { host, io, dir, .. } = rig;
    drop((host, io));
    let rig = Rig::in_dir(dir, |_| ());
    for file in files(&rig, ending) {
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, damage(whole)).unwrap();
    }
    let echo = rig.plugin("echo");
    output(rig.fiber(&echo, bare("echo/echo")));
}

#[test]
fn a_damaged_cache_is_made_anew() {
    let flip = |mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        bytes
    };
    damaged("cwasm", flip);
    damaged("cwasm", |_| Vec::new());
    damaged("cwasm", |bytes| bytes[..bytes.len() / 2].to_vec());
    damaged("tag", |_| b"?".to_vec());
    damaged("tag", |_| Vec::new());
    damaged("json", |_| b"{".to_vec());
    damaged("json", |mut bytes| {
        bytes.pop();
        bytes
    });
}

/// The inodes of the files with compiled code.
fn code(rig: &Rig) -> std::collections::BTreeMap<std::path::PathBuf, u64> {
    use std::os::unix::fs::MetadataExt as _;
    let files = files(rig, "cwasm").into_iter();
    files
        .map(|file| (file.clone(), std::fs::metadata(file).unwrap().ino()))
        .collect()
}

fn again(rig: Rig) -> Rig {
    let Rig { host, io, dir, .. } = rig;
    drop((host, io));
    Rig::in_dir(dir, |_| ())
}

#[test]
fn code_is_run_only_for_its_component() {
    let rig = Rig::alone();
    let (echo, counter) = (rig.plugin("echo").digest, rig.plugin("counter").digest);
    // As an attacker leaves it who can write files, but has no key.
    for ending in ["cwasm", "tag"] {
        let files = files(&rig, ending);
        let of = |digest: &Digest| {
            let mut found = files.iter();
            let name = digest.hex();
            let found = found.find(|file| file.to_string_lossy().contains(name.as_str()));
            found.unwrap().clone()
        };
        std::fs::copy(of(&counter), of(&echo)).unwrap();
    }
    let rig = again(rig);
    let plugin = rig.plugin("echo");
    output(rig.fiber(&plugin, bare("echo/echo")));
}

#[test]
fn code_that_another_users_host_has_made_is_made_anew() {
    let rig = Rig::alone();
    rig.plugin("echo");
    let first = code(&rig);
    let rig = again(rig);
    rig.plugin("echo");
    assert_eq!(code(&rig), first, "the same user's is used");
    std::fs::write(rig.dir.path().join("code-key"), [7; 32]).unwrap();
    let rig = again(rig);
    rig.plugin("echo");
    let second = code(&rig);
    assert!(second.keys().eq(first.keys()));
    assert_ne!(second, first);
}

#[test]
fn code_that_others_can_write_is_made_anew() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::alone();
    rig.plugin("echo");
    let first = code(&rig);
    for file in first.keys() {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o666)).unwrap();
    }
    let rig = again(rig);
    rig.plugin("echo");
    assert_ne!(code(&rig), first);
}

#[test]
fn compiled_code_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::alone();
    let mode = std::fs::metadata(rig.dir.path().join("compiled"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn the_registry_names_a_missing_package() {
    let rig = Rig::new();
    let echo = rig.plugin("echo");
    rig.host.registry().insert(&built("echo"), &echo).unwrap();
    let ask = |package: &str, name: &str, requirement: Option<&str>| {
        rig.host.registry().node(&UseRef {
            package: package.to_owned(),
            name: name.to_owned(),
            requirement: requirement.map(str::to_owned),
        })
    };
    assert!(ask("echo", "echo", None).is_ok());
    let version = echo.description.version.to_string();
    assert!(ask("echo", "echo", Some(&version)).is_ok());
    let missing = ask("echo", "echo", Some("99")).unwrap_err();
    assert!(missing.message.contains(&version), "{missing}");
    let missing = ask("echo", "ecco", None).unwrap_err();
    assert_eq!(missing.nearest.as_deref(), Some("echo/echo"));
    let missing = ask("eco", "echo", None).unwrap_err();
    assert_eq!(missing.nearest.as_deref(), Some("echo/echo"));
}

#[test]
fn each_change_of_the_registry_gives_it_another_generation() {
    let rig = Rig::new();
    let (echo, registry) = (rig.plugin("echo"), rig.host.registry());
    let mut seen = std::collections::BTreeSet::from([registry.generation()]);
    let mut is_new = || seen.insert(registry.generation());
    assert!(!registry.replace(&echo) && !is_new());
    registry.insert(&built("echo"), &echo).unwrap();
    assert!(is_new());
    assert!(registry.replace(&echo) && is_new());
    assert!(registry.remove(&built("echo")).is_some() && is_new());
    assert!(registry.remove(&built("echo")).is_none() && !is_new());
}

/// A folder of code that another compiler made, last used so many days ago.
fn other_compiler(rig: &Rig, name: &str, days: u64) -> std::path::PathBuf {
    let folder = rig.dir.path().join("compiled").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("code.cwasm"), b"code").unwrap();
    let now_ms = windlass_model::Clock::wall_ms(rig.clock.as_ref());
    let used_ms = u64::try_from(now_ms).unwrap() - days * 24 * 60 * 60 * 1_000;
    let used = std::time::UNIX_EPOCH + std::time::Duration::from_millis(used_ms);
    let mark = std::fs::File::create(folder.join("used")).unwrap();
    mark.set_modified(used).unwrap();
    folder
}

#[test]
fn compiled_code_unused_for_long_is_removed() {
    let rig = Rig::alone();
    let old = other_compiler(&rig, "0123456789abcdef", 31);
    let recent = other_compiler(&rig, "fedcba9876543210", 29);
    let foreign = other_compiler(&rig, "not-ours", 400);
    rig.plugin("echo");
    let again = Rig::in_dir(rig.dir, |_| ());
    assert!(!old.exists());
    assert!(recent.exists() && foreign.exists());
    let left = files(&again, "cwasm").len();
    assert_eq!(left, 3, "the code of this compiler stays");
}

#[test]
fn a_compilation_that_takes_long_is_reported_with_its_end_and_a_cached_one_is_not() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let reports = |after| {
        let said = Arc::clone(&said);
        CompileReport {
            after,
            tell: Arc::new(move |compiling| {
                let ended = compiling.took.is_some();
                assert!(compiling.subject.ends_with("echo.wasm") && compiling.bytes > 1000);
                said.lock().unwrap().push(ended);
            }),
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::in_dir(dir, |options| {
        options.compiling = Some(reports(Duration::ZERO))
    });
    rig.host.load_file(&built("echo")).unwrap();
    assert_eq!(*said.lock().unwrap(), [false, true]);
    let again = Rig::in_dir(rig.dir, |options| {
        options.compiling = Some(reports(Duration::ZERO));
    });
    again.host.load_file(&built("echo")).unwrap();
    assert_eq!(said.lock().unwrap().len(), 2);
    // No compilation takes an hour.
    let quick = Rig::in_dir(tempfile::tempdir().unwrap(), |options| {
        options.compiling = Some(reports(Duration::from_secs(3600)));
    });
    quick.host.load_file(&built("echo")).unwrap();
    assert_eq!(said.lock().unwrap().len(), 2);
}
