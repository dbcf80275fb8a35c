//! The border between C and Rust: no panic crosses it, every error is a status and one sentence.

use std::{
    any::Any,
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

use corrust_host::Error;

/// Status of a call. Where it is not `CORRUST_STATUS_OK`, `corrust_last_error` gives the reason.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The call succeeded.
    Ok = 0,
    /// An argument, a member of a struct, or a shape that cannot be computed with.
    Invalid = 1,
    /// The device asked for is not there, or failed.
    Device = 2,
    /// The device's or the host's memory is too small.
    OutOfMemory = 3,
    /// A fault of the library itself. The handle that was used can only be freed.
    Internal = 4,
}

/// Failure of a call.
pub enum Fault {
    /// The library's own error.
    Error(Error),
    /// A handle that an earlier call left half changed.
    Broken(&'static str),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Result of the work behind a function of the interface.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

/// An [`Error::Invalid`] as a fault.
pub fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::invalid(message).into())
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps a sentence for [`corrust_last_error`]; a thread that is ending has none.
fn remember(sentence: &str) {
    let without_zeros = sentence.replace('\0', "\\0");
    let text = CString::new(without_zeros).unwrap_or_default();
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// Message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Does the work of a call, whatever it ends in.
pub fn guard(work: impl FnOnce() -> Result<()>) -> Status {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(Fault::Broken(what))) => {
            remember(&format!("{what} after a fault of corrust's: expected a new one"));
            Status::Internal
        }
        Ok(Err(Fault::Error(error))) => {
            remember(&error.to_string());
            match error {
                Error::Device(_) => Status::Device,
                Error::OutOfMemory { .. } => Status::OutOfMemory,
                _ => Status::Invalid,
            }
        }
        Err(panic) => {
            remember(&format!("a fault of corrust's, please report it: {}", said(&*panic)));
            // Its destructor may panic, too.
            std::mem::forget(panic);
            Status::Internal
        }
    }
}

/// State behind a handle, whose address alone C holds.
pub struct Handle<T> {
    value: T,
    /// Whether a panic left it half changed.
    broken: bool,
}

/// Makes a handle of `value` and stores its address in `handle`.
///
/// # Safety
/// `handle` is NULL or has room for a pointer.
pub unsafe fn give<T>(
    handle: *mut *mut Handle<T>,
    what: &'static str,
    make: impl FnOnce() -> Result<T>,
) -> Status {
    guard(|| {
        if handle.is_null() {
            return invalid(format!("{what}: found NULL, expected room for its address"));
        }
        // SAFETY: the caller's promise.
        unsafe { handle.write_unaligned(std::ptr::null_mut()) };
        let value = Box::new(Handle { value: make()?, broken: false });
        // SAFETY: as above.
        unsafe { handle.write_unaligned(Box::into_raw(value)) };
        Ok(())
    })
}

/// Works with a handle.
///
/// # Safety
/// `handle` is NULL or came from [`give`], was not freed, and no other call uses it now.
pub unsafe fn with<T>(
    handle: *mut Handle<T>,
    what: &'static str,
    work: impl FnOnce(&mut T) -> Result<()>,
) -> Status {
    guard(|| {
        // SAFETY: the caller's promise.
        let Some(handle) = (unsafe { handle.as_mut() }) else {
            return invalid(format!("{what}: found NULL, expected the one to work with"));
        };
        if std::mem::replace(&mut handle.broken, true) {
            return Err(Fault::Broken(what));
        }
        let result = work(&mut handle.value);
        handle.broken = false;
        result
    })
}

/// A number that a handle tells; 0 of NULL.
///
/// # Safety
/// As for [`with`].
pub unsafe fn tell<T>(handle: *const Handle<T>, number: impl FnOnce(&T) -> usize) -> usize {
    // SAFETY: the caller's promise.
    let handle = unsafe { handle.as_ref() };
    let number = || handle.map_or(0, |handle| number(&handle.value));
    catch_unwind(AssertUnwindSafe(number)).unwrap_or(0)
}

/// Waits for a handle's work and frees it; NULL is none.
///
/// # Safety
/// As for [`with`]; the handle is not used any more.
pub unsafe fn free<T>(
    handle: *mut Handle<T>,
    wait: impl FnOnce(&mut T) -> corrust_host::Result<()>,
) {
    if handle.is_null() {
        return;
    }
    guard(|| {
        // SAFETY: `give` made it by a Box, and it is freed once.
        let mut handle = unsafe { Box::from_raw(handle) };
        let waited = if handle.broken { Ok(()) } else { wait(&mut handle.value) };
        drop(handle);
        Ok(waited?)
    });
}

/// The library's version, as in "0.2.0", in static memory.
#[unsafe(no_mangle)]
pub extern "C" fn corrust_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version without zeros"),
        };
    VERSION.as_ptr()
}

/// One sentence (UTF-8) about the last call of this thread that did not end with CORRUST_STATUS_OK: the argument, the value
/// found, the value expected. Empty before the first. The text stays until the thread's next such call.
#[unsafe(no_mangle)]
pub extern "C" fn corrust_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        // SAFETY: a text that stays until the next error.
        unsafe { CStr::from_ptr(corrust_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn no_panic_crosses_the_border() {
        let mut handle = std::ptr::null_mut();
        // SAFETY: room for the address, and a handle that is used once at a time.
        unsafe {
            assert_eq!(give(&raw mut handle, "a plan", || Ok(7)), Status::Ok);
            assert_eq!(with(handle, "a plan", |_| panic!("lost {}", "count")), Status::Internal);
            assert_eq!(last_error(), "a fault of corrust's, please report it: lost count");
            assert_eq!(with(handle, "a plan", |_| Ok(())), Status::Internal);
            assert_eq!(last_error(), "a plan after a fault of corrust's: expected a new one");
            assert_eq!(tell(handle, |_| panic!("again")), 0);
            free(handle, |_| panic!("not waited for"));
        }
    }

    #[test]
    fn errors_are_one_sentence_for_each_thread() {
        assert_eq!(guard(|| invalid("one\0zero")), Status::Invalid);
        let other = std::thread::spawn(|| {
            let before = last_error();
            guard(|| Err(Error::Device("no GPU".to_owned()).into()));
            (before, last_error())
        });
        assert_eq!(other.join().unwrap(), (String::new(), "no GPU".to_owned()));
        assert_eq!(last_error(), "one\\u{0}zero");
    }
}
