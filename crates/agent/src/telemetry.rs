//! Log lines on standard error, in the shape of etcd's own, so that one container has one format. It
//! never fails: a log that cannot be written is lost.

use std::{
    fmt::Write as _,
    io::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

/// Severity; `error` means that a human is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// What was observed.
    Debug,
    /// The world changed.
    Info,
    /// Will be retried.
    Warn,
    /// A human is needed.
    Error,
}

/// Writes one line: `level`, `ts`, `msg`, then the fields of the object `fields`.
pub(crate) fn log(level: Level, message: &str, fields: &Value) {
    let level = match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    };
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut text = format!(
        r#"{{"level":"{level}","ts":"{}","logger":"agent","msg":{}"#,
        timestamp(since_epoch),
        Value::from(message)
    );
    for (name, value) in fields.as_object().into_iter().flatten() {
        if write!(text, ",{}:{value}", Value::from(name.as_str())).is_err() {
            return;
        }
    }
    text.push_str("}\n");
    // Nothing can be reported when standard error is closed.
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

/// RFC 3339 with microseconds, as etcd prints it. Howard Hinnant's `civil_from_days`, for times
/// after 1970 only: <https://howardhinnant.github.io/date_algorithms.html>.
fn timestamp(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (days, of_day) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        of_day / 3_600,
        of_day / 60 % 60,
        of_day % 60,
        since_epoch.subsec_micros()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_read_as_etcd_prints_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000042Z"),
            (951_782_399, "2000-02-28T23:59:59.000042Z"),
            (951_868_799, "2000-02-29T23:59:59.000042Z"),
            (1_709_251_200, "2024-03-01T00:00:00.000042Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000042Z"),
        ] {
            assert_eq!(timestamp(Duration::new(seconds, 42_000)), text);
        }
    }
}
