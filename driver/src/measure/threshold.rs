//! Conditions under which a run fails (`--fail 'p99>200ms'`), and what a summary says of them.

use super::losses::{kinds, percent, total};
use crate::nearest::hint;
use crate::units::{parse_share, parse_time};
use serde_json::{json, Value};

const TIMES: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "p999", "max"];
const MEASURES: [&str; 10] = ["mean", "p50", "p90", "p95", "p99", "p999", "max", "errors", "dropped", "throughput"];
const EXAMPLES: &str = "write p99>200ms, errors>0.1% or throughput<100";

/// The run fails when `measure` is beyond `bound`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// As it was given, without spaces.
    text: String,
    measure: &'static str,
    /// Milliseconds, a share, or transactions a second.
    bound: f64,
    /// Whether the bound itself fails, too.
    inclusive: bool,
}

impl Threshold {
    /// Of `p99>200ms`, `errors>0.1%`, `dropped>=1%` or `throughput<100`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text: String = text.split_whitespace().collect();
        let Some(at) = text.find(['>', '<']) else {
            return Err(format!("no condition such as p99>200ms: {EXAMPLES}"));
        };
        let (word, sign) = (&text[..at], &text[at..=at]);
        let inclusive = text[at + 1..].starts_with('=');
        let value = &text[at + 1 + usize::from(inclusive)..];
        let word = if word == "p99.9" { "p999" } else { word };
        let Some(measure) = MEASURES.into_iter().find(|name| *name == word) else {
            return Err(format!("`{word}` is not measured{}", hint(word, &MEASURES)));
        };
        let fails = if measure == "throughput" { "<" } else { ">" };
        if sign != fails {
            return Err(format!("it names what fails the run, not what is wanted: write {measure}{fails}{value}"));
        }
        let bound = match unit(measure) {
            "ms" => parse_time(value)? as f64 / 1e6,
            "share" => parse_share(value)?,
            _ => match value.strip_suffix("/s").unwrap_or(value).parse::<f64>() {
                Ok(rate) if rate.is_finite() && rate >= 0.0 => rate,
                _ => return Err(format!("`{value}` is no number of transactions a second: write throughput<100")),
            },
        };
        Ok(Threshold { measure, bound, inclusive, text })
    }

    /// Whether it is about this measure.
    pub fn is_of(&self, measure: &str) -> bool {
        self.measure == measure
    }

    /// What was measured and whether the run keeps the threshold, as it stands in a verdict. What was not measured, or
    /// is only known to be at least so long, does not show that it is kept.
    pub fn judge(&self, summary: &Value) -> Value {
        let all = &summary["steady"]["all"];
        let count = |key: &str| summary[key].as_u64().unwrap_or(0);
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let value = match self.measure {
            "errors" => share(total(summary, "failed"), total(summary, "ok") + total(summary, "failed")),
            "dropped" => share(count("dropped"), count("arrivals_planned")).or(Some(0.0)),
            "throughput" => all["per_second"].as_f64(),
            name => all["response_ms"][name].as_f64(),
        };
        let at_least = TIMES.contains(&self.measure)
            && all["response_at_least"].as_array().into_iter().flatten().any(|name| name == self.measure);
        let beyond = |value: f64| match self.measure {
            _ if self.inclusive && value == self.bound => true,
            "throughput" => value < self.bound,
            _ => value > self.bound,
        };
        let mut found = json!({
            "condition": self.text,
            "measure": self.measure,
            "unit": unit(self.measure),
            "bound": self.bound,
            "value": value,
            "kept": value.is_some_and(|value| !beyond(value) && !at_least),
        });
        if at_least {
            found["at_least"] = json!(true);
        }
        found
    }
}

/// A sentence for what `Threshold::judge` found.
pub fn sentence(judged: &Value, summary: &Value) -> String {
    let text = |key: &str| judged[key].as_str().unwrap_or_default();
    let (measure, condition) = (text("measure"), text("condition"));
    let Some(value) = judged["value"].as_f64() else {
        return format!("{measure} was not measured, so nobody knows whether {condition} (--fail)");
    };
    let least = if judged["at_least"] == true { "at least " } else { "" };
    let amount = match text("unit") {
        "ms" if value < 10.0 => format!("is {least}{value:.2} ms"),
        "ms" => format!("is {least}{value:.1} ms"),
        "share" if measure == "errors" && value > 0.0 => format!("are {} ({})", percent(value), kinds(summary)),
        "share" if measure == "errors" => format!("are {}", percent(value)),
        "share" => format!("arrivals are {}", percent(value)),
        _ => format!("is {value:.1} transactions/s"),
    };
    format!("{measure} {amount} (--fail {condition})")
}

fn unit(measure: &str) -> &'static str {
    match measure {
        "errors" | "dropped" => "share",
        "throughput" => "per_second",
        _ => "ms",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Value {
        json!({
            "total": {"a": {"ok": 98, "failed": 2}},
            "steady": {"all": {
                "per_second": 50.0, "response_ms": {"p50": 2.5, "p99": 200.0, "max": 900.0, "p999": null},
                "response_at_least": ["max"],
            }},
            "errors": {"reset": 2}, "arrivals_planned": 0, "dropped": 0,
        })
    }

    fn judged(text: &str) -> (bool, String) {
        let found = Threshold::parse(text).expect(text).judge(&summary());
        (found["kept"] == true, sentence(&found, &summary()))
    }

    #[test]
    fn what_is_beyond_fails() {
        for (text, kept, said) in [
            ("p99>200ms", true, "p99 is 200.0 ms (--fail p99>200ms)"),
            ("p99 >= 0.2s", false, "p99 is 200.0 ms (--fail p99>=0.2s)"),
            ("p50>2ms", false, "p50 is 2.50 ms (--fail p50>2ms)"),
            ("max>2s", false, "max is at least 900.0 ms (--fail max>2s)"),
            ("p99.9>1s", false, "p999 was not measured, so nobody knows whether p99.9>1s (--fail)"),
            ("errors>0.1%", false, "errors are 2 % (reset 2) (--fail errors>0.1%)"),
            ("errors>0.02", true, "errors are 2 % (reset 2) (--fail errors>0.02)"),
            ("dropped>0%", true, "dropped arrivals are 0 % (--fail dropped>0%)"),
            ("throughput<50", true, "throughput is 50.0 transactions/s (--fail throughput<50)"),
            ("throughput<60/s", false, "throughput is 50.0 transactions/s (--fail throughput<60/s)"),
        ] {
            assert_eq!(judged(text), (kept, said.to_string()));
        }
    }

    #[test]
    fn every_mistake_has_its_message() {
        for (text, part) in [
            ("p99", "no condition such as p99>200ms: write p99>200ms, errors>0.1%"),
            ("p99=200ms", "no condition"),
            ("p98>200ms", "`p98` is not measured; did you mean `p9"),
            ("eror>1%", "did you mean `errors`?"),
            ("p99<200ms", "names what fails the run, not what is wanted: write p99>200ms"),
            ("throughput>100", "write throughput<100"),
            ("p99>200", "`200` has no unit: write 200ms or 200s"),
            ("p99>fast", "unknown unit `fast`"),
            ("errors>2", "`2` is not a share such as 1% or 0.01"),
            ("throughput<many", "`many` is no number of transactions a second"),
        ] {
            let error = Threshold::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
