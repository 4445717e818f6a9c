//! Advice for people who know other languages better than that of jq.

/// Names of other languages.
const NAMES: [(&str, &str); 19] = [
    ("count", "write `length`"),
    ("len", "write `length`"),
    ("size", "write `length`"),
    ("lower", "write `ascii_downcase`"),
    ("toLowerCase", "write `ascii_downcase`"),
    ("upper", "write `ascii_upcase`"),
    ("toUpperCase", "write `ascii_upcase`"),
    ("filter", "write `map(select(…))`"),
    ("sum", "write `add`"),
    ("int", "write `tonumber`"),
    ("str", "write `tostring`"),
    ("stringify", "write `tojson`"),
    ("parse", "write `fromjson`"),
    ("now", "a filter reads no clock; pass the time in the input"),
    ("input", "a node has one input, which is `.`"),
    ("inputs", "a node has one input, which is `.`"),
    (
        "input_filename",
        "the input comes from no file; pass the name in the input",
    ),
    (
        "input_line_number",
        "the input comes from no file; pass the number in the input",
    ),
    (
        "env",
        "a filter sees no environment; pass the value in the input",
    ),
];

/// Signs of other languages. A sign that contains another one precedes it.
const SIGNS: [(&str, &str); 9] = [
    ("===", "write `==`"),
    ("!==", "write `!=`"),
    ("&&", "write `and`"),
    ("||", "write `or`"),
    ("{{", "leave the braces out, like `.a | length`"),
    ("=>", "write the filter alone, like `map(.a)`"),
    ("?", "write `if . then 1 else 2 end`"),
    ("!", "write `not` behind a value, like `.a | not`"),
    ("'", "write a text in double quotes"),
];

/// The message about the sign around the place where a filter is wrong.
pub(crate) fn on_sign(before: &str, after: &str) -> Option<String> {
    // The place may be behind the sign, or in its middle.
    const BACK: usize = 4;
    let begin = before.floor_char_boundary(before.len().saturating_sub(BACK));
    let near = before.get(begin..)?;
    let starts = near.char_indices().map(|(at, _)| near.get(at..));
    let found = |before: &str| {
        let joined: String = before.chars().chain(after.chars().take(BACK)).collect();
        let (sign, advice) = SIGNS.iter().find(|(sign, _)| joined.starts_with(sign))?;
        // These signs mean something in a filter, too: `.a != .b`, `.a?`, `"it's"`.
        let is_foreign = match *sign {
            "!" => !joined.starts_with("!="),
            "?" => after.contains(':'),
            "'" => before.is_empty(),
            _ => true,
        };
        is_foreign.then(|| format!("`{sign}` means nothing here: {advice}"))
    };
    starts.flatten().chain([""]).find_map(found)
}

/// There is no filter of this name, or none with so many arguments.
pub(crate) fn no_filter(name: &str, arity: usize, known: &[(&str, usize)]) -> String {
    let mut arities: Vec<usize> = known
        .iter()
        .filter(|(known, _)| *known == name)
        .map(|(_, arity)| *arity)
        .collect();
    arities.sort_unstable();
    arities.dedup();
    if let Some(last) = arities.last() {
        let all: Vec<_> = arities.iter().map(ToString::to_string).collect();
        let noun = match *last {
            1 => "argument",
            _ => "arguments",
        };
        let all = all.join(" or ");
        return format!("`{name}` takes {all} {noun}, and has {arity} here");
    }
    if let Some((_, advice)) = NAMES.iter().find(|(foreign, _)| *foreign == name) {
        return format!("there is no filter `{name}`: {advice}");
    }
    let near = known
        .iter()
        .map(|(known, _)| (strsim::osa_distance(name, known), *known))
        .filter(|(distance, known)| *distance <= 1 + known.len().min(name.len()) / 4)
        .min();
    match near {
        Some((_, known)) => format!("there is no filter `{name}`: did you mean `{known}`?"),
        None => format!("there is no filter `{name}`; those of jq are in its manual"),
    }
}
