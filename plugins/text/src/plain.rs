//! Values as text, as in JSON: `true`, `false`, `null`, lists and objects. MiniJinja itself writes
//! those of Python.

use minijinja::filters;
use minijinja::formatting::{FormatStyle, format};
use minijinja::machinery::{
    CodeGenerator, Instruction, Instructions, eval, make_string_output, parse,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, StringInput, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, Output, State, Value, escape_formatter};

/// The filter behind the operator `~`. No template can contain this name.
const JOINED: &str = "~";
/// The name of a template in MiniJinja's errors.
const NAME: &str = "<string>";

/// A text in place of a value that MiniJinja would write otherwise.
fn text(value: &Value) -> Value {
    let json = match value.kind() {
        ValueKind::Bool | ValueKind::None | ValueKind::Seq | ValueKind::Map => {
            windlass::serde_json::to_string(value)
        }
        ValueKind::Iterable if value.try_iter().is_ok() => windlass::serde_json::to_string(value),
        _ => return value.clone(),
    };
    // What JSON cannot hold, like a function in a list, stays as it is.
    json.map_or_else(|_| value.clone(), Value::from)
}

/// Makes all filters that turn values into text do it as in JSON.
pub(crate) fn set(environment: &mut Environment<'_>) {
    environment.set_formatter(
        |out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value| {
            escape_formatter(out, state, &text(value))
        },
    );
    environment.add_filter("string", |state: &State<'_, '_>, value: &Value| {
        filters::string(state, &text(value))
    });
    environment.add_filter(
        JOINED,
        |state: &State<'_, '_>, left: &Value, right: &Value| {
            let [left, right] = [left, right].map(text);
            let left = StringInput::new(state, &left)?;
            let right = StringInput::new(state, &right)?;
            Ok::<_, Error>(format!("{}{}", left.as_str(), right.as_str()))
        },
    );
    environment.add_filter("join", join);
    environment.add_filter(
        "format",
        |state: &State<'_, '_>, pattern: &str, values: Rest<ValueOrKwargs>| {
            let values = values.into_values();
            for value in values.iter().filter(|value| value.is_undefined()) {
                // It is an error.
                StringInput::new(state, value)?;
            }
            let values: Vec<Value> = values.into_iter().map(to_format).collect();
            format(FormatStyle::Printf, pattern, &values)
        },
    );
    environment.add_filter("upper", |state: &State<'_, '_>, value: &Value| {
        on_text(state, value, filters::upper)
    });
    environment.add_filter("lower", |state: &State<'_, '_>, value: &Value| {
        on_text(state, value, filters::lower)
    });
    environment.add_filter("capitalize", |state: &State<'_, '_>, value: &Value| {
        on_text(state, value, filters::capitalize)
    });
    environment.add_filter("title", |state: &State<'_, '_>, value: &Value| {
        on_text(state, value, |value| {
            filters::title(value.as_str().into()).into()
        })
    });
    environment.add_filter(
        "trim",
        |state: &State<'_, '_>, value: &Value, characters: Option<String>| {
            let characters = characters.map(Into::into);
            on_text(state, value, |value| filters::trim(value, characters))
        },
    );
    environment.add_filter(
        "replace",
        |state: &mut State<'_, '_>, value: &Value, from: &Value, to: &Value| {
            let [value, from, to] = [value, from, to].map(text);
            let value = StringInput::new(state, &value)?;
            let (from, to) = (
                StringInput::new(state, &from)?,
                StringInput::new(state, &to)?,
            );
            filters::replace(state, value, from, to)
        },
    );
}

/// An argument of `format`: a value, or those with names.
fn to_format(value: Value) -> Value {
    let Ok(named) = Kwargs::try_from(value.clone()) else {
        let is_map = value.kind() == ValueKind::Map;
        return if is_map { value } else { text(&value) };
    };
    let value = |name| Some((name, text(&named.peek::<Value>(name).ok()?)));
    named.args().filter_map(value).collect::<Kwargs>().into()
}

fn on_text(
    state: &State<'_, '_>,
    value: &Value,
    filter: impl FnOnce(StringInput<'_>) -> Value,
) -> Result<Value, Error> {
    let value = text(value);
    Ok(filter(StringInput::new(state, &value)?))
}

fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    let attribute = match attribute {
        Some(attribute) => Some(attribute),
        None => options.get("attribute")?,
    };
    let items = match attribute {
        Some(attribute) => {
            let options = Kwargs::from_iter([("attribute", Value::from(attribute))]);
            state.apply_filter("map", &[value.clone(), options.into()])?
        }
        None => value.clone(),
    };
    // A text is joined by its characters, and a value that is no list is refused, by MiniJinja.
    let items = match items.kind() {
        ValueKind::Seq | ValueKind::Iterable => items.try_iter()?.map(|item| text(&item)).collect(),
        _ => items,
    };
    let joiner = match joiner {
        Some(joiner) => Some(joiner),
        None => options.get("d")?,
    };
    options.assert_all_used()?;
    filters::join(
        state,
        &items,
        joiner,
        None,
        Kwargs::from_iter([("", Value::UNDEFINED); 0]),
    )
}

/// Renders a template, with `~` as the other ways to write values.
pub(crate) fn render<'t>(
    environment: &Environment<'t>,
    template: &'t str,
    syntax: SyntaxConfig,
    variables: Value,
) -> Result<String, Error> {
    let tree = parse(template, NAME, syntax)?;
    let mut generator = CodeGenerator::new(NAME, template);
    generator.compile_stmt(&tree);
    let (mut instructions, mut blocks) = generator.finish();
    replace_operator(&mut instructions);
    blocks.values_mut().for_each(replace_operator);
    let mut text = String::new();
    {
        let mut out = make_string_output(&mut text);
        eval(
            environment,
            &instructions,
            variables,
            &blocks,
            &mut out,
            AutoEscape::None,
        )?;
    }
    Ok(text)
}

fn replace_operator(instructions: &mut Instructions<'_>) {
    let mut at = 0;
    while let Some(instruction) = instructions.get_mut(at) {
        if matches!(instruction, Instruction::StringConcat) {
            // This local id stands for a filter that is looked up each time.
            *instruction = Instruction::ApplyFilter(JOINED, Some(2), u8::MAX);
        }
        at += 1;
    }
}
