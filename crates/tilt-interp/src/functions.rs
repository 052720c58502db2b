//! External functions.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::Value;

/// A function of the host.
pub type Function = Arc<dyn Fn(&[Value]) -> Value + Send + Sync>;

/// The functions a query may call as `@name(…)`.
///
/// They must be pure. They are never called with φ and may return it.
///
/// ```
/// use tilt_interp::{Functions, Value};
/// let mut functions = Functions::default();
/// functions.register("shout", |args| match args {
///     [Value::Str(text)] => text.to_uppercase().as_str().into(),
///     _ => Value::Null,
/// });
/// ```
#[derive(Clone, Default)]
pub struct Functions(BTreeMap<String, Function>);

impl Functions {
    /// Makes `function` callable as `@name`, in place of an earlier one of that name.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&[Value]) -> Value + Send + Sync + 'static,
    ) {
        self.0.insert(name.into(), Arc::new(function));
    }

    /// The function of a name.
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.0.get(name)
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
