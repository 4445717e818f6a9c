//! Parameters of statements.

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use windlass_model::{Digest, RunId, TraceContext, TriggerId};

/// A parameter, which can be sent to another thread.
#[derive(Clone, Debug)]
pub(crate) enum Param {
    /// Null, of any type.
    Null,
    /// An integer of any width, or a boolean.
    Int(i64),
    Text(String),
    Bytes(Bytes),
    /// A list of integers: an array, or its JSON text for SQLite's `json_each`.
    Ints(Vec<i64>),
}

/// The parameters of a statement, in order.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::sql::Param::from($value)),*]
    };
}
pub(crate) use params;

impl<T: Into<Param>> From<Option<T>> for Param {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, T::into)
    }
}

impl From<i64> for Param {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for Param {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<bool> for Param {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

impl From<&str> for Param {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&String> for Param {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<String> for Param {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&[u8]> for Param {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(Bytes::copy_from_slice(value))
    }
}

impl From<&Bytes> for Param {
    fn from(value: &Bytes) -> Self {
        Self::Bytes(value.clone())
    }
}

impl From<TraceContext> for Param {
    fn from(value: TraceContext) -> Self {
        Self::Bytes(value.to_stored().into())
    }
}

impl From<RunId> for Param {
    fn from(value: RunId) -> Self {
        (&value.0.as_bytes()[..]).into()
    }
}

impl From<TriggerId> for Param {
    fn from(value: TriggerId) -> Self {
        (&value.0.as_bytes()[..]).into()
    }
}

impl From<Vec<i64>> for Param {
    fn from(value: Vec<i64>) -> Self {
        Self::Ints(value)
    }
}

impl From<i32> for Param {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<i16> for Param {
    fn from(value: i16) -> Self {
        Self::Int(value.into())
    }
}

impl From<u8> for Param {
    fn from(value: u8) -> Self {
        Self::Int(value.into())
    }
}

impl From<Digest> for Param {
    fn from(value: Digest) -> Self {
        Self::Bytes(Bytes::copy_from_slice(&value.0))
    }
}

impl rusqlite::ToSql for Param {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Bytes(value) => ValueRef::Blob(value),
            Self::Ints(values) => {
                // Serialising numbers never fails.
                let text = serde_json::to_string(values).unwrap_or_default();
                return Ok(ToSqlOutput::Owned(text.into()));
            }
        }))
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use std::error::Error;

    use bytes::BytesMut;
    use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

    use super::Param;

    impl ToSql for Param {
        fn to_sql(
            &self,
            kind: &Type,
            out: &mut BytesMut,
        ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
            match self {
                Self::Null => Ok(IsNull::Yes),
                Self::Int(value) => match *kind {
                    Type::INT2 => i16::try_from(*value)?.to_sql(kind, out),
                    Type::INT4 => i32::try_from(*value)?.to_sql(kind, out),
                    Type::BOOL => (*value != 0).to_sql(kind, out),
                    _ => value.to_sql_checked(kind, out),
                },
                Self::Text(value) => value.to_sql_checked(kind, out),
                Self::Bytes(value) => (&**value).to_sql_checked(kind, out),
                Self::Ints(values) if *kind == Type::INT2_ARRAY => {
                    let values = values.iter().map(|value| i16::try_from(*value));
                    values.collect::<Result<Vec<_>, _>>()?.to_sql(kind, out)
                }
                Self::Ints(values) => values.to_sql_checked(kind, out),
            }
        }

        fn accepts(_: &Type) -> bool {
            // Each value checks the type itself.
            true
        }

        to_sql_checked!();
    }
}
