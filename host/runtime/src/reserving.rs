//! The keys that a run reserves while it lasts, and the keys that no other run may have reserved.
//!
//! Every run reserves its correlation id, regardless of its workflow, so that a run of another
//! workflow can exclude it. A run without a correlation id matches no other run.

use windlass_model::definition::Activation;

/// The keys that a run reserves, and which of them exclude other runs.
pub(crate) fn of(
    activation: Activation,
    workflow: &str,
    correlation: Option<&str>,
) -> (Vec<String>, Option<String>) {
    // Workflow names contain no colon, so keys cannot collide.
    let shared = correlation.map(|id| format!("correlation:{id}"));
    let exclusive = match activation {
        Activation::Always => None,
        Activation::Singleton => Some(format!("workflow:{workflow}")),
        Activation::CorrelatedSingleton => {
            correlation.map(|id| format!("correlated:{workflow}:{id}"))
        }
        Activation::Correlation => shared.clone(),
    };
    let mut reserves: Vec<String> = shared.into_iter().collect();
    reserves.extend(exclusive.clone().filter(|key| !reserves.contains(key)));
    (reserves, exclusive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        activation: Activation,
        correlation: Option<&str>,
        reserves: &[&str],
        at: Option<usize>,
    ) {
        let (found, exclusive) = of(activation, "w", correlation);
        assert_eq!(found, reserves);
        assert_eq!(exclusive.as_deref(), at.map(|at| reserves[at]));
    }

    #[test]
    fn an_activation_decides_which_runs_exclude_each_other() {
        check(Activation::Always, None, &[], None);
        check(Activation::Always, Some("a"), &["correlation:a"], None);
        check(Activation::Singleton, None, &["workflow:w"], Some(0));
        let both = ["correlation:a", "workflow:w"];
        check(Activation::Singleton, Some("a"), &both, Some(1));
        let both = ["correlation:a", "correlated:w:a"];
        check(Activation::CorrelatedSingleton, Some("a"), &both, Some(1));
        check(Activation::CorrelatedSingleton, None, &[], None);
        check(
            Activation::Correlation,
            Some("a"),
            &["correlation:a"],
            Some(0),
        );
        check(Activation::Correlation, None, &[], None);
    }
}
