use windlass::prelude::*;

#[derive(Deserialize, Serialize, JsonSchema)]
struct Text {
    text: String,
}

fn shout(mut input: Text) -> Result<Text> {
    input.text = input.text.to_uppercase();
    Ok(input)
}

windlass::plugin! { package: "text-tools", functions: [shout] }

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::testkit::{Call, describe};

    #[test]
    fn the_node_shouts_its_text() {
        let call = Call::new().input(json!({ "text": "grüße" }));
        let expected = json!({ "text": "GRÜSSE" });
        assert_eq!(call.run_function(shout).output(), expected);
    }

    #[test]
    fn the_plugin_describes_its_node() {
        let node = &describe::<Plugin>()["nodes"][0];
        assert_eq!(node["name"], json!("shout"));
        assert_eq!(node["input"]["required"], json!(["text"]));
    }
}
