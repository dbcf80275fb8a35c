//! Computing in a process that was forked.
//!
//! Rayon's global threads stay behind in the parent: whoever gave them work in a child would wait for ever. A
//! child has threads of its own instead.

use std::{
    process,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The process that Rayon's global threads belong to.
static HOME: OnceLock<u32> = OnceLock::new();

/// The threads of a child, and which child's.
static CHILD: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Takes this process for the one that the global threads belong to.
pub fn remember() {
    HOME.get_or_init(process::id);
}

/// Does what needs threads, on those of this process.
pub fn compute<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let process = process::id();
    if HOME.get() == Some(&process) {
        return work();
    }
    let pool = {
        let mut child = CHILD.lock().unwrap_or_else(PoisonError::into_inner);
        match &*child {
            Some((owner, pool)) if *owner == process => Some(pool.clone()),
            _ => ThreadPoolBuilder::new().build().ok().map(Arc::new).inspect(|pool| {
                // The threads of a parent's pool are not here to be ended.
                std::mem::forget(child.replace((process, pool.clone())));
            }),
        }
    };
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}
