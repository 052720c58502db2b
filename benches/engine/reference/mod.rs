//! The queries by hand: the loops that a competent engineer writes over dense columns, into memory that is warm.
//!
//! Each is compiled for AVX-512, AVX2 and the baseline, and the best that the machine runs is called. Sums over sliding
//! windows subtract what leaves, which is fast but drifts; the engine does better and still has to keep up.

/// Compiles a function for several instruction sets and calls the best that the machine runs.
macro_rules! multiversion {
    (
        $(#[$meta:meta])*
        pub(crate) fn $name:ident $(<$($T:ident: $bound:path),+>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        pub(crate) fn $name $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                        #[inline(always)]
            fn body $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,bmi2")]
                fn avx512 $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    body $(::<$($T),+>)? ($($arg),*)
                }
                #[target_feature(enable = "avx2,bmi2")]
                fn avx2 $(<$($T: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    body $(::<$($T),+>)? ($($arg),*)
                }
                let v3 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
                if v3
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512cd")
                {
                    // SAFETY: the machine has all of these features.
                    return unsafe { avx512 $(::<$($T),+>)? ($($arg),*) };
                }
                if v3 {
                    // SAFETY: the machine has both features.
                    return unsafe { avx2 $(::<$($T),+>)? ($($arg),*) };
                }
            }
            body $(::<$($T),+>)? ($($arg),*)
        }
    };
}

pub(crate) mod apps;
pub(crate) mod fold;
pub(crate) mod keyed;
pub(crate) mod memory;
pub(crate) mod pointwise;
pub(crate) mod time;
pub(crate) mod windows;
