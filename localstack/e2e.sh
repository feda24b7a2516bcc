#!/usr/bin/env bash
# Runs the conformance suite of localstack/e2e on every cloud that this machine can offer, and closes with a
# line per cloud. What did not run is reported as not run, with what it would have needed.
#
#   embedded    always: the emulators of this repository, in one process
#   ministack   always: the real stack, deployed by CDK onto MiniStack
#   localstack  with Docker and LOCALSTACK_AUTH_TOKEN
#   aws         with SLUICE_E2E_AWS=1 and the credentials of an account and Region that CDK is bootstrapped
#               in; it deploys a stack of its own and destroys it
#
# Arguments choose: `localstack/e2e.sh embedded ministack`. The tools come from the Makefile: CDK,
# MINISTACK_PYTHON. Further `go test` flags can be given in E2E_FLAGS.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

scratch=$(mktemp -d)
export SUMMARY=$scratch/summary
touch "$SUMMARY"
child=

# In the background and waited for, since bash tends to signals only between commands or while it waits.
run() {
	"$@" &
	child=$!
	local status=0
	wait "$child" || status=$?
	child=
	return "$status"
}

finish() {
	if [[ -n $child ]]; then
		kill -TERM "$child" 2>/dev/null || true
		wait "$child" || true
	fi
	rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

suite=(.ci/gotest)
flags=(-race -count=1 -timeout=15m ${E2E_FLAGS:-} ./localstack/e2e)
deploy=("$scratch/deploy" -cdk "$CDK")
failed=0

# attempt runs a cloud's command. One that failed before its tests could say so gets a line of its own.
attempt() {
	local cloud=$1
	shift
	echo "-- $cloud"
	if ! run "$@"; then
		failed=1
		grep -q "^$cloud:" "$SUMMARY" || echo "$cloud: FAILED before the tests ran" >>"$SUMMARY"
		[[ $cloud != ministack ]] || tail -n 40 .local/ministack.log 2>/dev/null | sed 's/^/ministack.log: /' || true
	fi
}

not_run() {
	echo "$1: not run ($2)" >>"$SUMMARY"
}

embedded() {
	# MiniStack's Python has what handlers import on Lambda.
	attempt embedded env SLUICE_E2E_TARGET=embedded SLUICE_E2E_PYTHON="$MINISTACK_PYTHON" "${suite[@]}" embedded "${flags[@]}"
}

ministack() {
	attempt ministack "$scratch/ministack" -python "$MINISTACK_PYTHON" -- \
		"${deploy[@]}" -target ministack -- "${suite[@]}" ministack "${flags[@]}"
}

localstack() {
	if [[ -z ${LOCALSTACK_AUTH_TOKEN:-} ]] || ! docker info >/dev/null 2>&1; then
		not_run localstack "it needs Docker and LOCALSTACK_AUTH_TOKEN"
		return
	fi
	local compose=(docker compose --file localstack/compose.yaml)
	local env=(env AWS_ENDPOINT_URL=http://localhost:4566 AWS_ENDPOINT_URL_S3=http://s3.localhost.localstack.cloud:4566
		AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1)
	if run "${compose[@]}" up --detach --wait; then
		# LocalStack stores schedules and does not fire them: the pump does, beside the suite.
		attempt localstack "${env[@]}" "${deploy[@]}" -target localstack -- "$scratch/pump" -- "${suite[@]}" localstack "${flags[@]}"
	else
		failed=1
		echo "localstack: FAILED to start" >>"$SUMMARY"
	fi
	"${compose[@]}" down --volumes || failed=1
}

aws() {
	if [[ ${SLUICE_E2E_AWS:-} != 1 ]]; then
		not_run aws "opt in with SLUICE_E2E_AWS=1 and credentials"
		return
	fi
	# The account's CDK bootstrap is its owner's business.
	attempt aws "${deploy[@]}" -target aws -bootstrap=false -- "${suite[@]}" aws "${flags[@]}"
}

go build -o "$scratch/" ./localstack/deploy ./localstack/ministack ./localstack/pump
for cloud in "${@:-embedded}"; do
	case $cloud in
	embedded | ministack | localstack | aws) "$cloud" ;;
	*)
		echo "no cloud called $cloud: embedded, ministack, localstack, aws" >&2
		exit 2
		;;
	esac
done

echo "== end-to-end suite, by cloud"
sed 's/^/  /' "$SUMMARY"
exit "$failed"
