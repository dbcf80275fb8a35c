//! Writing behind: on a thread of its own, while the next values are made.

use std::{
    mem,
    panic::resume_unwind,
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    thread::{Builder, JoinHandle},
};

use corrust_host::{Error, Result};

/// Writer of values on a thread of its own. Two values are in memory: one is made while the other is written.
///
/// ```
/// use corrust_recordings::run::Behind;
///
/// let mut behind = Behind::new(Vec::new(), |written, value: &mut u64| {
///     written.push(*value);
///     Ok(())
/// })?;
/// for mut value in 0..3 {
///     behind.put(&mut value)?;
/// }
/// assert_eq!(behind.finish()?, [0, 1, 2]);
/// # Ok::<(), corrust_host::Error>(())
/// ```
pub struct Behind<T, W> {
    made: Option<SyncSender<T>>,
    spent: Receiver<T>,
    thread: Option<JoinHandle<Result<W>>>,
}

impl<T: Default + Send + 'static, W: Send + 'static> Behind<T, W> {
    /// Starts a thread that has `writer` and calls `write` for each value, in order.
    ///
    /// # Errors
    /// [`Error::Device`] when the thread cannot be started.
    pub fn new(
        mut writer: W,
        mut write: impl FnMut(&mut W, &mut T) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        // A value is handed over when the one before it is written.
        let (made, values) = sync_channel::<T>(0);
        let (empty, spent) = channel();
        let work = move || {
            for mut value in values {
                write(&mut writer, &mut value)?;
                // Refused when nobody makes values any more.
                let _ = empty.send(value);
            }
            Ok(writer)
        };
        let thread = Builder::new().spawn(work).map_err(|error| {
            Error::Device(format!("CPU: the thread that writes cannot be started: {error}"))
        })?;
        Ok(Self { made: Some(made), spent, thread: Some(thread) })
    }

    /// Writes a value once those before it are written, and leaves one in its place whose memory can be used again.
    ///
    /// # Errors
    /// The error of writing this or an earlier value; nothing is written after it.
    pub fn put(&mut self, value: &mut T) -> Result<()> {
        if let Some(made) = &self.made
            && made.send(mem::take(value)).is_ok()
        {
            *value = self.spent.try_recv().unwrap_or_default();
            return Ok(());
        }
        self.end().map(drop)
    }

    /// Waits until all values are written, and returns the writer.
    ///
    /// # Errors
    /// The first error of writing a value.
    pub fn finish(mut self) -> Result<W> {
        self.end()
    }
}

impl<T, W> Behind<T, W> {
    fn end(&mut self) -> Result<W> {
        drop(self.made.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => resume_unwind(panic),
            None => Err(Error::invalid("writing has ended with an error: expected no more values")),
        }
    }
}

impl<T, W> Drop for Behind<T, W> {
    /// Waits for the thread, which drops the writer: an unfinished file leaves nothing.
    fn drop(&mut self) {
        drop(self.made.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values arrive in order, in the memory of two, and the first error of writing is returned once.
    #[test]
    fn values_are_written_in_order_until_one_fails() {
        let mut behind = Behind::new(Vec::new(), |places, value: &mut Vec<u32>| {
            if value[0] == 5 {
                return Err(Error::invalid("five"));
            }
            places.push((value[0], value.as_ptr() as usize));
            Ok(())
        })
        .unwrap();
        let (mut value, mut number) = (Vec::with_capacity(4), 0);
        let error = loop {
            value.clear();
            value.push(number);
            if let Err(error) = behind.put(&mut value) {
                break error;
            }
            number += 1;
        };
        assert!(error.to_string().contains("five") && (5..=7).contains(&number), "{error}");
        assert!(behind.put(&mut vec![9]).is_err() && behind.finish().is_err());

        let mut behind =
            Behind::new(Vec::new(), |written: &mut Vec<usize>, value: &mut Vec<u32>| {
                written.push(value.as_ptr() as usize);
                Ok(())
            })
            .unwrap();
        for number in 0..10 {
            value.clear();
            value.push(number);
            behind.put(&mut value).unwrap();
        }
        let mut places = behind.finish().unwrap();
        assert_eq!(places.len(), 10);
        places.sort_unstable();
        places.dedup();
        assert!(places.len() <= 3, "{places:?}");
    }
}
