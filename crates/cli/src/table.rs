//! Columns as kubectl prints them. In a terminal that is too narrow the least important ones are left out, and the last one
//! is cut; in a pipe nothing is.

use crate::screen::{Screen, Tone, width_of};

/// Between two columns.
const GAP: usize = 3;
/// The last column is worth showing from this width on.
const LEAST: usize = 12;

/// A heading, and how important its column is: 0 always stays, and of the others the highest goes first.
pub type Heading = (&'static str, u8);

/// Rows under headings.
#[derive(Debug)]
pub struct Table {
    headings: Vec<Heading>,
    rows: Vec<Vec<(String, Option<Tone>)>>,
}

impl Table {
    /// Without rows.
    pub fn new(headings: &[Heading]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
        }
    }

    /// One more row; an empty cell is shown as `-`.
    pub fn row(&mut self, cells: Vec<(String, Option<Tone>)>) {
        self.rows.push(cells);
    }

    /// As text.
    pub fn render(&self, screen: &Screen) -> String {
        let shown: Vec<Vec<(String, Option<Tone>)>> = self
            .rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|(text, tone)| (cell(screen, text), *tone))
                    .collect()
            })
            .collect();
        let widths: Vec<usize> = self
            .headings
            .iter()
            .enumerate()
            .map(|(at, (heading, _))| {
                let cells = shown.iter().filter_map(|row| row.get(at));
                let widest = cells.map(|(text, _)| width_of(text)).max();
                widest.unwrap_or_default().max(heading.len())
            })
            .collect();
        let kept = self.fit(&widths, screen.width);
        let heading = |at: usize| {
            let text = self.headings.get(at).map_or("", |(text, _)| text);
            (text.to_owned(), None)
        };
        let mut text = line(&kept, &widths, screen, heading);
        for row in &shown {
            let cell = |at: usize| row.get(at).cloned().unwrap_or_default();
            text.push_str(&line(&kept, &widths, screen, cell));
        }
        text
    }

    /// The columns that there is room for; the last may be cut.
    fn fit(&self, widths: &[usize], width: Option<usize>) -> Vec<usize> {
        let mut kept: Vec<usize> = (0..self.headings.len()).collect();
        let Some(width) = width else {
            return kept;
        };
        let needed = |kept: &[usize]| {
            let all = kept.iter().filter_map(|at| widths.get(*at));
            let mut total: usize = all
                .map(|width| width + GAP)
                .sum::<usize>()
                .saturating_sub(GAP);
            if let Some(last) = kept.last().and_then(|at| widths.get(*at)) {
                total = total.saturating_sub(last.saturating_sub(LEAST));
            }
            total
        };
        let importance = |at: &usize| {
            self.headings
                .get(*at)
                .map_or(0, |(_, importance)| *importance)
        };
        while needed(&kept) > width {
            let Some(least) = kept.iter().copied().max_by_key(importance) else {
                break;
            };
            if importance(&least) == 0 {
                break;
            }
            kept.retain(|at| *at != least);
        }
        kept
    }
}

fn cell(screen: &Screen, text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        screen.clean(text)
    }
}

fn line(
    kept: &[usize],
    widths: &[usize],
    screen: &Screen,
    cell: impl Fn(usize) -> (String, Option<Tone>),
) -> String {
    let mut text = String::new();
    for (place, at) in kept.iter().enumerate() {
        let (shown, tone) = cell(*at);
        let last = place + 1 == kept.len();
        let shown = match screen.width.filter(|_| last) {
            Some(width) => cut(
                screen,
                &shown,
                width.saturating_sub(width_of(&text)).max(LEAST),
            ),
            None => shown,
        };
        let padding = widths.get(*at).copied().unwrap_or_default() + GAP;
        let padding = padding.saturating_sub(width_of(&shown));
        text.push_str(&tone.map_or(shown.clone(), |tone| screen.paint(tone, &shown)));
        if !last {
            text.push_str(&" ".repeat(padding));
        }
    }
    text.push('\n');
    text
}

fn cut(screen: &Screen, text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let more = if screen.unicode { "…" } else { "..." };
    let kept = width.saturating_sub(width_of(more));
    let mut short: String = text.chars().take(kept).collect();
    short.push_str(more);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn table() -> Table {
        let mut table = Table::new(&[("NAME", 0), ("NODE", 2), ("ROLE", 1), ("MESSAGE", 0)]);
        for (name, node, message) in [
            ("db-0", "node-1", ""),
            ("db-1", "", "its pod is waiting for a volume"),
        ] {
            let cells = [name, node, "leader", message];
            table.row(cells.map(|text| (text.to_owned(), None)).to_vec());
        }
        table
    }

    fn render(width: Option<usize>, unicode: bool) -> String {
        table().render(&Screen {
            width,
            colour: false,
            unicode,
            wide: false,
            now: Timestamp::UNIX_EPOCH,
        })
    }

    #[test]
    fn in_a_pipe_everything_is_there() {
        assert_eq!(
            render(None, true),
            "NAME   NODE     ROLE     MESSAGE\ndb-0   node-1   leader   -\ndb-1   -        leader   its pod is waiting for a volume\n"
        );
    }

    #[test]
    fn a_narrow_terminal_loses_the_least_important_columns_first() {
        let wide = render(Some(45), true);
        assert!(wide.contains("NODE") && wide.contains('…'), "{wide}");
        let narrow = render(Some(30), false);
        assert!(
            !narrow.contains("NODE") && narrow.contains("ROLE"),
            "{narrow}"
        );
        assert!(narrow.is_ascii(), "{narrow}");
        let least = render(Some(20), true);
        assert!(
            !least.contains("ROLE") && least.contains("MESSAGE"),
            "{least}"
        );
        for (width, text) in [(45, wide), (30, narrow), (20, least)] {
            assert!(text.lines().all(|line| width_of(line) <= width), "{text}");
        }
    }
}
