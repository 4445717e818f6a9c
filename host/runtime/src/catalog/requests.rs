//! Triggers that can never start their workflow: the knowledge about a request or an event, before
//! it comes, against the schema of the input.
//!
//! Only what no request and no event can change is a mistake: a member that is always missing, and a
//! value that is never of the wanted type.

use serde_json::Value;
use windlass_engine::Start;
use windlass_engine::expr::{Cause, Constants, cause_paths, known_parts};
use windlass_model::nearest::did_you_mean;
use windlass_model::schema::Schema;
use windlass_model::{Definition, Diagnostic, Place, codes};

use crate::entry;

/// Subschemas that are looked at for one trigger.
const BUDGET: usize = 2_000;

/// How deep a value is looked into.
const DEPTH: usize = 64;

/// The triggers whose requests or events can never be the input, and the mistakes in their
/// expressions.
pub(super) fn mistakes(definition: &Definition) -> Vec<Diagnostic> {
    let mut wrong = entry::compile(definition).err().unwrap_or_default();
    let constants = Constants::default();
    for (key, trigger) in &definition.triggers {
        let Some(start) = Start::of(trigger) else {
            continue;
        };
        if let (Cause::Request, Some(input)) = (start.cause, start.template) {
            let place = format!("/triggers/{key}/input");
            missing_members(input, &start.schema, &place, &mut wrong);
        }
        if let Some(schema) = &definition.input {
            wrong.extend(never_fits(key, schema, &start, &constants));
        }
    }
    wrong
}

fn never_fits(
    key: &str,
    schema: &Value,
    start: &Start<'_>,
    constants: &Constants,
) -> Vec<Diagnostic> {
    let wrong = |place: String, reason: &str, help: Option<String>| {
        let message = format!("the trigger `{key}` can start nothing: {reason}");
        let mut found = Diagnostic::new(codes::HOOK_INPUT, message, Place::at(place));
        found.help = help;
        found
    };
    let mut compare = Compare {
        root: schema,
        budget: BUDGET,
    };
    let given = start.input();
    let Some(input) = start.template else {
        let found = compare.conflict(schema, &given, "", 0);
        let advice = || {
            let required = schema.get("required").and_then(Value::as_array);
            let names = required.into_iter().flatten().filter_map(Value::as_str);
            let members: Vec<String> = names
                .take(4)
                .map(|name| format!("{name}: \"{{{{ request.body.{name} }}}}\""))
                .collect();
            let like = match members.is_empty() {
                true => "\"{{ request.body }}\"".to_owned(),
                false => format!("{{ {} }}", members.join(", ")),
            };
            format!("say how a request becomes the input: `input: {like}` beside `http`")
        };
        let wrong = |(_, reason): (String, String)| {
            let reason = format!("the input would be the request, and {reason}");
            wrong(format!("/triggers/{key}/http"), &reason, Some(advice()))
        };
        return found.map(wrong).into_iter().collect();
    };
    let place = format!("/triggers/{key}/input");
    let (known, unknown) = known_parts(input, &[], constants);
    if unknown.is_empty() {
        let Ok(compiled) = Schema::compile(schema) else {
            return Vec::new();
        };
        let found = match compiled.completed(known, &place) {
            Ok(whole) => compiled.check(&whole, &place),
            Err(found) => vec![*found],
        };
        let found = found.into_iter();
        let found = found.map(|it| wrong(it.place.pointer, &it.message, it.help));
        return found.collect();
    }
    let found = compare.conflict(schema, &given, "", 0);
    found
        .map(|(at, reason)| wrong(format!("{place}{at}"), &reason, None))
        .into_iter()
        .collect()
}

/// Adds the mistakes of expressions that read a parameter which the path does not have.
fn missing_members(value: &Value, request: &Value, place: &str, wrong: &mut Vec<Diagnostic>) {
    let declared = request.pointer("/properties/params/properties");
    let declared = declared.and_then(Value::as_object);
    let names: Vec<&str> = declared
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    for (pointer, path) in cause_paths(Cause::Request, value, place) {
        let ["params", name, ..] = path.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
            continue;
        };
        if names.contains(&name) {
            continue;
        }
        let message = format!("the path of the trigger has no parameter `{name}`");
        let mut found = Diagnostic::new(codes::HOOK_INPUT, message, Place::at(pointer));
        found.help = did_you_mean(name, names.iter().copied()).or_else(|| {
            names
                .is_empty()
                .then(|| format!("write it into the path: `{{{name}}}`"))
        });
        wrong.push(found);
    }
}

struct Compare<'a> {
    root: &'a Value,
    budget: usize,
}

impl<'a> Compare<'a> {
    /// Why no value of the schema `given` fits `wanted`, with the place. Only keywords that hold for
    /// every value count.
    fn conflict(
        &mut self,
        wanted: &'a Value,
        given: &Value,
        at: &str,
        depth: usize,
    ) -> Option<(String, String)> {
        self.budget = self.budget.checked_sub(1)?;
        if depth > DEPTH {
            return None;
        }
        if wanted == &Value::Bool(false) {
            return Some((at.to_owned(), format!("{} is ruled out", shown(at))));
        }
        let keywords = wanted.as_object()?;
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            let target = reference
                .strip_prefix('#')
                .and_then(|to| self.root.pointer(to));
            let found = target.and_then(|to| self.conflict(to, given, at, depth + 1));
            if found.is_some() {
                return found;
            }
        }
        for part in keywords
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let found = self.conflict(part, given, at, depth + 1);
            if found.is_some() {
                return found;
            }
        }
        let (types, has) = (types(wanted), self::types(given));
        if let (Some(types), Some(has)) = (&types, &has)
            && !has
                .iter()
                .any(|has| types.iter().any(|wanted| overlaps(has, wanted)))
        {
            let reason = format!(
                "{} is {}, where {} is wanted",
                shown(at),
                named(has),
                named(types)
            );
            return Some((at.to_owned(), reason));
        }
        let is_object = has.is_some_and(|has| has == ["object"]);
        if !is_object {
            return None;
        }
        self.members(wanted, given, at, depth)
    }

    fn members(
        &mut self,
        wanted: &'a Value,
        given: &Value,
        at: &str,
        depth: usize,
    ) -> Option<(String, String)> {
        let of = |schema: &'_ Value, name: &str| {
            let declared = schema.get("properties").and_then(|all| all.get(name));
            declared
                .or_else(|| schema.get("additionalProperties"))
                .cloned()
        };
        let closed = given.get("additionalProperties") == Some(&Value::Bool(false));
        let (always, required) = (names(given), names(wanted));
        for name in &required {
            let declared = given.get("properties").and_then(|all| all.get(name));
            let default = wanted.get("properties").and_then(|all| all.get(name));
            let has_default = default.is_some_and(|schema| schema.get("default").is_some());
            if closed && declared.is_none() && !has_default {
                let reason = format!("the property `{name}` is missing{}", inside(at));
                return Some((at.to_owned(), reason));
            }
        }
        for name in always.iter().chain(&required) {
            let declared = wanted.get("properties").and_then(|all| all.get(name));
            let patterns = wanted.get("patternProperties").is_some();
            let rest = wanted.get("additionalProperties").filter(|_| !patterns);
            if declared.is_none() && rest == Some(&Value::Bool(false)) && always.contains(name) {
                let reason = format!("there is no property `{name}`{}", inside(at));
                return Some((at.to_owned(), reason));
            }
            // A member that may be missing gets its default.
            let has_default = declared.is_some_and(|schema| schema.get("default").is_some());
            if has_default && !always.contains(name) {
                continue;
            }
            let Some((schema, given)) = declared.or(rest).zip(of(given, name)) else {
                continue;
            };
            if given == Value::Bool(false) {
                continue;
            }
            let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            let found = self.conflict(schema, &given, &at, depth + 1);
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// The names that `required` lists.
fn names(schema: &Value) -> Vec<String> {
    let listed = schema.get("required").and_then(Value::as_array);
    let names = listed.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// The types that a schema allows. None: any.
fn types(schema: &Value) -> Option<Vec<String>> {
    match schema.get("type")? {
        Value::String(name) => Some(vec![name.clone()]),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str);
            Some(names.map(str::to_owned).collect())
        }
        _ => None,
    }
}

fn overlaps(has: &str, wanted: &str) -> bool {
    has == wanted || matches!((has, wanted), ("integer", "number") | ("number", "integer"))
}

fn named(types: &[String]) -> String {
    let named = types.iter().map(|name| match name.as_str() {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "a boolean",
        "array" => "a list",
        "object" => "an object",
        _ => "null",
    });
    named.collect::<Vec<_>>().join(" or ")
}

fn shown(at: &str) -> String {
    match at {
        "" => "the whole".to_owned(),
        at => format!("`{}`", at.trim_start_matches('/').replace('/', ".")),
    }
}

fn inside(at: &str) -> String {
    match at {
        "" => String::new(),
        at => format!(" in {}", shown(at)),
    }
}
