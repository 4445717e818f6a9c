//! Loads and calls real components. `cargo xtask guests` makes those of `target/fixtures` and
//! `target/plugins`.

#[cfg(test)]
mod bundle;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod changing;
#[cfg(test)]
mod compiling;
#[cfg(test)]
mod events;
#[cfg(test)]
mod folders;
#[cfg(test)]
mod http;
#[cfg(test)]
mod lanes;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod loading;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod preview1;
#[cfg(test)]
mod printing;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod slots;
#[cfg(test)]
mod versions;
#[cfg(test)]
mod wasi;
