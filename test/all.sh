#!/usr/bin/env bash
# Runs `go test` with the given flags in every module, and prints its events for gotestsum. The suites that mostly wait, those of the other
# modules, chaos and hub, run one after the other at the same time as the rest; their events come last.
# Some tests run files that the cache of `go test` does not see. Those modules read BERTH_INPUTS, so that their cached results last only while
# these files stay the same. The tests of tools always run. `make lint` runs vet on the main module, so its tests do not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
hub=(bin/berth bin/hub/* "${KUBEBUILDER_ASSETS:-bin/hub}"/{etcd,kube-apiserver})
module() {
	local folder=$1
	shift
	BERTH_INPUTS="$(cat "${hub[@]}" "$@" | cksum)" go -C "$folder" test -json "${flags[@]}" ./... || failed=1
}
packages="$(go list ./...)"
restarts='/test/integration/(chaos|hub)$' # They stop and start the hub.
waiting() {
	local failed=0
	go -C tools test -json "${flags[@]}" -count 1 ./... || failed=1
	module examples/custom-plugin
	module test/argocd config/samples/argocd*/*
	module test/flux docs/consumers.md
	module test/ocm config/crd/bases/berth.dev_selectionpolicies.yaml
	module test/install $(git ls-files -co --exclude-standard Makefile Dockerfile .dockerignore .github LICENSE config charts docs tools/krew.yaml README.md)
	go test -json "${flags[@]}" -vet=off -p 1 $(grep -E "$restarts" <<<"$packages") || failed=1
	return $failed
}
flags=("$@")
events="$(mktemp)"
set -m
waiting >"$events" &
others=$!
set +m
trap 'kill -- -$others 2>/dev/null || true; rm -f "$events"' EXIT
failed=0
# Fewer collections of garbage take a tenth less processor time. Programs that suites start do not get these variables.
GOGC=400 GOMEMLIMIT=1GiB go test -json "${flags[@]}" -vet=off -p "${TEST_PARALLEL:-2}" $(grep -vE "$restarts" <<<"$packages") || failed=1
wait $others || failed=1
cat "$events"
exit $failed
