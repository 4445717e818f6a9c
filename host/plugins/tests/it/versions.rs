//! The version of the contract, what a failure carries, and checks of configurations.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_model::{Class, Origin, Position};
use windlass_plugins::{CompileReport, Configured, Plugin};

use crate::rig::{Rig, call, failure, secrets};

#[test]
fn a_failure_carries_details_and_a_position() {
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    let config = json!({
        "class": "permanent", "message": "no", "details": { "status": 404 }, "at": [3, 7],
    });
    let failed = rig.fiber(&steps, call("steps/fail", &config, &json!(1)));
    let failed = failure(failed, Class::Permanent, "WL-R040");
    let details = failed.details.map(|details| details.as_str().to_owned());
    assert_eq!(details.as_deref(), Some(r#"{"status":404}"#));
    let position = Position {
        source: None,
        line: 3,
        column: 7,
    };
    let origin = Origin {
        stack: None,
        position: Some(position),
    };
    assert_eq!(failed.origin, Some(Box::new(origin)));
}

#[test]
fn details_that_are_too_large_are_left_out() {
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    for (length, kept) in [(16 * 1024 - 2, true), (16 * 1024 - 1, false)] {
        let config = json!({ "class": "other", "message": "no", "details": "x".repeat(length) });
        let failed = rig.fiber(&steps, call("steps/fail", &config, &json!(1)));
        let failed = failure(failed, Class::Permanent, "WL-R041");
        assert_eq!(failed.details.is_some(), kept);
        let message = match kept {
            true => "no",
            false => "no (its details are left out: they have 16385 bytes, and the limit is 16384)",
        };
        assert_eq!(failed.message, message);
    }
}

#[test]
fn details_contain_no_secret() {
    let rig = Rig::with(|options| options.secrets = secrets("token", "correct horse"));
    let steps = rig.plugin("steps");
    let details = json!({ "sent": "correct horse", "correct horse": 1 });
    let config = json!({ "class": "other", "message": "no", "details": details });
    let failed = rig.fiber(&steps, call("steps/fail", &config, &json!(1)));
    let details = failure(failed, Class::Permanent, "WL-R041")
        .details
        .unwrap();
    assert_eq!(
        details.as_str(),
        r#"{"[secret token]":1,"sent":"[secret token]"}"#
    );
}

/// A component with these parts and the exports of a node executor.
fn node(parts: &str) -> String {
    let exports = r#"(core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $node (export "describe" (func $f)) (export "execute" (func $f)))
        (export "windlass:node/node@0.1.0" (instance $node))"#;
    format!("(component {parts} {exports})")
}

#[test]
fn a_component_for_a_later_version_is_refused_in_words() {
    let rig = Rig::new();
    let check = |wat: &str, code: &str, expected: &str| {
        let error = rig.wat(wat).unwrap_err();
        assert_eq!(error.code.as_str(), code, "{error}");
        assert!(error.message.contains(expected), "{error}");
    };
    check(
        r#"(component (instance $i) (export "windlass:node/node@0.3.0" (instance $i)))"#,
        "WL-P005",
        "it exports `windlass:node/node@0.3.0`, and this host knows version 0.1: use a newer host",
    );
    check(
        &node(r#"(import "windlass:context/context@0.3.0" (instance))"#),
        "WL-P006",
        "it imports `windlass:context/context@0.3.0`, and this host offers version 0.1: use a newer host",
    );
    check(
        &node(r#"(import "windlass:log/log@0.10.0" (instance))"#),
        "WL-P006",
        "and this host offers version 0.1",
    );
}

#[test]
fn an_asynchronous_component_is_refused_with_the_option_that_it_needs() {
    let rig = Rig::new();
    let error = rig
        .wat(&node("(core func (canon task.cancel))"))
        .unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P004", "{error}");
    assert!(error.message.contains("`--sync`"), "{error}");
}

#[test]
fn a_component_with_other_exports_is_refused_with_its_exports_and_not_compiled() {
    let rig = Rig::with(|options| {
        options.compiling = Some(CompileReport {
            after: Duration::ZERO,
            tell: Arc::new(|compiling| panic!("{compiling:?}")),
        });
    });
    let check = |wat: &str, expected: &str| {
        let error = rig.wat(wat).unwrap_err();
        assert_eq!(error.code.as_str(), "WL-P005", "{error}");
        assert!(error.message.ends_with(expected), "{error}");
    };
    check(
        "(component)",
        "it exports neither a node executor (`windlass:node/node@0.1.0`) nor a trigger consumer \
         (`windlass:consumer/consumer@0.1.0`), but nothing",
    );
    // A function of this type, and what exports it.
    let module = r#"(core module $m (func (export "f") (result i32) unreachable) (memory (export "m") 1))
        (core instance $i (instantiate $m))"#;
    let lift = r#"(func $f (result string) (canon lift (core func $i "f") (memory $i "m")))"#;
    let with = |exports: &str| format!("(component {module} {lift} {exports})");
    check(
        &with(r#"(export "execute" (func $f)) (export "describe" (func $f))"#),
        "but the function `execute`, the function `describe`",
    );
    let many: String = (0..11)
        .map(|number| format!(r#"(export "f{number}" (func $f))"#))
        .collect();
    check(&with(&many), "the function `f7`, and 3 more");
    check(
        &with(
            r#"(instance $run (export "run" (func $f)))
               (export "wasi:cli/run@0.2.3" (instance $run))"#,
        ),
        "but `wasi:cli/run@0.2.3`",
    );
    check(
        &with(
            r#"(instance $node (export "describe" (func $f)) (export "run" (func $f)))
               (export "windlass:node/node@0.1.0" (instance $node))"#,
        ),
        "its export `windlass:node/node@0.1.0` lacks `execute`, and has `describe`, `run`",
    );
    check(
        &with(r#"(instance $empty) (export "windlass:consumer/consumer@0.1.0" (instance $empty))"#),
        "lacks `describe` and `accept`, and has no functions",
    );
    check(
        &with(
            r#"(instance $node (export "execute" (func $f)))
               (export "windlass:node/node@0.1.0" (instance $node))"#,
        ),
        "lacks `describe`, and has `execute`",
    );
    // As `wit-component` writes it: the instance is that of a component inside.
    check(
        &with(
            r#"(component $c (import "f" (func $g (result string))) (export "describe" (func $g)))
               (instance $node (instantiate $c (with "f" (func $f))))
               (export "windlass:node/node@0.1.0" (instance $node))"#,
        ),
        "lacks `execute`, and has `describe`",
    );
    // An instance whose functions only the compiler knows.
    let rig = Rig::new();
    let error = rig
        .wat(&with(
            r#"(component $c (import "f" (func $g (result string)))
                 (instance $n (export "describe" (func $g)))
                 (export "n" (instance $n)))
               (instance $x (instantiate $c (with "f" (func $f))))
               (alias export $x "n" (instance $n))
               (export "windlass:node/node@0.1.0" (instance $n))"#,
        ))
        .unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P005", "{error}");
    let lacks = "lacks `execute`, and has `describe`";
    assert!(error.message.ends_with(lacks), "{error}");
    let error = rig
        .wat(&with(
            r#"(instance $node (export "describe" (func $f)) (export "execute" (func $f)))
               (export "windlass:node/node@0.1.0" (instance $node))"#,
        ))
        .unwrap_err();
    assert_eq!(error.code.as_str(), "WL-P005", "{error}");
    let says = "its function `execute` has another type than in `windlass:node/node@0.1.0`: ";
    assert!(error.message.starts_with(says), "{error}");
}

fn configured(node: &str, config: Value, unknown: &[&str]) -> Configured {
    Configured {
        node_type: node.into(),
        config,
        unknown: unknown
            .iter()
            .map(|pointer| (*pointer).to_owned())
            .collect(),
    }
}

/// The findings as texts, a list for each configuration, and the class of the failure.
fn checked(plugin: &Arc<Plugin>, classes: &[&str]) -> (Vec<Vec<String>>, Option<Class>) {
    let all = classes.iter().map(|class| match *class {
        "" => configured("steps/fail", json!({}), &["/class", "/details/a"]),
        class => configured("steps/fail", json!({ "class": class }), &[]),
    });
    let (found, failure) = plugin.check(all.collect());
    let text = |finding: &windlass_plugins::Finding| {
        let level = if finding.is_error { "error" } else { "warning" };
        let position = finding.position.as_ref();
        let position = position.map(|position| format!(" {position}"));
        let position = position.unwrap_or_default();
        format!("{level}{position} {}: {}", finding.pointer, finding.message)
    };
    let found = found.iter().map(|found| found.iter().map(text).collect());
    (found.collect(), failure.map(|failure| failure.class))
}

#[test]
fn a_plugin_checks_configurations_before_anything_runs() {
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    assert!(steps.checks());
    let (found, failure) = checked(&steps, &["permanent", "bad", "old", ""]);
    let none: [&str; 0] = [];
    assert_eq!(found[0], none);
    assert_eq!(found[1], ["error 1:1 /class: there is no class bad"]);
    assert_eq!(found[2], ["warning /class: `old` is old"]);
    assert_eq!(found[3], ["warning : /class /details/a"]);
    assert_eq!(failure, None);
    // A plugin without a check accepts everything.
    let echo = rig.plugin("echo");
    assert!(!echo.checks());
    let (found, failure) = echo.check(vec![configured("echo/echo", json!({}), &[])]);
    assert_eq!((found, failure), (vec![Vec::new()], None));
}

#[test]
fn a_check_that_crashes_or_hangs_ends_with_its_findings_so_far() {
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    for (word, class) in [("trap", Class::Trap), ("loop", Class::Deadline)] {
        let (found, failure) = checked(&steps, &["bad", word, "bad"]);
        assert_eq!(found, [["error 1:1 /class: there is no class bad"]]);
        assert_eq!(failure, Some(class));
    }
    // The next check has an instance of its own.
    assert_eq!(checked(&steps, &["permanent"]).1, None);
}
