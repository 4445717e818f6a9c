//! A trigger consumer that admits only certain users: a trigger of the route `guard` has to name
//! its user, who has to be on the list. Meant to be copied; the rule is compiled in.

use windlass::prelude::*;

/// The users who may trigger.
const MAY: [&str; 2] = ["ada", "grace"];

struct Guard;

impl Consumer for Guard {
    const ROUTES: &'static [&'static str] = &["guard"];

    fn accept(trigger: Trigger, cx: &Context) -> Result<Disposition> {
        // Triggers that the engine makes have no payload: they belong to a run that an allowed user
        // started.
        let user = match trigger.payload.get("userId") {
            Some(user) => user.as_str().map(str::to_owned),
            None => cx.memory("input.userId")?,
        };
        Ok(match user {
            Some(user) if MAY.contains(&user.as_str()) => Disposition::Execute(trigger.payload),
            Some(user) => Disposition::Reject(format!("`{user}` may not do this").into()),
            None => Disposition::Reject("`userId` does not name the user".into()),
        })
    }
}

windlass::plugin! { package: "guard", consumer: Guard }

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::Call;

    /// The reason, if the trigger is rejected.
    fn rejected(call: Call) -> Option<String> {
        match call.accept::<Guard>("manual", Some("pay")).outcome {
            Ok(Disposition::Execute(_)) => None,
            Ok(Disposition::Reject(failure)) => Some(failure.message),
            other => panic!("neither executed nor rejected: {other:?}"),
        }
    }

    fn by(user: Value) -> Call {
        Call::new().input(json!({ "userId": user }))
    }

    #[test]
    fn a_user_on_the_list_gets_through() {
        assert_eq!(rejected(by(json!("ada"))), None);
    }

    #[test]
    fn all_others_do_not() {
        assert_eq!(
            rejected(by(json!("eve"))).as_deref(),
            Some("`eve` may not do this")
        );
        assert!(rejected(by(json!(1))).is_some());
        assert!(rejected(Call::new()).is_some());
    }

    #[test]
    fn a_trigger_without_a_user_acts_for_the_starter_of_the_run() {
        let begun_by = |user: &str| Call::new().memory("input.userId", json!(user));
        assert_eq!(rejected(begun_by("grace")), None);
        assert!(rejected(begun_by("eve")).is_some());
    }
}
