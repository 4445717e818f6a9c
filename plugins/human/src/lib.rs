//! Decisions of people: `human/confirm` waits until a person decides.

use windlass::prelude::*;

/// The name of the node's bookmark.
const BOOKMARK: &str = "human.confirm";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The question for the person.
    message: String,
    /// The `match` of an answer by `windlass event send human.confirm`. Default: this node of this
    /// run, `{"run": …, "node": …}`.
    #[serde(default, rename = "match")]
    matching: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Decision {
    Approve,
    Reject,
}

/// The answer of the person, which is the output of the node.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Answer {
    /// The decision.
    decision: Decision,
    /// The person who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
}

struct Confirm;

impl Node for Confirm {
    type Config = Config;
    type Input = Ignored;
    type Output = Answer;
    const NAME: &'static str = "confirm";
    const TITLE: &'static str = "Confirm";
    const DESCRIPTION: &'static str = "Waits until a person approves or rejects.";
    const ICON: &'static str = "user-check";
    const PORTS: &'static [&'static str] = &["approved", "rejected"];
    const SUSPENDS: bool = true;

    fn run(config: Config, _: Ignored, cx: &Context) -> Result<Outcome<Answer>> {
        let Some(resumption) = cx.resumption()? else {
            return Ok(ask(config, cx));
        };
        match resumption.reason {
            Reason::Resumed { input, .. } => match Answer::deserialize(input) {
                Ok(answer) => Ok(decided(answer)),
                Err(error) => {
                    // A malformed answer does not fail the run: the node keeps waiting.
                    windlass::warn!("an answer that is none: {error}");
                    Ok(ask(config, cx))
                }
            },
            Reason::Expired(_) => Err(Error::permanent("no decision has come in time")),
            Reason::Cancelled => Err(Error::Cancelled),
            Reason::Again | Reason::Other(_) => Ok(ask(config, cx)),
        }
    }
}

/// The metadata of the bookmark contains the message and the schema of an answer: the list of
/// bookmarks shows them, and the page of a resume link makes a form of the schema.
fn ask(config: Config, cx: &Context) -> Outcome<Answer> {
    let own = || json!({ "run": cx.run_id(), "node": cx.node_id() });
    let bookmark = Bookmark::new(BOOKMARK)
        .matching(config.matching.unwrap_or_else(own))
        .metadata(json!({ "message": config.message, "schema": answers() }));
    Outcome::suspend([bookmark])
}

/// The schema of an [`Answer`], with the titles that a person sees.
fn answers() -> Value {
    json!({
        "type": "object",
        "required": ["decision"],
        "properties": {
            "decision": { "title": "Decision", "enum": ["approve", "reject"] },
            "by": { "title": "Your name", "type": ["string", "null"] },
            "comment": { "title": "Comment", "type": ["string", "null"], "maxLength": 10_000 },
        },
    })
}

/// There is no port `done`: a workflow says by which answer it goes on.
fn decided(answer: Answer) -> Outcome<Answer> {
    let port = match answer.decision {
        Decision::Approve => "approved",
        Decision::Reject => "rejected",
    };
    windlass::info!("{port}"; by = answer.by.as_deref().unwrap_or("a user without a name"));
    Outcome::done(answer).port(port)
}

windlass::plugin! {
    package: "human",
    title: "People",
    nodes: [Confirm],
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::Resumption;
    use windlass::testkit::{Call, Outcome as Seen, Report, describe};

    fn answered(reason: Reason) -> Report<Seen> {
        let (phase, state) = (1, None);
        let resumption = Resumption {
            reason,
            phase,
            state,
        };
        let call = Call::new().config(json!({ "message": "Really?" }));
        call.resumption(resumption).run::<Confirm>()
    }

    fn resumed(input: Value) -> Report<Seen> {
        answered(Reason::Resumed {
            bookmark: BOOKMARK.to_owned(),
            input,
            metadata: None,
        })
    }

    fn question(matching: Value) -> Seen {
        let bookmark = Bookmark::new(BOOKMARK)
            .matching(matching)
            .metadata(json!({ "message": "Really?", "schema": answers() }));
        Seen::suspend([bookmark])
    }

    fn own() -> Value {
        json!({ "run": "00000000-0000-7000-8000-000000000001", "node": "node" })
    }

    #[track_caller]
    fn check_asks(config: Value, matching: Value) {
        let report = Call::new().config(config).run::<Confirm>();
        assert_eq!(report.outcome, Ok(question(matching)));
    }

    #[track_caller]
    fn check_decides(input: Value, port: &str) {
        let expected = Seen::Done {
            output: input.clone(),
            ports: vec![port.to_owned()],
        };
        assert_eq!(resumed(input).outcome, Ok(expected));
    }

    #[test]
    fn the_node_waits_with_its_message_for_its_answer() {
        check_asks(json!({ "message": "Really?" }), own());
    }

    #[test]
    fn the_match_of_an_answer_can_be_chosen() {
        let config = json!({ "message": "Really?", "match": { "order": 7 } });
        check_asks(config, json!({ "order": 7 }));
    }

    #[test]
    fn an_answer_takes_the_port_of_its_decision_alone() {
        check_decides(json!({ "decision": "approve" }), "approved");
        let by = json!({ "decision": "reject", "by": "ada", "comment": "too much" });
        check_decides(by, "rejected");
    }

    #[test]
    fn after_an_answer_that_is_none_the_question_stands() {
        for input in [json!({ "decision": "aprove" }), json!(null), json!("yes")] {
            let report = resumed(input);
            assert_eq!(report.logs.len(), 1);
            assert_eq!(report.outcome, Ok(question(own())));
        }
    }

    #[test]
    fn silence_fails_it_once_the_time_is_up() {
        let error = answered(Reason::Expired(BOOKMARK.to_owned())).error();
        assert_eq!(error, Error::permanent("no decision has come in time"));
        assert_eq!(answered(Reason::Cancelled).error(), Error::Cancelled);
    }

    #[test]
    fn the_description_keeps_to_its_rules() {
        describe::<Plugin>();
    }
}
