//! Tests of the engine's public interface.

// Repeated here so that lints treat these modules as tests.
#[cfg(test)]
mod assembled;
#[cfg(test)]
mod everything;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod graphs;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod kit;
#[cfg(test)]
mod known;
#[cfg(test)]
mod mistake;
#[cfg(test)]
mod newcomers;
#[cfg(test)]
mod player;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod refitting;
#[cfg(test)]
mod reopening;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod scoped;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod wild;
