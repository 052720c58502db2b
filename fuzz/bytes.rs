//! From a fuzzer's bytes to a generator's choices.

/// Two bytes a choice, then some that look random, so that the short inputs a fuzzer starts with make whole programs too.
pub(crate) fn choices(data: &[u8]) -> Vec<u16> {
    let pairs = data.chunks_exact(2);
    let given = pairs.map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let mut state = data.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let more = usize::from(data.first().copied().unwrap_or(0)) % 160;
    let random = (0..more).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u16
    });
    given
        .collect::<Vec<_>>()
        .into_iter()
        .chain(random)
        .collect()
}
