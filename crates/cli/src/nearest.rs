//! Names that look like the one that was typed.

/// At most three of them, the nearest first; none that is quite another.
pub fn nearest(typed: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut near: Vec<(usize, String)> = names
        .into_iter()
        .filter_map(|name| {
            // A name may bear its namespace.
            let bare = name.rsplit('/').next().unwrap_or(&name);
            let distance = distance(typed, bare);
            let part = !typed.is_empty() && bare.contains(typed);
            let distance = if part { distance.min(1) } else { distance };
            let most = typed.chars().count().max(3) / 3 + 1;
            (distance <= most).then_some((distance, name))
        })
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// How many characters are put in, taken out or exchanged from one to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, character) in from.chars().enumerate() {
        let mut before = at;
        let mut left = at + 1;
        let mut next = vec![left];
        for (above, other) in row.iter().skip(1).zip(&to) {
            let exchanged = before + usize::from(character != *other);
            left = exchanged.min(left + 1).min(above + 1);
            before = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first_and_strange_ones_not_at_all() {
        let names = ["prod", "dev/prob", "ci/prod-2", "cache", "production-east"];
        let near = nearest("prod", names.map(str::to_owned));
        assert_eq!(near, ["prod", "ci/prod-2", "dev/prob"]);
        assert!(nearest("db", ["cache".to_owned()]).is_empty());
    }

    #[test]
    fn a_distance_counts_what_is_put_in_taken_out_and_exchanged() {
        for (from, to, apart) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("db", "bd", 2),
        ] {
            assert_eq!(distance(from, to), apart, "{from} {to}");
        }
    }
}
