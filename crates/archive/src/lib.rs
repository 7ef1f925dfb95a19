//! What lies in a store of backups, and what operator and keeper say to each other about it. Pure: no IO, no clock, no keys.

pub mod bolt;
mod fit;
pub mod layout;
pub mod log;
pub mod manifest;
pub mod materialise;
pub mod retention;
pub mod schedule;
pub mod stream;
pub mod work;

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}
