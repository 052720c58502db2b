//! Printing and parsing are inverse.

use super::{EVERYTHING, parsed};
use crate::lir::{Imm, Inst, Lanes, Loop, Node, Sink, Store, Ty, parse, verify};
use tilt_ir::{Arena, Id};

fn round_trips(text: &str) {
    assert_eq!(parsed(text).to_string(), text);
}

/// The result of `const TEXT`.
fn constant(text: &str) -> Result<Imm, String> {
    let text = format!("loop c lanes 8 {{ %0 = const {text} store %0 }}");
    let l = parse(&text).map_err(|error| error.message)?;
    match l.values[Id::new(0)].inst {
        Inst::Const(imm) => Ok(imm),
        _ => unreachable!("the loop has nothing but a constant"),
    }
}

#[test]
fn every_instruction_round_trips_and_verifies() {
    round_trips(EVERYTHING);
    verify(&parsed(EVERYTHING)).unwrap();
}

#[test]
fn every_sink_round_trips() {
    for sink in [
        "store %0",
        "store %0 if %1, %0",
        "streaming store %0",
        "scan add %0, mul %0",
        "scan backward min %0",
        "fold max %0, or %0, add %0",
        "fold backward add %0",
        "panes 4 min %0, add %0",
        "slide 15 min %0, max %0",
        "slide 8 running or %0",
        "comb max %0",
    ] {
        round_trips(&format!(
            "loop l lanes 8 {{\n  access x: i64 row nullable\n  %0 = load x\n  %1 = valid x\n  {sink}\n}}\n"
        ));
    }
    round_trips(
        "loop l lanes 8 {\n  access m: f64 range nullable\n  %0 = load m\n  fold add %0\n}\n",
    );
    round_trips("loop l lanes 1 {\n  %0 = row\n  store %0\n}\n");
    round_trips("loop l lanes 1 {\n  access y: i8 back 2 nullable\n  %0 = load y\n  store %0\n}\n");
}

#[test]
fn white_space_and_comments_mean_nothing() {
    let text = "// first\nloop l lanes 8{access x:f64 row%0=load x// why\n\tstore%0}//";
    assert_eq!(
        parsed(text).to_string(),
        "loop l lanes 8 {\n  access x: f64 row\n  %0 = load x\n  store %0\n}\n"
    );
}

#[test]
fn constants_keep_their_bits() {
    let floats = [0, 1, 0x8000_0000_0000_0000, 0x7ff0_0000_0000_0000]
        .into_iter()
        .chain([0xfff0_0000_0000_0000, 0x7ff8_0000_0000_0000])
        .chain([0xfff4_0000_0000_0001, 0x7fef_ffff_ffff_ffff])
        .chain([0.1, 1e16, 1e-7, 1.0 / 3.0, 123_456.75].map(f64::to_bits))
        .map(|bits| Imm { ty: Ty::F64, bits });
    let singles = [0, 1, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001]
        .into_iter()
        .chain([0.1f32, 16_777_216.0, f32::MAX].map(|x| u64::from(x.to_bits())))
        .map(|bits| Imm { ty: Ty::F32, bits });
    let integers = Ty::ALL
        .into_iter()
        .filter(|ty| ty.is_int())
        .flat_map(|ty| [0, 1, -1, i64::MIN, i64::MAX].map(|value| Imm::int(ty, value)));
    // What the verifier refuses is printed and read back, too.
    let malformed =
        [(Ty::Bool, 2), (Ty::I8, 200), (Ty::F32, 1 << 40)].map(|(ty, bits)| Imm { ty, bits });
    for imm in floats.chain(singles).chain(integers).chain(malformed) {
        assert_eq!(constant(&imm.to_string()), Ok(imm), "{imm}");
    }
}

#[test]
fn constants_have_one_spelling() {
    let text = |ty, bits| Imm { ty, bits }.to_string();
    assert_eq!(text(Ty::F64, 1.5f64.to_bits()), "1.5: f64");
    assert_eq!(text(Ty::F64, (-0.0f64).to_bits()), "-0.0: f64");
    assert_eq!(text(Ty::F64, 1e16f64.to_bits()), "1e16: f64");
    assert_eq!(text(Ty::F32, u64::from(0.1f32.to_bits())), "0.1: f32");
    assert_eq!(text(Ty::F64, f64::NEG_INFINITY.to_bits()), "-inf: f64");
    assert_eq!(text(Ty::F64, 0x7ff8 << 48), "bits 0x7ff8000000000000: f64");
    assert_eq!(text(Ty::I8, u64::MAX), "-1: i8");
    assert_eq!(text(Ty::Bool, 1), "true: bool");
}

#[test]
fn constants_out_of_range_are_refused() {
    for (text, ty) in [
        ("128: i8", "i8"),
        ("-1: u64", "u64"),
        ("18446744073709551616: u64", "u64"),
        ("1e999: f64", "f64"),
        ("1e39: f32", "f32"),
        ("nan: f64", "f64"),
        ("infinity: f64", "f64"),
        ("1: bool", "bool"),
        ("1.5: i64", "i64"),
        ("bits 12: f64", "f64"),
        ("bits 0x10000000000000000: u64", "u64"),
    ] {
        assert_eq!(
            constant(text),
            Err(format!("expected a constant of type {ty}")),
            "{text}"
        );
    }
}

/// The message for the text with its place.
fn error(text: &str) -> String {
    parse(text).expect_err("is wrong").to_string()
}

#[test]
fn errors_say_where_and_what_was_expected() {
    let l = |body: &str| format!("loop l lanes 8 {{\n  access x: f64 row\n  {body}\n}}");
    for (text, message) in [
        (
            String::new(),
            "error at 1:1: expected `loop`, found the end of the text",
        ),
        (
            "loop 8".into(),
            "error at 1:6: expected a name for the loop, found `8`",
        ),
        (
            "loop `l lanes".into(),
            "error at 1:6: expected a name for the loop, found ```",
        ),
        (
            "loop l lanes 4 {".into(),
            "error at 1:14: expected `1` or `8`, found `4`",
        ),
        (
            l("access x: i8 row"),
            "error at 3:10: the access `x` is declared twice",
        ),
        (
            l("param p: i8 param p: i8"),
            "error at 3:21: the parameter `p` is declared twice",
        ),
        (
            l("access y: f64 column"),
            "error at 3:17: expected how the column is read (`row`, `index`, `table`, `range`), found `column`",
        ),
        (
            l("param p: f16"),
            "error at 3:12: expected a type (`bool`, `i8`, `i16`, `i32`, `i64`, `u8`, `u16`, `u32`, `u64`, `f32`, `f64`), found `f16`",
        ),
        (
            l("%1 = load x"),
            "error at 3:3: expected `%0`: values are numbered in order, found `%1`",
        ),
        (
            l("%0 = lode x"),
            "error at 3:8: expected an instruction, found `lode`",
        ),
        (l("%0 = load y"), "error at 3:13: no access is named `y`"),
        (
            l("%0 = param x"),
            "error at 3:14: no parameter is named `x`",
        ),
        (
            l("%0 = neg %0"),
            "error at 3:12: the value `%0` is not defined before this",
        ),
        (
            l("%0 = neg x"),
            "error at 3:12: expected a value such as `%0`, found `x`",
        ),
        (
            l("%0 = load x %1 = convert %0 store %1"),
            "error at 3:31: expected `:`, found `store`",
        ),
        (
            l("%0 = load x"),
            "error at 4:1: expected a value or `store`, `scan`, `fold`, `panes`, `slide` or `comb`, found `}`",
        ),
        (
            l("%0 = load x streaming scan add %0"),
            "error at 3:25: expected `store`, found `scan`",
        ),
        (
            l("%0 = load x scan sub %0"),
            "error at 3:20: expected how to combine (`add`, `mul`, `min`, `max`, `or`), found `sub`",
        ),
        (
            l("%0 = load x store %0 }"),
            "error at 4:1: expected nothing after the loop, found `}`",
        ),
        (
            l("/* é */ £"),
            "error at 3:3: expected a value or `store`, `scan`, `fold`, `panes`, `slide` or `comb`, found `/`",
        ),
    ] {
        assert_eq!(error(&text), message);
    }
}

#[test]
fn columns_of_errors_count_characters() {
    assert_eq!(
        error("loop `é` lanes x"),
        "error at 1:16: expected `1` or `8`, found `x`"
    );
}

#[test]
fn damaged_texts_are_errors_or_other_loops() {
    for (at, c) in EVERYTHING.char_indices() {
        for damage in ["", "`", "%", "9", "é", "//", "\n", "0x"] {
            let rest = &EVERYTHING[at + c.len_utf8()..];
            if let Ok(l) = parse(&format!("{}{damage}{rest}", &EVERYTHING[..at])) {
                assert_eq!(parsed(&l.to_string()), l);
                // Whatever it says, it comes to an end.
                let _ = verify(&l);
            }
        }
    }
}

#[test]
fn loops_that_are_not_well_formed_print() {
    let mut l = Loop {
        name: String::new(),
        lanes: Lanes::Eight,
        accesses: Arena::default(),
        params: Arena::default(),
        values: Arena::default(),
        sink: Sink::Store {
            columns: vec![Store {
                value: Id::new(9),
                valid: None,
            }],
            streaming: false,
        },
    };
    for inst in [Inst::Load(Id::new(3)), Inst::Param(Id::new(4))] {
        l.values.push(Node { inst, ty: Ty::I8 });
    }
    assert_eq!(
        l.to_string(),
        "loop `` lanes 8 {\n  %0 = load <a3?>\n  %1 = param <p4?>\n  store %9\n}\n"
    );
}
