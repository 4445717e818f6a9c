//! Values as text, as in JSON: `true`, `false`, `null`, lists and objects, where MiniJinja itself
//! writes those of Python; and the order of values, which only those of one kind have.

use minijinja::filters;
use minijinja::formatting::{FormatStyle, format};
use minijinja::machinery::{CodeGenerator, eval, make_string_output, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, StringInput, ValueKind, ValueOrKwargs};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, Value, escape_formatter, tests,
};

use crate::operators::{CONTAINED, JOINED, ORDERS, as_filters};

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
    environment.add_filter(
        CONTAINED,
        |state: &State<'_, '_>, value: &Value, container: &Value| {
            defined(state, value)?;
            defined(state, container)?;
            match container.kind() {
                // A text contains the text of a value.
                ValueKind::String => {
                    let value = text(value);
                    let value = StringInput::new(state, &value)?;
                    let container = StringInput::new(state, container)?;
                    Ok(container.as_str().contains(value.as_str()))
                }
                ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
                    tests::is_in(state, value, container)
                }
                _ => {
                    let message = "`in` looks into a text, a list or an object";
                    Err(Error::new(ErrorKind::InvalidOperation, message))
                }
            }
        },
    );
    for name in ORDERS {
        let test = move |state: &State<'_, '_>, left: &Value, right: &Value| {
            ordered(state, name, left, right)
        };
        environment.add_filter(name, test);
        environment.add_test(name, test);
    }
    for (name, means) in [
        ("lt", "<"),
        ("lessthan", "<"),
        ("le", "<="),
        ("gt", ">"),
        ("greaterthan", ">"),
        ("ge", ">="),
    ] {
        environment.add_test(
            name,
            move |state: &State<'_, '_>, left: &Value, right: &Value| {
                ordered(state, means, left, right)
            },
        );
    }
    for (name, filter) in [
        ("max", filters::max as Ordering),
        ("min", filters::min),
        ("sort", filters::sort),
    ] {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, value: Value, options: Kwargs| {
                of_one_kind(state, name, &value, &options)?;
                filter(state, value, options)
            },
        );
    }
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

/// A filter that orders the items of a list.
type Ordering = fn(&State<'_, '_>, Value, Kwargs) -> Result<Value, Error>;

/// Fails if a value is undefined.
fn defined(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.is_undefined() {
        true => StringInput::new(state, value).map(drop),
        false => Ok(()),
    }
}

fn ordered(state: &State<'_, '_>, name: &str, left: &Value, right: &Value) -> Result<bool, Error> {
    defined(state, left)?;
    defined(state, right)?;
    one_kind(name, left, right)?;
    Ok(match name {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}

/// Fails if two values have no order.
fn one_kind(name: &str, left: &Value, right: &Value) -> Result<(), Error> {
    let kind = |value: &Value| match value.kind() {
        ValueKind::None => "null",
        ValueKind::Bool => "a boolean",
        ValueKind::Number => "a number",
        ValueKind::String => "a text",
        ValueKind::Seq | ValueKind::Iterable => "a list",
        ValueKind::Map => "an object",
        _ => "a value",
    };
    let (left, right) = (kind(left), kind(right));
    if left == right && left != "null" {
        return Ok(());
    }
    let message = format!("`{name}` cannot order {left} and {right}");
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Fails if two items of a list, or two members of its items, have no order.
fn of_one_kind(
    state: &mut State<'_, '_>,
    name: &str,
    list: &Value,
    options: &Kwargs,
) -> Result<(), Error> {
    let items = match options.peek::<Option<&str>>("attribute")? {
        // Several attributes are ordered as lists.
        Some(attribute) if attribute.contains(',') => return Ok(()),
        Some(attribute) => {
            let options = Kwargs::from_iter([
                ("attribute", Value::from(attribute)),
                ("default", Value::UNDEFINED),
            ]);
            state.apply_filter("map", &[list.clone(), options.into()])?
        }
        None => list.clone(),
    };
    // MiniJinja refuses a value that is no list.
    let Ok(items) = items.try_iter() else {
        return Ok(());
    };
    let mut items = items.filter(|item| !item.is_undefined());
    let Some(first) = items.next() else {
        return Ok(());
    };
    items.try_for_each(|item| one_kind(name, &first, &item))
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

/// Renders a template, with the operators of this module.
pub(crate) fn render<'t>(
    environment: &Environment<'t>,
    template: &'t str,
    syntax: SyntaxConfig,
    variables: Value,
) -> Result<String, Error> {
    let tree = as_filters(&parse(template, NAME, syntax)?);
    let mut generator = CodeGenerator::new(NAME, template);
    generator.compile_stmt(&tree);
    let (instructions, blocks) = generator.finish();
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
