//! Vector clocks: progress that each has seen of the others, over the warps of a block and the asynchronous copy engine.
//!
//! Warp `w` counts its releases (barriers, arrivals, `bar.warp.sync`) in its own component. A barrier
//! joins the clocks of those who meet there. An access that stamped its bytes with clock `c` of warp `v`
//! happened before what warp `w` does now if and only if `c` is not above `w`'s view of `v`
//! (Lamport 1978; as in FastTrack, Flanagan and Freund 2009).

/// Clocks of one block. Component `warps` belongs to the asynchronous engine, the one behind it, in clusters, to other
/// blocks.
#[derive(Debug, Default)]
pub struct Clocks {
    width: usize,
    views: Vec<u32>,
    /// Per warp: its generic writes up to this clock are visible to the asynchronous proxy.
    fenced: Vec<u32>,
    /// Per warp: the view it had at its last proxy fence.
    fenced_views: Vec<u32>,
    engine: u32,
    engine_at: usize,
    remote: u32,
}

impl Clocks {
    pub fn reset(&mut self, warps: usize, clustered: bool) {
        self.engine_at = warps;
        self.remote = 0;
        self.width = warps + 1 + usize::from(clustered);
        self.views.clear();
        self.views.resize(warps * self.width, 0);
        for w in 0..warps {
            self.views[w * self.width + w] = 1;
        }
        self.fenced.clear();
        self.fenced.resize(warps, 0);
        self.fenced_views.clear();
        self.fenced_views.resize(warps * self.width, 0);
        self.engine = 0;
    }

    /// Index of the asynchronous engine.
    pub fn engine(&self) -> usize {
        self.engine_at
    }

    /// Index of the other blocks of the cluster.
    pub fn remote(&self) -> usize {
        self.engine_at + 1
    }

    /// Number of things that other blocks have done here, one more if `done` says so.
    pub fn remote_clock(&mut self, done: bool) -> u32 {
        self.remote += u32::from(done);
        self.remote
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Clocks that warp `w` has seen of everyone.
    pub fn view(&self, w: usize) -> &[u32] {
        &self.views[w * self.width..][..self.width]
    }

    /// Warp `w` sees what `other` has seen.
    pub fn join(&mut self, w: usize, other: &[u32]) {
        let view = &mut self.views[w * self.width..][..self.width];
        for (mine, &theirs) in view.iter_mut().zip(other) {
            *mine = (*mine).max(theirs);
        }
    }

    /// Adds what warp `w` has done so far to `shared` and begins a new interval of `w`.
    pub fn release(&mut self, w: usize, shared: &mut Vec<u32>) {
        shared.resize(self.width, 0);
        for (theirs, &mine) in shared.iter_mut().zip(self.view(w)) {
            *theirs = (*theirs).max(mine);
        }
        self.tick(w);
    }

    /// Begins a new interval of warp `w`.
    pub fn tick(&mut self, w: usize) {
        self.views[w * self.width + w] += 1;
    }

    /// The engine finishes one more operation; its clock.
    pub fn tick_engine(&mut self) -> u32 {
        self.engine += 1;
        self.engine
    }

    /// `fence.proxy.async` by warp `w`.
    pub fn proxy_fence(&mut self, w: usize) {
        let row = w * self.width..(w + 1) * self.width;
        self.fenced_views[row.clone()].copy_from_slice(&self.views[row]);
        self.fenced[w] = self.views[w * self.width + w];
        self.tick(w);
    }

    /// Whether a generic write of warp `v` at clock `c` is visible to asynchronous reads of warp `w`.
    pub fn visible_to_async(&self, w: usize, v: usize, c: u32) -> bool {
        c <= self.fenced[v] || c <= self.fenced_views[w * self.width + v]
    }
}
