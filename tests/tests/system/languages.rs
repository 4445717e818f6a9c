//! One workflow with a node in each of six languages, `examples/order`, on a real host: as it is, and with
//! the host killed at each of its commits.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use windlass_model::Status;
use windlass_tests::harness::{Listener, Place, c, go, javascript, python, response, until};

/// The nodes of the workflow with their plugins, in the order of their names.
const NODES: [(&str, &str); 6] = [
    ("account", "iban"),
    ("file", "slug"),
    ("label", "text-tools"),
    ("letter", "letter"),
    ("offer", "quote"),
    ("payments", "ledger"),
];

/// A host with the six plugins, the order, and the carriers that it asks.
struct Shop {
    place: Place,
    workflow: String,
    input: String,
    carriers: [Listener; 2],
}

impl Shop {
    /// None: a plugin is not built, and need not be.
    fn open() -> Option<Self> {
        let carriers = [620, 490].map(|cents| {
            let body = json!({ "cents": cents }).to_string();
            let head = ["content-type: application/json"];
            Listener::start(move |_| Some(response("200 OK", &head, body.as_bytes())))
        });
        let origins = json!(carriers.each_ref().map(Listener::origin));
        let components = [
            c("iban")?,
            go("ledger")?,
            javascript("slug")?,
            javascript("quote")?,
            python("letter")?,
        ];
        // The components are large, and this build of the compiler slow.
        let place = Place::new(&["shout"])
            .with("plugins.compile-timeout", "10m")
            .with_http("quote", &origins.to_string());
        for component in &components {
            let name = component.file_name().expect("a component has a name");
            let to = place.plugins().join(name);
            std::os::unix::fs::symlink(component, to).expect("a link can be made");
        }
        // One test compiles them, into the cache of all tests, and the others wait.
        let [.., letter] = &components;
        let lock = File::create(letter.with_extension("lock")).expect("a file can be made");
        lock.lock().expect("a file can be locked");
        place.ask(&["plugin", "warm"]);

        let example = |name: &str| -> PathBuf {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/order");
            folder.join(name)
        };
        let input = std::fs::read(example("order.json")).expect("a file can be read");
        let mut input: Value = serde_json::from_slice(&input).expect("it is JSON");
        input["carriers"] = origins;
        Some(Self {
            place,
            workflow: example("order.yaml").display().to_string(),
            input: input.to_string(),
            carriers,
        })
    }

    fn start(&self) -> String {
        let start = ["runs", "start", &self.workflow, "--input", &self.input];
        self.place.ask(&start).trim().to_owned()
    }

    /// The output that each of its runs has.
    fn output(&self) -> Value {
        let html = "<h1>Your order is on its way</h1>\n<p>Dear <strong>Zoë Weiß</strong>,</p>\n\
                    <p>we have received your payment, and send:</p>\n";
        json!({
            "carrier": self.carriers[1].origin(),
            "label": "ZOË WEISS, DE",
            "letter": { "name": "letter-to-zoe-weiss.html", "html": html },
        })
    }

    /// Asserts that a run has ended with its output, and that each node is recorded once, with its
    /// output.
    #[track_caller]
    fn verify(&self, id: &str) {
        let run = self.place.look().ended(id);
        assert_eq!(run.status, Status::Completed, "{run:#?}");
        let expected = self.output();
        let said = self.place.ask(&["-o", "json", "runs", "result", id]);
        let mut output = serde_json::from_str::<Value>(&said).expect("it is JSON")["output"].take();
        let html = output["letter"]["html"].as_str().unwrap_or_default();
        let begin = expected["letter"]["html"].as_str().unwrap_or_default();
        assert!(html.starts_with(begin), "{html}");
        let (rows, table) = (["Tea", "4.50 €", "Pot", "29.00 €"], &html[begin.len()..]);
        assert!(rows.iter().all(|text| table.contains(text)), "{table}");
        let letter = json!({ "title": "Your order is on its way", "html": html });
        output["letter"]["html"] = json!(begin);
        assert_eq!(output, expected);

        let trace = self.place.ask(&["-o", "json", "runs", "trace", id]);
        let trace: Value = serde_json::from_str(&trace).expect("it is JSON");
        let executions = trace.as_array().expect("it is a list");
        let mut outputs = Map::new();
        for execution in executions {
            let node = execution["node"].as_str().expect("a node has a name");
            assert_eq!(execution["status"], "completed", "{trace:#}");
            assert_eq!(execution["attempt"], 1, "{trace:#}");
            let former = outputs.insert(node.to_owned(), execution["output"].clone());
            assert_eq!(former, None, "`{node}` is recorded twice: {trace:#}");
        }
        outputs.remove("sums").expect("the sums are recorded");
        let account = "DE89370400440532013000";
        let expected = json!({
            "account": { "iban": account, "country": "DE" },
            "file": { "slug": "letter-to-zoe-weiss" },
            "label": { "text": "ZOË WEISS, DE" },
            "letter": letter,
            "offer": { "carrier": self.carriers[1].origin(), "cents": 490 },
            "payments": [
                { "account": account, "cents": 3350 },
                { "account": "GB82WEST12345698765432", "cents": 1200 },
            ],
        });
        assert_eq!(Value::Object(outputs), expected);
    }
}

#[test]
fn an_order_goes_through_a_node_in_each_of_six_languages() {
    let Some(shop) = Shop::open() else { return };
    let _serve = shop.place.serve();
    let id = shop.start();
    shop.place.ask(&["runs", "result", &id, "--wait"]);
    shop.verify(&id);
    // The nodes are those of six components.
    let workflow = std::fs::read_to_string(&shop.workflow).expect("a file can be read");
    let plugins = shop.place.ask(&["-o", "json", "plugin", "list"]);
    let plugins: Value = serde_json::from_str(&plugins).expect("it is JSON");
    for (node, package) in NODES {
        assert!(workflow.contains(&format!("use: {package}/")), "{node}");
        let mut loaded = plugins.as_array().expect("it is a list").iter();
        assert!(loaded.any(|it| it["package"] == package), "{plugins:#}");
    }
}

/// Kills the host when it passes a point for the first time, for the second time in the next round, and so
/// on, until a run has ended before that. Another host ends each run.
#[track_caller]
fn check(point: &str) {
    let Some(shop) = Shop::open() else { return };
    let mut deaths = 0;
    loop {
        let id = shop.start();
        let mut armed = shop
            .place
            .serve_armed(&format!("{point}=abort@{}", deaths + 1));
        until("the host has died, or has nothing left to do", || {
            armed.ended().is_some() || shop.place.look().unfinished() == 0
        });
        let died = armed.ended().is_some();
        drop(armed);
        let serve = shop.place.serve();
        shop.verify(&id);
        drop(serve);
        if !died {
            break;
        }
        deaths += 1;
    }
    // A commit for each link of the chain at least, where commits are counted.
    assert!(deaths >= 4, "the host has passed `{point}` {deaths} times");
    eprintln!("{point}: {deaths} deaths, each run ended with the same output");
}

#[test]
fn a_death_before_each_step_is_handed_over_changes_no_output() {
    check("before-commit");
}

#[test]
fn a_death_during_each_commit_changes_no_output() {
    check("store-before-commit");
}

#[test]
fn a_death_after_each_commit_changes_no_output() {
    check("store-after-commit");
}
