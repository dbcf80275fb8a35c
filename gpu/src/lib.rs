//! Device code of corrust.
