//! A resume token. If the first byte is even, the rest is a token. If it is odd, the rest changes a
//! valid token, two bytes for each change: a position, and the new byte.

use std::sync::LazyLock;

use windlass_keys::link::{self, Target};
use windlass_keys::{Keyring, Keys};
use windlass_model::Digest;
use windlass_model::stimulus::{BookmarkTag, WaitId};

use super::KEYRING;

struct Rig {
    keys: Keys,
    good: Vec<(String, Target)>,
}

static RIG: LazyLock<Rig> = LazyLock::new(|| {
    let ring = Keyring::parse(KEYRING).unwrap();
    let targets = [
        Target::Wait(WaitId([1; 16]), BookmarkTag::ANY),
        Target::Wait(WaitId([2; 16]), BookmarkTag::of("paid")),
        Target::Row(Digest([3; 32])),
    ];
    let good = targets.map(|target| (link::token(ring.newest(), &target), target));
    Rig {
        keys: Keys::fixed(ring),
        good: good.to_vec(),
    }
});

pub(crate) fn run(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    let bytes = match mode % 2 {
        0 => rest.to_vec(),
        _ => {
            let of = usize::from(mode / 2) % RIG.good.len();
            super::changed(RIG.good.get(of).unwrap().0.as_bytes(), rest, 1)
        }
    };
    let token = String::from_utf8_lossy(&bytes);
    let read = link::read(&RIG.keys, &token).unwrap();
    let good = RIG.good.iter().find(|(good, _)| *good == token);
    assert_eq!(read, good.map(|(_, target)| *target), "{token:?}");
}
