use std::time::Duration;

use super::*;

struct Still;

impl Clock for Still {
    fn wall_ms(&self) -> i64 {
        0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// The steps that were told, in order, and the room that they got.
type Told = Arc<Mutex<Vec<(&'static str, Option<Arc<Room>>)>>>;

struct Rig {
    data: Arc<CallData>,
    told: Told,
}

impl Rig {
    fn new(most: u64) -> Self {
        let data = CallData::new(most, Arc::new(Still), Arc::default());
        let told = Told::default();
        Self { data, told }
    }

    fn take(&self, flow: &str, bytes: u64) -> Option<Arc<Room>> {
        self.data.take(&Arc::from(flow), bytes)
    }

    fn wait(&self, flow: &'static str, bytes: u64) -> Cancel {
        let (told, cancel) = (Arc::clone(&self.told), Cancel::default());
        let go = Box::new(move |room| told.lock().push((flow, room)));
        self.data
            .wait((Arc::from(flow), 0), bytes, cancel.clone(), go);
        cancel
    }

    fn told(&self) -> Vec<(&'static str, Option<Arc<Room>>)> {
        std::mem::take(&mut *self.told.lock())
    }

    fn used(&self) -> u64 {
        self.data.metrics.call_data.get()
    }

    fn waiting(&self) -> u64 {
        self.data.metrics.call_data_waiting.get()
    }
}

fn flows(told: &[(&'static str, Option<Arc<Room>>)]) -> Vec<&'static str> {
    told.iter().map(|(flow, _)| *flow).collect()
}

#[test]
fn room_is_counted_until_the_call_begins() {
    let rig = Rig::new(100);
    let room = rig.take("a", 30).unwrap();
    assert_eq!(rig.used(), 30);
    room.begins();
    room.begins();
    assert_eq!(rig.used(), 0);
    room.waits();
    room.waits();
    assert_eq!(rig.used(), 30);
    drop(room);
    assert_eq!(rig.used(), 0);
    assert_eq!(rig.data.metrics.call_data.peak(), 30);
}

#[test]
fn a_flow_leaves_room_to_others_and_they_take_turns() {
    let rig = Rig::new(100);
    let held = [rig.take("a", 30).unwrap(), rig.take("a", 30).unwrap()];
    assert!(rig.take("a", 1).is_none());
    rig.wait("a", 30);
    rig.wait("a", 30);
    let other = rig.take("b", 40).unwrap();
    rig.wait("b", 20);
    rig.wait("b", 20);
    rig.wait("c", 10);
    assert_eq!((rig.used(), rig.waiting()), (100, 5));
    assert!(rig.told().is_empty());
    drop(other);
    // A flow that waited longer goes first.
    let told = rig.told();
    assert_eq!(flows(&told), ["b", "c"]);
    assert_eq!(rig.used(), 90);
    drop(held);
    // The second one of `b` was next before `a` held less.
    let more = rig.told();
    assert_eq!(flows(&more), ["b", "a"]);
    assert_eq!(rig.used(), 80);
    drop((told, more));
    assert_eq!(flows(&rig.told()), ["a"]);
    assert_eq!((rig.used(), rig.waiting()), (0, 0));
}

#[test]
fn a_step_that_is_larger_than_the_room_goes_alone_and_is_not_overtaken() {
    let rig = Rig::new(100);
    let small = rig.take("a", 10).unwrap();
    assert!(rig.take("b", 1_000).is_none());
    rig.wait("b", 1_000);
    assert!(rig.take("c", 10).is_none());
    rig.wait("c", 10);
    drop(small);
    let told = rig.told();
    assert_eq!(flows(&told), ["b"]);
    assert_eq!(rig.used(), 1_000);
    drop(told);
    assert_eq!(flows(&rig.told()), ["c"]);
}

#[test]
fn nothing_waits_without_room_for_ever() {
    // Without any room, one step goes after the other.
    let rig = Rig::new(0);
    rig.wait("a", 5);
    rig.wait("a", 5);
    rig.wait("b", 5);
    let mut order = Vec::new();
    loop {
        let told = rig.told();
        if told.is_empty() {
            break;
        }
        assert_eq!(told.len(), 1);
        order.extend(flows(&told));
    }
    assert_eq!(order, ["a", "b", "a"]);
}

#[test]
fn cancelled_steps_and_a_drain_need_no_room() {
    let rig = Rig::new(10);
    let held = rig.take("a", 10).unwrap();
    let cancel = rig.wait("a", 10);
    rig.wait("b", 10);
    rig.wait("c", 10);
    cancel.cancel();
    rig.data.flush();
    assert_eq!(rig.told().len(), 3);
    assert_eq!((rig.used(), rig.waiting()), (10, 0));
    let cancel = rig.wait("b", 10);
    rig.wait("c", 10);
    cancel.cancel();
    drop(held);
    let told = rig.told();
    let got: Vec<_> = told.iter().map(|it| (it.0, it.1.is_some())).collect();
    assert_eq!(got, [("b", false), ("c", true)]);
}
