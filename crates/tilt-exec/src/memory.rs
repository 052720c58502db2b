//! Memory that loops write: aligned, padded and reused.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    cell::RefCell,
    ops::Range,
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow_buffer::{Buffer, ScalarBuffer, alloc::Allocation};
use tilt_codegen::lir::LANES;

/// A vector register of any machine, and a cache line.
pub(crate) const ALIGN: usize = 64;
/// From this size on memory is worth keeping: its pages cost more than filling them.
const KEEP: usize = 1 << 16;
/// How many bytes are kept for the next run.
const KEPT: usize = 1 << 30;
/// Pages of this size cost a five-hundredth of the faults, where the kernel has them.
const HUGE: usize = 1 << 21;

/// Bytes at an aligned address, initialised to whatever was there before.
#[derive(Debug)]
pub(crate) struct Memory {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Memory {}
// SAFETY: shared references give nothing but the address.
unsafe impl Sync for Memory {}

/// Memory of fewer bytes is kept by the thread that gives it back: what a step of a live run writes costs less than asking for it.
const SMALL: usize = 1 << 12;
/// How many bytes of it a thread keeps.
const KEPT_SMALL: usize = 1 << 17;

thread_local! {
    static SPARE: RefCell<Small> = const { RefCell::new(Small { free: Vec::new(), bytes: 0 }) };
}

/// Small memory, by its size in units of [`ALIGN`].
struct Small {
    free: Vec<Vec<Memory>>,
    bytes: usize,
}

impl Small {
    fn take(&mut self, bytes: usize) -> Option<Memory> {
        let memory = self.free.get_mut(bytes / ALIGN)?.pop()?;
        self.bytes -= bytes;
        Some(memory)
    }

    /// Takes memory in, unless there is enough; it is given back then.
    fn give(&mut self, memory: Memory) -> Option<Memory> {
        let bytes = memory.len();
        if bytes >= SMALL || self.bytes + bytes > KEPT_SMALL {
            return Some(memory);
        }
        let class = bytes / ALIGN;
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        self.free[class].push(memory);
        self.bytes += bytes;
        None
    }
}

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
                return memory.spoilt();
            }
        } else if bytes < SMALL {
            // Nothing is kept by a thread that ends.
            let spare = SPARE.try_with(|spare| spare.borrow_mut().take(bytes));
            if let Ok(Some(memory)) = spare {
                return memory.spoilt();
            }
        }
        let align = if bytes >= HUGE { HUGE } else { ALIGN };
        let layout = Layout::from_size_align(bytes, align).expect("a size that memory can have");
        let at = allocate(layout).unwrap_or_else(|| handle_alloc_error(layout));
        take(bytes);
        Self { at, layout }.spoilt()
    }

    /// In tests all memory is as bad as what the pool gives: who counts on zeros is found. As words it is positive, as a row that was never written may be.
    fn spoilt(self) -> Self {
        if cfg!(debug_assertions) {
            // SAFETY: the memory is as long, and belongs to this value.
            unsafe { self.at.write_bytes(0x5A, self.layout.size()) }
        }
        self
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
        unsafe { free(self.at, self.layout) }
    }
}

/// Zeros. Much memory comes from the kernel, which makes its pages when they are touched: by the threads that fill them.
fn allocate(layout: Layout) -> Option<NonNull<u8>> {
    #[cfg(unix)]
    if layout.align() == HUGE {
        return map(layout.size());
    }
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) })
}

/// # Safety
/// It was allocated with this layout, and nobody uses it any more.
unsafe fn free(at: NonNull<u8>, layout: Layout) {
    #[cfg(unix)]
    if layout.align() == HUGE {
        // SAFETY: the caller's promise; it was mapped.
        let freed = unsafe { libc::munmap(at.as_ptr().cast(), layout.size()) };
        debug_assert_eq!(freed, 0, "memory that was mapped");
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { dealloc(at.as_ptr(), layout) }
}

/// Memory from the kernel at a multiple of [`HUGE`], of huge pages where it has them. `bytes` is a multiple, too.
#[cfg(unix)]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let more = bytes.checked_add(HUGE)?;
    // SAFETY: new memory, which overlaps no other.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            more,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return None;
    }
    let at: *mut u8 = at.cast();
    let before = at.align_offset(HUGE);
    let aligned = at.wrapping_add(before);
    // SAFETY: both ends lie in what was just mapped, and nobody knows of them.
    unsafe {
        if before > 0 {
            libc::munmap(at.cast(), before);
        }
        if before < HUGE {
            libc::munmap(aligned.wrapping_add(bytes).cast(), HUGE - before);
        }
        // What it does not have it need not give.
        #[cfg(target_os = "linux")]
        libc::madvise(aligned.cast(), bytes, libc::MADV_HUGEPAGE);
    }
    NonNull::new(aligned)
}

/// Copies bytes past the caches, where the machine can: what is not read soon should not push out what is. Whoever hands the memory to another
/// thread calls [`fence`](std::sync::atomic::fence) before.
///
/// # Safety
/// There are so many bytes at both addresses, and they do not overlap.
pub(crate) unsafe fn copy_past_caches(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        const WIDTH: usize = size_of::<__m128i>();
        let head = to.align_offset(WIDTH).min(len);
        let whole = (len - head) / WIDTH * WIDTH;
        // SAFETY: the caller's promise; stores are aligned after the head.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            for at in (head..head + whole).step_by(WIDTH) {
                let words = _mm_loadu_si128(from.add(at).cast());
                _mm_stream_si128(to.add(at).cast(), words);
            }
            let at = head + whole;
            std::ptr::copy_nonoverlapping(from.add(at), to.add(at), len - at);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, len);
    }
}

/// Asks memory for the lines of some bytes, and returns where the first is that was not asked for; a hint only, whatever the addresses.
pub(crate) fn prefetch(bytes: Range<*const u8>) -> *const u8 {
    let mut at = bytes.start;
    while at < bytes.end {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch does not fault.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(at.cast());
        }
        at = at.wrapping_add(ALIGN);
    }
    at
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
        if memory.len() < KEEP {
            // Freed when it is dropped, if the thread has enough or ends.
            let mut memory = Some(memory);
            let kept = SPARE.try_with(|spare| {
                let memory = memory.take();
                memory.and_then(|memory| spare.borrow_mut().give(memory))
            });
            drop(kept);
            return;
        }
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.bytes + memory.len() <= KEPT {
            pool.bytes += memory.len();
            give(memory.len());
            pool.free.push(memory);
        }
    }
}

/// Memory for so many values, up to a whole group, and how many bytes that is.
pub(crate) fn room<T>(len: usize) -> (Returned, usize) {
    let bytes = len.next_multiple_of(LANES) * size_of::<T>();
    (Returned::new(bytes), bytes)
}

/// So many values as they are filled in, padded to whole groups. Any bits must be a value.
pub(crate) fn filled<T: Copy>(len: usize, fill: impl FnOnce(&mut [T])) -> Buffer {
    let (memory, bytes) = room::<T>(len);
    // SAFETY: so much memory was asked for, it is initialised and aligned to a cache line, and nobody else knows it.
    fill(unsafe { std::slice::from_raw_parts_mut(memory.as_ptr().cast::<T>(), len) });
    memory.into_buffer(bytes)
}

/// Memory that threads write side by side.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

// SAFETY: writing is unsafe, and whoever does it promises that no two threads write to one place.
unsafe impl<T: Send> Sync for Out<T> {}

impl<T> Out<T> {
    pub(crate) fn of(memory: &Returned) -> Self {
        Self(memory.as_ptr().cast())
    }

    /// # Safety
    /// There is room for a value there, and no other thread writes to it.
    pub(crate) unsafe fn write(&self, place: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(place).write(value) }
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
impl Plain for f64 {}
