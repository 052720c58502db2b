//! What a compiled query does, for people.

use std::fmt::Write;

use crate::query::{Backend, Inner, Prepared};

pub(crate) fn explain(query: &Inner) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", query.program);
    let Ok(facts) = query.declared_facts() else {
        return text;
    };
    match &*query.prepare(&facts, Backend::Native) {
        Prepared::Interpreted(why) => {
            let _ = writeln!(text, "interpreted, because of {why}");
        }
        Prepared::Loops { plan, .. } => {
            if query.program.inputs().any(|(_, input)| input.key.is_some()) {
                let how = match plan.scatter {
                    Some(_) => "keys: all in one pass, a state for each",
                    None => "keys: one after the other, rows grouped by key",
                };
                let _ = writeln!(text, "{how}");
            }
            for body in &plan.loops {
                let _ = writeln!(text, "{body}");
            }
        }
    }
    text
}
