//! Kubernetes quantities: accepted as a number or a string, compared in bytes.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A quantity as the user wrote it, such as `10Gi` or `100m`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

impl Quantity {
    /// The value in whole units (bytes, for storage), rounded up; `None` if it is no quantity.
    pub fn value(&self) -> Option<u64> {
        let scaled = self.scaled()?;
        // Quantities of interest are far below 2^53, where f64 is exact.
        (0.0..9.0e15).contains(&scaled).then(|| {
            #[expect(
                clippy::as_conversions,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "range checked on the line above"
            )]
            let whole = scaled.ceil() as u64;
            whole
        })
    }

    /// Whether both are the same amount, however it is written: `1.5` and `1500m`, `1024Mi` and `1Gi`.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self.scaled(), other.scaled()) {
            // What is written with three decimals at most differs by more than what a product can be off.
            (Some(one), Some(other)) => (one - other).abs() <= one.abs() * 1e-12,
            _no_quantity => self == other,
        }
    }

    fn scaled(&self) -> Option<f64> {
        let text = self.0.as_str();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '+');
        let (number, suffix) = split.map_or((text, ""), |at| text.split_at(at));
        let number: f64 = number.parse().ok()?;
        Some(number * scale(suffix)?)
    }
}

fn scale(suffix: &str) -> Option<f64> {
    Some(match suffix {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "Pi" => 1_125_899_906_842_624.0,
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            10f64.powi(digits.parse().ok()?)
        }
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 10Gi")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_value_that_kubernetes_gives_them() {
        for (text, value) in [
            ("0", Some(0)),
            ("10Gi", Some(10 * 1024 * 1024 * 1024)),
            ("1.5Gi", Some(1_610_612_736)),
            ("100m", Some(1)),
            ("1e3", Some(1000)),
            ("2k", Some(2000)),
            ("10GB", None),
            ("-1Gi", None),
            ("", None),
        ] {
            assert_eq!(Quantity(text.into()).value(), value, "{text}");
        }
    }

    #[test]
    fn the_same_amount_may_be_written_in_several_ways() {
        let same = |one: &str, other: &str| Quantity(one.into()).is_same(&Quantity(other.into()));
        assert!(same("1024Mi", "1Gi") && same("1.5", "1500m") && same("2.3", "2300m"));
        assert!(same("lots", "lots") && !same("lots", "more"));
        assert!(!same("100m", "200m"), "both are less than one");
        assert!(!same("0", "1m") && same("0", "0m"));
    }

    #[test]
    fn a_number_is_read_like_the_string_of_it() {
        let number: Quantity = serde_json::from_str("1073741824").unwrap();
        assert_eq!(number, Quantity("1073741824".into()));
    }
}
