//! The first minutes of an author: `init`, `run`, `dev`, a mistake and its end, a plugin, a run that
//! is started by the name of its workflow and watched.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_tests::harness::{Process, Signal, component, program, until};

/// A user with an empty home, whose `PATH` leads to the program.
struct User {
    root: TempDir,
}

impl User {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory can be made");
        for name in ["home", "bin", "work"] {
            std::fs::create_dir(root.path().join(name)).expect("a directory can be made");
        }
        std::os::unix::fs::symlink(program(), root.path().join("bin/windlass"))
            .expect("a link can be made");
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// A command of a shell, in a directory below the user's `work`.
    fn shell(&self, directory: &str, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.path("work").join(directory))
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.path("home"))
            // Any free port: many hosts serve at the same time.
            .env("WINDLASS_SERVER__LISTEN", "127.0.0.1:0");
        command
    }

    fn type_in(&self, directory: &str, line: &str) -> Output {
        let output = self.shell(directory, line).output();
        output.expect("a shell can be run")
    }

    /// The output of a command that succeeds.
    #[track_caller]
    fn ask(&self, directory: &str, line: &str) -> (String, String) {
        let said = self.type_in(directory, line);
        let (stdout, stderr) = texts(&said);
        assert!(said.status.success(), "{line}: {stdout}{stderr}");
        (stdout, stderr)
    }
}

fn texts(said: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&said.stdout), text(&said.stderr))
}

/// The commands that `init` prints for its user to type.
fn next(said: &str) -> Vec<String> {
    let (_, next) = said.split_once("\nNext:\n").expect("it says what is next");
    let lines = next.lines();
    let commands = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    commands.map(|line| line.trim().to_owned()).collect()
}

fn write(file: &Path, text: &str) {
    // Like an editor, which replaces a file as a whole.
    let new = file.with_extension("new");
    std::fs::write(&new, text).expect("a file can be written");
    std::fs::rename(new, file).expect("a file can be replaced");
}

/// Waits until a text is a part of the output.
fn until_said(dev: &Process, part: &str) {
    until(&format!("`dev` prints {part:?}"), || {
        dev.stdout().contains(part) || dev.stderr().contains(part)
    });
}

const LOUD: &str = "
workflow: loud
nodes:
  shout: { use: text-tools/shout, input: { text: quiet } }
output: '{{ nodes.shout.output.text }}'
";

/// It reads a variable that no node sets.
const UNSET: &str = "
workflow: unset
nodes:
  take: { set: { x: '{{ vars.y }}' } }
";

#[test]
fn an_author_gets_from_nothing_to_a_mended_workflow_by_the_commands_that_are_printed() {
    let user = User::new();
    let (said, _) = user.ask("", "windlass init 'my first project'");
    let commands = next(&said);
    let [enter, run, dev, start] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let (output, warnings) = user.ask("", &format!("{enter} && {run}"));
    assert!(output.contains("Hello, Ada!"), "{output}");
    assert!(!warnings.contains("warning"), "{warnings}");
    let project = "my first project";
    let workflows = "windlass workflow validate workflows/*.yaml -o json";
    let (checked, _) = user.ask(project, workflows);
    let checked: Value = serde_json::from_str(&checked).expect("it is JSON");
    assert_eq!(checked[0]["valid"], json!(true));
    assert_eq!(checked[0]["warnings"], json!([]));

    let mut dev = Process::start("dev", &mut user.shell(project, &format!("exec {dev}")));
    until_said(&dev, "Ready.");
    assert!(
        dev.stdout()
            .contains("workflows/hello.yaml: hello is published, as version 1")
    );
    let (output, steps) = user.ask(project, start);
    assert!(output.contains("Hello, Ada!"), "{output}");
    for node in ["person", "greeting", "letters"] {
        assert!(steps.contains(node), "{steps}");
        until_said(&dev, &format!("✓ {node}"));
    }
    until_said(&dev, "completed in");

    // A file needs a plugin that is not there, another one has a mistake of its own.
    let file = |name: &str| user.path("work").join(project).join("workflows").join(name);
    let hello = std::fs::read_to_string(file("hello.yaml")).expect("it is there");
    let wrong = hello.replace("person -> letters", "person -> leters");
    let mistake = "there is no node `leters`";
    let mistakes = |dev: &Process| dev.stderr().matches(mistake).count();
    write(&file("hello.yaml"), &wrong);
    until_said(&dev, mistake);
    assert!(dev.stderr().contains("did you mean `letters`?"));
    assert!(
        dev.stderr().contains("hello.yaml:25:15"),
        "{}",
        dev.stderr()
    );
    write(&file("loud.yaml"), LOUD);
    until_said(&dev, "workflows/loud.yaml has");
    let plugin = user.path("work").join(project).join("plugins/shout.wasm");
    let bytes = std::fs::read(component("shout")).expect("a component can be read");
    let new = plugin.with_extension("new");
    std::fs::write(&new, bytes).expect("a file can be written");
    std::fs::rename(new, &plugin).expect("a file can be moved");
    until_said(&dev, "text-tools@1.0.0 is loaded, with text-tools/shout");
    until_said(&dev, "workflows/loud.yaml: mended; loud is published");
    // The host has tried the other file again, and its mistake is no news.
    assert_eq!(mistakes(&dev), 1, "{}", dev.stderr());
    let (output, _) = user.ask(project, "windlass runs start loud --watch");
    assert_eq!(output.trim(), "QUIET");

    // The author saves, and the mistake is still there.
    write(&file("hello.yaml"), &format!("{wrong}# Still.\n"));
    until("the mistake is printed again", || mistakes(&dev) == 2);
    write(&file("hello.yaml"), &hello);
    until_said(&dev, "workflows/hello.yaml: mended; hello is published");
    write(&file("hello.yaml"), &hello.replace("Hello,", "Good day,"));
    until_said(&dev, "hello is published, as version 2");
    let (output, _) = user.ask(project, "windlass run hello");
    assert!(output.contains("Good day, World!"), "{output}");

    // A broken plugin, and the same one whole again.
    let bytes = std::fs::read(&plugin).expect("a file can be read");
    std::fs::write(&plugin, &bytes[..1000]).expect("a file can be written");
    until_said(&dev, "WL-P001");
    std::fs::write(&plugin, &bytes).expect("a file can be written");
    until_said(&dev, "plugins/shout.wasm: mended;");
    write(&file("unset.yaml"), UNSET);
    until_said(&dev, "nothing sets the variable `y`");
    until_said(&dev, "workflows/unset.yaml:4:21");
    write(&file("bad.yaml"), "workflow: bad\n");
    until_said(&dev, "error: workflows/bad.yaml has");
    std::fs::remove_file(file("bad.yaml")).expect("it is there");
    until_said(
        &dev,
        "workflows/bad.yaml: the file with the mistake is gone",
    );
    std::fs::remove_file(file("loud.yaml")).expect("it is there");
    until_said(&dev, "loud version 1 is retracted");

    dev.signal(Signal::INT);
    let (status, stdout, stderr) = dev.output();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stdout.ends_with("Stopped.\n"), "{stdout}");
    // Nothing of it is for a terminal, and nothing is a line of a log.
    for text in [&stdout, &stderr] {
        assert!(!text.contains('\u{1b}') && !text.contains("INFO"), "{text}");
    }
}

#[test]
fn init_keeps_the_files_of_its_user_and_stays_in_its_directory() {
    let user = User::new();
    let project = user.path("work/mine");
    std::fs::create_dir(&project).expect("it is not there");
    std::fs::write(project.join(".gitignore"), "mine\n").expect("a file can be written");
    let (said, _) = user.ask("mine", "windlass init -o json");
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(said["kept"], json!([".gitignore"]));
    assert_eq!(said["made"].as_array().map(Vec::len), Some(5));
    let read = |name: &str| std::fs::read_to_string(project.join(name)).expect("it is there");
    assert_eq!(read(".gitignore"), "mine\n");
    // In its own directory there is nothing to enter.
    let next = said["next"].as_array().expect("an array");
    assert_eq!(
        next[0],
        json!("windlass run workflows/hello.yaml --input name=Ada")
    );
    // Once more, nothing is left to make.
    let (said, _) = user.ask("mine", "windlass init . -o json");
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(said["made"], json!([]));
    // The settings need no trust.
    let (_, warnings) = user.ask("mine", "windlass config show");
    assert_eq!(warnings, "");

    std::fs::create_dir(user.path("work/linked")).expect("it is not there");
    std::os::unix::fs::symlink(user.path("home"), user.path("work/linked/plugins"))
        .expect("a link can be made");
    let refused = user.type_in("", "windlass init linked");
    let (_, stderr) = texts(&refused);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("WL-U030") && stderr.contains("`plugins`"),
        "{stderr}"
    );
    let names = std::fs::read_dir(user.path("work/linked")).expect("it is there");
    assert_eq!(names.count(), 1);
}
