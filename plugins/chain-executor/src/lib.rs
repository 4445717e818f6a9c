//! The default trigger consumer: every trigger runs its node, and its payload is assigned to the
//! variables of the instance.

use windlass::prelude::*;

struct ChainExecutor;

impl Consumer for ChainExecutor {
    fn accept(trigger: Trigger, _: &Context) -> Result<Disposition> {
        Ok(Disposition::Execute(trigger.payload))
    }
}

windlass::plugin! {
    package: "chain-executor",
    title: "Chain executor",
    consumer: ChainExecutor,
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::{Call, describe};

    #[track_caller]
    fn check(call: Call, expected: Value) {
        let report = call.accept::<ChainExecutor>("next", Some("sum"));
        match report.outcome {
            Ok(Disposition::Execute(vars)) => assert_eq!(Value::Object(vars), expected),
            other => panic!("the trigger does not execute: {other:?}"),
        }
    }

    #[test]
    fn a_trigger_executes_with_its_payload_as_patch() {
        check(Call::new(), json!({}));
        check(Call::new().input(json!({})), json!({}));
        check(Call::new().input(json!({ "n": 1 })), json!({ "n": 1 }));
    }

    #[test]
    fn the_consumer_takes_every_kind_of_trigger() {
        assert_eq!(describe::<Plugin>()["consumer"]["types"], json!(["*"]));
    }
}
