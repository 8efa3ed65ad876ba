//! Shenandoah as JDK 8 logs it: one line a phase, with the time at its end.

use regex::Captures;

use super::{Reader, Stamp};
use crate::clock::{decimal, wall_clock};
use crate::forms::{self, form, group, heap_of, split_groups};
use crate::log::{Cleanup, Cycle, Heap, Jvm, Pause, Phase, Read, When};

form!(
    LINE,
    r"\A(?:\d{4}-\d\d-\d\dT[\d:.,]{8,20}[+-]\d{4}: )?(?:\d{1,12}[.,]\d{1,9}: )?\[(?P<what>Pause|Concurrent) (?P<name>[A-Za-z][A-Za-z ]*?)(?P<groups>(?: \((?:[^()]|\([^()]*\))*\))*)(?: (?P<before>\d+)(?P<before_unit>[BKMGT])->(?P<after>\d+)(?P<after_unit>[BKMGT])\((?P<total>\d+)(?P<total_unit>[BKMGT])\))?, (?P<ms>\d+[.,]\d+) ms\]"
);

/// The end of a pause or of a concurrent phase.
pub fn line(text: &str) -> Option<Captures<'_>> {
    if text.contains(" ms]") {
        LINE.captures(text)
    } else {
        None
    }
}

impl Reader {
    pub(super) fn shenandoah(&mut self, text: &str, line: &Captures<'_>) -> Read<()> {
        let (name, ms) = (group(line, "name"), decimal(group(line, "ms"))?);
        let when = self.written(super::stamp(text))?;
        self.log.jvms[when.jvm].collector = "Shenandoah".to_owned();
        let heap = heap_of(line)?;
        if group(line, "what") == "Concurrent" {
            let kind = self.log.words.of(&format!("Concurrent {name}"));
            self.log.phases.push(Phase { when, kind, ms });
            self.of_cycle(name, when, ms, heap);
            return Ok(());
        }
        if !forms::PAUSES.contains(&name) {
            self.log.not_known(self.log.lines, text);
            return Ok(());
        }
        let groups = group(line, "groups");
        let cause = if forms::CAUSED.contains(&name) { split_groups(groups).next().unwrap_or("") } else { "" };
        let words = &mut self.log.words;
        let (kind, name, cause) = (words.of(&format!("Pause {name}{groups}")), words.of(name), words.of(cause));
        let line = self.log.lines;
        self.log.pauses.push(Pause { when, gc_id: None, kind, name, cause, ms, heap, promoted: None, line });
        Ok(())
    }

    /// By the last line of the log that had a time, where this one has none.
    fn written(&mut self, stamp: Stamp<'_>) -> Read<When> {
        let unix = stamp.wall.and_then(wall_clock);
        let at = stamp.up.map(decimal).transpose()?.or(unix);
        let at = at.unwrap_or_else(|| self.log.jvms.last().map_or(0.0, |jvm: &Jvm| jvm.last));
        Ok(When { at, unix, jvm: self.jvm(at, unix) })
    }

    /// A cycle lasts from its reset to the last of its phases; its heap is that around its cleanups.
    fn of_cycle(&mut self, name: &str, when: When, ms: f64, heap: Option<Heap>) {
        if name == "reset" || self.cycles == 0 {
            self.cycles += 1;
            let (kind, cause) = (self.log.words.of("Shenandoah Cycle"), self.log.words.of(""));
            let (ms, gc_id) = (Some(ms), self.cycles - 1);
            let cycle = Cycle { when, gc_id, kind, cause, ms, heap: None, live: None, reclaimed: None, promoted: None };
            self.log.cycles.push(cycle);
            return;
        }
        let Some(cycle) = self.log.cycles.last_mut().filter(|cycle| cycle.when.jvm == when.jvm) else { return };
        if name == "uncommit" {
            return; // between cycles
        }
        cycle.ms = cycle.ms.map(|before| before + 1e3 * (when.at - cycle.when.at));
        cycle.when = when;
        if let Some(heap) = heap.filter(|_| name == "cleanup") {
            let cleanup = Cleanup { when, gc_id: cycle.gc_id, heap, copied: cycle.heap.is_some() };
            cycle.heap = Some(Heap { before: cycle.heap.map_or(heap.before, |first| first.before), ..heap });
            self.log.cleanups.push(cleanup);
        }
    }
}
