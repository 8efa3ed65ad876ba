//! What the messages of a unified log say: pauses, cycles and phases beside the application, tables, the JVM's own.

use regex::Captures;

use super::{Reader, ROUNDED};
use crate::clock::{decimal, size, whole};
use crate::forms::{self, group, heap_of, id_of, split_groups};
use crate::log::{Cleanup, Cpu, Cycle, Heap, Pause, Phase, Read, Safepoint, Stall};
use crate::order::SLACK;

impl Reader {
    pub(super) fn pause(&mut self, message: &str, text: &str) -> Read<()> {
        let found = if message.ends_with("ms") { forms::PAUSE.captures(message) } else { None };
        let Some(found) = found else { return self.no_pause(message, text) };
        let ms = decimal(group(&found, "ms"));
        let name = group(&found, "name");
        if !forms::PAUSES.contains(&name) {
            self.log.not_known(self.log.lines, text);
            return Ok(());
        }
        let ms = ms?;
        // Longer than the JVM has run.
        if self.uptime.is_some_and(|up| ms > 1e3 * (up + SLACK)) {
            self.damaged(text);
            return Ok(());
        }
        let gc_id = found.name("id").map(|id| whole(id.as_str())).transpose()?;
        if let Some(id) = gc_id {
            self.set_forward(id, ms);
        }
        let groups = group(&found, "groups").trim();
        let kind = match group(&found, "generation") {
            "" => format!("Pause {name} {groups}"),
            generation => format!("{generation}: Pause {name} {groups}"),
        };
        let name = match name {
            "Incremental GC" => "Young", // of native images
            "Full GC" => "Full",
            name => name,
        };
        if let Some(id) = gc_id {
            self.started_over(id, name);
        }
        let mut promoted = None;
        if let Some(id) = gc_id {
            self.jvm().begun.remove(&id);
            let grown = self.state().old.remove(&id);
            promoted = grown.filter(|_| name == "Young" && !groups.contains("(Mixed)")).map(|grown| grown.max(0));
        }
        let heap = heap_of(&found)?;
        let cause = self.cause(name, groups, gc_id);
        let pause = Pause {
            when: self.when(),
            gc_id,
            kind: self.log.words.of(kind.trim()),
            name: self.log.words.of(name),
            cause,
            ms,
            heap,
            promoted,
            line: self.log.lines,
        };
        self.add(pause, name);
        Ok(())
    }

    /// No uptime tells that a JVM has started over, but its collections do.
    fn started_over(&mut self, id: i64, name: &str) {
        let concurrent = matches!(self.jvm().collector.as_str(), "Z" | "Shenandoah");
        if self.uptime.is_some() || !forms::CAUSED.contains(&name) || concurrent {
            return;
        }
        if self.state().counted.is_some_and(|counted| id < counted) {
            self.new_jvm(self.at, self.unix, None);
            self.jvm().ids.insert(id);
        }
        self.state().counted = Some(id);
    }

    /// Damaged, the line at a pause's beginning, a table's, or a pause in a form that is not known.
    fn no_pause(&mut self, message: &str, text: &str) -> Read<()> {
        if forms::STATISTICS.is_match(message) {
            return Ok(()); // Shenandoah's table of a cycle's phases
        }
        let printable =
            |letter: char| !letter.is_control() && letter != '\u{fffd}' && (letter == ' ' || !letter.is_whitespace());
        if forms::SPLICED.is_match(message) || !message.chars().all(printable) {
            self.damaged(text);
            return Ok(());
        }
        let begins =
            || forms::BEGINNING.captures(message).is_some_and(|found| forms::PAUSES.contains(&group(&found, "name")));
        if self.tags.start || begins() {
            if let Some(id) = id_of(message)? {
                let lines = self.log.lines;
                self.jvm().begun.insert(id, lines);
                let at = self.at;
                self.state().stopped = Some((id, at));
            }
            return Ok(());
        }
        self.log.not_known(self.log.lines, text);
        Ok(())
    }

    fn cause(&mut self, name: &str, groups: &str, gc_id: Option<i64>) -> u32 {
        if forms::CAUSED.contains(&name) {
            if let Some(cause) = split_groups(groups).find(|group| !forms::G1_TYPES.contains(group)) {
                return self.log.words.of(cause);
            }
        }
        let state = self.states.get(self.current).unwrap_or(&self.before);
        let cause = if matches!(name, "Degenerated GC" | "Full") {
            Some(&state.cancelled)
        } else {
            gc_id.and_then(|id| state.causes.get(&id))
        };
        self.log.words.of(cause.map_or("", |cause| cause))
    }

    /// A pause, or the rest of the stop of a young collection that became a full one.
    fn add(&mut self, pause: Pause, name: &str) {
        let full = self.log.words.of("Full");
        if let Some(inner) = self.log.pauses.last_mut() {
            let turned = name == "Young"
                && inner.name == full
                && pause.when.jvm == inner.when.jvm
                && pause.gc_id.is_some_and(|id| inner.gc_id == Some(id + 1))
                && pause.ms >= inner.ms
                && inner.begin() >= pause.begin() - ROUNDED
                && inner.when.at <= pause.when.at + ROUNDED; // in a log with the newest line first it may come after
            if turned {
                (inner.when.at, inner.when.unix, inner.ms) = (pause.when.at, pause.when.unix, pause.ms);
                inner.heap = match (pause.heap, inner.heap) {
                    (Some(before), Some(after)) => Some(Heap { before: before.before, ..after }),
                    (before, after) => before.or(after),
                };
                return;
            }
        }
        self.log.pauses.push(pause);
    }

    pub(super) fn safepoint(&mut self, message: &str) -> Read<()> {
        let (reaching_ms, total_ms, operation);
        if let Some([name, reaching, total]) = stop_of(message) {
            reaching_ms = whole(reaching)? as f64 / 1e6;
            total_ms = whole(total)? as f64 / 1e6;
            operation = self.log.words.of(name);
        } else if let Some(operation) = message.strip_prefix("Entering safepoint region: ") {
            self.state().operation = operation.to_owned();
            return Ok(());
        } else if let Some(found) = forms::STOPPED.captures(message) {
            reaching_ms = decimal(group(&found, "reaching"))? * 1e3;
            total_ms = decimal(group(&found, "total"))? * 1e3;
            let state = self.states.get(self.current).unwrap_or(&self.before);
            operation = self.log.words.of(&state.operation);
        } else {
            return Ok(());
        }
        let point = Safepoint { when: self.when(), operation, reaching_ms, total_ms, line: self.log.lines };
        self.log.safepoints.push(point);
        Ok(())
    }

    /// The line at the beginning of a concurrent collection (its end is `other`'s).
    pub(super) fn start(&mut self, message: &str) -> Read<()> {
        if let Some(found) = forms::COLLECTION.captures(message) {
            if let Some(id) = found.name("id") {
                self.begin(whole(id.as_str())?, split_groups(group(&found, "groups")).next().unwrap_or(""));
            }
        }
        Ok(())
    }

    fn begin(&mut self, gc_id: i64, cause: &str) {
        let at = self.at;
        self.state().start_of.entry(gc_id).or_insert(at);
        if !cause.is_empty() {
            self.state().causes.insert(gc_id, cause.to_owned());
        }
    }

    /// By the first word behind the collection's number and the generation.
    pub(super) fn other(&mut self, message: &str) -> Read<()> {
        let mut body = message;
        if message.starts_with("GC(") {
            body = message.find(' ').map_or(message, |place| &message[place + 1..]);
            if body.as_bytes().get(1..3) == Some(b": ") {
                body = &body[3..];
            }
        }
        let first = body.split(' ').next().unwrap_or("");
        match first {
            _ if first.starts_with("User=") => self.cpu(message),
            "Old" | "Tenured:" | "ParOldGen:" | "PSOldGen:" | "CMS:" => self.old(message),
            "Garbage" | "Minor" | "Major" | "Concurrent" => self.beside(message),
            "Allocation" | "Relocation" | "Page" => self.stall(message),
            "Using" | "Version:" | "Heap" | "Max" | "Cancelling" => self.said(message),
            _ => self.table(message, body.trim_start()),
        }
    }

    /// A row of ZGC's table of the heap.
    fn table(&mut self, message: &str, body: &str) -> Read<()> {
        if ["Live:", "Reclaimed:", "Promoted:"].iter().any(|name| body.starts_with(name)) {
            return forms::Z_ROW.captures(message).map_or(Ok(()), |found| self.row(&found));
        }
        if body.starts_with("Capacity:") {
            if let Some(found) = forms::CAPACITY.captures(message) {
                self.state().capacity = Some(size(group(&found, "total"), group(&found, "total_unit"))?);
            }
            return Ok(());
        }
        if body.starts_with("Max Capacity:") {
            self.maximum(message)
        } else {
            Ok(())
        }
    }

    fn maximum(&mut self, message: &str) -> Read<()> {
        if let Some(found) = forms::MAXIMUM.captures(message) {
            self.jvm().heap_max = Some(size(group(&found, "total"), group(&found, "total_unit"))?);
        }
        Ok(())
    }

    fn cpu(&mut self, message: &str) -> Read<()> {
        if let Some(found) = forms::CPU.captures(message) {
            let user = decimal(group(&found, "user"))?;
            let (system, real) = (decimal(group(&found, "sys"))?, decimal(group(&found, "real"))?);
            let gc_id = found.name("id").map(|id| whole(id.as_str())).transpose()?;
            self.log.cpu.push(Cpu { when: self.when(), gc_id, user, system, real });
        }
        Ok(())
    }

    fn old(&mut self, message: &str) -> Read<()> {
        let (found, scale) = if let Some(found) = forms::OLD.captures(message) {
            (found, 1024)
        } else if let (Some(region), Some(found)) = (self.state().region, forms::OLD_REGIONS.captures(message)) {
            (found, region)
        } else {
            return Ok(());
        };
        let id = whole(group(&found, "id"))?;
        let grown = whole(group(&found, "after"))? - whole(group(&found, "before"))?;
        self.state().old.insert(id, grown.saturating_mul(scale));
        Ok(())
    }

    fn beside(&mut self, message: &str) -> Read<()> {
        if message.contains(" Collection") {
            if let Some(found) = forms::COLLECTION.captures(message) {
                return self.collection(&found);
            }
        }
        let cycle = if message.contains(" Cycle") { forms::MARK_CYCLE.captures(message) } else { None };
        if let Some(found) = cycle {
            if let (Some(ms), Some(id)) = (found.name("ms"), found.name("id")) {
                let (gc_id, ms) = (whole(id.as_str())?, Some(decimal(ms.as_str())?));
                let (kind, cause) = (self.log.words.of(group(&found, "name")), self.log.words.of(""));
                let when = self.when();
                let cycle =
                    Cycle { when, gc_id, kind, cause, ms, heap: None, live: None, reclaimed: None, promoted: None };
                self.log.cycles.push(cycle);
            }
            return Ok(());
        }
        let found = if message.ends_with("ms") { forms::PHASE.captures(message) } else { None };
        let Some(found) = found else { return Ok(()) };
        let ms = decimal(group(&found, "ms"))?;
        let (generation, name) = (group(&found, "generation"), group(&found, "name"));
        let kind = if generation.is_empty() {
            format!("Concurrent {name}")
        } else {
            format!("{generation}: Concurrent {name}")
        };
        let kind = self.log.words.of(&kind);
        self.log.phases.push(Phase { when: self.when(), kind, ms });
        if matches!(self.jvm().collector.as_str(), "Shenandoah" | "") && generation.is_empty() {
            self.shenandoah_phase(&found, ms)?;
        }
        Ok(())
    }

    fn stall(&mut self, message: &str) -> Read<()> {
        if let Some(found) = forms::STALL.captures(message) {
            let ms = decimal(group(&found, "ms"))?;
            let (kind, thread) = (self.log.words.of(group(&found, "kind")), self.log.words.of(group(&found, "thread")));
            self.log.stalls.push(Stall { when: self.when(), kind, thread, ms, line: self.log.lines });
        }
        Ok(())
    }

    /// What the JVM says of itself.
    fn said(&mut self, message: &str) -> Read<()> {
        if let Some(found) = forms::USING.captures(message) {
            self.jvm().collector = match group(&found, "name") {
                "Concurrent Mark Sweep" => "CMS".to_owned(),
                name => name.to_owned(),
            };
        } else if let Some(found) = forms::VERSION.captures(message) {
            self.jvm().version = group(&found, "version").to_owned();
        } else if let Some(found) = forms::REGION_SIZE.captures(message) {
            self.state().region = Some(size(group(&found, "size"), group(&found, "unit"))?);
        } else if let Some(cause) = message.strip_prefix("Cancelling GC: ") {
            self.state().cancelled = cause.to_owned();
        } else {
            return self.maximum(message);
        }
        Ok(())
    }

    /// Live bytes stand under the end of marking, the others under the end of the collection.
    fn row(&mut self, found: &Captures<'_>) -> Read<()> {
        let cells: Vec<Captures<'_>> = forms::Z_CELL.captures_iter(group(found, "columns")).collect();
        let name = group(found, "name");
        let cell = if name == "Live" { cells.first() } else { cells.last() };
        if let Some(cell) = cell {
            let (id, bytes) = (whole(group(found, "id"))?, size(&cell[1], &cell[2])?);
            let rows = self.state().rows.entry(id).or_default();
            let sum = match name {
                "Live" => &mut rows.live,
                "Reclaimed" => &mut rows.reclaimed,
                _ => &mut rows.promoted,
            };
            *sum = Some(sum.unwrap_or(0) + bytes);
        }
        Ok(())
    }

    /// ZGC: the first line of a collection in JDK 21 and later has no tag of its own, the last has the heap.
    fn collection(&mut self, found: &Captures<'_>) -> Read<()> {
        let Some(id) = found.name("id") else { return Ok(()) };
        let gc_id = whole(id.as_str())?;
        let cause = split_groups(group(found, "groups")).next().unwrap_or("");
        let Some(heap) = heap_of(found)? else {
            self.begin(gc_id, cause);
            return Ok(());
        };
        let at = self.at;
        let ms = match self.state().start_of.remove(&gc_id) {
            Some(began) => Some((at - began) * 1e3),
            None => found.name("s").map(|seconds| decimal(seconds.as_str())).transpose()?.map(|seconds| seconds * 1e3),
        };
        let rows = self.state().rows.remove(&gc_id).unwrap_or_default();
        let total = heap.total.filter(|total| *total != 0).or(self.state().capacity);
        let kind = group(found, "name");
        let cycle = Cycle {
            when: self.when(),
            gc_id,
            kind: self.log.words.of(kind),
            cause: self.log.words.of(cause),
            ms,
            heap: Some(Heap { total, ..heap }),
            live: rows.live.filter(|_| kind != "Minor Collection"),
            reclaimed: rows.reclaimed,
            promoted: rows.promoted,
        };
        self.log.cycles.push(cycle);
        Ok(())
    }

    /// Shenandoah has no line for a whole cycle: it is the time from its first phase to its last.
    fn shenandoah_phase(&mut self, found: &Captures<'_>, ms: f64) -> Read<()> {
        let Some(id) = found.name("id") else { return Ok(()) };
        let gc_id = whole(id.as_str())?;
        let generation =
            split_groups(group(found, "groups")).find(|group| matches!(*group, "Young" | "Old" | "Global"));
        let kind = generation.map_or("Shenandoah Cycle".to_owned(), |name| format!("Shenandoah Cycle ({name})"));
        let mut kind = self.log.words.of(&kind);
        let (mut heap, when) = (heap_of(found)?, self.when());
        let cause = self.log.words.of("");
        let at = self.at;
        let began = *self.state().start_of.entry(gc_id).or_insert(at - ms / 1e3);
        let place = self.state().places.get(&gc_id).copied();
        let before = place.map(|place| self.state().shenandoah[place]);
        if let Some(heap) = heap.filter(|_| group(found, "name") == "cleanup") {
            let copied = before.is_some_and(|before| before.heap.is_some());
            self.log.cleanups.push(Cleanup { when, gc_id, heap, copied });
        }
        if let Some(before) = before {
            if self.log.words.text(before.kind).contains('(') {
                kind = before.kind;
            }
            heap = match (heap, before.heap) {
                (Some(now), Some(first)) => Some(Heap { before: first.before, ..now }),
                (now, first) => now.or(first),
            };
        }
        let ms = Some((at - began) * 1e3);
        let cycle = Cycle { when, gc_id, kind, cause, ms, heap, live: None, reclaimed: None, promoted: None };
        let state = self.state();
        match place {
            Some(place) => state.shenandoah[place] = cycle,
            None => {
                state.places.insert(gc_id, state.shenandoah.len());
                state.shenandoah.push(cycle);
            }
        }
        Ok(())
    }
}

/// `Safepoint "G1Collect", ..., Reaching safepoint: 1 ns, ..., Total: 2 ns`: the operation and both numbers.
fn stop_of(message: &str) -> Option<[&str; 3]> {
    let (operation, rest) = message.strip_prefix("Safepoint \"")?.split_once('"')?;
    let rest = rest.strip_prefix(", ")?;
    let behind = |text: &'_ str, word: &str| text.find(word).map(|place| place + word.len());
    let reaching = &rest[behind(rest, "Reaching safepoint: ")?..];
    let number = reaching.trim_start_matches(' ');
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (reaching, rest) = number.split_at(digits(number));
    let rest = rest.strip_prefix(" ns,")?;
    let total = rest[behind(rest, " Total: ")?..].trim_start_matches(' ');
    let (total, rest) = total.split_at(digits(total));
    (!reaching.is_empty() && !total.is_empty() && rest.starts_with(" ns")).then_some([operation, reaching, total])
}
