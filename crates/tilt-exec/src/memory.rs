//! Memory that loops write: aligned, padded and reused.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_buffer::{Buffer, ScalarBuffer, alloc::Allocation};

/// A vector register of any machine, and a cache line.
const ALIGN: usize = 64;
/// From this size on memory is worth keeping: its pages cost more than filling them.
const KEEP: usize = 1 << 16;
/// How many bytes are kept for the next run.
const KEPT: usize = 1 << 30;
/// Pages of this size cost a five-hundredth of the faults, where the kernel has them.
const HUGE: usize = 1 << 21;

/// Bytes at an aligned address. Its contents are whatever was there before, zero at first.
#[derive(Debug)]
pub(crate) struct Memory {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Memory {}
// SAFETY: shared references give nothing but the address.
unsafe impl Sync for Memory {}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: Vec::new(),
    bytes: 0,
});

struct Pool {
    free: Vec<Memory>,
    bytes: usize,
}

/// Bytes in use of memory that is worth keeping, and the most there were.
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The most bytes that were in use since [`forget_peak`].
pub(crate) fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// Starts to look for the peak anew.
pub(crate) fn forget_peak() {
    PEAK.store(IN_USE.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Counts memory that is worth keeping as in use.
fn take(bytes: usize) {
    if bytes >= KEEP {
        let used = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(used, Ordering::Relaxed);
    }
}

/// It is in use no longer.
fn give(bytes: usize) {
    if bytes >= KEEP {
        IN_USE.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Memory {
    /// At least `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let bytes = rounded(bytes);
        if bytes >= KEEP {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            // The tightest that is large enough, but not one that wastes more than it holds.
            let fits = |m: &Memory| (bytes..=bytes.saturating_mul(2)).contains(&m.layout.size());
            let best = (0..pool.free.len())
                .filter(|i| fits(&pool.free[*i]))
                .min_by_key(|i| pool.free[*i].layout.size());
            if let Some(best) = best {
                let memory = pool.free.swap_remove(best);
                pool.bytes -= memory.layout.size();
                take(memory.layout.size());
                return memory;
            }
        }
        let align = if bytes >= HUGE { HUGE } else { ALIGN };
        let layout = Layout::from_size_align(bytes, align).expect("a size that memory can have");
        // SAFETY: the size is not zero.
        let at = unsafe { alloc_zeroed(layout) };
        let at = NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout));
        take(bytes);
        Self { at, layout }
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }

    /// The first `len` bytes as an Arrow buffer, which gives the memory back in the end.
    pub(crate) fn into_buffer(self, len: usize) -> Buffer {
        assert!(len <= self.len(), "{len} of {} bytes", self.len());
        let at = self.at;
        let owner: Arc<dyn Allocation> = Arc::new(Returned(Some(self)));
        // SAFETY: `owner` keeps `len` bytes from `at` on alive and nobody writes them any more.
        unsafe { Buffer::from_custom_allocation(at, len, owner) }
    }
}

/// Sizes grow in steps, so that one piece's memory fits the next.
fn rounded(bytes: usize) -> usize {
    let bytes = bytes.max(ALIGN) + ALIGN;
    let step = if bytes >= HUGE { HUGE } else { ALIGN };
    bytes.div_ceil(step) * step
}

impl Drop for Memory {
    fn drop(&mut self) {
        give(self.layout.size());
        // SAFETY: allocated with this layout, and this is the only owner.
        unsafe { dealloc(self.at.as_ptr(), self.layout) }
    }
}

/// Memory that goes back to the pool.
#[derive(Debug)]
pub(crate) struct Returned(Option<Memory>);

impl Returned {
    /// Memory of at least `bytes` bytes that goes back to the pool.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Some(Memory::new(bytes)))
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.0.as_ref().map_or(std::ptr::null_mut(), Memory::as_ptr)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, Memory::len)
    }

    /// As [`Memory::into_buffer`].
    pub(crate) fn into_buffer(mut self, len: usize) -> Buffer {
        self.0
            .take()
            .expect("memory until it is dropped")
            .into_buffer(len)
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        let Some(memory) = self.0.take() else { return };
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.len() >= KEEP && pool.bytes + memory.len() <= KEPT {
            pool.bytes += memory.len();
            give(memory.len());
            pool.free.push(memory);
        }
    }
}

/// Vectors that one merge leaves to the next.
#[derive(Debug)]
pub(crate) struct Spare<T>(Mutex<Vec<Vec<T>>>);

/// Spare lists of instants.
pub(crate) static INSTANTS: Spare<i64> = Spare(Mutex::new(Vec::new()));
/// Spare lists of positions.
pub(crate) static POSITIONS: Spare<u32> = Spare(Mutex::new(Vec::new()));

/// How many vectors are kept, and how long they may be: what a piece on each of many threads needs.
const SPARES: usize = 256;
const LONGEST_SPARE: usize = 1 << 17;

impl<T> Spare<T> {
    /// An empty vector.
    pub(crate) fn take(&self) -> Vec<T> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.pop().unwrap_or_default()
    }

    pub(crate) fn give(&self, mut vector: Vec<T>) {
        vector.clear();
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARES && (1..=LONGEST_SPARE).contains(&vector.capacity()) {
            spare.push(vector);
        }
    }
}

impl Spare<i64> {
    /// A vector as a buffer that gives it back.
    pub(crate) fn lend(&'static self, vector: Vec<i64>) -> ScalarBuffer<i64> {
        let len = vector.len();
        let Some(at) = NonNull::new(vector.as_ptr().cast_mut().cast()) else {
            return vector.into();
        };
        let owner: Arc<dyn Allocation> = Arc::new(Lent(self, vector));
        // SAFETY: `owner` keeps the vector alive, and nobody changes it any more.
        let buffer = unsafe { Buffer::from_custom_allocation(at, len * size_of::<i64>(), owner) };
        ScalarBuffer::new(buffer, 0, len)
    }
}

/// A vector that goes back to the spare ones.
struct Lent(&'static Spare<i64>, Vec<i64>);

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.give(std::mem::take(&mut self.1));
    }
}

/// Buffers for one chunk after the other: the n-th request of a chunk gets the n-th buffer.
#[derive(Default, Debug)]
pub(crate) struct Scratch {
    buffers: Vec<Memory>,
    next: usize,
}

impl Scratch {
    /// Starts the next chunk: what was taken before may be overwritten.
    pub(crate) fn reset(&mut self) {
        self.next = 0;
    }

    /// A buffer of at least `bytes` bytes, valid until the reset after next use.
    pub(crate) fn take(&mut self, bytes: usize) -> *mut u8 {
        if self.next == self.buffers.len() {
            self.buffers.push(Memory::new(bytes));
        } else if self.buffers[self.next].len() < bytes {
            self.buffers[self.next] = Memory::new(bytes);
        }
        self.next += 1;
        self.buffers[self.next - 1].as_ptr()
    }

    /// A buffer of `len` zeroed words or more elements of a plain type.
    pub(crate) fn slice<T: Plain>(&mut self, len: usize) -> &'static mut [T] {
        let at = self.take(len * size_of::<T>());
        // SAFETY: the buffer is aligned, long enough and initialised, and any bits are a value of a plain type. The
        // lifetime is that of the chunk: callers keep nothing beyond it.
        unsafe { std::slice::from_raw_parts_mut(at.cast(), len) }
    }
}

/// Types of which any bits are a value.
pub(crate) trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for i8 {}
impl Plain for i16 {}
impl Plain for i32 {}
impl Plain for i64 {}
