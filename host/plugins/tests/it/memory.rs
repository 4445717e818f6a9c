//! The memory of all plugins together is bounded, and no call waits for ever.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_model::Class;
use windlass_plugins::CallMode;

use crate::rig::{Rig, bare, call, earn_trust, failure, output};

const MIB: u64 = 1 << 20;

fn rig(memory_bytes: u64) -> Rig {
    Rig::with(|options| options.memory_bytes = memory_bytes)
}

#[test]
fn idle_instances_make_room_for_calls() {
    let rig = rig(24 * MIB);
    let slow = rig.plugin("slow");
    let config = json!({ "ms": 3 });
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let call = call("slow/slow", &config, &Value::Null);
            rig.io.spawn(Arc::clone(&slow).execute(call))
        })
        .collect();
    for running in calls {
        output(rig.io.block_on(running).unwrap());
    }
    let held = || rig.host.metrics().plugin_memory.get();
    assert!(held() <= 24 * MIB, "{}", held());
    assert!(slow.idle_slots() > 0);
    // Another plugin wants more than the idle instance leaves.
    let hostile = rig.plugin("hostile");
    let large = call("hostile/output", &json!({ "bytes": 4 * MIB }), &Value::Null);
    output(rig.fiber(&hostile, large));
    assert!(held() <= 24 * MIB, "{}", held());
}

#[test]
fn a_call_that_never_fits_is_a_limit() {
    let rig = rig(40 * MIB);
    let hostile = rig.plugin("hostile");
    // Its own limit is 64 MiB, which is more than the budget.
    let returned = rig.fiber(&hostile, bare("hostile/memory"));
    failure(returned, Class::Limit, "WL-R150");
    assert_eq!(rig.host.metrics().plugin_memory_refused.get(), 3);
    assert_eq!(rig.host.metrics().plugin_memory.get(), 0);
    // The failed call left nothing behind, and the plugin works.
    let fine = call("hostile/flood", &json!({ "lines": 1 }), &Value::Null);
    output(rig.fiber(&hostile, fine));
}

#[test]
fn a_plain_call_without_room_is_put_off_and_waits_on_a_fiber() {
    let rig = rig(2 * MIB + MIB / 2);
    let (hostile, echo) = (rig.plugin("hostile"), rig.plugin("echo"));
    earn_trust(&rig, &echo, || bare("echo/echo"));
    // An instance takes more than one mebibyte: this one leaves no room for another.
    let call = bare("hostile/loop");
    let cancel = call.cx.cancel.clone();
    let endless = rig.io.spawn(Arc::clone(&hostile).execute(call));
    let metrics = Arc::clone(rig.host.metrics());
    let returned = loop {
        while metrics.plugin_memory.get() < MIB || echo.idle_slots() > 0 {
            std::thread::yield_now();
        }
        let returned = echo.execute_inline(bare("echo/echo"));
        if returned.put_off.is_some() {
            break returned;
        }
        // Growth does not queue: the plain call took the room between the end of the idle instance
        // and the growth of the loop, which is repeated and evicts once more.
        output(returned);
    };
    failure(returned, Class::Limit, "WL-R150");
    assert_eq!(echo.lane(), CallMode::Fiber);
    let waits = rig.io.spawn(Arc::clone(&echo).execute(bare("echo/echo")));
    cancel.cancel();
    failure(
        rig.io.block_on(endless).unwrap(),
        Class::Cancelled,
        "WL-R037",
    );
    output(rig.io.block_on(waits).unwrap());
}
