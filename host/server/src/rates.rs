//! The rates of calls per hook and per client.
//!
//! Each key has a bucket of tokens, stored as the time at which it will be full again (the generic
//! cell rate algorithm of ATM). A full bucket is equal to a missing one, so the table has a fixed
//! size: a key may be in few places, and if all of them are taken, the bucket that is full the
//! soonest is dropped. A client with many addresses gains no more than the rate of each address,
//! and the table never grows.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;

/// Places that a key may be in.
const WAYS: usize = 4;

/// Rows of places: with 16 bytes for a bucket, 1 MiB for a table.
const ROWS: usize = 16_384;

/// A rate: so many events in each period, evenly spread, and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Events in each period. At least 1.
    pub count: u32,
    /// The period.
    pub per: Duration,
    /// Events at once after a period of rest. At least 1.
    pub burst: u32,
}

/// The buckets of one rate.
pub(crate) struct Buckets {
    /// The time between two tokens, in nanoseconds.
    step_ns: u64,
    /// How far in the future a bucket may be full, in nanoseconds.
    most_ns: u64,
    /// The seed is random, so that no client knows which keys share a row.
    hasher: RandomState,
    rows: Mutex<Box<[Row]>>,
}

type Row = [Bucket; WAYS];

#[derive(Clone, Copy, Default)]
struct Bucket {
    key: u64,
    /// The time at which it is full again, in nanoseconds of the monotonic clock; 0 is a free
    /// place.
    full_ns: u64,
}

impl Buckets {
    pub(crate) fn new(rate: Rate) -> Self {
        let per_ns = u64::try_from(rate.per.as_nanos()).unwrap_or(u64::MAX);
        let step_ns = (per_ns / u64::from(rate.count.max(1))).max(1);
        Self {
            step_ns,
            most_ns: step_ns.saturating_mul(u64::from(rate.burst.max(1))),
            hasher: RandomState::new(),
            rows: Mutex::new(vec![Row::default(); ROWS].into_boxed_slice()),
        }
    }

    /// Takes a token of a key's bucket, or returns the time until there is one.
    pub(crate) fn take(&self, key: impl Hash, now: Duration) -> Result<(), Duration> {
        let key = self.hasher.hash_one(key);
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let mut rows = self.rows.lock();
        let row = rows.get_mut(usize::try_from(key).unwrap_or_default() % ROWS);
        let Some(row) = row else { return Ok(()) };
        let known = row
            .iter()
            .position(|bucket| bucket.key == key && bucket.full_ns > 0);
        let soonest = || {
            let places = row.iter().enumerate();
            places.min_by_key(|(_, bucket)| bucket.full_ns)
        };
        let at = known.or_else(|| soonest().map(|(at, _)| at));
        let Some(bucket) = at.and_then(|at| row.get_mut(at)) else {
            return Ok(());
        };
        let full_ns = match known {
            Some(_) => bucket.full_ns.max(now_ns),
            None => now_ns,
        };
        let full_ns = full_ns.saturating_add(self.step_ns);
        let ahead_ns = full_ns.saturating_sub(now_ns);
        if ahead_ns > self.most_ns {
            return Err(Duration::from_nanos(ahead_ns - self.most_ns));
        }
        *bucket = Bucket { key, full_ns };
        Ok(())
    }
}

/// The part of an address that identifies a client: an IPv6 client has a network of 64 bits.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => four.into(),
            None => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(count: u32, burst: u32) -> Buckets {
        Buckets::new(Rate {
            count,
            per: Duration::from_secs(1),
            burst,
        })
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_is_let_through_and_then_the_rate() {
        let buckets = buckets(10, 3);
        let now = Duration::from_secs(100);
        for _ in 0..3 {
            assert_eq!(buckets.take("a", now), Ok(()));
        }
        assert_eq!(buckets.take("a", now), Err(100 * MS));
        assert_eq!(buckets.take("a", now + 99 * MS), Err(MS));
        assert_eq!(buckets.take("b", now), Ok(()), "another has its own");
        assert_eq!(buckets.take("a", now + 100 * MS), Ok(()));
        assert_eq!(buckets.take("a", now + 100 * MS), Err(100 * MS));
        let later = now + Duration::from_secs(3600);
        for _ in 0..3 {
            assert_eq!(buckets.take("a", later), Ok(()), "it is full again");
        }
        assert!(buckets.take("a", later).is_err());
    }

    #[test]
    fn many_keys_neither_grow_the_table_nor_hide_a_busy_one() {
        let buckets = buckets(1, 1_000);
        let now = Duration::from_secs(1);
        for _ in 0..1_000 {
            assert_eq!(buckets.take("busy", now), Ok(()));
        }
        for key in 0..10 * ROWS * WAYS {
            let _ = buckets.take(key, now);
        }
        assert_eq!(buckets.rows.lock().len(), ROWS);
        assert!(buckets.take("busy", now).is_err());
    }

    #[test]
    fn a_client_is_an_address_or_a_network_of_64_bits() {
        let check = |address: &str, name: &str| {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(client(address).to_string(), name);
        };
        check("10.1.2.3", "10.1.2.3");
        check("::ffff:10.1.2.3", "10.1.2.3");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
        check("2001:db8:1:2:ffff::", "2001:db8:1:2::");
        check("2001:db8:1:3::1", "2001:db8:1:3::");
    }
}
