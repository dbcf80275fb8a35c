//! Corner turns and unpacking, from samples as delivered to the kernel-native layout of
//! [`crate::abi::reorder`].

pub mod cnt;
pub mod gather;
pub mod quantise;
pub mod rows;
pub mod sample;
pub mod shift;
pub mod tcn;
pub mod tcn_words;
pub mod transpose;
