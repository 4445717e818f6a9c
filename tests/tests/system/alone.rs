//! The program alone: copied to another folder, in an empty home.

use std::process::{Command, Output};

use windlass_tests::harness::program;

const WORKFLOW: &str = "
workflow: first
nodes:
  first: { use: data/set, with: { n: '{{ input.n }}' } }
  second: { use: data/jq, with: { filter: '.n + 1' }, input: '{{ nodes.first.output }}' }
  third: { use: text/template, with: { template: 'it is {{ n }}' }, input: { n: '{{ nodes.second.output }}' } }
edges: [ first -> second, second -> third ]
output: '{{ nodes.third.output }}'
";

#[test]
fn the_program_alone_runs_a_workflow_in_an_empty_home() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let root = directory.path();
    let alone = root.join("windlass");
    std::fs::copy(program(), &alone).expect("a program can be copied");
    for name in ["home", "project"] {
        std::fs::create_dir(root.join(name)).expect("a directory can be made");
    }
    std::fs::write(root.join("project/first.yaml"), WORKFLOW).expect("a file can be written");
    let ask = |words: &[&str]| -> Output {
        let mut command = Command::new(&alone);
        command
            .args(words)
            .current_dir(root.join("project"))
            .env_clear()
            .env("HOME", root.join("home"));
        command.output().expect("the program can be run")
    };
    for n in [1, 2] {
        let said = ask(&["run", "first.yaml", "--input", &format!("n={n}")]);
        let stdout = String::from_utf8_lossy(&said.stdout);
        let stderr = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{stdout}{stderr}");
        assert!(stdout.contains(&format!("it is {}", n + 1)), "{stdout}");
        assert!(!stderr.contains("WARN"), "{stderr}");
    }
    // Nothing was compiled.
    let compiled = root.join("home/.cache/windlass/compiled");
    for folder in std::fs::read_dir(&compiled).expect("it is there") {
        let files = std::fs::read_dir(folder.expect("it can be read").path()).expect("it is there");
        let code = files.filter(|file| {
            let path = file.as_ref().expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(".cwasm") && !name.ends_with(".ahead.cwasm")
        });
        assert_eq!(code.count(), 0);
    }
    let schema = ask(&["workflow", "schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("it is JSON");
    assert_eq!(schema["title"], "Windlass workflow");
    let doctor = ask(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("inside the program"), "{said}");
}
