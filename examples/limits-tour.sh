#!/usr/bin/env bash
# A tour of the rate limits, on a running `sluice dev`:
#
#   sluice dev                      # in another terminal; export what it prints in this one
#   ./examples/limits-tour.sh
#
# It declares a policy of its own, uses it up, and shows what each of the operators' verbs does. Nothing in it
# is about a local cloud: with SLUICE_TABLE (or SLUICE_STACK) of a deployed stack it does the same there.
set -euo pipefail

policy=tour-$(date +%s)-$$
key=acme

say() { printf '\n# %s\n' "$*"; }

# run shows a command and runs it. What is denied exits with 1, which is no failure here.
run() {
	printf '$ sluice %s\n' "$*"
	local status=0
	sluice "$@" || status=$?
	if ((status > 1)) || { ((status == 1)) && [[ $2 != try ]]; }; then
		echo "limits-tour: sluice $* failed ($status); is \`sluice dev\` running, and its variables exported?" >&2
		exit 1
	fi
	((status == 0)) || printf '(exit code %s)\n' "$status"
	last=$status
}

say "A policy: three at once, then one every ten minutes, for each key."
printf '{"name": "%s", "kind": "bucket", "refill": 1, "interval_ms": 600000, "max": 3}\n' "$policy" |
	run limits declare -

say "Ask until there is nothing left. The exit code says whether it was admitted."
last=0
while ((last == 0)); do
	run limits try "$policy" "$key"
done
run limits show "$policy" "$key"

say "A vendor answers 429 with Retry-After: 60. Nothing passes on that key for a minute, whatever it has."
run limits hold "$policy" "$key" --for 60s
run limits grant "$policy" "$key" 2
run limits try "$policy" "$key"

say "Without the hold, what was granted can be used."
run limits release "$policy" "$key"
run limits try "$policy" "$key" --cost 2

say "The vendor raises the limit for an hour: what was used stays used."
run limits set "$policy" --max 10 --expires-in 1h --by tour
run limits show "$policy" "$key"

say "Back to what was declared, and every key fresh again."
run limits clear "$policy" --by tour
run limits reset "$policy" --by tour
run limits show "$policy" "$key"

say "Drain what is left, and pause the policy altogether."
run limits drain "$policy" "$key" --all
run limits set "$policy" --max 0 --by tour
run limits try "$policy" "$key"
run limits clear "$policy" --by tour

say "All policies."
run limits list
