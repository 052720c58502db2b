//! Golden files: `tests/golden/**/*.tilt`.
//!
//! A file is a query, data in comment lines (`// input ~x: (0,5]=1 7=2`), and sections that begin with `=== command`. Each
//! section holds what the command prints; `TILT_BLESS=1` writes it. Lines `// expect: …` (for keyed queries one
//! `// expect key: "a" (0,5]=1` a row) and `// lineage ~x: …` are hand-made and never blessed: what they say must hold
//! whatever the sections say.
//!
//! | command | prints |
//! |---|---|
//! | `print` | the canonical text |
//! | `error` | the parse error |
//! | `verify` | `ok`, or all violations |
//! | `lineage` | the halo of each input and the change points of each stream |
//! | `stages` | the program after each pass that changed it |
//! | `optimize` | the program after all passes, and how many temporal expressions it had and has |
//! | `run` | the events of the output, which must be the same after each pass alone, after all, and on the engine |
//! | `run keyed` | the same, for each key |
//! | a pass's name | the program after that pass alone |

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use tilt::{
    interp::{self, Inputs, Options},
    ir::{self, Lineage, Pipeline, Program, pass::PASSES},
};

use crate::{
    generate::buffers,
    keyed,
    text::{format_events, format_value, parse_events, parse_inputs},
};

#[test]
fn golden_files_hold() {
    let bless = std::env::var_os("TILT_BLESS").is_some();
    let mut failures = String::new();
    let files = files(&golden_dir());
    assert!(!files.is_empty(), "there are golden files");
    for file in files {
        let text = fs::read_to_string(&file).expect("a golden file can be read");
        let (new, wrong) = render(&text, &file);
        for wrong in wrong {
            let _ = writeln!(failures, "{}, by hand:\n{wrong}", file.display());
        }
        if new == text {
            continue;
        }
        if bless {
            fs::write(&file, new).expect("a golden file can be written");
        } else {
            let _ = writeln!(failures, "{}:\n{}", file.display(), difference(&text, &new));
        }
    }
    assert!(
        failures.is_empty(),
        "golden files differ; look at the difference, then run again with TILT_BLESS=1 (which leaves what is by hand)\n{failures}"
    );
}

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the golden directory is there")
        .map(|entry| entry.expect("its entries can be read").path())
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|e| e == "tilt"))
        .collect();
    found.sort();
    found
}

/// The file with each section's content replaced by what its command prints, and what contradicts its hand-made lines.
fn render(text: &str, file: &Path) -> (String, Vec<String>) {
    let (source, sections) = match text.find("\n=== ") {
        Some(at) => (&text[..=at], &text[at + 1..]),
        None => (text, ""),
    };
    let mut new = source.to_owned();
    for section in sections.split("=== ").skip(1) {
        let command = section.lines().next().unwrap_or("").trim();
        let output = run_command(command, source, file);
        let _ = write!(new, "=== {command}\n{}\n", output.trim_end());
    }
    let wrong = match ir::parse(source) {
        Ok(program) if ir::verify(&program).is_ok() => check_by_hand(&program, source, file),
        _ => Vec::new(),
    };
    (new, wrong)
}

fn run_command(command: &str, source: &str, file: &Path) -> String {
    let program = match (command, ir::parse(source)) {
        ("error", Err(error)) => return error.to_string(),
        ("error", Ok(_)) => return "no error".to_owned(),
        (_, Ok(program)) => program,
        (_, Err(error)) => panic!("{}:\n{error}", file.display()),
    };
    match command {
        "print" => program.to_string(),
        "verify" => match ir::verify(&program) {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        },
        "lineage" => lineage(&program),
        "stages" => {
            let mut text = String::new();
            Pipeline::standard().run_observed(&mut program.clone(), |pass, program| {
                let _ = writeln!(text, "// after {pass}\n{}", program.to_string().trim_end());
            });
            text
        }
        "optimize" => optimized(&program),
        "run" => run(&program, source, file),
        "run keyed" => run_keyed(&program, source, file),
        name => match PASSES.iter().find(|pass| pass.name() == name) {
            Some(pass) => {
                let mut changed = program.clone();
                Pipeline::of(&[*pass]).run(&mut changed);
                changed.to_string()
            }
            None => panic!("{}: there is no command `{name}`", file.display()),
        },
    }
}

/// The program after all passes, and how many temporal expressions it had and has.
pub(crate) fn optimized(program: &Program) -> String {
    let mut optimized = program.clone();
    Pipeline::standard().run(&mut optimized);
    let (before, after) = (program.temporals().count(), optimized.temporals().count());
    format!("// temporal expressions: {before} -> {after}\n{optimized}")
}

/// Halos and change points as text.
pub(crate) fn lineage(program: &Program) -> String {
    let lineage = Lineage::new(program);
    let mut text = String::new();
    for (id, input) in program.inputs() {
        let _ = match lineage.halo(id) {
            Some(halo) => writeln!(
                text,
                "~{}: lookback {}, lookahead {}",
                input.name,
                halo.lookback.display(program.unit),
                halo.lookahead.display(program.unit)
            ),
            None => writeln!(text, "~{}: not read", input.name),
        };
    }
    for (id, temporal) in program.temporals() {
        let changes = lineage.changes(id);
        let mut sources: Vec<String> = changes
            .inputs
            .iter()
            .map(|input| format!("~{}", program.streams[*input].name()))
            .collect();
        if changes.grid {
            sources.push("a grid".to_owned());
        }
        let _ = writeln!(
            text,
            "~{} changes with {}",
            temporal.name,
            sources.join(", ")
        );
    }
    text
}

/// The events of the output, one a line. They must be the same after each pass alone and after all.
fn run(program: &Program, source: &str, file: &Path) -> String {
    let inputs = parse_inputs(source, program);
    let options = Options::default();
    let events = match interp::run(program, &inputs, &options) {
        Ok(events) => events,
        Err(error) => return error.to_string(),
    };
    let alone = PASSES
        .iter()
        .map(|pass| (pass.name(), Pipeline::of(&[*pass])));
    for (name, pipeline) in alone.chain([("all passes", Pipeline::standard())]) {
        let mut changed = program.clone();
        pipeline.run(&mut changed);
        let again = interp::run(&changed, &inputs, &options)
            .unwrap_or_else(|e| panic!("{}: after {name}: {e}", file.display()));
        assert_eq!(
            format_events(&events),
            format_events(&again),
            "{}: before and after {name}",
            file.display()
        );
    }
    check_engine(program, &inputs, file);
    events
        .iter()
        .map(|event| format_events(std::slice::from_ref(event)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The same for each key, after all passes too.
fn run_keyed(program: &Program, source: &str, file: &Path) -> String {
    let inputs = parse_inputs(source, program);
    let run = |program: &Program| {
        let rows = interp::run_keyed(program, &inputs, &Options::default())
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        rows.iter()
            .map(|(key, event)| {
                let event = format_events(std::slice::from_ref(event));
                format!("{} {event}", format_value(key))
            })
            .collect::<Vec<_>>()
            .join("\n")
    };
    let mut optimized = program.clone();
    Pipeline::standard().run(&mut optimized);
    let found = run(program);
    assert_eq!(found, run(&optimized), "{}: all passes", file.display());
    check_engine(program, &inputs, file);
    found
}

/// The compiled engine gives the same, by its loops and by machine code.
fn check_engine(program: &Program, inputs: &Inputs, file: &Path) {
    let (arrays, options) = (buffers(program, inputs), Options::default());
    let expected = interp::run_buffers(program, &arrays, &options)
        .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let different = keyed::difference(program, &arrays, &options, &expected);
    assert_eq!(different, None, "{}: on the engine", file.display());
}

/// What contradicts the hand-made lines: `// expect:` events of the output, `// expect key:` one of them with its key,
/// `// lineage ~x:` its reach.
fn check_by_hand(program: &Program, source: &str, file: &Path) -> Vec<String> {
    let lines = |prefix: &str| -> Vec<&str> {
        let lines = source.lines().map(str::trim);
        lines
            .filter_map(|line| Some(line.strip_prefix(prefix)?.trim()))
            .collect()
    };
    let mut wrong = Vec::new();
    let expected = lines("// expect:");
    if !expected.is_empty() {
        let dtype = program.stream_dtype(program.output);
        let expected = format_events(&parse_events(&expected.join(" "), dtype));
        let inputs = parse_inputs(source, program);
        let found = match interp::run(program, &inputs, &Options::default()) {
            Ok(events) => format_events(&events),
            Err(error) => error.to_string(),
        };
        if found != expected {
            wrong.push(format!("  found    {found}\n  expected {expected}"));
        }
    }
    let expected = lines("// expect key:").join("\n");
    if !expected.is_empty() {
        let found = run_keyed(program, source, file);
        if found != expected {
            wrong.push(format!("  found\n{found}\n  expected\n{expected}"));
        }
    }
    let found = lineage(program);
    for line in lines("// lineage ") {
        if !found.lines().any(|l| l == line) {
            wrong.push(format!("  expected {line}, found\n{found}"));
        }
    }
    wrong
}

/// The lines that differ, for people.
pub(crate) fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let mut text = format!("  first difference at line {}\n", same + 1);
    for line in old.iter().skip(same).take(12) {
        let _ = writeln!(text, "  - {line}");
    }
    for line in new.iter().skip(same).take(12) {
        let _ = writeln!(text, "  + {line}");
    }
    text
}
