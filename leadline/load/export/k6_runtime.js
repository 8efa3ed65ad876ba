import http from 'k6/http';
import { sleep } from 'k6';
import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';
import { parseHTML } from 'k6/html';

const BASE = (__ENV.LEADLINE_URL || '').replace(/\/+$/, '');
const [, ORIGIN, SCHEME, HOST, ROOT] = /^((https?:)\/\/([^/?#]*))([^?#]*)/i.exec(BASE) || [null, '', '', '', BASE];
const USERS = Number(__ENV.USERS || 1);
const RATE = Number(__ENV.RATE || 0);
const DURATION = __ENV.DURATION || '10s';
const SEED = __ENV.SEED || '1';
const done = new Counter('transactions');
const failed = new Counter('transactions_failed');
const skipped = new Counter('transactions_skipped');
const took = new Trend('transaction_duration', true);

const MOST = Number(__ENV.MAX_USERS || 1000);
// Users that sessions at this rate need when answers take little beside the pauses; k6 drops arrivals while it makes more.
const NEEDED = RATE * (1 + PAUSE.mean * (Math.min(LENGTH, 50) + 2));

export const options = RATE > 0
  ? { scenarios: { sessions: { executor: 'constant-arrival-rate', rate: RATE, timeUnit: '1s', duration: DURATION,
      preAllocatedVUs: Math.ceil(Math.min(NEEDED, MOST)), maxVUs: MOST, exec: 'session' } } }
  : { scenarios: { users: { executor: 'constant-vus', vus: USERS, duration: DURATION, gracefulStop: '30s',
      exec: 'user' } } };

class Failed { constructor(why) { this.why = why; } }
class Skipped {}
class Missing { constructor(name) { this.name = name; } }

let v = {};
let jar = null; // of the session: k6's own forgets no cookie without its path
let page = ''; // path of the page before in the transaction
let identity = 0;
let number = 0;
let logins = 0;
let seq = 0;
let due = 0;

const whole = (text) => {
  const word = String(text).trim();
  if (!/^[+-]?\d+$/.test(word)) throw new Failed('template');
  return Number(word);
};
// As text, since numbers of JavaScript hold 15 digits.
const plainNumber = (text) => { whole(text); return String(text).trim().replace(/^(-?)\+?0*(?=\d)/, '$1'); };
const random = (low, high) => {
  low = whole(low); high = whole(high);
  if (high < low) [low, high] = [high, low];
  return low + Math.floor(Math.random() * (high - low + 1));
};
const draws = (count, alphabet) =>
  Array.from({ length: whole(count) }, () => alphabet[random(0, alphabet.length - 1)]).join('');
const value = (name) => { if (v[name] === undefined) throw new Failed('template'); return v[name]; };
const urlText = (text) => encodeURIComponent(text).replace(/[!'()*]/g,
  (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());
const jsonText = (text) => JSON.stringify(String(text)).slice(1, -1);
const form = (fields) => fields.map(([name, text]) => urlText(name) + '=' + urlText(text)).join('&');
const pick = (found, how) => {
  if (!found.length) throw new Missing('');
  return found[how === 'first' ? 0 : how === 'last' ? found.length - 1 : random(0, found.length - 1)];
};
const matches = (body, pattern, how) =>
  pick([...String(body).matchAll(new RegExp(pattern, 'g'))].map((m) => (m[1] !== undefined ? m[1] : m[0])), how);
const has = (one, word) => Object.prototype.hasOwnProperty.call(one, word);
const pointed = (answer, pointer) => {
  let found;
  try { found = [JSON.parse(answer.body)]; } catch (_) { throw new Missing(pointer); }
  for (const word of pointer.split('/').slice(1).map((w) => w.replace(/~1/g, '/').replace(/~0/g, '~'))) {
    found = found.flatMap((one) => (Array.isArray(one)
      ? word === '*' ? one : /^(0|[1-9]\d*)$/.test(word) && has(one, word) ? [one[word]] : []
      : one !== null && typeof one === 'object' && has(one, word) ? [one[word]] : []));
  }
  return found;
};
const jsonValue = (one) => (typeof one === 'string' ? one : JSON.stringify(one));
const member = (answer, pointer, how) => {
  let found = pointed(answer, pointer);
  if (found.length === 1 && Array.isArray(found[0]) && how !== 'first') found = found[0];
  const one = pick(found, how);
  if (one === null) throw new Missing(pointer);
  return jsonValue(one);
};
const holds = (answer, pointer, text) => {
  const found = pointed(answer, pointer);
  return found.length > 0 && found.every((one) => jsonValue(one) === String(text));
};
const selected = (answer, css, attribute, how) => {
  const found = parseHTML(answer.body).find(css).toArray();
  return pick(found.map((one) => (attribute ? one.attr(attribute) : one.text().trim())).filter((x) => x !== undefined), how);
};
const header = (answer, name) => {
  const key = Object.keys(answer.headers).find((one) => one.toLowerCase() === name.toLowerCase());
  if (key === undefined) throw new Missing(name);
  return answer.headers[key];
};
const status = (answer, good, skip) => {
  if (good.includes(answer.status)) return;
  if (skip.includes(answer.status)) throw new Skipped();
  if (good.length || answer.status < 200 || answer.status >= 300) throw new Failed(answer.status ? 'status' : 'connect');
};
// What a check looks at and does not find fails it.
const must = (right) => {
  let fine = false;
  try { fine = right(); } catch (error) { if (!(error instanceof Missing)) throw error; }
  if (!fine) throw new Failed('check');
};
const take = (name, found) => { v[name] = undefined; v[name] = found(); };

// A path without `.` and `..` (RFC 3986, 5.2.4).
const plain = (path) => {
  const end = `${path}?`.indexOf('?');
  if (!path.slice(0, end).includes('/.')) return path;
  const kept = [];
  const words = path.slice(0, end).split('/').slice(1);
  words.forEach((word, at) => {
    if (word === '..') kept.pop();
    if (word !== '.' && word !== '..') kept.push(word);
    else if (at + 1 === words.length) kept.push('');
  });
  return `/${kept.join('/')}${path.slice(end)}`;
};
// The path that a link or a Location on the page `from` leads to; null: to another server.
const target = (link, from) => {
  link = link.split('#')[0];
  const whole = /^([a-z][a-z0-9+.-]*:)?\/\/([^/?]*)([^]*)$/i.exec(link);
  if (whole) {
    const port = SCHEME.toLowerCase() === 'https:' ? /:(443)?$/ : /:(80)?$/;
    const host = (one) => one.toLowerCase().replace(port, '');
    if ((whole[1] || SCHEME).toLowerCase() !== SCHEME.toLowerCase()) return null;
    if (host(whole[2]) !== host(HOST)) return null;
    return plain(whole[3].startsWith('/') ? whole[3] : `/${whole[3]}`);
  }
  if (!link) return from;
  if (/^[a-z][a-z0-9+.-]*:/i.test(link)) return null;
  if (link.startsWith('/')) return plain(link);
  const path = from.split('?')[0];
  return plain((link.startsWith('?') ? path : path.replace(/[^/]*$/, '')) + link);
};

// One request and the redirects that lead on from it, but for those that are wanted (`good`). A link begins at the page
// before, another path below the application.
function request(method, link, path, own, text, params, good, follow) {
  const go = (to, why) => {
    if (to === null) throw new Failed(why);
    page = to.replace(/[^!-~]+/g, encodeURIComponent);
  };
  go(link ? target(String(path), page || '/') : ROOT + path, 'template');
  let headers = own();
  let body = text();
  const send = () => http.request(method, ORIGIN + page, body, Object.assign({ headers, jar, redirects: 0 }, params));
  let a = send();
  for (let left = follow; follow > 0 && [301, 302, 303, 307, 308].includes(a.status) && !good.includes(a.status); left -= 1) {
    const location = Object.keys(a.headers).find((one) => one.toLowerCase() === 'location');
    if (location === undefined) break;
    if (left === 0) throw new Failed('redirect');
    go(target(a.headers[location], page), 'redirect');
    const same = method === 'HEAD' || a.status > 303;
    if (!same || method === 'GET' || method === 'HEAD') { headers = common(); body = null; }
    if (!same) method = 'GET';
    a = send();
  }
  return a;
}

// Whether it went well.
function run(name) {
  const tags = { transaction: name };
  const began = Date.now();
  page = '';
  try {
    transactions[name]();
    done.add(1, tags);
    took.add(Date.now() - began, tags);
    return true;
  } catch (error) {
    if (error instanceof Skipped || (error instanceof Missing && whenMissing[name] === 'skip')) skipped.add(1, tags);
    else if (error instanceof Failed || error instanceof Missing) failed.add(1, tags);
    else throw error;
    return false;
  }
}

// Users own disjoint parts of the identities and go round in their own; sessions take them in turn.
function identityOf() {
  if (RATE > 0 || IDENTITIES < USERS) return (number % IDENTITIES) + 1;
  const own = IDENTITIES === Infinity ? 1 : Math.floor((IDENTITIES - 1 - number) / USERS) + 1;
  return number + USERS * (logins % own) + 1;
}

// Whether the user is in.
function begin() {
  jar = new http.CookieJar();
  identity = identityOf();
  logins += 1;
  v = {};
  assign();
  return !LOGIN || run(LOGIN);
}

function draw(row) {
  let point = Math.random() * row.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [name, weight] of row) { if (point < weight) return name; point -= weight; }
  return row[row.length - 1][0];
}

function pause(from) {
  if (PAUSE.shape === 'none') return;
  const mean = PAUSE.mean;
  const length = PAUSE.shape === 'fixed' ? mean : mean * Math.min(5, -Math.log(1 - Math.random()));
  if (PAUSE.kind === 'cycle') {
    due = (due || from) + 1000 * length;
    sleep(Math.max(0, (due - Date.now()) / 1000));
  } else sleep(length);
}

let place = null;
let inside = false;

// One transaction of a user who stays: a login, a logout, or one of the mix or the graph.
export function user() {
  const from = Date.now();
  if (!inside) {
    number = exec.vu.idInTest - 1;
    inside = begin();
    if (LOGIN) { pause(from); return; }
  }
  const name = GRAPH ? (place = place || draw(GRAPH.start)) : draw(MIX);
  run(name);
  if (GRAPH) place = draw(GRAPH[name]);
  const over = GRAPH && place === 'end';
  if (over || LEAVING.includes(name)) {
    if (over && LOGOUT && !LEAVING.includes(name)) { pause(from); run(LOGOUT); }
    place = null;
    inside = false;
  }
  pause(from);
}

// One session from login to logout. Who has left logs in again and starts over; a failed login ends the session.
export function session() {
  const start = GRAPH ? GRAPH.start : MIX;
  number = exec.scenario.iterationInTest;
  logins = 0;
  seq = 0;
  due = Date.now();
  inside = false;
  let left = LENGTH;
  let name = draw(start);
  for (;;) {
    if (!inside) {
      if (!begin()) return;
      inside = true;
      if (LOGIN) pause(Date.now());
    }
    const fine = run(name);
    if (name !== LOGIN) left -= 1;
    else if (!fine) return;
    inside = !LEAVING.includes(name);
    name = draw(GRAPH ? GRAPH[name] : MIX);
    if (left <= 0 || (GRAPH && name === 'end')) break;
    if (!inside) name = draw(start);
    pause(Date.now());
  }
  if (LOGOUT && inside) { pause(Date.now()); run(LOGOUT); }
}
