//! Time, and what memory gives.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use crate::reference::memory;

/// How often to repeat.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// At least so often,
    pub(crate) least: usize,
    /// then until so much time has passed for each task,
    pub(crate) time: Duration,
    /// but no oftener than this.
    pub(crate) most: usize,
}

impl Effort {
    /// For figures.
    pub(crate) const FULL: Self = Self {
        least: 5,
        time: Duration::from_millis(500),
        most: 21,
    };
    /// For a look.
    pub(crate) const QUICK: Self = Self {
        least: 2,
        time: Duration::from_millis(50),
        most: 3,
    };
}

/// What repeated runs took, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    /// The fastest: what the work takes when nobody interferes.
    pub(crate) least: f64,
    /// The middle one: how much somebody did.
    pub(crate) median: f64,
}

impl Timing {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self {
            least: times[0],
            median: times[times.len() / 2],
        }
    }

    /// A share of it, such as that of one event.
    pub(crate) fn per(self, count: usize) -> Self {
        let count = count as f64;
        Self {
            least: self.least / count,
            median: self.median / count,
        }
    }
}

/// Something to measure.
pub(crate) type Task<'a> = Box<dyn FnMut() + 'a>;

/// Makes a task of work, whose result is not optimised away.
pub(crate) fn task<'a, R>(mut work: impl FnMut() -> R + 'a) -> Task<'a> {
    Box::new(move || {
        black_box(work());
    })
}

/// Runs all tasks in turn, so that what disturbs one disturbs the others as well: once to warm up, then as often as
/// `effort` says. Nothing is pinned to a core: workers that the engine starts would inherit that.
pub(crate) fn time(effort: Effort, tasks: &mut [Task]) -> Vec<Timing> {
    for task in &mut *tasks {
        task();
    }
    let budget = effort.time * tasks.len() as u32;
    let begin = Instant::now();
    let mut times = vec![Vec::with_capacity(effort.most); tasks.len()];
    for round in 0..effort.most {
        if round >= effort.least && begin.elapsed() > budget {
            break;
        }
        for (task, times) in tasks.iter_mut().zip(&mut times) {
            let begin = Instant::now();
            task();
            times.push(begin.elapsed().as_nanos() as f64);
        }
    }
    times.into_iter().map(Timing::of).collect()
}

/// What memory gives, in nanoseconds per double.
#[derive(Clone, Copy)]
pub(crate) struct Bandwidth {
    /// Reading 8 bytes.
    pub(crate) read: f64,
    /// Reading 8 bytes and writing them elsewhere in a loop, into memory that has been written before.
    pub(crate) copy_loop: f64,
    /// The same by `memcpy`, which may write past the caches.
    pub(crate) memcpy: f64,
}

impl Bandwidth {
    /// The faster copy.
    pub(crate) fn copy(&self) -> f64 {
        self.copy_loop.min(self.memcpy)
    }

    /// The best of both.
    pub(crate) fn best(self, other: Self) -> Self {
        Self {
            read: self.read.min(other.read),
            copy_loop: self.copy_loop.min(other.copy_loop),
            memcpy: self.memcpy.min(other.memcpy),
        }
    }
}

/// Columns as long as those of the queries, to measure [`Bandwidth`] next to each query.
pub(crate) struct Memory {
    from: Vec<f64>,
    looped: Vec<f64>,
    copied: Vec<f64>,
}

impl Memory {
    /// Columns of `events` doubles.
    pub(crate) fn new(events: usize) -> Self {
        Self {
            from: vec![1.0; events],
            looped: vec![2.0; events],
            copied: vec![2.0; events],
        }
    }

    /// Three tasks, for [`bandwidth`](Self::bandwidth).
    pub(crate) fn tasks(&mut self) -> [Task<'_>; 3] {
        let Self {
            from,
            looped,
            copied,
        } = self;
        let from = &*from;
        [
            task(|| memory::sum(black_box(from))),
            task(|| memory::copy(black_box(from), looped)),
            task(|| copied.copy_from_slice(black_box(from))),
        ]
    }

    /// What the tasks' times mean.
    pub(crate) fn bandwidth(&self, times: &[Timing]) -> Bandwidth {
        let each = |i: usize| times[i].per(self.from.len()).least;
        Bandwidth {
            read: each(0),
            copy_loop: each(1),
            memcpy: each(2),
        }
    }
}
