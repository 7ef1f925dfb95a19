//! The little of protobuf that a WAL needs: walking the fields of one message, and building a small one.
//! No generated code; reading allocates nothing, and anything malformed is said, never guessed.

/// A field's value; only the two wire types that the WAL's messages use are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire types 1 and 5, skipped.
    Fixed,
}

/// The bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Walks the fields of `message` in order.
pub(crate) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

/// The number in varint field `wanted`; the last one wins, as protobuf demands.
pub(crate) fn varint(message: &[u8], wanted: u64) -> Result<Option<u64>, Malformed> {
    let mut found = None;
    for field in fields(message) {
        match field? {
            (number, Value::Varint(value)) if number == wanted => found = Some(value),
            _ => {}
        }
    }
    Ok(found)
}

/// These fields as varints, in this order.
pub(crate) fn build_varints(fields: &[(u64, u64)]) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, value) in fields {
        push_varint(&mut message, number << 3);
        push_varint(&mut message, *value);
    }
    message
}

/// One field of bytes.
pub(crate) fn build_bytes(number: u64, value: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    push_varint(&mut message, number << 3 | 2);
    push_varint(&mut message, u64::try_from(value.len()).unwrap_or(u64::MAX));
    message.extend(value);
    message
}

fn push_varint(message: &mut Vec<u8>, mut value: u64) {
    while let more @ 1.. = value >> 7 {
        message.push(0x80 | value.to_le_bytes()[0]);
        value = more;
    }
    message.push(value.to_le_bytes()[0]);
}

/// Iterator over a message's fields; ends after the first malformed one.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read_field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

impl<'a> Fields<'a> {
    fn read_field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.read_varint()?;
        let value = match key & 7 {
            0 => Value::Varint(self.read_varint()?),
            1 => self.read_bytes(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.read_varint()?).ok()?;
                Value::Bytes(self.read_bytes(length)?)
            }
            5 => self.read_bytes(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        let number = key >> 3;
        (number != 0).then_some((number, value))
    }

    fn read_varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn read_bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_numbers_and_bytes_and_skips_the_rest() {
        let message = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x1d, 1, 2, 3, 4, // 3: fixed32
            0x21, 1, 2, 3, 4, 5, 6, 7, 8, // 4: fixed64
            0x08, 0x01, // 1: 1, the last one wins
        ];
        let read: Vec<_> = fields(&message).map(Result::unwrap).collect();
        assert_eq!(
            read,
            [
                (1, Value::Varint(150)),
                (2, Value::Bytes(b"hi")),
                (3, Value::Fixed),
                (4, Value::Fixed),
                (1, Value::Varint(1)),
            ]
        );
        assert_eq!(varint(&message, 1), Ok(Some(1)));
        assert_eq!(varint(&message, 9), Ok(None));
    }

    #[test]
    fn says_malformed_instead_of_guessing() {
        for message in [
            &[0x08][..],
            &[0x12, 0x05, b'h'],
            &[0x0b],
            &[0x00, 0x01],
            &[
                0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02,
            ],
            &[
                0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
            ],
        ] {
            assert_eq!(fields(message).last(), Some(Err(Malformed)), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn ends_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(fields(&bytes).count() <= bytes.len());
        }
    }
}
