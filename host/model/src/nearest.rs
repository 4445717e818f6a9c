//! The existing name that the user probably intended by an unknown one.

/// The name nearest to `word`, if it is near enough to be a typing mistake: about one wrong letter
/// in three; hyphens, underscores and capitals do not count.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = plain(word);
    let limit = (plain.chars().count().max(3) / 3).min(3);
    names
        .into_iter()
        .map(|name| (strsim::osa_distance(&plain, &self::plain(name)), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `did you mean …`, if there is a near name.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, names).map(|name| format!("did you mean `{name}`?"))
}

fn plain(word: &str) -> String {
    // Long words are no typing mistakes, and comparing them costs the product of their lengths.
    word.chars()
        .take(64)
        .filter(|c| *c != '-' && *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}
