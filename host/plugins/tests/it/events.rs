//! The stimuli and triggers of a guest are returned with a successful call, and dropped with a
//! failed one.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_model::stimulus::WaitId;
use windlass_model::{Class, Outcome, Payload, Seq};
use windlass_plugins::{
    Disposition, Effects, Grants, Options, Reason, ResumeTokens, Resumption, Returned,
    ScheduledTrigger, SentStimulus, Settings,
};

use crate::rig::{Rig, bare, call, context, earn_trust, failure, output, proofs, secrets, trigger};

fn granted(options: &mut Options) {
    for package in ["teller", "events"] {
        let grants = Grants {
            events: true,
            ..Grants::default()
        };
        let settings = Settings {
            grants,
            proofs: proofs(package),
            ..Settings::default()
        };
        options.settings.insert(package.to_owned(), settings);
    }
}

fn tell(rig: &Rig, config: &Value) -> Returned<Outcome> {
    let teller = rig.plugin("teller");
    rig.fiber(&teller, call("teller/tell", config, &Value::Null))
}

/// Checks that every request of the guest was refused with this reason, and had no effect.
#[track_caller]
fn check_refused(rig: &Rig, config: Value, why: &str) {
    let returned = tell(rig, &config);
    assert_eq!(returned.effects, Effects::default());
    let answers = output(returned);
    for answer in answers.as_array().unwrap() {
        let answer = answer.as_str().unwrap();
        assert!(answer.contains(why), "{answer}");
    }
}

#[test]
fn effects_of_a_node_come_back_in_its_order() {
    let rig = Rig::with(granted);
    let instance = context().run;
    let config = json!({
        "send": 2, "schedule": 1, "name": "paid", "run": instance.to_string(),
        "data": { "x": 1 },
    });
    let returned = tell(&rig, &config);
    let data = Payload::of(&json!({ "x": 1 }));
    let sent = |n: u32| SentStimulus {
        name: "paid".to_owned(),
        matches: json!({ "n": n }),
        correlation: None,
        run: Some(instance),
        input: data.clone(),
    };
    assert_eq!(returned.effects.sent, [sent(0), sent(1)]);
    let scheduled = ScheduledTrigger {
        node: "paid".to_owned(),
        at_ms: 1_000,
        vars: Some(data),
    };
    assert_eq!(returned.effects.scheduled, [scheduled]);
    assert_eq!(output(returned), json!(["ok", "ok", "ok"]));
}

const SECRET: &str = "correct-horse-battery";
const MARK: &str = "[secret token]";

/// A rig with a secret that must not appear in results.
fn discreet() -> Rig {
    Rig::with(|options| {
        granted(options);
        options.secrets = secrets("token", SECRET);
    })
}

#[test]
fn names_and_correlations_are_without_secrets() {
    let rig = discreet();
    let name = format!("is {SECRET}");
    let clean = format!("is {MARK}");
    let config = json!({ "send": 1, "schedule": 1, "name": name, "data": {} });
    let returned = tell(&rig, &config);
    assert_eq!(returned.effects.sent[0].name, clean);
    assert_eq!(returned.effects.scheduled[0].node, clean);
    let config = json!({ "name": "paid", "match": {}, "correlation": name });
    let events = rig.plugin("events");
    let returned = rig.fiber(&events, call("events/send", &config, &json!(1)));
    let correlation = returned.effects.sent[0].correlation.as_deref();
    assert_eq!(correlation, Some(&*clean));
    let config = json!({ "bookmarks": [name] });
    let steps = rig.plugin("steps");
    let waits = rig.fiber(&steps, call("steps/suspend", &config, &Value::Null));
    match waits.result.unwrap() {
        Outcome::Suspend(suspension) => assert_eq!(suspension.bookmarks[0].name, clean),
        other => panic!("not suspended: {other:?}"),
    }
}

#[test]
fn a_text_is_without_secrets_before_it_is_cut_off() {
    let rig = discreet();
    // The last four of the 4 KiB that are kept would be the first four of the secret.
    for before in [0, 4092] {
        let text = format!("{}{SECRET}", "x".repeat(before));
        let check = |said: &str, has_room: bool| {
            assert!(!said.contains("corr"), "{before}: {said}");
            assert_eq!(said.contains("[sec"), has_room, "{before}: {said}");
        };
        let config = json!({ "ports": [text] });
        let steps = rig.plugin("steps");
        let took = rig.fiber(&steps, call("steps/port", &config, &json!(1)));
        // The host's own words before the port leave less room.
        let message = failure(took, Class::Invalid, "WL-R047").message;
        check(&message, before == 0);
        let gate = rig.plugin("gate");
        let order = json!({ "gate": { "reject": text } });
        match rig.accept(&gate, trigger(Some(&order))).result.unwrap() {
            Disposition::Reject(reason) => check(&reason.message, true),
            other => panic!("not rejected: {other:?}"),
        }
    }
}

#[test]
fn a_call_that_fails_has_sent_nothing() {
    let rig = Rig::with(granted);
    for (then, class, code) in [
        ("fail", Class::Permanent, "WL-R040"),
        ("trap", Class::Trap, "WL-R030"),
    ] {
        let returned = tell(
            &rig,
            &json!({ "send": 1, "schedule": 1, "name": "a", "data": {}, "then": then }),
        );
        assert!(returned.effects.is_empty());
        failure(returned, class, code);
    }
}

#[test]
fn nothing_of_one_call_reaches_the_next() {
    let rig = Rig::with(granted);
    let teller = rig.plugin("teller");
    let config = json!({ "send": 1, "name": "a" });
    let make = || call("teller/tell", &config, &Value::Null);
    earn_trust(&rig, &teller, make);
    for _ in 0..3 {
        assert_eq!(teller.execute_inline(make()).effects.sent.len(), 1);
    }
}

#[test]
fn without_the_grant_nothing_is_sent() {
    let why = "the capability `events` is not granted";
    check_refused(
        &Rig::new(),
        json!({ "send": 1, "schedule": 1, "name": "a" }),
        why,
    );
}

#[test]
fn malformed_events_are_refused() {
    let rig = Rig::with(granted);
    check_refused(&rig, json!({ "send": 1, "name": "" }), "name of an event");
    let long = "x".repeat(257);
    check_refused(&rig, json!({ "send": 1, "name": long }), "name of an event");
    check_refused(
        &rig,
        json!({ "send": 1, "name": "a\0" }),
        "name of an event",
    );
    check_refused(
        &rig,
        json!({ "schedule": 1, "name": "", "data": {} }),
        "name of a node",
    );
    check_refused(
        &rig,
        json!({ "schedule": 1, "name": "a", "data": 3 }),
        "not a JSON object",
    );
    let elsewhere = json!({ "send": 1, "name": "a", "run": "elsewhere" });
    check_refused(&rig, elsewhere, "not a UUID");
}

#[test]
fn events_of_a_call_are_limited_by_count_and_bytes() {
    let rig = Rig::with(granted);
    let returned = tell(
        &rig,
        &json!({ "send": 60, "schedule": 9, "name": "a", "data": {} }),
    );
    let sent = (
        returned.effects.sent.len(),
        returned.effects.scheduled.len(),
    );
    assert_eq!(sent, (60, 4));
    let answers = output(returned);
    assert_eq!(answers[63], json!("ok"));
    assert!(
        answers[64].as_str().unwrap().contains("64 times"),
        "{answers}"
    );

    let half = "x".repeat(600_000);
    let returned = tell(&rig, &json!({ "send": 2, "name": "a", "data": half }));
    assert_eq!(returned.effects.sent.len(), 1);
    assert!(output(returned)[1].as_str().unwrap().contains("bytes"));
}

#[test]
fn the_node_that_sends_sends() {
    let rig = Rig::with(granted);
    let events = rig.plugin("events");
    let config = json!({ "name": "paid", "match": { "b": 1, "a": 2 }, "correlation": "c" });
    let returned = rig.fiber(&events, call("events/send", &config, &json!([7])));
    let sent = SentStimulus {
        name: "paid".to_owned(),
        matches: json!({ "a": 2, "b": 1 }),
        correlation: Some("c".to_owned()),
        run: None,
        input: Payload::of(&json!([7])),
    };
    assert_eq!(returned.effects.sent, [sent]);
    assert_eq!(output(returned), json!({ "sent": "paid" }));
}

#[test]
fn a_node_knows_its_resume_token_before_it_suspends() {
    struct Tokens;
    impl ResumeTokens for Tokens {
        fn token(&self, wait: WaitId, bookmark: &str) -> Option<String> {
            assert_eq!(wait, WaitId::of_run(context().run, Seq(5), 0));
            Some(format!("of {bookmark}"))
        }
    }
    let rig = Rig::new();
    let steps = rig.plugin("steps");
    let suspend = |with_tokens: bool| {
        let config = json!({ "bookmarks": ["a"] });
        let mut call = call("steps/suspend", &config, &Value::Null);
        if with_tokens {
            call.cx.tokens = Some(Arc::new(Tokens));
        }
        match rig.fiber(&steps, call).result.unwrap() {
            Outcome::Suspend(suspension) => {
                let metadata = suspension.bookmarks[0].metadata.as_ref();
                metadata.unwrap().value().unwrap()
            }
            other => panic!("not suspended: {other:?}"),
        }
    };
    assert_eq!(suspend(false), json!({ "token": null }));
    assert_eq!(suspend(true), json!({ "token": "of a" }));
}

/// The arguments of `steps/suspend` when it is called again for this reason.
fn told(rig: &Rig, reason: Reason) -> Value {
    let steps = rig.plugin("steps");
    let mut call = call(
        "steps/suspend",
        &json!({ "bookmarks": ["a"] }),
        &Value::Null,
    );
    call.cx.phase = 1;
    call.cx.resumption = Some(Arc::new(Resumption {
        reason,
        state: Some(Payload::of(&json!("left"))),
    }));
    let mut seen = output(rig.fiber(&steps, call));
    assert_eq!(seen["state"], json!("left"));
    seen["why"].take()
}

#[test]
fn a_node_is_told_why_it_is_called_again() {
    let rig = Rig::new();
    let resumed = Reason::Resumed {
        bookmark: "a".to_owned(),
        input: Payload::of(&json!({ "n": 1 })),
        metadata: Some(Payload::of(&json!("meta"))),
    };
    let expected = json!({ "bookmark": "a", "input": { "n": 1 }, "metadata": "meta" });
    assert_eq!(told(&rig, resumed), expected);
    let expired = told(&rig, Reason::Expired("a".to_owned()));
    assert_eq!(expired, json!({ "expired": "a" }));
    assert_eq!(told(&rig, Reason::Cancelled), json!("cancelled"));
    assert_eq!(told(&rig, Reason::Again), json!("again"));
}

#[test]
fn a_person_is_asked_and_answers() {
    let rig = Rig::new();
    let human = rig.plugin("human");
    let config = json!({ "message": "Really?" });
    let asked = rig.fiber(&human, call("human/confirm", &config, &Value::Null));
    let Outcome::Suspend(suspension) = asked.result.unwrap() else {
        panic!("not suspended")
    };
    let bookmark = &suspension.bookmarks[0];
    assert_eq!(bookmark.name, "human.confirm");
    let instance = context().run.to_string();
    assert_eq!(bookmark.matches, json!({ "run": instance, "node": "step" }));
    let metadata = bookmark.metadata.as_ref().unwrap().value().unwrap();
    assert_eq!(metadata["message"], "Really?");
    let decisions = metadata.pointer("/schema/properties/decision/enum");
    assert_eq!(decisions, Some(&json!(["approve", "reject"])));
    assert!(!bookmark.private && bookmark.auto_burn);

    let mut again = call("human/confirm", &config, &Value::Null);
    again.cx.phase = 1;
    again.cx.resumption = Some(Arc::new(Resumption {
        reason: Reason::Resumed {
            bookmark: "human.confirm".to_owned(),
            input: Payload::of(&json!({ "decision": "reject", "by": "ada" })),
            metadata: Some(Payload::of(&metadata)),
        },
        state: None,
    }));
    let Outcome::Done(done) = rig.fiber(&human, again).result.unwrap() else {
        panic!("not done")
    };
    assert_eq!(done.ports, ["rejected"]);
    let expected = json!({ "decision": "reject", "by": "ada" });
    let answer: Value = serde_json::from_slice(done.output.inline().unwrap()).unwrap();
    assert_eq!(answer, expected);
}

#[test]
fn the_audit_notes_and_passes_on() {
    let rig = Rig::new();
    let audit = rig.plugin("audit");
    let payload = json!({ "amount": 7 });
    let returned = rig.accept(&audit, trigger(Some(&payload)));
    assert_eq!(returned.logs[0].message, "a trigger passes");
    assert_eq!(crate::rig::vars(returned.result.unwrap()), Some(payload));
}

#[test]
fn a_port_that_is_not_declared_fails_the_node() {
    let rig = Rig::new();
    let hostile = rig.plugin("hostile");
    let failed = failure(
        rig.fiber(&hostile, bare("hostile/port")),
        Class::Invalid,
        "WL-R047",
    );
    assert_eq!(
        failed.message,
        "the node took the port `nowhere`, and declares done"
    );
    let steps = rig.plugin("steps");
    let to = |ports: Value| {
        let config = json!({ "ports": ports });
        rig.fiber(&steps, call("steps/port", &config, &json!(1)))
    };
    assert_eq!(output(to(json!(["left", "right"]))), json!(1));
    assert_eq!(output(to(json!([]))), json!(1));
    failure(to(json!(["left", "error"])), Class::Invalid, "WL-R047");
}
