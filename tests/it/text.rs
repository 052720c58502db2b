//! Events as text, for golden files and for failures that can be pasted: `(0,5]=1 (5,10]=null 12="a" 13={1.5, null}`.
//! A bare instant is a point. Values are read by the type of their stream.

use std::{fmt::Write, iter::Peekable, str::Chars};

use tilt::{
    interp::{Event, Inputs, Value},
    ir::{DType, OPEN, Program},
};

/// Reads the events of a stream of type `dtype`.
pub(crate) fn parse_events(text: &str, dtype: &DType) -> Vec<Event> {
    let mut reader = Reader {
        chars: text.chars().peekable(),
        text,
    };
    let mut events = Vec::new();
    while reader.peek().is_some() {
        events.push(reader.event(dtype));
    }
    events
}

/// Writes events so that [`parse_events`] reads them back.
pub(crate) fn format_events(events: &[Event]) -> String {
    let texts: Vec<String> = events.iter().map(format_event).collect();
    texts.join(" ")
}

fn format_event(event: &Event) -> String {
    let end = match event.end {
        OPEN => "open".to_owned(),
        end => end.to_string(),
    };
    format!("({},{end}]={}", event.start, format_value(&event.value))
}

/// A value as it is written in event lists.
pub(crate) fn format_value(value: &Value) -> String {
    let list = |items: &[Value]| {
        let items: Vec<String> = items.iter().map(format_value).collect();
        items.join(", ")
    };
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(v) => v.to_string(),
        Value::Int(v) => v.to_string(),
        Value::UInt(v) => v.to_string(),
        Value::Float(v) if v.is_nan() => "nan".to_owned(),
        Value::Float(v) => format!("{v:?}"),
        Value::Str(v) => format!("{v:?}"),
        Value::Record(fields) => format!("{{{}}}", list(fields)),
        Value::List(items) => format!("[{}]", list(items)),
    }
}

/// The lines `// input ~x: …` of a file, read by the types of the program's inputs. Inputs without a line are empty.
pub(crate) fn parse_inputs(text: &str, program: &Program) -> Inputs {
    program
        .inputs()
        .map(|(_, input)| {
            let prefix = format!("// input ~{}:", input.name);
            let events = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix(&prefix))
                .flat_map(|line| parse_events(line, &input.dtype))
                .collect();
            (input.name.clone(), events)
        })
        .collect()
}

/// Inputs as lines that [`parse_inputs`] reads back.
pub(crate) fn format_inputs(inputs: &Inputs) -> String {
    inputs
        .iter()
        .fold(String::new(), |mut text, (name, events)| {
            let _ = writeln!(text, "// input ~{name}: {}", format_events(events));
            text
        })
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    text: &'a str,
}

impl Reader<'_> {
    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
        self.chars.peek().copied()
    }

    fn eat(&mut self, expected: char) {
        let found = self.peek();
        assert_eq!(found, Some(expected), "in the events `{}`", self.text);
        self.chars.next();
    }

    fn word(&mut self) -> String {
        self.peek();
        let mut word = String::new();
        while let Some(c) = self
            .chars
            .next_if(|c| c.is_alphanumeric() || "+-._".contains(*c))
        {
            word.push(c);
        }
        word
    }

    fn instant(&mut self) -> i64 {
        match self.word().as_str() {
            "open" => OPEN,
            word => word
                .parse()
                .unwrap_or_else(|_| panic!("`{word}` is no instant in `{}`", self.text)),
        }
    }

    fn event(&mut self, dtype: &DType) -> Event {
        let (start, end) = if self.peek() == Some('(') {
            self.eat('(');
            let start = self.instant();
            self.eat(',');
            let end = self.instant();
            self.eat(']');
            (start, end)
        } else {
            let at = self.instant();
            (at - 1, at)
        };
        self.eat('=');
        let value = self.value(dtype);
        Event { start, end, value }
    }

    fn value(&mut self, dtype: &DType) -> Value {
        match (self.peek(), dtype) {
            (Some('"'), _) => self.string(),
            (Some('{'), DType::Record(fields)) => {
                self.eat('{');
                let mut values = Vec::new();
                for (i, field) in fields.iter().enumerate() {
                    if i > 0 {
                        self.eat(',');
                    }
                    values.push(self.value(&field.dtype));
                }
                self.eat('}');
                Value::record(values)
            }
            (Some('['), DType::List(item)) => {
                self.eat('[');
                let mut values = Vec::new();
                while self.peek() != Some(']') {
                    if !values.is_empty() {
                        self.eat(',');
                    }
                    values.push(self.value(item));
                }
                self.eat(']');
                Value::list(values)
            }
            _ => self.scalar(dtype),
        }
    }

    fn scalar(&mut self, dtype: &DType) -> Value {
        let word = self.word();
        let bad = || -> ! { panic!("`{word}` is no {dtype} in `{}`", self.text) };
        match (word.as_str(), dtype) {
            ("null", _) => Value::Null,
            (word, DType::Bool) => Value::Bool(word.parse().unwrap_or_else(|_| bad())),
            ("nan", DType::Float(_)) => Value::Float(f64::NAN),
            (word, DType::Float(_)) => Value::Float(word.parse().unwrap_or_else(|_| bad())),
            (word, DType::UInt(_)) => Value::UInt(word.parse().unwrap_or_else(|_| bad())),
            (word, DType::Int(_) | DType::Timestamp(_) | DType::Duration(_)) => {
                Value::Int(word.parse().unwrap_or_else(|_| bad()))
            }
            _ => bad(),
        }
    }

    fn string(&mut self) -> Value {
        self.eat('"');
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some('"') => return Value::Str(text.into()),
                Some('\\') => match self.chars.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('0') => text.push('\0'),
                    Some('u') => {
                        self.chars.next();
                        let code: String = self.chars.by_ref().take_while(|c| *c != '}').collect();
                        let code = u32::from_str_radix(&code, 16).ok();
                        text.extend(code.and_then(char::from_u32));
                    }
                    Some(c) => text.push(c),
                    None => panic!("a string does not end in `{}`", self.text),
                },
                Some(c) => text.push(c),
                None => panic!("a string does not end in `{}`", self.text),
            }
        }
    }
}
