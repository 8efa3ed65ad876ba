//! What a response, an event or a message means for its session.

use super::{Session, Verdict};
use crate::grpc;
use crate::http::response::{Head, Parser};
use crate::http::target::Target;
use crate::measure::{ErrorKind, Outcome};
use crate::render::RenderError;
use crate::scenario::{Checks, Request, Response, Scenario, Wait, WhenMissing};
use crate::select::base_of;
use crate::template::Template;
use memchr::memmem;
use serde_json::Value;

impl Session {
    /// Takes in a complete response to the current request.
    pub fn judge(&mut self, scenario: &Scenario, target: &Target, parser: &Parser) -> Verdict {
        let Some(running) = &self.running else { return Verdict::Done };
        let transaction = &scenario.transactions[running.transaction];
        let request = &transaction.requests[running.step];
        for cookie in &parser.head.cookies {
            self.jar.store(cookie, &running.sent.path, target);
        }
        let status = parser.head.status;
        let wanted = &request.checks.status;
        let population = scenario.populations.at(self.population);
        let outside = population.login == Some(running.transaction) || transaction.ends_session;
        if self.logged_in && population.login.is_some() && !outside && !wanted.contains(&status) {
            if let Some(sign) = scenario.logged_out.shown(status, followed(&parser.head), &parser.body) {
                return match running.again {
                    true => fail(ErrorKind::Check, &format!("logged out again: {sign}")),
                    false => Verdict::LoggedOut(sign),
                };
            }
        }
        if !wanted.contains(&status) {
            if let Some(location) = followed(&parser.head) {
                let most = request.follow.unwrap_or(scenario.follow);
                if running.redirects < most {
                    return match target.follow(location, &running.sent.path) {
                        Some(path) => Verdict::Redirect(path),
                        None => fail(ErrorKind::Redirect, "it leads to another server"),
                    };
                }
                if most > 0 {
                    return fail(ErrorKind::Redirect, &format!("more than {most} redirects"));
                }
            }
            if request.checks.skip_status.contains(&status) {
                return Verdict::End(Outcome::Skipped, String::new());
            }
            if !(wanted.is_empty() && (200..300).contains(&status)) {
                return fail(ErrorKind::of_status(status), &format!("status {status}"));
            }
        }
        if let (Some(wait), Some(running)) = (&request.wait, &self.running) {
            if !parser.head.event_stream {
                let wanted = if request.method_of.is_some() { "application/grpc" } else { "text/event-stream" };
                return fail(ErrorKind::Event, &format!("no event stream: its Content-Type is not {wanted}"));
            }
            if let (Some(_), false) = (&request.method_of, parser.waiting()) {
                let accepted = &request.checks.grpc_status;
                match grpc::outcome(&parser.head.fields) {
                    None => return fail(ErrorKind::Protocol, "no grpc-status in the trailers"),
                    Some((0, _)) if accepted.is_empty() || accepted.contains(&0) => {}
                    Some((code, _)) if accepted.contains(&code) => return Verdict::Done,
                    Some((_, words)) => return fail(ErrorKind::Grpc, &words),
                }
            }
            if running.waited.count < wait.count {
                return fail(ErrorKind::Event, &running.waited.of(wait, "events when the stream ended"));
            }
        }
        let verdict = self.judge_content(request, transaction.when_missing, &parser.head.fields, &parser.body);
        if let (Verdict::Done, true, Some(running)) = (&verdict, transaction.has_links, &mut self.running) {
            running.base = base_of(&parser.body);
        }
        verdict
    }

    /// Whether an event or message is one that `wait` is for.
    pub fn counts(&mut self, wait: &Wait, kind: &[u8], data: &[u8]) -> Result<bool, RenderError> {
        if wait.kind.as_ref().is_some_and(|wanted| wanted.as_bytes() != kind) {
            return Ok(false);
        }
        let json = (!wait.matching.json.is_empty()).then(|| serde_json::from_slice::<Value>(data).ok()).flatten();
        let response = Response { headers: &[], body: data, json: json.as_ref() };
        Ok(self.check(&wait.matching, &response)?.is_none())
    }

    /// Takes in the messages of a WebSocket that the current step waited for, the last one of them.
    pub fn judge_message(&mut self, scenario: &Scenario) -> Verdict {
        let Some(running) = &mut self.running else { return Verdict::Done };
        let transaction = &scenario.transactions[running.transaction];
        let (data, step) = (std::mem::take(&mut running.waited.data), running.step);
        self.judge_content(&transaction.requests[step], transaction.when_missing, &[], &data)
    }

    /// Whether the headers of a response that opens a WebSocket are as the current step wants them.
    pub fn judge_opening(&mut self, scenario: &Scenario, headers: &[(String, Vec<u8>)]) -> Verdict {
        let Some(running) = &self.running else { return Verdict::Done };
        let transaction = &scenario.transactions[running.transaction];
        self.judge_content(&transaction.requests[running.step], transaction.when_missing, headers, &[])
    }

    fn judge_content(
        &mut self,
        request: &Request,
        when_missing: WhenMissing,
        headers: &[(String, Vec<u8>)],
        body: &[u8],
    ) -> Verdict {
        let checks = &request.checks;
        let json = request.needs_json().then(|| serde_json::from_slice::<Value>(body).ok()).flatten();
        let response = Response { headers, body, json: json.as_ref() };
        match self.check(checks, &response) {
            Ok(None) => {}
            Ok(Some(message)) => return fail(ErrorKind::Check, &message),
            Err(error) => return fail(ErrorKind::Template, &error.to_string()),
        }
        for extract in &request.extract {
            let value = extract.apply(&response, |name| self.jar.value(name), &mut self.data);
            let missing = value.is_none();
            self.variables[extract.variable] = value;
            if missing {
                return match when_missing {
                    WhenMissing::Skip => Verdict::End(Outcome::Skipped, String::new()),
                    WhenMissing::Fail => fail(ErrorKind::Extract, &extract.what()),
                };
            }
        }
        Verdict::Done
    }

    /// What is wrong with `response`, if anything.
    fn check(&mut self, checks: &Checks, response: &Response<'_>) -> Result<Option<String>, RenderError> {
        for (templates, wanted) in [(&checks.contains, true), (&checks.lacks, false)] {
            for template in templates {
                if self.found(template, response.body)? != wanted {
                    let how = if wanted { "lacks" } else { "contains" };
                    let text = template.fixed().unwrap_or_else(|| "a text of the scenario".into());
                    return Ok(Some(format!("the body {how} `{text}`")));
                }
            }
        }
        if let Some(regex) = checks.matches.iter().find(|regex| !regex.is_match(response.body)) {
            return Ok(Some(format!("the body does not match `{regex}`")));
        }
        for (name, regex) in &checks.headers {
            let mut values = response.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
            if !values.any(|(_, value)| regex.is_match(value)) {
                return Ok(Some(format!("header `{name}` does not match `{regex}`")));
            }
        }
        for (pointer, template) in &checks.json {
            let Some(document) = response.json else { return Ok(Some("the body is not JSON".into())) };
            let mut text = Vec::new();
            template.render(&mut self.values().0, &mut text)?;
            let found = pointer.find(document);
            let same = |value: &&Value| match value {
                Value::String(found) => found.as_bytes() == text,
                other => other.to_string().as_bytes() == text,
            };
            if found.is_empty() || !found.iter().all(same) {
                let found: Vec<String> =
                    found.iter().take(3).map(|v| v.to_string().chars().take(60).collect()).collect();
                let found = if found.is_empty() { "nothing".to_string() } else { found.join(", ") };
                let text = String::from_utf8_lossy(&text);
                return Ok(Some(format!("at `{}` the JSON body has {found}, not `{text}`", pointer.text())));
            }
        }
        Ok(None)
    }

    fn found(&mut self, template: &Template, body: &[u8]) -> Result<bool, RenderError> {
        if let [crate::template::Part::Literal(text)] = template.parts() {
            return Ok(memmem::find(body, text).is_some());
        }
        let mut text = Vec::new();
        template.render(&mut self.values().0, &mut text)?;
        Ok(memmem::find(body, &text).is_some())
    }
}

fn fail(kind: ErrorKind, message: &str) -> Verdict {
    Verdict::End(Outcome::Failed(kind), message.to_string())
}

/// The Location to follow, if the response is such a redirect (RFC 9110, 15.4).
fn followed(head: &Head) -> Option<&[u8]> {
    head.location.as_deref().filter(|_| matches!(head.status, 301..=303 | 307 | 308))
}
