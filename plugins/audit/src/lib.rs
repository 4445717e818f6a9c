//! A trigger consumer that keeps an audit log: it logs each trigger of the route `audit`, and then
//! decides as `chain-executor` does.

use windlass::prelude::*;

struct Audit;

impl Consumer for Audit {
    const ROUTES: &'static [&'static str] = &["audit"];

    fn accept(trigger: Trigger, cx: &Context) -> Result<Disposition> {
        // Log names, not values: more people can read the log than the data.
        let members: Vec<&str> = trigger.payload.keys().map(String::as_str).collect();
        windlass::info!(
            "a trigger passes";
            kind = trigger.kind,
            node = trigger.node.as_deref().unwrap_or("(start)"),
            trigger = cx.trigger_id(),
            workflow = cx.workflow(),
            attempt = cx.attempt(),
            payload = members.join(",")
        );
        Ok(Disposition::Execute(trigger.payload))
    }
}

windlass::plugin! {
    package: "audit",
    title: "Audit",
    consumer: Audit,
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::{Call, describe};

    #[test]
    fn the_consumer_notes_each_trigger_and_passes_it_on() {
        let payload = json!({ "amount": 7, "user": "ada" });
        let call = Call::new().input(payload.clone());
        let report = call.accept::<Audit>("manual", Some("pay"));
        let line = report.logs.first().expect("a line is written");
        assert_eq!(line.message, "a trigger passes");
        let field = |name: &str| {
            let found = line.fields.iter().find(|(field, _)| field == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(field("kind"), Some("manual"));
        assert_eq!(field("node"), Some("pay"));
        assert_eq!(field("payload"), Some("amount,user"));
        match report.outcome {
            Ok(Disposition::Execute(vars)) => assert_eq!(Value::Object(vars), payload),
            other => panic!("the trigger does not execute: {other:?}"),
        }
    }

    #[test]
    fn the_consumer_is_called_by_its_route() {
        let consumer = &describe::<Plugin>()["consumer"];
        assert_eq!(consumer["types"], json!(["*"]));
        assert_eq!(consumer["routes"], json!(["audit"]));
    }
}
