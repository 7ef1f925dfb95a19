//! Figures as markdown, and the little statistics they need.

/// A table with its header.
pub(super) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn print(&self, title: &str) {
        println!("### {title}\n\n| {} |", self.header.join(" | "));
        println!("|{}", "---|".repeat(self.header.len()));
        for row in &self.rows {
            println!("| {} |", row.join(" | "));
        }
        println!();
    }
}

/// Seconds, measured several times.
pub(super) struct Times(Vec<f64>);

impl Times {
    pub(super) fn new(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self(seconds)
    }

    /// The middle one, or the mean of the middle two.
    pub(super) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        let at = |index: usize| self.0.get(index).copied().unwrap_or(f64::NAN);
        if self.0.len().is_multiple_of(2) {
            f64::midpoint(at(middle.saturating_sub(1)), at(middle))
        } else {
            at(middle)
        }
    }

    pub(super) fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    pub(super) fn cell(&self) -> String {
        format!("{:.1} ({:.1})", self.median(), self.least())
    }
}

/// Whether a figure keeps below its aim.
pub(super) fn verdict(figure: f64, aim: f64) -> String {
    if figure <= aim {
        "met".to_owned()
    } else if aim < f64::EPSILON {
        "missed".to_owned()
    } else {
        format!("missed by {:.0} %", (figure / aim - 1.0) * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert!((Times::new(vec![3.0, 1.0, 2.0]).median() - 2.0).abs() < 1e-9);
        assert!((Times::new(vec![4.0, 1.0, 2.0, 3.0]).median() - 2.5).abs() < 1e-9);
        assert!(Times::new(Vec::new()).median().is_nan());
    }

    #[test]
    fn a_verdict_tells_by_how_much_an_aim_was_missed() {
        assert_eq!(verdict(1.0, 1.0), "met");
        assert_eq!(verdict(1.5, 1.0), "missed by 50 %");
    }
}
