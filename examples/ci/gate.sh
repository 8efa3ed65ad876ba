#!/bin/bash
# gate.sh STUDY-FILE POLICY [OPTION of leadline run]...: run the study, write its reports, end by the policy.
# Reports: leadline-report.html, .md (also the summary of the job), .xml (JUnit), .json. Exit codes:
# 0 the policy is kept, 1 it is not (or the study failed), 2 wrong use.
set -u
study=${1:?usage: gate.sh STUDY-FILE POLICY} policy=${2:?usage: gate.sh STUDY-FILE POLICY}
shift 2
case $policy in
  regression | equivalence) ;;
  *) echo "policy '$policy': write regression or equivalence" >&2; exit 2 ;;
esac
name=$(sed -n 's/^study: *//p' "$study")
lab=lab
case " $* " in *" --simulate "*) lab=lab/simulated ;; esac

leadline run "$study" "$@"
code=$?
[ "$code" -le 1 ] || exit "$code"  # 1: trials are left or failed, which the report tells

exec python3 "$(dirname "$0")/gate.py" "$name" "$lab" "$policy"
