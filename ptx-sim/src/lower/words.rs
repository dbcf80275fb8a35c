//! The modifiers of an instruction, consumed one by one; what is left over is unknown.

use super::builder::Lowered;
use crate::program::{Ordering, Rmw, Scope};
use crate::syntax::ast::{Space, Type};

/// Modifiers of caching.
const CACHING: [&str; 19] = [
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::evict_first",
    "L2::evict_last",
    "L2::evict_normal",
];

pub struct Words<'a> {
    left: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub fn new(modifiers: &'a [String]) -> Self {
        Self { left: modifiers.iter().map(String::as_str).collect() }
    }

    /// Consumes `word` if it is there.
    pub fn take(&mut self, word: &str) -> bool {
        match self.left.iter().position(|w| *w == word) {
            Some(at) => {
                self.left.remove(at);
                true
            }
            None => false,
        }
    }

    /// Consumes and returns the first modifier that `find` knows.
    pub fn pick<T>(&mut self, find: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        let (at, value) =
            self.left.iter().enumerate().find_map(|(at, w)| find(w).map(|v| (at, v)))?;
        self.left.remove(at);
        Some(value)
    }

    /// Consumes and returns the first modifier among `names`.
    pub fn one_of(&mut self, names: &[&str]) -> Option<&'a str> {
        self.pick(|w| names.contains(&w).then_some(w))
    }

    /// Consumes the first modifier that a table has, and returns its entry.
    pub fn look_up<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        self.pick(|w| table.iter().find(|(name, _)| *name == w).map(|(_, entry)| *entry))
    }

    /// Consumes an operation that folds values.
    pub fn fold(&mut self) -> Option<Rmw> {
        self.look_up(&[
            ("add", Rmw::Add),
            ("min", Rmw::Min),
            ("max", Rmw::Max),
            ("and", Rmw::And),
            ("or", Rmw::Or),
            ("xor", Rmw::Xor),
        ])
    }

    /// Consumes the first type.
    pub fn ty(&mut self) -> Lowered<Type> {
        self.pick(Type::parse).ok_or_else(|| "no type modifier".into())
    }

    /// Consumes a state space; generic if there is none.
    pub fn space(&mut self) -> Space {
        self.pick(|w| {
            Some(match w {
                "global" => Space::Global,
                "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
                "local" => Space::Local,
                "const" => Space::Const,
                "param" | "param::entry" | "param::func" => Space::Param,
                _ => return None,
            })
        })
        .unwrap_or(Space::Generic)
    }

    /// Consumes the modifiers of memory order and of caching; the latter change nothing here. An access without a memory
    /// order is weak; without a named scope, its scope is the GPU.
    pub fn ordering(&mut self) -> Ordering {
        let strong = self.one_of(&["relaxed", "acquire", "release", "acq_rel"]);
        // Both are relaxed at the scope of the system.
        let volatile = [self.take("volatile"), self.take("mmio")].contains(&true);
        self.take("weak");
        let scope = self.look_up(&[
            ("cta", Scope::Cta),
            ("cluster", Scope::Cluster),
            ("gpu", Scope::Gpu),
            ("sys", Scope::Gpu),
        ]);
        let order = Ordering {
            scope: match (strong.is_some() || volatile, scope) {
                (false, None) => Scope::Weak,
                (_, scope) => scope.unwrap_or(Scope::Gpu),
            },
            acquire: matches!(strong, Some("acquire" | "acq_rel")),
            release: matches!(strong, Some("release" | "acq_rel")),
        };
        while self.one_of(&CACHING).is_some() {}
        order
    }

    /// Every modifier must have been understood.
    pub fn finish(&self) -> Lowered {
        if self.left.is_empty() {
            Ok(())
        } else {
            Err(format!("unknown modifier `.{}`", self.left.join(".")))
        }
    }
}
