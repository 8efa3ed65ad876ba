//! Requests that a server refused before it looked at them: how often they are sent again.

/// Requests that a server would not look at are sent again so often at most, where it responds to others.
const MOST_REFUSALS: u32 = 100;
/// One by a connection that answered nothing counts for so many.
const FRUITLESS: u32 = 20;
/// From this one on a request goes over another connection.
const ELSEWHERE: u32 = 3;

/// How often a request was refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals {
    pub times: u32,
    weight: u32,
}

impl Refusals {
    /// One more, by a connection that took `others` or none.
    pub fn add(&mut self, others: bool) {
        self.times += 1;
        self.weight += if others { 1 } else { FRUITLESS };
    }

    pub fn too_many(self) -> bool {
        self.weight >= MOST_REFUSALS
    }

    /// Whether the request goes over another connection.
    pub fn leads_elsewhere(self) -> bool {
        self.times >= ELSEWHERE
    }
}
