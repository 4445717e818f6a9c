//! Leases on a backend that never answers.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::conformance::{PATIENCE, parts, run};
use crate::leased::{Backend, Lease, Leased};
use crate::{Error, Key, Listed, LockProvider as _, Reach, codes};

/// Records the holder of each request.
#[derive(Default)]
struct Silent(Arc<Mutex<Vec<String>>>);

fn never<T: Send + 'static>() -> BoxFuture<'static, Result<T, Error>> {
    std::future::pending().boxed()
}

impl Backend for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn reach(&self) -> Reach {
        Reach::Cluster
    }

    fn take<'a>(
        &'a self,
        _key: &'a Key,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<Option<u64>, Error>> {
        self.0.lock().push(holder.to_owned());
        never()
    }

    fn renew<'a>(&'a self, _leases: &'a [Lease]) -> BoxFuture<'a, Result<Vec<bool>, Error>> {
        never()
    }

    fn release<'a>(&'a self, _lease: &'a Lease) -> BoxFuture<'a, Result<(), Error>> {
        never()
    }

    fn list(&self, _limit: u32) -> BoxFuture<'_, Result<Vec<Listed>, Error>> {
        never()
    }
}

#[test]
fn silence_is_an_error_only_for_callers_that_wait_for_an_answer() {
    run(async {
        let silent = Silent::default();
        let asked = Arc::clone(&silent.0);
        let lease = Duration::from_secs(1);
        let provider = Leased::new(silent, lease, parts("us")).expect("it is long enough");
        let key = Key::reload();
        // A request may take half a lease.
        for wait in [Duration::ZERO, lease / 4] {
            let answer = provider.acquire(&key, wait).await;
            assert!(answer.expect("no error").is_none(), "{wait:?}");
        }
        for answer in [
            provider.acquire(&key, PATIENCE).await,
            provider.try_acquire(&key).await,
        ] {
            let error = answer.err().expect("an error");
            assert_eq!(error.code(), codes::UNREACHABLE);
        }
        // Each attempt uses the holder of the last one, which may have taken the lock.
        let mut asked = asked.lock().clone();
        assert!(asked.len() >= 4, "{asked:?}");
        asked.dedup();
        assert_eq!(asked.len(), 1, "{asked:?}");
    });
}
