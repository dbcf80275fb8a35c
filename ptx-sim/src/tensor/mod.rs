//! Matrix instructions: which lane holds which element, and the products.

pub(crate) mod descriptor;
pub mod fragment;
pub(crate) mod product;
pub(crate) mod sum;
