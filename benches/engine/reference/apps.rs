//! The applications of `tests/apps`.

use super::{
    fold::{peak, sum_of},
    pointwise::mask,
};
use crate::data::Real;

multiversion! {
    /// Mean over fewer samples minus mean over more, and where that is positive.
    pub(crate) fn trend<T: Real>(x: &[T], windows: (usize, usize), out: &mut [f64], bits: &mut [u64]) {
        let (short, long) = windows;
        let (mut near, mut far) = (0.0, 0.0);
        let ramp = long.min(x.len());
        for i in 0..ramp {
            let value: f64 = x[i].into();
            near += value;
            far += value;
            if i >= short {
                near -= x[i - short].into();
            }
            out[i] = near / (i + 1).min(short) as f64 - far / (i + 1) as f64;
        }
        let (near_share, far_share) = (1.0 / short as f64, 1.0 / long as f64);
        let goes = x[long - short..].iter().zip(x);
        for ((out, value), (near_goes, far_goes)) in out[ramp..].iter_mut().zip(&x[ramp..]).zip(goes) {
            let value: f64 = (*value).into();
            near += value - (*near_goes).into();
            far += value - (*far_goes).into();
            *out = near * near_share - far * far_share;
        }
        for (bits, out) in bits.iter_mut().zip(out.chunks(64)) {
            *bits = mask(out);
        }
    }
}

multiversion! {
    /// The relative strength index over 14 changes, from the fifteenth close on.
    pub(crate) fn rsi<T: Real>(x: &[T], out: &mut Vec<f64>) {
        const WINDOW: usize = 14;
        out.clear();
        let change = |i: usize| -> (f64, f64) {
            let (change, zero) = (x[i] - x[i - 1], T::default());
            let positive = |v: T| if v > zero { v } else { zero };
            (positive(change).into(), positive(-change).into())
        };
        let (mut up, mut down) = (0.0, 0.0);
        for i in 1..x.len() {
            let (gain, loss) = change(i);
            up += gain;
            down += loss;
            if i >= WINDOW {
                out.push(100.0 - 100.0 / (1.0 + up / down));
                let (gain, loss) = change(i + 1 - WINDOW);
                up -= gain;
                down -= loss;
            }
        }
    }
}

multiversion! {
    /// Scores within tumbling windows, by the population's deviation.
    pub(crate) fn normalize<T: Real>(x: &[T], window: usize, out: &mut [T]) {
        for (x, out) in x.chunks(window).zip(out.chunks_mut(window)) {
            let count = x.len() as f64;
            let mean = sum_of(x, |v| v) / count;
            let deviation = (sum_of(x, |v| (v - mean) * (v - mean)) / count).sqrt();
            let (mean, deviation) = (T::of(mean), T::of(deviation));
            for (out, x) in out.iter_mut().zip(x) {
                *out = (*x - mean) / deviation;
            }
        }
    }
}

multiversion! {
    /// Missing samples become the mean of their tumbling window, and the last window is filled to its end.
    pub(crate) fn impute<T: Real>(x: &[T], bits: &[u64], window: usize, out: &mut [T]) {
        for (block, out) in out.chunks_mut(window).enumerate() {
            let begin = block * window;
            let values = &x[begin..x.len().min(begin + window)];
            let (mut sums, mut count) = ([0.0; 64], 0);
            for (c, values) in values.chunks(64).enumerate() {
                let word = word_at(bits, begin + 64 * c, values.len());
                count += word.count_ones();
                for (i, (sum, value)) in sums.iter_mut().zip(values).enumerate() {
                    *sum += if word >> i & 1 == 1 { (*value).into() } else { 0.0 };
                }
            }
            let mean = T::of(sums.iter().sum::<f64>() / f64::from(count));
            for (c, (out, values)) in out.chunks_mut(64).zip(values.chunks(64)).enumerate() {
                let word = word_at(bits, begin + 64 * c, values.len());
                for (i, (out, value)) in out.iter_mut().zip(values).enumerate() {
                    *out = if word >> i & 1 == 1 { *value } else { mean };
                }
            }
            out[values.len()..].fill(mean);
        }
    }
}

/// The `count` bits from `at` on, at most 64.
#[inline(always)]
fn word_at(bits: &[u64], at: usize, count: usize) -> u64 {
    let (word, shift) = (at / 64, at % 64);
    let high = bits.get(word + 1).copied().unwrap_or(0);
    let bits = bits[word] >> shift | if shift == 0 { 0 } else { high << (64 - shift) };
    bits & (u64::MAX >> (64 - count))
}

multiversion! {
    /// From a period of 4 to one of 5, linearly: four samples out of five.
    pub(crate) fn resample<T: Real>(x: &[T], out: &mut [T]) {
        let line = |left: T, right: T, share: f64| left + (right - left) * T::of(share);
        let (inputs, rest) = x.as_chunks::<5>();
        let (outputs, last) = out.as_chunks_mut::<4>();
        for (out, x) in outputs.iter_mut().zip(inputs) {
            *out = [line(x[0], x[1], 0.25), line(x[1], x[2], 0.5), line(x[2], x[3], 0.75), x[4]];
        }
        let shares = [0.25, 0.5, 0.75];
        for (i, out) in last.iter_mut().enumerate() {
            *out = line(rest[i], rest[i + 1], shares[i]);
        }
    }
}

multiversion! {
    /// The preprocessing of Pan and Tompkins in one pass, the past of each stage in a ring.
    pub(crate) fn pan_tompkins<T: Real>(x: &[T], out: &mut [f64]) {
        const RING: usize = 64;
        let at = |ring: &[T; RING], n: usize, back: usize| ring[(n + RING - back) % RING];
        let zero = [T::default(); RING];
        let (mut ecg, mut low, mut high, mut squared) = (zero, zero, zero, zero);
        let (mut running, mut energy) = (T::default(), 0.0);
        let two = T::of(2.0);
        for (n, (out, x)) in out.iter_mut().zip(x).enumerate() {
            ecg[n % RING] = *x;
            let l = two * at(&low, n, 1) - at(&low, n, 2) + *x - two * at(&ecg, n, 6) + at(&ecg, n, 12);
            low[n % RING] = l;
            running = running + l - at(&low, n, 32);
            let h = T::of(32.0) * at(&low, n, 16) - running;
            high[n % RING] = h;
            let slope = (h + two * at(&high, n, 1) - two * at(&high, n, 3) - at(&high, n, 4)) / T::of(8.0);
            let square = slope * slope;
            energy += square.into() - at(&squared, n, 30).into();
            squared[n % RING] = square;
            *out = energy / 30.0;
        }
    }
}

/// Kurtosis, root mean square and crest factor.
pub(crate) type Features = [f64; 3];

multiversion! {
    /// The features of every block.
    pub(crate) fn vibration<T: Real>(x: &[T], block: usize, out: &mut Vec<Features>) {
        out.clear();
        for x in x.chunks(block) {
            let count = x.len() as f64;
            let mean = sum_of(x, |v| v) / count;
            let squares = sum_of(x, |v| v * v);
            let second = sum_of(x, |v| (v - mean) * (v - mean)) / count;
            let fourth = sum_of(x, |v| {
                let square = (v - mean) * (v - mean);
                square * square
            });
            let rms = (squares / count).sqrt();
            out.push([fourth / count / (second * second), rms, peak(x).into() / rms]);
        }
    }
}

multiversion! {
    /// How many of every `window` rows are of type 1.
    pub(crate) fn yahoo(types: &[i64], window: usize, out: &mut Vec<(i64, i64)>) {
        out.clear();
        for (i, types) in types.chunks(window).enumerate() {
            let hits: i64 = types.iter().map(|t| i64::from(*t == 1)).sum();
            if hits > 0 {
                out.push((i as i64, hits));
            }
        }
    }
}

/// A transaction and where it stands among all.
#[derive(Clone, Copy, Default)]
struct Transaction {
    stamp: i64,
    amount: f64,
    row: u32,
}

/// What [`fraud`] needs beside its input.
#[derive(Default)]
pub(crate) struct Alarms {
    /// Where each card's transactions begin in `by_card`, and one more.
    begins: Vec<u32>,
    by_card: Vec<Transaction>,
    /// Rows above their limit, with it.
    pub(crate) found: Vec<(u32, f64)>,
}

/// The transactions above mean + 3 deviations of those of the same card in the `window` before, if there are five. Sorts
/// rows by card, slides over each card's, and sorts what was found, which is little, by time again.
pub(crate) fn fraud<T: Real>(
    stamps: &[i64],
    cards: &[i32],
    amounts: &[T],
    (window, card_count): (i64, usize),
    out: &mut Alarms,
) {
    let Alarms {
        begins,
        by_card,
        found,
    } = out;
    begins.clear();
    begins.resize(card_count + 2, 0);
    for card in cards {
        begins[*card as usize + 2] += 1;
    }
    for i in 1..begins.len() {
        begins[i] += begins[i - 1];
    }
    by_card.resize(cards.len(), Transaction::default());
    for (row, ((card, stamp), amount)) in cards.iter().zip(stamps).zip(amounts).enumerate() {
        let next = &mut begins[*card as usize + 1];
        by_card[*next as usize] = Transaction {
            stamp: *stamp,
            amount: (*amount).into(),
            row: row as u32,
        };
        *next += 1;
    }
    found.clear();
    for bounds in begins[..=card_count].windows(2) {
        let transactions = &by_card[bounds[0] as usize..bounds[1] as usize];
        // Moments about the card's first amount: squares of small numbers cancel less.
        let origin = transactions.first().map_or(0.0, |first| first.amount);
        let (mut begin, mut sum, mut squares) = (0, 0.0, 0.0);
        for (i, transaction) in transactions.iter().enumerate() {
            while transactions[begin].stamp < transaction.stamp - window {
                let moment = transactions[begin].amount - origin;
                sum -= moment;
                squares -= moment * moment;
                begin += 1;
            }
            let count = (i - begin) as f64;
            let mean = sum / count;
            let variance = ((squares - sum * mean) / (count - 1.0)).max(0.0);
            let limit = origin + mean + 3.0 * variance.sqrt();
            if count >= 5.0 && transaction.amount > limit {
                found.push((transaction.row, limit));
            }
            let moment = transaction.amount - origin;
            sum += moment;
            squares += moment * moment;
        }
    }
    found.sort_unstable_by_key(|(row, _)| *row);
}
