-- Runs the user's script, if any, and writes wrk's summary as JSON when the run is over.
local script = os.getenv("LEADLINE_WRK_SCRIPT")
if script then dofile(script) end
local theirs = done

function done(summary, latency, requests)
  if theirs then theirs(summary, latency, requests) end
  local file = assert(io.open(os.getenv("LEADLINE_WRK_RESULT"), "w"))
  local fields = {}
  local function put(name, value) fields[#fields + 1] = string.format('"%s": %.3f', name, value) end
  put("requests", summary.requests)
  put("duration_us", summary.duration)
  for _, kind in ipairs({"connect", "read", "write", "status", "timeout"}) do put(kind, summary.errors[kind]) end
  if summary.requests > 0 then
    put("mean", latency.mean)
    put("max", latency.max)
    for name, at in pairs({p50 = 50, p90 = 90, p95 = 95, p99 = 99, p999 = 99.9}) do
      put(name, latency:percentile(at))
    end
  end
  file:write("{", table.concat(fields, ", "), "}\n")
  file:close()
end
