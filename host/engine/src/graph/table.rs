//! A list by small numbers that has a value for every number.

/// A value that was never set is the default.
#[derive(Clone, Debug, Default)]
pub(super) struct Table<T>(Vec<T>);

impl<T: Copy + Default> Table<T> {
    pub(super) fn of(len: usize) -> Self {
        Self(vec![T::default(); len])
    }

    pub(super) fn get(&self, at: usize) -> T {
        self.0.get(at).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, at: usize, value: T) {
        if let Some(place) = self.0.get_mut(at) {
            *place = value;
        }
    }
}
