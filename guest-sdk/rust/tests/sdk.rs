//! The guarantees for authors: the description derived from types, the
//! conversion of values, and the test kit.

use windlass::prelude::*;
use windlass::testkit::{Call, describe};
use windlass::{Level, Payload, blobs};

#[derive(Deserialize, JsonSchema)]
struct Config {
    /// Passed without rendering.
    #[schemars(extend("x-raw" = true))]
    pattern: String,
    #[serde(default)]
    limit: Option<u8>,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    found: u64,
}

struct Find;

impl Node for Find {
    type Config = Config;
    type Input = String;
    type Output = Output;
    const NAME: &'static str = "find";
    const TITLE: &'static str = "Find";
    const PORTS: &'static [&'static str] = &["found", "missing"];

    fn run(config: Config, input: String, _: &Context) -> Result<Outcome<Output>> {
        windlass::debug!("looking for {}", config.pattern; chars = input.len());
        let limit = config.limit.map_or(usize::MAX, usize::from);
        let found = input.matches(&config.pattern).take(limit).count() as u64;
        let port = if found == 0 { "missing" } else { "found" };
        Ok(Outcome::done(Output { found }).port(port))
    }
}

/// Passes a value on through a blob.
struct Store;

impl Node for Store {
    type Config = Nothing;
    type Input = Raw;
    type Output = Raw;
    const NAME: &'static str = "store";
    const BY_REFERENCE: bool = true;

    fn run(_: Nothing, input: Raw, cx: &Context) -> Result<Outcome<Raw>> {
        let mut writer = blobs::Writer::begin()?;
        writer.append(input.inline()?)?;
        let raw = writer.finish(Some("text/plain".to_owned()))?;
        let windlass::Body::Blob(blob) = &raw.0.body else {
            return Err(Error::permanent("a finished blob is a reference"));
        };
        let first: Vec<u8> = blobs::read(blob, 0, 2)?;
        cx.progress(1.0, &format!("{first:?} of {}", blobs::size(blob)?));
        Ok(raw.into())
    }
}

/// Takes an undeclared port.
struct Stray;

impl Node for Stray {
    type Config = Nothing;
    type Input = Ignored;
    type Output = ();
    const NAME: &'static str = "stray";

    fn run(_: Nothing, _: Ignored, _: &Context) -> Result<Outcome<()>> {
        Ok(Outcome::done(()).port("nowhere"))
    }
}

fn say_twice(text: String) -> Result<String> {
    match text.is_empty() {
        true => Err(Error::invalid("there is nothing to say")),
        false => Ok(format!("{text} {text}")),
    }
}

windlass::plugin! {
    package: "sample",
    version: "1.2.3",
    title: "Sample",
    description: "For tests.",
    nodes: [Find, Store, Stray],
    functions: [say_twice],
}

#[test]
fn the_description_follows_from_the_types() {
    let mut document = describe::<Plugin>();
    let find = document["nodes"][0].take();
    let expected = json!({
        "name": "find",
        "title": "Find",
        "config": {
            "type": "object",
            "properties": {
                "pattern": {
                    "description": "Passed without rendering.",
                    "type": "string",
                    "x-raw": true,
                },
                "limit": {
                    "type": ["integer", "null"],
                    "format": "uint8",
                    "minimum": 0,
                    "maximum": 255,
                    "default": null,
                },
            },
            "required": ["pattern"],
            "additionalProperties": false,
        },
        "input": { "type": "string" },
        "output": {
            "type": "object",
            "properties": { "found": { "type": "integer", "format": "uint64", "minimum": 0 } },
            "required": ["found"],
        },
        "ports": ["found", "missing"],
        "capabilities": [],
        "suspends": false,
        "by-reference": false,
    });
    assert_eq!(find, expected);
    assert_eq!(document["nodes"][1]["by-reference"], json!(true));
    document["nodes"].take();
    let expected = json!({
        "windlass": 1,
        "package": "sample",
        "version": "1.2.3",
        "title": "Sample",
        "description": "For tests.",
        "nodes": null,
    });
    assert_eq!(document, expected);
}

#[test]
fn a_call_goes_from_json_to_json_and_keeps_its_log() {
    let config = json!({ "pattern": "a", "limit": 2 });
    let report = Call::new()
        .config(config)
        .input(json!("banana"))
        .run::<Find>();
    let line = report.logs.first().unwrap();
    assert_eq!(
        (line.level, line.message.as_str()),
        (Level::Debug, "looking for a")
    );
    assert_eq!(line.fields, [("chars".to_owned(), "6".to_owned())]);
    assert_eq!(report.output(), json!({ "found": 2 }));
}

#[test]
fn values_outside_their_schema_are_invalid() {
    #[track_caller]
    fn check(config: Value, input: Value, expected: &str) {
        match Call::new()
            .config(config)
            .input(input)
            .run::<Find>()
            .error()
        {
            Error::Invalid(failure) => assert_eq!(failure.message, expected),
            other => panic!("the error is not `invalid` but {other:?}"),
        }
    }
    check(
        json!({}),
        json!(""),
        "config: \"pattern\" is a required property",
    );
    check(
        json!({ "pattern": 1 }),
        json!(""),
        "config/pattern: 1 is not of type \"string\"",
    );
    check(
        json!({ "pattern": "a" }),
        json!(3),
        "input: 3 is not of type \"string\"",
    );
    check(
        json!({ "pattern": "a", "limt": 3 }),
        json!(""),
        "config: Additional properties are not allowed ('limt' was unexpected)",
    );
}

#[test]
fn a_function_is_a_node_with_hyphens_in_its_name() {
    let node = &describe::<Plugin>()["nodes"][3];
    assert_eq!(node["name"], json!("say-twice"));
    assert_eq!(node["input"], json!({ "type": "string" }));
    assert_eq!(node["ports"], json!(["done"]));
    let say = |text: Value| Call::new().input(text).run_function(say_twice);
    assert_eq!(say(json!("so")).output(), json!("so so"));
    let nothing = Error::invalid("there is nothing to say");
    assert_eq!(say(json!("")).error(), nothing);
    assert!(matches!(say(json!(1)).error(), Error::Invalid(_)));
}

#[test]
fn bytes_go_through_blobs_unparsed() {
    let report = Call::new()
        .raw_input(Raw::bytes("text/plain", "hello"))
        .run::<Store>();
    assert_eq!(report.progress, [(1.0, "[104, 101] of 5".to_owned())]);
    let expected = json!({ "content-type": "text/plain", "blob": "blob-0" });
    assert_eq!(report.output(), expected);
}

#[test]
fn a_typed_input_refuses_a_reference() {
    let input = Raw(Payload {
        content_type: None,
        body: windlass::Body::Blob("b".to_owned()),
    });
    let config = json!({ "pattern": "a" });
    let error = Call::new()
        .config(config)
        .raw_input(input)
        .run::<Find>()
        .error();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

#[test]
#[should_panic(expected = "stray took the port nowhere, which it does not declare")]
fn an_undeclared_port_is_a_fault_of_the_node() {
    let _ = Call::new().run::<Stray>();
}

#[test]
fn any_error_of_a_library_becomes_an_error_of_the_node() {
    fn parse(text: &str) -> Result<u8> {
        Ok(text.parse::<u8>()?)
    }
    assert_eq!(
        parse("x"),
        Err(Error::other("invalid digit found in string"))
    );
}
