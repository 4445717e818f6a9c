;; WASI preview 1 for core modules, by the functions that the host offers to every plugin: the clock,
;; random numbers, and the log. There are no files, arguments, variables or sockets. A descriptor
;; beyond stdin, stdout and stderr is a bad one, and these three are character devices, so a libc
;; flushes stdout at the end of each line.
;;
;; A module gets the functions that it imports, and its component the imports of those. So only a
;; module with `poll_oneoff` has to be called on a fiber.
;;
;; Error codes: 8 bad descriptor, 28 invalid, 52 no such function, 58 not supported, 70 no seeking.
(module
  (import "env" "memory" (memory 0))
  (import "windlass:clock/clock@0.1.0" "now" (func $now (result i64)))
  (import "windlass:clock/clock@0.1.0" "monotonic-ns" (func $monotonic (result i64)))
  (import "windlass:random/random@0.1.0" "number" (func $number (result i64)))
  (import "windlass:preview1/process@0.1.0" "print" (func $print (param i32 i32 i32)))
  (import "windlass:preview1/process@0.1.0" "exit" (func $exit (param i32)))
  (import "windlass:preview1/sleep@0.1.0" "sleep" (func $sleep (param i64)))

  ;; Neither arguments nor variables.
  (func $no-texts (export "args_sizes_get") (export "environ_sizes_get")
    (param $count i32) (param $bytes i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $bytes) (i32.const 0))
    (i32.const 0))
  (func (export "args_get") (export "environ_get") (param i32 i32) (result i32) (i32.const 0))

  ;; The clocks 0, of the wall in milliseconds, and 1, which never goes back.
  (func (export "clock_res_get") (param $clock i32) (param $at i32) (result i32)
    (if (i32.gt_u (local.get $clock) (i32.const 1)) (then (return (i32.const 28))))
    (i64.store (local.get $at)
      (select (i64.const 1) (i64.const 1000000) (local.get $clock)))
    (i32.const 0))
  (func $time (param $clock i32) (result i64)
    (if (result i64) (local.get $clock)
      (then (call $monotonic))
      (else (i64.mul (call $now) (i64.const 1000000)))))
  (func (export "clock_time_get")
    (param $clock i32) (param $precision i64) (param $at i32) (result i32)
    (if (i32.gt_u (local.get $clock) (i32.const 1)) (then (return (i32.const 28))))
    (i64.store (local.get $at) (call $time (local.get $clock)))
    (i32.const 0))

  (func (export "random_get") (param $at i32) (param $length i32) (result i32)
    (local $bits i64)
    (block $done
      (loop $next
        (br_if $done (i32.lt_u (local.get $length) (i32.const 8)))
        (i64.store (local.get $at) (call $number))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (local.set $length (i32.sub (local.get $length) (i32.const 8)))
        (br $next)))
    (if (i32.eqz (local.get $length)) (then (return (i32.const 0))))
    (local.set $bits (call $number))
    (loop $next
      (i64.store8 (local.get $at) (local.get $bits))
      (local.set $bits (i64.shr_u (local.get $bits) (i64.const 8)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $length (i32.sub (local.get $length) (i32.const 1)))
      (br_if $next (local.get $length)))
    (i32.const 0))

  (func (export "sched_yield") (result i32) (i32.const 0))
  (func (export "proc_exit") (param $status i32) (call $exit (local.get $status)) (unreachable))
  (func (export "proc_raise") (param i32) (result i32) (i32.const 52))

  ;; A buffer of 64 KiB and more is written in part: the rest is for the next write.
  (func (export "fd_write")
    (param $fd i32) (param $buffers i32) (param $count i32) (param $written i32) (result i32)
    (local $sum i32) (local $length i32)
    (local.set $fd (i32.sub (local.get $fd) (i32.const 1)))
    (if (i32.gt_u (local.get $fd) (i32.const 1)) (then (return (i32.const 8))))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $length (i32.load offset=4 (local.get $buffers)))
        (if (i32.gt_u (local.get $length) (i32.const 0x10000))
          (then
            (local.set $length (i32.const 0x10000))
            (local.set $count (i32.const 1))))
        (if (local.get $length)
          (then
            (call $print (local.get $fd) (i32.load (local.get $buffers)) (local.get $length))))
        (local.set $sum (i32.add (local.get $sum) (local.get $length)))
        (local.set $buffers (i32.add (local.get $buffers) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))

  ;; Stdin is at its end.
  (func (export "fd_read") (param $fd i32) (param i32 i32) (param $read i32) (result i32)
    (if (local.get $fd) (then (return (i32.const 8))))
    (i32.store (local.get $read) (i32.const 0))
    (i32.const 0))

  ;; Type, flags and rights: 2 is a character device, bit 1 reading, bit 6 writing, bit 27 polling.
  (func (export "fd_fdstat_get") (param $fd i32) (param $at i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8))))
    (i64.store (local.get $at) (i64.const 2))
    (i64.store offset=8 (local.get $at)
      (select (i64.const 0x8000040) (i64.const 0x8000002) (local.get $fd)))
    (i64.store offset=16 (local.get $at) (i64.const 0))
    (i32.const 0))
  (func (export "fd_filestat_get") (param $fd i32) (param $at i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8))))
    (memory.fill (local.get $at) (i32.const 0) (i32.const 64))
    (i32.store8 offset=16 (local.get $at) (i32.const 2))
    (i32.const 0))

  ;; The answer of the three streams, and of any other descriptor.
  (func $streams (param $fd i32) (param $answer i32) (result i32)
    (select (i32.const 8) (local.get $answer) (i32.gt_u (local.get $fd) (i32.const 2))))
  (func (export "fd_close") (param i32) (result i32)
    (call $streams (local.get 0) (i32.const 0)))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32)
    (call $streams (local.get 0) (i32.const 0)))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32)
    (call $streams (local.get 0) (i32.const 58)))
  (func (export "fd_renumber") (param i32 i32) (result i32)
    (call $streams (local.get 0) (i32.const 58)))
  (func (export "fd_sync") (export "fd_datasync") (param i32) (result i32)
    (call $streams (local.get 0) (i32.const 28)))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32)
    (call $streams (local.get 0) (i32.const 70)))
  (func (export "fd_tell") (param i32 i32) (result i32)
    (call $streams (local.get 0) (i32.const 70)))
  (func (export "fd_pread") (export "fd_pwrite") (param i32 i32 i32 i64 i32) (result i32)
    (call $streams (local.get 0) (i32.const 70)))
  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32)
    (call $streams (local.get 0) (i32.const 70)))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32)
    (call $streams (local.get 0) (i32.const 70)))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32)
    (call $streams (local.get 0) (i32.const 28)))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32)
    (call $streams (local.get 0) (i32.const 58)))

  ;; Nothing is a directory or a socket.
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 8))
  (func (export "path_create_directory") (export "path_remove_directory")
    (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_get") (export "path_symlink")
    (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_filestat_set_times")
    (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 8))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "path_open")
    (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 8))
  (func (export "path_readlink") (export "path_rename")
    (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 8))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 8))

  ;; A subscription has 48 bytes: a number of the guest, the type at 8, and from 16 on the clock,
  ;; its time at 24 and flags at 40, or the descriptor. Type 0 is a clock.
  (func $is-clock (param $at i32) (result i32)
    (i32.and
      (i32.eqz (i32.load8_u offset=8 (local.get $at)))
      (i32.le_u (i32.load offset=16 (local.get $at)) (i32.const 1))))

  ;; Flag 1 says that the time of a subscription to a clock is a moment, and no duration.
  (func $is-moment (param $at i32) (result i32)
    (i32.and (i32.load16_u offset=40 (local.get $at)) (i32.const 1)))

  ;; How long a subscription to a clock waits from now on.
  (func $left (param $at i32) (result i64)
    (local $until i64) (local $time i64)
    (local.set $until (i64.load offset=24 (local.get $at)))
    (if (i32.eqz (call $is-moment (local.get $at)))
      (then (return (local.get $until))))
    (local.set $time (call $time (i32.load offset=16 (local.get $at))))
    (if (i64.le_u (local.get $until) (local.get $time)) (then (return (i64.const 0))))
    (i64.sub (local.get $until) (local.get $time)))

  ;; What a subscription to a descriptor, or to an unknown clock, comes to.
  (func $error (param $at i32) (result i32)
    (local $fd i32) (local $type i32)
    (local.set $fd (i32.load offset=16 (local.get $at)))
    (local.set $type (i32.load8_u offset=8 (local.get $at)))
    (if (i32.or (i32.eqz (local.get $type)) (i32.gt_u (local.get $type) (i32.const 2)))
      (then (return (i32.const 28))))
    ;; Stdin can be read, and the others written.
    (if (i32.and
          (i32.le_u (local.get $fd) (i32.const 2))
          (i32.eq (i32.ne (local.get $fd) (i32.const 0)) (i32.eq (local.get $type) (i32.const 2))))
      (then (return (i32.const 0))))
    (i32.const 8))

  ;; An event has 32 bytes: the number, the error at 8, the type at 10, the bytes that can be
  ;; written at 16, and at 24 whether the stream has ended.
  (func $event (param $to i32) (param $at i32) (param $error i32)
    (local $type i32)
    (local.set $type (i32.load8_u offset=8 (local.get $at)))
    (i64.store (local.get $to) (i64.load (local.get $at)))
    (i64.store offset=8 (local.get $to) (i64.const 0))
    (i32.store16 offset=8 (local.get $to) (local.get $error))
    (i32.store8 offset=10 (local.get $to) (local.get $type))
    (i64.store offset=16 (local.get $to)
      (select (i64.const 0x10000) (i64.const 0) (i32.eq (local.get $type) (i32.const 2))))
    (i64.store offset=24 (local.get $to)
      (i64.extend_i32_u (i32.eq (local.get $type) (i32.const 1)))))

  (func (export "poll_oneoff")
    (param $in i32) (param $out i32) (param $count i32) (param $events i32) (result i32)
    (local $at i32) (local $end i32) (local $to i32) (local $wait i64) (local $left i64)
    (if (i32.gt_u (i32.sub (local.get $count) (i32.const 1)) (i32.const 0xffffff))
      (then (return (i32.const 28))))
    (local.set $end
      (i32.add (local.get $in) (i32.mul (local.get $count) (i32.const 48))))
    (loop $again
      (local.set $to (local.get $out))
      (local.set $wait (i64.const -1))
      (local.set $at (local.get $in))
      (loop $next
        (local.set $left (i64.const 0))
        (if (call $is-clock (local.get $at))
          (then (local.set $left (call $left (local.get $at)))))
        (if (i64.lt_u (local.get $left) (local.get $wait))
          (then (local.set $wait (local.get $left))))
        (local.set $at (i32.add (local.get $at) (i32.const 48)))
        (br_if $next (i32.ne (local.get $at) (local.get $end))))
      (if (i64.ne (local.get $wait) (i64.const 0)) (then (call $sleep (local.get $wait))))
      (local.set $at (local.get $in))
      (loop $next
        (block $not-yet
          (if (call $is-clock (local.get $at))
            (then
              ;; The wait is over for a duration, and in the past for a moment.
              (br_if $not-yet
                (i64.gt_u
                  (call $left (local.get $at))
                  (select (i64.const 0) (local.get $wait) (call $is-moment (local.get $at)))))
              (call $event (local.get $to) (local.get $at) (i32.const 0)))
            (else
              (call $event (local.get $to) (local.get $at) (call $error (local.get $at)))))
          (local.set $to (i32.add (local.get $to) (i32.const 32))))
        (local.set $at (i32.add (local.get $at) (i32.const 48)))
        (br_if $next (i32.ne (local.get $at) (local.get $end))))
      ;; The clock of the wall may have been set back.
      (br_if $again (i32.eq (local.get $to) (local.get $out))))
    (i32.store (local.get $events)
      (i32.shr_u (i32.sub (local.get $to) (local.get $out)) (i32.const 5)))
    (i32.const 0)))
