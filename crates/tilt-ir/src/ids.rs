//! Typed indices and the arenas they index.
//!
//! Every entity of a [`Program`](crate::Program) lives in an [`Arena`] and is named by its own `u32` index type, so an
//! expression id cannot be taken for a stream id.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// An index into one kind of arena.
pub trait Id: Copy + Eq {
    /// The id of the `index`-th entity.
    fn new(index: usize) -> Self;
    /// The position in the arena.
    fn index(self) -> usize;
}

/// Defines an index type, with the letter that stands before the number when it is printed for debugging.
#[macro_export]
macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $crate::Id for $name {
            fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("an arena holds at most 2^32 entities"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

define_id!(
    /// A stream: an input or a temporal expression.
    StreamId,
    "s"
);
define_id!(
    /// A scalar expression node.
    ExprId,
    "e"
);
define_id!(
    /// A variable bound by `let` or by a reducer's parameter list.
    VarId,
    "v"
);
define_id!(
    /// A declared external function.
    FuncId,
    "f"
);
define_id!(
    /// A user-defined reduction.
    ReducerId,
    "r"
);

/// A growable table indexed by its own id type.
#[derive(Clone, PartialEq)]
pub struct Arena<I, T> {
    items: Vec<T>,
    ids: PhantomData<I>,
}

impl<I: Id, T> Arena<I, T> {
    /// Adds an entity and returns its id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    /// How many entities there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The entity, or `None` for an id of another arena.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// Whether `id` names an entity here.
    pub fn contains(&self, id: I) -> bool {
        id.index() < self.items.len()
    }

    /// All ids in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// All entities with their ids in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items
            .iter()
            .enumerate()
            .map(|(index, item)| (I::new(index), item))
    }
}

impl<I, T> Default for Arena<I, T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            ids: PhantomData,
        }
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<I: Id, T: fmt::Debug> fmt::Debug for Arena<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}
