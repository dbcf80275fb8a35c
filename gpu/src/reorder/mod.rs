//! Corner turns and unpacking, from samples as delivered to the kernel-native layout of
//! [`crate::abi::reorder`].

pub mod cnt;
pub mod rows;
pub mod sample;
pub mod tcn;
pub mod tcn_words;
pub mod transpose;
