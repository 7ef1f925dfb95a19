//! Whether values of a type can be printed: what holds a secret has no `Debug`, so that no log, panic or error can have it.

use std::fmt::Debug;
use std::marker::PhantomData;

/// Asked as `<Probe<T>>::PRINTS`, with [`Silent`] in scope, for a type that is written out.
pub struct Probe<T: ?Sized> {
    _type: PhantomData<T>,
}

/// What holds for a type without `Debug`.
pub trait Silent {
    /// It can be printed.
    const PRINTS: bool = false;
}

impl<T: ?Sized> Silent for Probe<T> {}

impl<T: ?Sized + Debug> Probe<T> {
    /// It can be printed.
    pub const PRINTS: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Secret {
        _key: &'static str,
    }

    #[test]
    fn a_type_is_told_from_one_that_can_be_printed() {
        let told = [<Probe<Secret>>::PRINTS, <Probe<String>>::PRINTS];
        assert_eq!(told, [false, true]);
    }
}
