//! Which traces are sampled, as `OTEL_TRACES_SAMPLER` says.

use windlass_model::TraceContext;

/// The values that a trace id can have in its last seven bytes, which decide about it: they are
/// random in ids of runs and in those of other tracers.
const RANDOM: u64 = 1 << 56;

/// A sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampler {
    /// Whether the decision of the caller counts, if a run continues a trace.
    pub(crate) by_parent: bool,
    /// Traces whose last seven bytes are below this are dropped.
    below: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            by_parent: true,
            below: 0,
        }
    }
}

impl Sampler {
    /// The sampler of this name, and the part of the traces that it takes by itself.
    pub(crate) fn named(name: &str, argument: Option<&str>) -> Option<Self> {
        let (by_parent, own) = match name.strip_prefix("parentbased_") {
            Some(own) => (true, own),
            None => (false, name),
        };
        let part = match own {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => argument.map_or(Some(1.0), ratio)?,
            _ => return None,
        };
        let below = ((1.0 - part) * RANDOM as f64) as u64;
        Some(Self { by_parent, below })
    }

    pub(crate) fn samples(self, trace: &[u8; 16], parent: Option<&TraceContext>) -> bool {
        if self.by_parent
            && let Some(parent) = parent
        {
            return parent.is_sampled();
        }
        let last = u128::from_be_bytes(*trace) % u128::from(RANDOM);
        last >= u128::from(self.below)
    }
}

fn ratio(text: &str) -> Option<f64> {
    let part: f64 = text.parse().ok()?;
    (0.0..=1.0).contains(&part).then_some(part)
}

#[cfg(test)]
mod tests {
    use windlass_model::trace::trace_after;

    use super::*;

    #[test]
    fn samplers_are_those_of_the_specification() {
        let (zeros, ones) = ([0; 16], [0xff; 16]);
        let sampled = TraceContext::sampled([1; 16], [1; 8]);
        let not = TraceContext {
            flags: 0,
            ..sampled.clone()
        };
        let check = |name: &str, argument: Option<&str>, taken: [bool; 4]| {
            let sampler = Sampler::named(name, argument).unwrap();
            let found = [
                sampler.samples(&zeros, None),
                sampler.samples(&ones, None),
                sampler.samples(&ones, Some(&not)),
                sampler.samples(&zeros, Some(&sampled)),
            ];
            assert_eq!(found, taken, "{name} {argument:?}");
        };
        check("always_on", None, [true; 4]);
        check("always_off", None, [false; 4]);
        check("traceidratio", Some("0.5"), [false, true, true, false]);
        check("traceidratio", None, [true; 4]);
        check("parentbased_always_on", None, [true, true, false, true]);
        check("parentbased_always_off", None, [false, false, false, true]);
        let half = [false, true, false, true];
        check("parentbased_traceidratio", Some("0.5"), half);
        assert_eq!(
            Sampler::named("parentbased_always_on", None),
            Some(Sampler::default())
        );
        for (name, argument) in [
            ("sometimes", None),
            ("traceidratio", Some("2")),
            ("traceidratio", Some("NaN")),
            ("traceidratio", Some("x")),
        ] {
            assert_eq!(Sampler::named(name, argument), None, "{name} {argument:?}");
        }
    }

    #[test]
    fn a_ratio_takes_its_part_of_the_traces() {
        let sampler = Sampler::named("traceidratio", Some("0.25")).unwrap();
        let run = windlass_model::RunId(uuid::Uuid::from_u128(7));
        let ids = (0..4_000).map(|at| trace_after(run, windlass_model::Seq(at)));
        let taken = ids.filter(|id| sampler.samples(id, None)).count();
        assert!((800..1_200).contains(&taken), "{taken} of 4,000");
    }
}
