//! Reads GC logs for `leadline.observe.gclog`: bytes in, columns of events out.
//!
//! HotSpot's unified logging (JDK 9 and later), JDK 7's and 8's older form and OpenJ9's, whatever is around their lines.
//! The functions of this library are called from one thread a log.

mod clock;
mod decorators;
mod forms;
mod input;
mod jdk8;
mod log;
mod openj9;
mod order;
mod unified;
mod wrapping;

use std::panic::{catch_unwind, AssertUnwindSafe};

use input::Input;

const DONE: i32 = 0;
const TOO_MANY: i32 = 1;
const PANICKED: i32 = 2;

/// A log that is being read, and what was made of it.
pub struct Handle {
    input: Input,
    bytes: Vec<u8>,
}

/// A log of which nothing is read yet; `looking`: only its first lines are wanted.
#[no_mangle]
pub extern "C" fn gclog_new(looking: bool) -> *mut Handle {
    Box::into_raw(Box::new(Handle { input: Input::new(looking), bytes: Vec::new() }))
}

fn guarded(action: impl FnOnce() -> log::Read<()>) -> i32 {
    match catch_unwind(AssertUnwindSafe(action)) {
        Ok(Ok(())) => DONE,
        Ok(Err(_)) => TOO_MANY,
        Err(_) => PANICKED,
    }
}

/// The next bytes of a file, in UTF-8: 0, 1 for a log with too many events, 2 for a fault of this library.
///
/// # Safety
/// `handle` is of `gclog_new`, `data` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn gclog_feed(handle: *mut Handle, data: *const u8, length: usize) -> i32 {
    // SAFETY: as the caller promises.
    let (handle, data) = unsafe { (&mut *handle, std::slice::from_raw_parts(data, length)) };
    guarded(|| handle.input.feed(data))
}

/// A file of the log has ended. Returns as `gclog_feed`.
///
/// # Safety
/// `handle` is of `gclog_new`.
#[no_mangle]
pub unsafe extern "C" fn gclog_part(handle: *mut Handle) -> i32 {
    // SAFETY: as the caller promises.
    let handle = unsafe { &mut *handle };
    guarded(|| handle.input.part())
}

/// How many lines were read so far.
///
/// # Safety
/// `handle` is of `gclog_new`.
#[no_mangle]
pub unsafe extern "C" fn gclog_lines(handle: *const Handle) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { (*handle).input.lines() }
}

/// What the log says up to here; it can be read on where `last` is false. `length` is told how many bytes there are,
/// which are kept until the next call. Null for a fault of this library.
///
/// # Safety
/// `handle` is of `gclog_new`, `length` can be written to.
#[no_mangle]
pub unsafe extern "C" fn gclog_result(handle: *mut Handle, last: bool, length: *mut usize) -> *const u8 {
    // SAFETY: as the caller promises.
    let (handle, length) = unsafe { (&mut *handle, &mut *length) };
    let input = if last { std::mem::replace(&mut handle.input, Input::new(false)) } else { handle.input.clone() };
    let Ok(Ok(bytes)) = catch_unwind(AssertUnwindSafe(|| input.finish())) else { return std::ptr::null() };
    handle.bytes = bytes;
    *length = handle.bytes.len();
    handle.bytes.as_ptr()
}

/// Of the first lines: whether they are a collector's; `order` and `value` tell when they were written.
///
/// # Safety
/// `handle` is of `gclog_new`, `order` and `value` can be written to.
#[no_mangle]
pub unsafe extern "C" fn gclog_first(handle: *const Handle, order: *mut i32, value: *mut f64) -> bool {
    // SAFETY: as the caller promises.
    let (handle, order, value) = unsafe { (&*handle, &mut *order, &mut *value) };
    let Ok(first) = catch_unwind(AssertUnwindSafe(|| handle.input.first())) else { return false };
    (*order, *value) = (first.order, first.value);
    first.is_log
}

/// Forget a log.
///
/// # Safety
/// `handle` is of `gclog_new` and is not used again.
#[no_mangle]
pub unsafe extern "C" fn gclog_free(handle: *mut Handle) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(handle) });
}
