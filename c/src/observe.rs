//! Observations: all products of a plan, from files or a stream to files.

use std::ffi::{CString, c_char, c_void};

use corrust_host::Error;

use crate::{
    border::{Result, Status, guard, invalid},
    memory::text,
};

/// Makes the products of a plan, TOML, as the command `corrust observe` does (docs/observe.md): visibilities, beams, powers,
/// spectra and kurtosis of the recording or stream that it names, written to files. Paths count from the working folder. A live
/// stream needs `seconds` or `times`.
///
/// When all is written, `say` gets a sentence (UTF-8) on each product, and `context` with it; NULL: none is said. Warnings
/// go to the standard error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn corrust_observe(
    plan: *const c_char,
    say: Option<unsafe extern "C" fn(sentence: *const c_char, context: *mut c_void)>,
    context: *mut c_void,
) -> Status {
    guard(|| {
        // SAFETY: a text or NULL, as the header says.
        let Some(plan) = (unsafe { text(plan, "plan")? }) else {
            return invalid("plan: found NULL, expected TOML");
        };
        let sentences = observe(plan)?;
        let Some(say) = say else { return Ok(()) };
        for sentence in sentences {
            let sentence = CString::new(sentence).map_err(|_| Error::invalid("a name with a 0"))?;
            // SAFETY: a function of this signature, as the header says, that reads the text before it returns.
            unsafe { say(sentence.as_ptr(), context) };
        }
        Ok(())
    })
}

#[cfg(feature = "observe")]
fn observe(plan: &str) -> Result<Vec<String>> {
    Ok(corrust::cli::observe(plan)?)
}

#[cfg(not(feature = "observe"))]
fn observe(_: &str) -> Result<Vec<String>> {
    invalid("this library was built without observations: expected the feature observe")
}
