//! A timeline.

use crate::report::Happening;
use crate::screen::{Screen, Tone};
use crate::table::Table;

/// What happened, the oldest first; in wide form with the time itself and what reported it.
pub fn events(all: &[Happening], screen: &Screen) -> String {
    let mut headings = vec![("LAST", 0), ("OBJECT", 1), ("REASON", 0)];
    if screen.wide {
        headings.extend([("TIME", 3), ("SOURCE", 4)]);
    }
    headings.push(("MESSAGE", 0));
    let mut table = Table::new(&headings);
    for it in all {
        let warning = (it.kind == "Warning").then_some(Tone::Bad);
        let mut cells = vec![
            (screen.ago(it.time), None),
            (it.object.clone(), None),
            (it.reason.clone(), warning),
        ];
        if screen.wide {
            cells.extend([(it.time.to_string(), None), (it.source.clone(), None)]);
        }
        let times = if it.count > 1 {
            format!(" ({} times)", it.count)
        } else {
            String::new()
        };
        cells.push((format!("{}{times}", it.message), None));
        table.row(cells);
    }
    table.render(screen)
}
