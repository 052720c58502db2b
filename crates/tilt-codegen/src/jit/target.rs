//! The machine that code is compiled for.

use std::sync::{Once, OnceLock};

use inkwell::{
    OptimizationLevel,
    targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine},
};

use super::{JitError, emit::Shuffles};

/// A CPU as LLVM names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cpu {
    /// The model.
    pub(super) name: String,
    /// What it has and has not, as `+avx2,-sse4a`. A name alone promises what a virtual machine may hide.
    pub(super) features: String,
}

impl Cpu {
    /// This host, or the CPU that the environment variable `TILT_CPU` names (for example `x86-64-v3`).
    pub(super) fn host() -> &'static Self {
        static HOST: OnceLock<Cpu> = OnceLock::new();
        HOST.get_or_init(|| match std::env::var("TILT_CPU") {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Self::detect(),
        })
    }

    /// A CPU with all that its name promises.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            features: String::new(),
        }
    }

    /// Whether it multiplies and adds with one rounding, in one instruction.
    pub(super) fn fuses(&self) -> bool {
        let promises = matches!(self.name.as_str(), "x86-64-v3" | "x86-64-v4");
        cfg!(target_arch = "aarch64") || promises || self.features.split(',').any(|f| f == "+fma")
    }

    /// Whether it stores some lanes of a vector at the cost of all. What AVX2 has for that takes as long as a dozen stores on some CPUs.
    pub(super) fn masks(&self) -> bool {
        self.name == "x86-64-v4" || self.features.split(',').any(|f| f == "+avx512vl")
    }

    /// Whether it converts vectors of 64-bit integers to doubles.
    pub(super) fn converts(&self) -> bool {
        let has = self.name == "x86-64-v4" || self.features.split(',').any(|f| f == "+avx512dq");
        cfg!(target_arch = "aarch64") || has
    }

    /// What it shuffles by a vector of lanes.
    pub(super) fn shuffles(&self) -> Shuffles {
        let has = |feature: &str| self.features.split(',').any(|f| f == feature);
        if self.name == "x86-64-v4" || has("+avx512vl") {
            Shuffles::Two
        } else if self.name == "x86-64-v3" || has("+avx2") {
            Shuffles::One
        } else {
            Shuffles::None
        }
    }

    fn detect() -> Self {
        let name = TargetMachine::get_host_cpu_name();
        let features = TargetMachine::get_host_cpu_features();
        Self {
            name: name.to_string_lossy().into_owned(),
            features: usable(&features.to_string_lossy(), has_avx512()),
        }
    }
}

/// LLVM asks the CPU, `std` the operating system as well: registers that are not saved must not be used.
fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Turns `+avx512..` into `-avx512..` unless it can be used.
fn usable(features: &str, avx512: bool) -> String {
    let adapt = |feature: &str| match feature.strip_prefix("+avx512") {
        Some(rest) if !avx512 => format!("-avx512{rest}"),
        _ => feature.to_owned(),
    };
    let adapted: Vec<_> = features.split(',').map(adapt).collect();
    adapted.join(",")
}

/// Makes the host's code generator known, before anything of LLVM asks for it: also an object from the disk is linked for a target.
pub(super) fn initialize() {
    static INITIALIZED: Once = Once::new();
    INITIALIZED.call_once(|| {
        let config = InitializationConfig::default();
        #[cfg(target_arch = "x86_64")]
        Target::initialize_x86(&config);
        #[cfg(target_arch = "aarch64")]
        Target::initialize_aarch64(&config);
    });
}

/// A code generator for `cpu`. Each compilation has its own: LLVM's may not be shared between threads.
pub(super) fn machine(cpu: &Cpu, level: OptimizationLevel) -> Result<TargetMachine, JitError> {
    initialize();
    let triple = TargetMachine::get_default_triple();
    let target =
        Target::from_triple(&triple).map_err(|error| JitError::Target(error.to_string()))?;
    target
        .create_target_machine(
            &triple,
            &cpu.name,
            &cpu.features,
            level,
            RelocMode::PIC,
            CodeModel::Default,
        )
        .ok_or_else(|| JitError::Target(format!("no code generator for {}", cpu.name)))
}

#[cfg(test)]
mod tests {
    use super::usable;

    #[test]
    fn avx512_needs_the_operating_system() {
        assert_eq!(
            usable("+avx2,+avx512f,-sse4a", false),
            "+avx2,-avx512f,-sse4a"
        );
        assert_eq!(usable("+avx2,+avx512f", true), "+avx2,+avx512f");
    }
}
