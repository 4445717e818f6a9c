use windlass::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Input {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    text: String,
}

struct Shout;

impl Node for Shout {
    const NAME: &'static str = "shout";
    type Config = Nothing;
    type Input = Input;
    type Output = Output;

    fn run(_: Nothing, input: Input, _: &Context) -> Result<Outcome<Output>> {
        let text = input.text.to_uppercase();
        Ok(Output { text }.into())
    }
}

windlass::plugin! { package: "text-tools", nodes: [Shout] }

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::{Call, describe};

    #[test]
    fn it_says_it_louder() {
        let report = Call::new().input(json!({ "text": "grüße" })).run::<Shout>();
        assert_eq!(report.output(), json!({ "text": "GRÜSSE" }));
    }

    #[test]
    fn it_describes_itself() {
        assert_eq!(
            describe::<Plugin>()["nodes"][0]["input"]["required"],
            json!(["text"])
        );
    }
}
