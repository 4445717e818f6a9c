//! Sends events: `events/send` sends a stimulus.

use windlass::Stimulus;
use windlass::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The name of the event.
    name: String,
    /// The value that the `match` of a wait or a trigger has to equal.
    #[serde(default, rename = "match")]
    matching: Value,
    /// Only runs of this correlation get it.
    #[serde(default)]
    correlation: Option<String>,
    /// Only the run with this id gets it.
    #[serde(default)]
    run: Option<String>,
    /// The input that it carries. Default: the input of the node.
    #[serde(default)]
    input: Option<Value>,
}

#[derive(Serialize, JsonSchema)]
struct Sent {
    /// The name of the stimulus that was sent.
    sent: String,
}

struct Send;

impl Node for Send {
    type Config = Config;
    type Input = Value;
    type Output = Sent;
    const NAME: &'static str = "send";
    const TITLE: &'static str = "Send an event";
    const DESCRIPTION: &'static str =
        "Sends an event that workflows start from or wait for, exactly once.";
    const ICON: &'static str = "send";
    const CAPABILITIES: &'static [&'static str] = &["events"];

    fn run(config: Config, input: Value, cx: &Context) -> Result<Outcome<Sent>> {
        let mut stimulus =
            Stimulus::new(&config.name, config.matching)?.input(config.input.unwrap_or(input))?;
        stimulus.correlation = config.correlation;
        stimulus.run = config.run;
        cx.send(&stimulus)?;
        Ok(Sent { sent: config.name }.into())
    }
}

windlass::plugin! {
    package: "events",
    title: "Events",
    nodes: [Send],
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::{Call, describe};

    #[track_caller]
    fn check(config: Value, expected: Stimulus) {
        let call = Call::new().config(config).input(json!({ "from": "input" }));
        let report = call.run::<Send>();
        assert_eq!(report.sent, [expected]);
        assert_eq!(report.output(), json!({ "sent": "order.paid" }));
    }

    fn stimulus(matching: Value, input: Value) -> Stimulus {
        let stimulus = Stimulus::new("order.paid", matching).and_then(|it| it.input(input));
        stimulus.expect("JSON can be written")
    }

    #[test]
    fn the_input_of_the_node_goes_along_unless_another_is_given() {
        let name = json!({ "name": "order.paid" });
        check(name, stimulus(json!(null), json!({ "from": "input" })));
        let config = json!({ "name": "order.paid", "input": { "total": 7 } });
        check(config, stimulus(json!(null), json!({ "total": 7 })));
    }

    #[test]
    fn the_stimulus_has_its_match_and_its_run() {
        let config = json!({
            "name": "order.paid",
            "match": { "shop": "berlin" },
            "correlation": "order-7",
            "run": "00000000-0000-7000-8000-000000000002",
            "input": 1,
        });
        let mut expected = stimulus(json!({ "shop": "berlin" }), json!(1));
        expected.correlation = Some("order-7".to_owned());
        expected.run = Some("00000000-0000-7000-8000-000000000002".to_owned());
        check(config, expected);
    }

    #[test]
    fn the_description_keeps_to_its_rules() {
        describe::<Plugin>();
    }
}
