"""CPU of leadline-load and of k6 (its path is the argument) for the same WebSocket round trips, gRPC calls and
server-sent events, from a server in Go on the other CPU, in turn: `python bench/driver/streams.py K6 [--rounds 3]`.
k6 itself has no server-sent events: it reads the stream as one response.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from common import PORT, RELEASE, on_generators_cpu, on_targets_cpu

USERS, SECONDS, RATE = 50, 15, 1_000
URL = f"http://127.0.0.1:{PORT}"
SERVER = """package main
import ("bufio"; "crypto/sha1"; "encoding/base64"; "fmt"; "io"; "net/http"; "os"; "time")
func events(w http.ResponseWriter, r *http.Request) {
  w.Header().Set("Content-Type", "text/event-stream")
  for i := 0; i < 50; i++ {
    fmt.Fprintf(w, "data: {\\"number\\": %d}\\n\\n", i); w.(http.Flusher).Flush(); time.Sleep(20 * time.Millisecond)
  }
}
func socket(w http.ResponseWriter, r *http.Request) {
  sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
  c, rw, _ := w.(http.Hijacker).Hijack()
  defer c.Close()
  fmt.Fprintf(rw, "HTTP/1.1 101 S\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n")
  fmt.Fprintf(rw, "Sec-WebSocket-Accept: %s\\r\\n\\r\\n",
    base64.StdEncoding.EncodeToString(sum[:]))
  rw.Flush()
  in, head := bufio.NewReader(c), make([]byte, 6)
  for {
    if _, e := io.ReadFull(in, head); e != nil || head[0]&15 == 8 { return }
    data := make([]byte, head[1]&127)
    io.ReadFull(in, data)
    for i := range data { data[i] ^= head[2+i%4] }
    c.Write(append([]byte{head[0], byte(len(data))}, data...))
  }
}
func call(w http.ResponseWriter, r *http.Request) {
  body, _ := io.ReadAll(r.Body)
  w.Header().Set("Content-Type", "application/grpc")
  w.Header().Set("Trailer", "Grpc-Status")
  w.Write(body)
  w.Header().Set("Grpc-Status", "0")
}
func main() {
  http.HandleFunc("/events", events); http.HandleFunc("/socket", socket); http.HandleFunc("/echo.Echo/Say", call)
  p := new(http.Protocols); p.SetHTTP1(true); p.SetUnencryptedHTTP2(true)
  fmt.Println((&http.Server{Addr: os.Args[1], Protocols: p}).ListenAndServe())
}
"""
PROTO = """syntax = "proto3";
package echo;
message Text { string text = 1; }
service Echo { rpc Say(Text) returns (Text); }
"""
HEAD = "scenario: streams\nprotos: echo.proto\n"
WAYS = {
    "WebSocket": (
        HEAD + "login: open\npause: { shape: fixed, mean: 20ms, kind: cycle }\nmix: { say: 1 }\ntransactions:\n"
        "  open: [{ websocket: /socket }]\n  say: [{ send: hello }, { await: { count: 1 } }]\n",
        ["--users", str(USERS)],
        f"""import {{ WebSocket }} from 'k6/websockets'; import {{ Counter }} from 'k6/metrics';
const done = new Counter('done'); export const options = {{ vus: {USERS}, iterations: {USERS} }};
export default function () {{ const w = new WebSocket('ws://127.0.0.1:{PORT}/socket');
  w.onopen = () => {{ const t = setInterval(() => w.send('hello'), 20);
    setTimeout(() => {{ clearInterval(t); w.close(); }}, {SECONDS}000); }};
  w.onmessage = () => done.add(1); }}""",
        USERS * 50 * SECONDS,
    ),
    "gRPC": (
        HEAD + f"pause: {{ shape: fixed, mean: {1_000 * USERS // RATE}ms, kind: cycle }}\nmix: {{ say: 1 }}\n"
        "transactions:\n  say: [{ grpc: /echo.Echo/Say, json: { text: hello } }]\n",
        ["--users", str(USERS), "--http", "2"],
        f"""import grpc from 'k6/net/grpc'; import {{ Counter }} from 'k6/metrics'; const done = new Counter('done');
const c = new grpc.Client(); c.load(['.'], 'echo.proto'); let open = false;
export const options = {{ scenarios: {{ a: {{ executor: 'constant-arrival-rate', rate: {RATE}, timeUnit: '1s',
  duration: '{SECONDS}s', preAllocatedVUs: {USERS} }} }} }};
export default function () {{ if (!open) {{ c.connect('127.0.0.1:{PORT}', {{ plaintext: true }}); open = true; }}
  if (c.invoke('echo.Echo/Say', {{ text: 'hello' }}).status === grpc.StatusOK) done.add(1); }}""",
        RATE * SECONDS,
    ),
    "events": (
        HEAD + "mix: { see: 1 }\ntransactions:\n  see: [{ get: /events, events: { end: true, count: 50 } }]\n",
        ["--users", str(USERS)],
        f"""import http from 'k6/http'; import {{ Counter }} from 'k6/metrics'; const done = new Counter('done');
export const options = {{ vus: {USERS}, duration: '{SECONDS}s' }};
export default function () {{ if (http.get('{URL}/events').body.split('data:').length > 50) done.add(1); }}""",
        USERS * SECONDS,
    ),
}


def measured(words: list[str], place: Path) -> float:
    """CPU seconds of a process that ends well."""
    with (place / "out.txt").open("w") as out:
        process = subprocess.Popen(words, cwd=place, stdout=out, stderr=out, preexec_fn=on_generators_cpu)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{words[0]} failed: {(place / 'out.txt').read_text()[-2000:]}")
    return usage.ru_utime + usage.ru_stime


def rounds(k6: str, place: Path, number: int) -> None:
    for name, (scenario, options, script, wanted) in WAYS.items():
        (place / "a.yaml").write_text(scenario)
        (place / "a.js").write_text(script)
        figures: dict[str, list[float]] = {"leadline-load": [], "k6": []}
        for _ in range(number):
            load = [str(RELEASE / "leadline-load"), "run", "a.yaml", "--url", URL, *options]
            cpu = measured([*load, "--ramp-up", "0s", "--steady", f"{SECONDS}s", "--out", "out", "--replace"], place)
            counts = json.loads((place / "out" / "summary.json").read_text())["total"]
            done = sum(counts[key]["ok"] for key in ("say", "see") if key in counts)
            figures["leadline-load"].append(1e6 * cpu / done)
            cpu = measured([k6, "run", "--quiet", "--summary-export", "k6.json", "a.js"], place)
            done_k6 = json.loads((place / "k6.json").read_text())["metrics"]["done"]["count"]
            figures["k6"].append(1e6 * cpu / done_k6)
            print(f"  {name}: {done} and {done_k6} of {wanted}", flush=True)
        ours, theirs = (statistics.median(values) for values in figures.values())
        ratios = sorted(a / b for a, b in zip(*figures.values(), strict=True))
        span = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
        print(f"| {name} | {ours:.0f} | {theirs:.0f} | {statistics.median(ratios):.3f} ({span}) |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("k6")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    k6 = str(Path(arguments.k6).absolute())
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "server.go").write_text(SERVER)
        (place / "echo.proto").write_text(PROTO)
        subprocess.run(["go", "build", "-o", "server", "server.go"], cwd=place, check=True)
        server = subprocess.Popen([str(place / "server"), f"127.0.0.1:{PORT}"], preexec_fn=on_targets_cpu)
        try:
            time.sleep(1)
            rounds(k6, place, arguments.rounds)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
