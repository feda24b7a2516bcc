#!/usr/bin/env bash
# Kills function processes in the middle of a handler and shows how their tasks end. It runs `sluice dev` with
# a claim function of its own (examples/crash) and takes about a minute and a half: a dead worker is recognized
# by the end of its lease, which is as long as an invocation may last, 20 seconds here, and 15 seconds more.
#
# Run it in the repository after `make build-host`, or as `make demo-crash`, which does both.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
log=$scratch/log
bin/sluice dev --port 0 --claim examples/crash --timeout 20s --retry-delay 5s >"$log" 2>&1 &
dev=$!
finish() {
	kill "$dev" 2>/dev/null || true
	wait "$dev" 2>/dev/null || true
	rm -rf "$scratch"
}
trap finish EXIT

# await PATTERN waits until the log has a line like it, and prints that.
await() {
	for _ in $(seq 600); do
		grep -m1 -E "$1" "$log" && return
		kill -0 "$dev" 2>/dev/null || break
		sleep 0.2
	done
	echo "the log has no line like $1:" >&2
	cat "$log" >&2
	return 1
}

say() { printf '\n-- %s\n' "$*"; }

await '^What the functions log' >/dev/null
eval "$(grep '^export ' "$log")"

say 'a task that takes 3 seconds, and one whose handler ends its process each time'
slow=$(bin/sluice submit -t slow -i '"3s"' --timeout 4s)
fatal=$(bin/sluice submit -t fatal -i '"now"' --timeout 4s --max-retries 1)
echo "slow  $slow"
echo "fatal $fatal"

say 'kill -9 in the middle of the slow handler'
line=$(await "$slow: attempt 1 runs")
echo "$line"
kill -9 "${line##* }"
bin/sluice history "$slow"

say 'both leases have to end'
bin/sluice wait "$slow" "$fatal" --timeout 3m >/dev/null 2>&1 || true # one of them fails

say 'the slow task was run again by another process'
bin/sluice history "$slow"
say 'the fatal task was not run for ever'
bin/sluice history "$fatal"

expect() {
	local is
	is=$(bin/sluice get "$1" --json)
	if ! grep -q "\"status\": *\"$2\"" <<<"$is" || ! grep -q "\"attempt\": *2" <<<"$is"; then
		echo "expected $2 after 2 attempts: $is" >&2
		exit 1
	fi
}
expect "$slow" completed
expect "$fatal" failed
say "as expected: completed at the second attempt, and failed after two that died"
