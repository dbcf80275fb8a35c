//! Corner turns and unpacking, from samples as delivered to the kernel-native layout of
//! [`crate::abi::reorder`].

#[cfg(not(corrust_target = "sm_90a"))]
pub mod cnt;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod fill;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod gather;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod place;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod planes;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod quantise;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod rows;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod sample;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod shift;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod tcn;
#[cfg(not(corrust_target = "sm_90a"))]
pub mod tcn_words;
pub mod transpose;
