//! Numbers as small inline pictures with their range in words.

use std::fmt::Write;

use super::sample::{Numbers, Share};

const WIDTH: usize = 120;
const HEIGHT: usize = 22;
const BARS: usize = 24;

/// The distribution of the numbers as a picture, their range, and how many are no numbers that have a place in it.
/// `name` says what they are, where it isn't plain, `partial` that there are more than these.
pub(super) fn picture(numbers: &Numbers, name: &str, partial: bool) -> String {
    let about = format!("{}{name}", if partial { "≈ " } else { "" });
    match numbers {
        Numbers::Bools(values) => {
            let mut share = Share::default();
            values.iter().for_each(|value| share.add(*value));
            if share.of == 0 {
                return String::new();
            }
            let text = format!("{about}{} true", percent(share));
            let width = (WIDTH as u64 * share.count).div_ceil(share.of);
            let path = format!("<path opacity=\".25\" d=\"M0 7h{WIDTH}v8H0z\"/><path d=\"M0 7h{width}v8H0z\"/>");
            format!("{} <span>{text}</span>", svg(&path, &format!("{} of {} true", share.count, share.of)))
        }
        Numbers::Ints(values) => {
            let (Some(min), Some(max)) = (values.iter().min(), values.iter().max()) else {
                return String::new();
            };
            // As i128, since the range can be wider than i64.
            let range = i128::from(*max) - i128::from(*min) + 1;
            let bars = range.min(BARS as i128);
            let bar = |value: &i64| (i128::from(*value) - i128::from(*min)) * bars / range;
            let bars = count(values.iter().map(|value| bar(value) as usize), bars as usize);
            range_of(&bars, values.len(), &about, &min.to_string(), &max.to_string())
        }
        Numbers::Floats(values) => {
            let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
            let mut text = Vec::new();
            if !finite.is_empty() {
                let (min, max) =
                    finite.iter().fold((f64::MAX, f64::MIN), |(min, max), value| (value.min(min), value.max(max)));
                // In halves, since the range can be wider than f64.
                let range = max / 2.0 - min / 2.0;
                let bar = |value: &f64| match (value / 2.0 - min / 2.0) / range {
                    at if at.is_finite() => ((at * BARS as f64) as usize).min(BARS - 1),
                    _ => 0,
                };
                let bars = count(finite.iter().map(bar), if range > 0.0 { BARS } else { 1 });
                text.push(range_of(&bars, finite.len(), &about, &float(min), &float(max)));
            }
            for (name, is) in [
                ("NaN", (|value| value.is_nan()) as fn(&f64) -> bool),
                ("inf", |value| *value == f64::INFINITY),
                ("-inf", |value| *value == f64::NEG_INFINITY),
            ] {
                let mut share = Share::default();
                values.iter().for_each(|value| share.add(is(value)));
                match share.count {
                    0 => {}
                    _ if partial => text.push(format!("<span>≈ {} {name}</span>", percent(share))),
                    count => text.push(format!("<span>{} {name}</span>", grouped(count))),
                }
            }
            text.join(" ")
        }
    }
}

fn count(places: impl Iterator<Item = usize>, bars: usize) -> Vec<usize> {
    let mut counts = vec![0; bars.max(1)];
    for place in places {
        if let Some(count) = counts.get_mut(place) {
            *count += 1;
        }
    }
    counts
}

fn range_of(bars: &[usize], count: usize, about: &str, min: &str, max: &str) -> String {
    if min == max {
        return format!("<span>{about}all {min}</span>");
    }
    let highest = bars.iter().copied().max().unwrap_or(1).max(1);
    let mut path = String::from("<path d=\"");
    for (at, bar) in bars.iter().enumerate().filter(|(_, bar)| **bar > 0) {
        // Whole numbers keep it short; a bar is seen however low it is.
        let (left, right) = (at * WIDTH / bars.len(), (at + 1) * WIDTH / bars.len() - 1);
        let top = HEIGHT - (bar * HEIGHT).div_ceil(highest);
        let _ = write!(path, "M{left} {HEIGHT}V{top}H{right}V{HEIGHT}z");
    }
    path.push_str("\"/>");
    let picture = svg(&path, &format!("histogram of {} numbers from {min} to {max}", grouped(count as u64)));
    format!("{picture} <span>{about}{min} … {max}</span>")
}

/// In the colour of the text, which fits any background that the text does.
fn svg(paths: &str, label: &str) -> String {
    format!(
        "<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" fill=\"currentColor\" role=\"img\" \
         aria-label=\"{label}\"><title>{label}</title>{paths}</svg>"
    )
}

/// Four significant digits, or more where a whole number has them.
pub(super) fn float(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (value.trunc() == value && size < 1e6) {
        return format!("{value:.0}");
    }
    if !(1e-4..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    // The digits before the point count too.
    let digits = (3.0 - size.log10().floor()).max(0.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// One digit after the point; what is neither none nor all never reads as if it were.
pub(super) fn percent(share: Share) -> String {
    match share.count as f64 / share.of.max(1) as f64 * 100.0 {
        part if part > 0.0 && part < 0.1 => "&lt;0.1%".to_owned(),
        part if part > 99.9 && part < 100.0 => "&gt;99.9%".to_owned(),
        part => format!("{}%", format!("{part:.1}").trim_end_matches(".0")),
    }
}

/// With a comma between thousands.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_short() {
        let floats = [0.1f32 as f64, 1.0, -2.0, 123.456, 0.00012345, 1e9, 99999.5, -0.0, 1e-9, f64::MAX];
        let shown: Vec<_> = floats.iter().map(|value| float(*value)).collect();
        assert_eq!(shown, ["0.1", "1", "-2", "123.5", "0.0001234", "1.000e9", "100000", "-0", "1.000e-9", "1.798e308"]);
        assert_eq!([0, 999, 1000, 1234567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let share = |count, of| percent(Share { count, of });
        assert_eq!(
            [share(0, 3), share(1, 3), share(1, 5000), share(4999, 5000), share(3, 3), share(0, 0)],
            ["0%", "33.3%", "&lt;0.1%", "&gt;99.9%", "100%", "0%"]
        );
    }

    #[test]
    fn ranges_as_wide_as_the_type_have_bars() {
        let ints = picture(&Numbers::Ints(vec![i64::MIN, 0, i64::MAX]), "", false);
        assert!(ints.contains("-9223372036854775808 … 9223372036854775807"), "{ints}");
        assert_eq!(ints.matches("V22z").count(), 3);
        let floats = picture(&Numbers::Floats(vec![f64::MIN, f64::MAX, f64::NAN, f64::INFINITY]), "", false);
        assert!(floats.contains("-1.798e308 … 1.798e308"), "{floats}");
        assert!(floats.ends_with("<span>1 NaN</span> <span>1 inf</span>"), "{floats}");
        // The smallest number there is: half of it is none.
        assert!(picture(&Numbers::Floats(vec![0.0, f64::from_bits(1)]), "", false).contains("0 … 4.941e-324"));
        assert_eq!(picture(&Numbers::Ints(vec![7, 7]), "", true), "<span>≈ all 7</span>");
        assert_eq!(picture(&Numbers::Bools(vec![]), "", false), "");
    }
}
