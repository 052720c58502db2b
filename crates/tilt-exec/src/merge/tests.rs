use std::{collections::HashMap, ops::Range};

use arrow_buffer::BooleanBuffer;
use tilt_data::Timeline;

use super::*;
use crate::cursor::tests::{Dice, report};

fn merge(groups: &[Group], within: Option<Span>) -> Merged {
    let mut merged = Merged::default();
    merge_into(
        groups,
        &vec![false; groups.len()],
        within,
        &Control::none(),
        &mut merged,
    );
    merged
}

/// What a group is made of.
#[derive(Debug)]
struct Recipe {
    timeline: Timeline,
    present: Option<BooleanBuffer>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Value(i64),
    Hold(i64, Option<i64>, i64),
    Window(i64, i64),
}

impl Recipe {
    fn roll(dice: &mut Dice, base: i64) -> Self {
        let timeline = dice.timeline(base, false);
        let offset = if dice.chance(2) { 0 } else { dice.roll(9) - 4 };
        let kind = match dice.roll(4) {
            0 => {
                let max_age = dice.chance(2).then(|| 1 + dice.roll(6));
                Kind::Hold(offset, max_age, base + dice.roll(40))
            }
            1 => {
                let hi = dice.roll(9) - 4;
                Kind::Window(hi - dice.roll(6), hi)
            }
            _ => Kind::Value(offset),
        };
        Self {
            present: dice.present(timeline.len()),
            timeline,
            kind,
        }
    }

    fn source(&self) -> Source<'_> {
        Source::new(&self.timeline, self.present.as_ref())
    }

    fn group<'a>(&self, source: &'a Source<'a>) -> Group<'a> {
        match self.kind {
            Kind::Value(offset) => Group::Value { source, offset },
            Kind::Hold(offset, max_age, run_end) => Group::Hold {
                source,
                offset,
                max_age,
                run_end,
            },
            Kind::Window(lo, hi) => Group::Window { source, lo, hi },
        }
    }

    /// What can be chosen at `t`, by the definition. A state of a window is the list of its events.
    fn choices(&self, t: i64) -> Vec<Vec<u32>> {
        let span = |i: u32| self.timeline.event(i as usize);
        let has_value = |i: u32| {
            let present = self.present.as_ref();
            present.is_none_or(|bits| bits.value(i as usize)) && span(i).start < span(i).end
        };
        let mut events = (0..self.timeline.len() as u32).filter(|i| has_value(*i));
        match self.kind {
            Kind::Value(offset) => events
                .filter(|i| span(*i).contains(t + offset))
                .map(|i| vec![i])
                .collect(),
            Kind::Hold(offset, max_age, run_end) => {
                let t = t + offset;
                let held = events.rfind(|i| span(*i).end <= t);
                let held = held.filter(|i| max_age.is_none_or(|age| t - span(*i).end < age));
                held.filter(|_| t <= run_end)
                    .map(|i| vec![i])
                    .into_iter()
                    .collect()
            }
            Kind::Window(lo, hi) => {
                let inside = |i: &u32| lo < hi && span(*i).start < t + hi && span(*i).end > t + lo;
                let inside: Vec<u32> = events.filter(inside).collect();
                (!inside.is_empty()).then_some(inside).into_iter().collect()
            }
        }
    }
}

/// A choice from each group; `None` is φ.
type Combination = Vec<Option<Vec<u32>>>;

/// The combinations available at `t`.
fn available(recipes: &[Recipe], t: i64) -> Vec<Combination> {
    let mut all: Vec<Combination> = vec![Vec::new()];
    for recipe in recipes {
        let mut choices: Vec<_> = recipe.choices(t).into_iter().map(Some).collect();
        if choices.is_empty() {
            choices.push(None);
        }
        let longer = all.iter().flat_map(|combination| {
            let longer = |choice| combination.iter().cloned().chain([choice]).collect();
            choices.iter().cloned().map(longer)
        });
        all = longer.collect();
    }
    all.retain(|combination| combination.iter().any(Option::is_some));
    all
}

/// The events by the definition, instant by instant: start, end, choices with φ last and windows reduced to whether they
/// hold anything.
fn define(recipes: &[Recipe], instants: Range<i64>) -> Vec<(i64, i64, Vec<u32>)> {
    let mut begun: HashMap<Combination, i64> = HashMap::new();
    let mut events = Vec::new();
    for t in instants {
        let now = available(recipes, t);
        begun.retain(|combination, start| {
            let goes_on = now.contains(combination);
            if !goes_on {
                events.push((*start, t - 1, reduce(recipes, combination)));
            }
            goes_on
        });
        for combination in now {
            begun.entry(combination).or_insert(t - 1);
        }
    }
    assert!(begun.is_empty(), "everything ends");
    events.sort_by_key(|(_, end, choices)| (*end, choices.clone()));
    events
}

fn reduce(recipes: &[Recipe], combination: &Combination) -> Vec<u32> {
    let reduced = |(recipe, choice): (&Recipe, &Option<Vec<u32>>)| match (&recipe.kind, choice) {
        (_, None) => NONE,
        (Kind::Window(..), Some(_)) => 0,
        (_, Some(choice)) => choice[0],
    };
    recipes.iter().zip(combination).map(reduced).collect()
}

/// As [`define`] gives events.
fn listed(recipes: &[Recipe], merged: &Merged) -> Vec<(i64, i64, Vec<u32>)> {
    assert!(merged.choices.iter().all(|c| c.len() == merged.ends.len()));
    assert_eq!(merged.starts.len(), merged.ends.len());
    (0..merged.ends.len())
        .map(|event| {
            let choice = |(recipe, choices): (&Recipe, &Vec<u32>)| match recipe.kind {
                Kind::Window(..) if choices[event] != NONE => 0,
                _ => choices[event],
            };
            let choices = recipes.iter().zip(&merged.choices).map(choice).collect();
            (merged.starts[event], merged.ends[event], choices)
        })
        .collect()
}

#[test]
fn events_are_those_of_the_definition() {
    let mut dice = Dice(11);
    let mut merged = Merged::default();
    for round in 0..3_000 {
        let count = [1, 2, 2, 2, 3, 3, 4][round % 7];
        let recipes: Vec<Recipe> = (0..count).map(|_| Recipe::roll(&mut dice, 0)).collect();
        let sources: Vec<Source> = recipes.iter().map(Recipe::source).collect();
        let groups: Vec<Group> = recipes
            .iter()
            .zip(&sources)
            .map(|(recipe, source)| recipe.group(source))
            .collect();
        let expected = define(&recipes, -20..60);
        assert_eq!(
            listed(&recipes, &merge(&groups, None)),
            expected,
            "{recipes:?}"
        );
        for _ in 0..3 {
            let start = dice.roll(50) - 15;
            let part = Span::new(start, start + dice.roll(15));
            let required: Vec<bool> = groups.iter().map(|_| dice.chance(2)).collect();
            let inside = expected.iter().filter(|event| part.contains(event.1));
            let inside = inside.filter(|event| is_wanted(event.2.iter().copied(), &required));
            let inside: Vec<_> = inside.cloned().collect();
            let none = &Control::none();
            merge_into(&groups, &required, Some(part), none, &mut merged);
            let found = listed(&recipes, &merged);
            assert_eq!(found, inside, "{part} {required:?} {recipes:?}");
        }
    }
}

#[test]
fn the_states_of_a_window_are_numbered_in_order() {
    let timeline = Timeline::intervals(vec![0, 3, 3].into(), vec![2, 5, 9].into());
    let source = Source::new(&timeline, None);
    let merged = merge(
        &[Group::Window {
            source: &source,
            lo: -2,
            hi: 0,
        }],
        None,
    );
    assert_eq!(merged.starts, [0, 3, 6]);
    assert_eq!(merged.ends, [3, 6, 10]);
    assert_eq!(merged.choices, [[0, 1, 2]]);
}

#[test]
fn all_ways_agree_at_the_ends_of_time() {
    let whole = Span::new(i64::MIN, i64::MAX);
    let mut dice = Dice(12);
    for round in 0..30_000 {
        let base = [i64::MIN + 12, i64::MAX - 42, 0][round % 3];
        let mut recipes: Vec<Recipe> = (0..2).map(|_| Recipe::roll(&mut dice, base)).collect();
        for recipe in &mut recipes {
            let far = [i64::MIN, i64::MAX, base, -20, 20][dice.roll(5) as usize];
            match &mut recipe.kind {
                Kind::Value(offset) => *offset = far,
                Kind::Hold(offset, ..) => *offset = far,
                Kind::Window(lo, hi) => {
                    *hi = far;
                    *lo = far.saturating_sub(dice.roll(9));
                }
            }
        }
        let sources: Vec<Source> = recipes.iter().map(Recipe::source).collect();
        let groups: Vec<Group> = recipes
            .iter()
            .zip(&sources)
            .map(|(recipe, source)| recipe.group(source))
            .collect();
        let tracks: Vec<Track> = groups.iter().map(|group| group.track(whole)).collect();
        let merged = merge(&groups, None);
        let none = vec![false; tracks.len()];
        assert_eq!(
            merged,
            intersect(&tracks, &none, whole, &Control::none()),
            "{recipes:?}"
        );
        if tracks.iter().all(|track| track.disjoint) {
            let mut swept = Merged::default();
            swept.reset(2);
            sweep(&tracks, &none, whole, &Control::none(), &mut swept);
            assert_eq!(merged, swept, "{recipes:?}");
        }
        let both = listed(&recipes, &merged).into_iter();
        let both: Vec<_> = both.filter(|event| !event.2.contains(&NONE)).collect();
        let mut met = Merged::default();
        merge_into(&groups, &[true; 2], None, &Control::none(), &mut met);
        assert_eq!(listed(&recipes, &met), both, "{recipes:?}");
        let end = merged.ends.get(merged.ends.len() / 2).copied();
        let part = Span::new(end.map_or(0, |end| end.saturating_sub(3)), end.unwrap_or(9));
        let expected: Vec<_> = (listed(&recipes, &merged).into_iter())
            .filter(|event| part.contains(event.1))
            .collect();
        let found = listed(&recipes, &merge(&groups, Some(part)));
        assert_eq!(found, expected, "{part} {recipes:?}");
    }
}

#[test]
fn long_tracks_that_are_both_required_meet() {
    let mut dice = Dice(13);
    for round in 0..300 {
        let mut timeline = |gaps: i64, longest: i64| {
            let mut t = dice.roll(50);
            let mut interval = |_| {
                let start = t + if dice.chance(3) { dice.roll(gaps) } else { 0 };
                t = start + 1 + dice.roll(longest);
                (start, t)
            };
            let (starts, ends): (Vec<_>, Vec<_>) = (0..400).map(&mut interval).unzip();
            Timeline::intervals(starts.into(), ends.into())
        };
        let (a, b) = (timeline(5, 9), timeline(1 + round % 30, 1 + round % 50));
        let (a, b) = (Source::new(&a, None), Source::new(&b, None));
        let groups = [&a, &b].map(|source| Group::Value { source, offset: 0 });
        let part = Span::new(dice.roll(900), 900 + dice.roll(900));
        for within in [None, Some(part)] {
            let all = merge(&groups, within);
            let both = |i: &usize| all.choices.iter().all(|choices| choices[*i] != NONE);
            let both: Vec<usize> = (0..all.ends.len()).filter(both).collect();
            let mut met = Merged::default();
            merge_into(&groups, &[true; 2], within, &Control::none(), &mut met);
            assert_eq!(met, all.gather(&both), "round {round}, {within:?}");
        }
    }
}

/// Run with `cargo test --release -p tilt-exec -- --ignored --nocapture speed`.
#[test]
#[ignore = "measures: a test must not fail because the machine is busy"]
fn speed_of_merging() {
    const ROWS: usize = 4 << 20;
    let mut dice = Dice(13);
    let mut intervals = |gap: i64| {
        let mut t = 0;
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..ROWS {
            t += if gap > 0 { dice.roll(gap) } else { 0 };
            starts.push(t);
            t += 1 + dice.roll(100);
            ends.push(t);
        }
        Timeline::intervals(starts.into(), ends.into())
    };
    let (a, b) = (intervals(0), intervals(0));
    let (c, d) = (intervals(100), intervals(100));
    for (name, a, b) in [("contiguous", &a, &b), ("with gaps", &c, &d)] {
        let (a, b) = (Source::new(a, None), Source::new(b, None));
        let value = |source, offset| Group::Value { source, offset };
        let hold = Group::Hold {
            source: &b,
            offset: 0,
            max_age: None,
            run_end: i64::MAX,
        };
        let window = Group::Window {
            source: &b,
            lo: -300,
            hi: 0,
        };
        for (kind, groups) in [
            ("two", vec![value(&a, 0), value(&b, 0)]),
            ("shifted", vec![value(&a, 0), value(&a, -70)]),
            ("three", vec![value(&a, 0), value(&b, 0), value(&b, 30)]),
            ("hold", vec![value(&a, 0), hold]),
            ("window", vec![value(&a, 0), window]),
        ] {
            let begun = std::time::Instant::now();
            let events = merge(&groups, None).ends.len();
            report(&format!("{name} {kind} at once, an event"), events, begun);
            let mut merged = Merged::default();
            let best = (0..100).map(|part| {
                let part = Span::new(part << 18, (part + 1) << 18);
                let begun = std::time::Instant::now();
                merge_into(
                    &groups,
                    &[false; 8][..groups.len()],
                    Some(part),
                    &Control::none(),
                    &mut merged,
                );
                let events = std::hint::black_box(&merged).ends.len();
                begun.elapsed().as_secs_f64() * 1e9 / events as f64
            });
            let best = best.fold(f64::INFINITY, f64::min);
            println!("{name} {kind} in parts, at best {best:.2} ns");
        }
    }
}
