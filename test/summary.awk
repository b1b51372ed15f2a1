# Reads the output of `go test -v`: prints one line a package, what a failed package said besides what passed, then the slowest tests that
# were not cached, and the totals last. A Go test counts with its subtests; of a Ginkgo suite each spec counts instead, if the suite
# prints lines "took:", as test/testhub makes it.
# Fails when a package failed, or when no test ran at all.
function took(seconds, name) { count++; times[count] = seconds; names[count] = name }
# Moves the tests of the package that just ended into the list of the slowest ten, slowest first.
function rank(package,    i, at) {
	for (i = 1; i <= count; i++) {
		for (at = slow; at > 0 && slowest[at] < times[i]; at--) { slowest[at + 1] = slowest[at]; which[at + 1] = which[at] }
		if (at < 10) { slowest[at + 1] = times[i]; which[at + 1] = package "  " names[i]; if (slow < 10) slow++ }
	}
}
/^observed: / { print; fflush(); next }
/^took: / { time = $2; sub(/^took: [0-9.]+ /, ""); took(time + 0, $0); told = 1; next }
!/^=== |^ *--- PASS: / { said = said $0 "\n" }
/^--- (PASS|FAIL): / { if (!suite || !told) took(substr($NF, 2) + 0, $3); suite = told = 0 }
/^ *--- PASS: / { passed++ }
/^ *--- FAIL: / { failed++ }
/^ *--- SKIP: / { skipped++ }
match($0, /Ran [0-9]+ of [0-9]+ Specs/) { split(substr($0, RSTART, RLENGTH), word, " "); specs += word[2]; suite = 1 }
/^ok  *\t/ { packages++; print; fflush(); said = ""; if (!/\(cached\)/) rank($2); count = 0 }
/^\?  *\t/ { said = ""; count = 0 }
/^FAIL\t/ { packages++; broken++; printf "%s", said; fflush(); said = ""; rank($2); count = 0 }
END {
	if (!packages) printf "%s", said
	if (slow) print "\nthe slowest tests:"
	for (i = 1; i <= slow; i++) printf "%8.1fs  %s\n", slowest[i], which[i]
	printf "\n%d packages: %d tests passed, %d failed, %d skipped; %d specs ran in Ginkgo suites\n", packages, passed, failed, skipped, specs
	if (broken) printf "FAILED: %d packages\n", broken
	exit broken > 0 || failed > 0 || passed == 0
}
