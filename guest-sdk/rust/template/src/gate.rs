//! The trigger consumer: it admits the triggers of the route `__NAME__` that name a user.

use windlass::prelude::*;

pub(crate) struct Gate;

impl Consumer for Gate {
    const ROUTES: &'static [&'static str] = &["__NAME__"];

    fn accept(trigger: Trigger, _: &Context) -> Result<Disposition> {
        // A trigger that the engine makes has no payload: it belongs to a run that was admitted.
        if trigger.payload.is_empty() || trigger.payload.contains_key("user") {
            return Ok(Disposition::Execute(trigger.payload));
        }
        Ok(Disposition::Reject("`user` is missing".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::Call;

    fn accepted(payload: Value) -> Disposition {
        let call = Call::new().input(payload);
        call.accept::<Gate>("manual", None).outcome.unwrap()
    }

    #[test]
    fn a_user_is_admitted() {
        let accepted = accepted(json!({ "user": "ada" }));
        assert!(matches!(accepted, Disposition::Execute(_)), "{accepted:?}");
    }

    #[test]
    fn a_trigger_without_a_user_is_rejected() {
        let accepted = accepted(json!({ "amount": 7 }));
        assert!(matches!(accepted, Disposition::Reject(_)), "{accepted:?}");
    }
}
