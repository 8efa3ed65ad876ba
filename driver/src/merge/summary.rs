//! summary.json of several drivers as one: counts added, latencies from the added histograms, any limit is a limit.

use super::part::Part;
use crate::measure::slice::PerTransaction;
use crate::measure::summary::{judge_limit, latency, of_all, transaction};
use crate::measure::whole::Steady;
use serde_json::{json, Map, Value};

/// The least comes first: what all drivers had.
const SCHEDULING: [&str; 3] = ["normal", "raised", "realtime"];
/// Messages of a kind of error.
const SAMPLES: usize = 3;

/// Parts of different versions, scenarios, arrivals or seeds do not belong together.
pub fn check_same(parts: &[Part]) -> Result<(), String> {
    let first = &parts[0];
    for part in &parts[1..] {
        for what in ["version", "scenario", "arrivals", "seed"] {
            if comparable(&part.document[what]) != comparable(&first.document[what]) {
                return Err(format!("driver {} had another {what} than driver {}", part.name, first.name));
            }
        }
    }
    Ok(())
}

/// Without the path of a recording, which is another on every host.
fn comparable(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_object_mut() {
        map.remove("replay");
    }
    value
}

/// Adds what the summaries count of each transaction in the steady phase.
pub fn add_counts(parts: &[Part], names: &[String], transactions: &mut [PerTransaction]) -> Result<(), String> {
    for part in parts {
        let stated = &part.document["steady"]["transactions"];
        for (name, sum) in names.iter().zip(&mut *transactions).filter(|(name, _)| stated.get(name).is_some()) {
            let count = |key: &str| part.count(&format!("/steady/transactions/{}/{key}", escaped(name)));
            sum.counts.ok += count("ok")?;
            sum.counts.failed += count("failed")?;
            sum.counts.skipped += count("skipped")?;
            sum.unanswered += count("unanswered")?;
            let from = stated[name]["unanswered_from_ns"].as_u64();
            sum.unanswered_from = [sum.unanswered_from, from].into_iter().flatten().min();
            for (at, known) in sum.censored_from.iter_mut().enumerate() {
                let from = stated[name]["censored_from_ns"][at].as_u64();
                *known = [*known, from].into_iter().flatten().min();
            }
        }
    }
    Ok(())
}

/// As a step of a JSON pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

pub fn merged(parts: &[Part], names: &[String], steady: &Steady<'_>) -> Result<Value, String> {
    let documents: Vec<&Value> = parts.iter().map(|part| &part.document).collect();
    let first = documents[0];
    let length = greatest(parts, "/steady/duration_s")?;
    let mut all = PerTransaction::default();
    let mut transactions = Map::new();
    for (name, part) in names.iter().zip(steady.transactions) {
        all.add(part);
        transactions.insert(name.clone(), transaction(part, length));
    }
    let mut found = in_common(&documents);
    found.remove("share");
    found.remove("verdict"); // of a part: the whole is judged anew
    found.insert("completed".into(), json!(documents.iter().all(|document| document["completed"] == true)));
    for key in ["url", "arrivals", "phases"] {
        found.insert(key.into(), parts[0].value(&format!("/{key}"))?.clone());
    }
    found["phases"]["drained"] = json!(greatest(parts, "/phases/drained")?);
    let dropped = parts.iter().map(|part| part.count("/steady/all/dropped")).sum::<Result<u64, String>>()?;
    let all_of_them = of_all(&all, length, dropped);
    let steady_phase = json!({"duration_s": length, "transactions": transactions, "all": all_of_them});
    found.insert("steady".into(), steady_phase);
    for key in ["total", "requests", "errors", "statuses", "arrivals_planned", "arrivals_actual", "dropped"] {
        let values = parts.iter().map(|part| part.value(&format!("/{key}"))).collect::<Result<Vec<_>, _>>()?;
        found.insert(key.into(), sum(&values));
    }
    found.insert("silence".into(), silence(&documents));
    found.insert("error_samples".into(), samples(&documents));
    found.insert("blocked_ms".into(), latency(&all.blocked));
    found.insert("connect_ms".into(), latency(&all.connect));
    found.insert("driver".into(), driver(parts, steady)?);
    found.insert("littles_law".into(), littles_law(&documents));
    if let Some(limits) = first["limits"].as_array() {
        found.insert("limits".into(), limits.iter().map(|l| limit(l, names, steady)).collect());
    }
    Ok(Value::Object(found))
}

/// What all of them say.
fn in_common(values: &[&Value]) -> Map<String, Value> {
    let entries = values[0].as_object().into_iter().flatten();
    let same = entries.filter(|(key, value)| values.iter().all(|other| other.get(key) == Some(value)));
    same.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Numbers added, key by key, at any depth.
fn sum(values: &[&Value]) -> Value {
    if values[0].is_object() {
        let mut found = Map::new();
        for (key, _) in values.iter().filter_map(|value| value.as_object()).flatten() {
            if !found.contains_key(key) {
                let parts: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
                found.insert(key.clone(), sum(&parts));
            }
        }
        return Value::Object(found);
    }
    match values.iter().map(|value| value.as_u64()).sum::<Option<u64>>() {
        Some(count) => json!(count),
        None => json!(values.iter().filter_map(|value| value.as_f64()).sum::<f64>()),
    }
}

fn greatest(parts: &[Part], pointer: &str) -> Result<f64, String> {
    let values = parts.iter().map(|part| Ok::<_, String>(part.value(pointer)?.as_f64().unwrap_or(0.0)));
    values.collect::<Result<Vec<f64>, _>>().map(|values| values.into_iter().fold(0.0, f64::max))
}

/// Since the last success of any; the longest before it is at most that of each.
fn silence(documents: &[&Value]) -> Value {
    let least = |key: &str| documents.iter().filter_map(|document| document["silence"][key].as_f64()).reduce(f64::min);
    let unanswered = documents.iter().filter_map(|document| document["silence"]["unanswered"].as_u64());
    json!({
        "seconds": least("seconds"),
        "unanswered": unanswered.sum::<u64>(),
        "longest_before_s": least("longest_before_s"),
    })
}

fn samples(documents: &[&Value]) -> Value {
    let mut found: Map<String, Value> = Map::new();
    for (kind, texts) in documents.iter().filter_map(|document| document["error_samples"].as_object()).flatten() {
        let known = found.entry(kind).or_insert(json!([]));
        if let (Some(known), Some(texts)) = (known.as_array_mut(), texts.as_array()) {
            known.extend(texts.iter().take(SAMPLES.saturating_sub(known.len())).cloned());
        }
    }
    Value::Object(found)
}

fn driver(parts: &[Part], steady: &Steady<'_>) -> Result<Value, String> {
    let own: Vec<&Value> = parts.iter().map(|part| part.value("/driver")).collect::<Result<_, _>>()?;
    let mut found = in_common(&own);
    for key in ["cpu_user_s", "cpu_system_s"] {
        found.insert(key.into(), sum(&own.iter().map(|own| &own[key]).collect::<Vec<_>>()));
    }
    found.insert("cpu_share".into(), json!(greatest(parts, "/driver/cpu_share")?));
    let least = SCHEDULING.into_iter().find(|word| own.iter().any(|own| own["scheduling"] == *word));
    found.insert("scheduling".into(), json!(least));
    for (name, times) in steady.own.named() {
        found.insert(format!("{name}_ms"), latency(times));
    }
    found.insert("limit".into(), json!(own.iter().any(|own| own["limit"] == true)));
    let sentences = |(part, own): (&Part, &&Value)| -> Vec<Value> {
        let texts = own["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(|text| json!(format!("{}: {text}", part.name))).collect()
    };
    found.insert("evidence".into(), parts.iter().zip(&own).flat_map(sentences).collect());
    Ok(Value::Object(found))
}

fn littles_law(documents: &[&Value]) -> Value {
    let total = |key: &str| documents.iter().filter_map(|d| d["littles_law"][key].as_f64()).sum::<f64>();
    let (observed, expected) = (total("concurrency_observed"), total("concurrency_expected"));
    let error = (observed > 0.0).then(|| (expected - observed) / observed);
    json!({"concurrency_observed": observed, "concurrency_expected": expected, "relative_error": error})
}

/// A limit as the first driver states it, judged by what all of them measured.
fn limit(stated: &Value, names: &[String], steady: &Steady<'_>) -> Value {
    let mut found = stated.clone();
    found.as_object_mut().map(|limit| limit.remove("at_least"));
    if let Some(at) = names.iter().position(|name| stated["transaction"] == name.as_str()) {
        judge_limit(&mut found, &steady.transactions[at]);
    }
    found
}
