//! The whole driver under each form of arrivals, against a server that notes when requests came.

use crate::support;
use crate::support::{answering, page, run, GET};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A server and the moments (seconds since it began) at which requests came.
fn noting() -> (String, Arc<Mutex<Vec<f64>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let start = Instant::now();
    let url = answering(move |_| {
        notes.lock().expect("no other panic").push(start.elapsed().as_secs_f64());
        page("200 OK", "", "fine")
    });
    (url, seen)
}

fn open() -> String {
    GET.replace("mix:", "arrivals: { unit: transaction }\nmix:")
}

#[test]
fn every_recorded_arrival_is_sent_and_counted() {
    let (url, seen) = noting();
    let file = std::env::temp_dir().join(format!("leadline-replay-{}.txt", std::process::id()));
    let offsets: Vec<f64> = (0..60).map(|i| f64::from(i) * 0.01 + if i > 30 { 0.2 } else { 0.0 }).collect();
    std::fs::write(&file, offsets.iter().map(|t| format!("{t:.6}\n")).collect::<String>()).expect("a file");
    let run = run(&url, &open(), &format!("--arrivals replay --replay {}", file.display()));
    std::fs::remove_file(&file).expect("ours");
    assert_eq!((run.number("/arrivals_planned"), run.number("/arrivals_actual")), (60.0, 60.0));
    assert_eq!(run.total("get", "ok"), 60);
    let seen = seen.lock().expect("no other panic");
    // Never early: each request comes no sooner after the first than it was recorded.
    assert!(seen.iter().zip(&offsets).all(|(at, due)| at - seen[0] > due - 0.1), "{seen:?}");
    assert!((run.number("/steady/duration_s") - 0.79).abs() < 1e-6, "{}", run.summary);
}

#[test]
fn a_stepped_rate_plans_its_integral() {
    let (url, _) = noting();
    let run = run(&url, &open(), "--arrivals constant --profile 0s:100,300ms:100,300ms:400,600ms:0");
    // 30 at rest, 60 on the way down; the last falls on the very end.
    assert!((run.number("/arrivals_planned") - 90.0).abs() <= 1.0, "{}", run.summary);
    assert_eq!(run.summary["arrivals"]["profile"], "0s:100,300ms:100,300ms:400,600ms:0");
    let (url, _) = noting();
    let run = support::run(&url, &open(), "--arrivals constant --rate 200 --bursts 100ms/200ms --steady 600ms");
    assert!((run.number("/arrivals_planned") - 40.0).abs() <= 1.0, "{}", run.summary);
}

#[test]
fn a_grid_moves_starts_and_keeps_their_number() {
    let cycles = GET.replace("mix:", "pause: { kind: cycle, shape: exponential, mean: 20ms }\nmix:");
    let options = "--users 20 --ramp-up 200ms --steady 2s --seed 5";
    let (exact, moved) =
        (run(&noting().0, &cycles, options), run(&noting().0, &cycles, &format!("{options} --grid 40ms")));
    // Were each cycle counted from the moved start of the one before, half of them would be lost.
    let (planned, on_it) = (exact.number("/arrivals_planned"), moved.number("/arrivals_planned"));
    assert!(planned > 1000.0 && (on_it / planned - 1.0).abs() < 0.25, "{planned} {on_it}");
    assert_eq!(moved.number("/arrivals/grid_ns"), 40e6);
    assert_eq!(exact.summary["arrivals"].get("grid_ns"), None);
    let run = run(&noting().0, &open(), "--arrivals constant --rate 300 --steady 500ms --grid 50ms");
    assert!((run.number("/arrivals_planned") - 150.0).abs() <= 1.0, "{}", run.summary);
    assert_eq!(run.number("/arrivals_actual"), run.number("/arrivals_planned"));
}

#[test]
fn between_windows_users_stand_still_and_keep_their_connections() {
    let (url, seen) = noting();
    let scenario = GET.replace("mix:", "pause: { shape: fixed, mean: 10ms }\nmix:");
    let run = run(&url, &scenario, "--users 3 --windows 0s-300ms,700ms-1s --ramp-up 300ms --steady 700ms");
    let seen = seen.lock().expect("no other panic");
    let widest = seen.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
    assert!(widest > 0.35, "nobody rested: {widest}");
    assert_eq!(run.number("/requests/connects"), 3.0, "{}", run.summary);
    // The rest is nobody's response time, and the steady phase is as long as its window.
    assert!(run.number("/steady/all/response_ms/max") < 350.0, "{}", run.summary);
    assert!((run.number("/steady/duration_s") - 0.3).abs() < 1e-6, "{}", run.summary);
    assert_eq!(run.summary["arrivals"]["windows"], "0s-300ms,700ms-1s");
    let (url, seen) = noting();
    let options = "--arrivals constant --rate 200 --windows 100ms-300ms,700ms-900ms --steady 900ms";
    let run = support::run(&url, &open(), options);
    assert!((run.number("/arrivals_planned") - 80.0).abs() <= 2.0, "{}", run.summary);
    let seen = seen.lock().expect("no other panic");
    assert!(seen.windows(2).any(|w| w[1] - w[0] > 0.35), "{seen:?}");
}

#[test]
fn users_leave_and_come_back() {
    let (url, seen) = noting();
    let scenario = GET.replace("mix:", "pause: { shape: fixed, mean: 10ms }\nmix:");
    let run = run(&url, &scenario, "--profile 0s:2,300ms:2,300ms:0,600ms:0,600ms:2,900ms:2");
    assert_eq!(run.number("/arrivals/users"), 2.0);
    let seen = seen.lock().expect("no other panic");
    let widest = seen.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
    assert!(widest > 0.25, "nobody rested: {widest}");
    // Whoever left comes back over a new connection.
    assert_eq!(run.number("/requests/connects"), 4.0, "{}", run.summary);
    assert!(run.total("get", "ok") > 60, "{}", run.summary);
}
