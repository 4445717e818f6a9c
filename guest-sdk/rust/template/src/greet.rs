//! The node `__NAME__/greet`.

use windlass::prelude::*;

/// The input of the node.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Input {
    /// The name of the person.
    name: String,
}

/// Its output.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    greeting: String,
}

pub(crate) fn greet(input: Input) -> Result<Output> {
    if input.name.is_empty() {
        return Err(Error::invalid("`name` is empty"));
    }
    let greeting = format!("Hello, {}!", input.name);
    Ok(Output { greeting })
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::{Call, describe};

    #[test]
    fn a_person_is_greeted() {
        let call = Call::new().input(json!({ "name": "Zoë" }));
        let report = call.run_function(greet);
        assert_eq!(report.output(), json!({ "greeting": "Hello, Zoë!" }));
    }

    #[test]
    fn an_empty_name_is_invalid() {
        let call = Call::new().input(json!({ "name": "" }));
        let error = call.run_function(greet).error();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    }

    #[test]
    fn the_plugin_describes_its_node() {
        assert_eq!(describe::<crate::Plugin>()["nodes"][0]["name"], json!("greet"));
    }
}
