# Reads the output of `go test -v`: prints one line a package, what a failed package said besides what passed, and the totals last.
# Fails when a package failed, or when no test ran at all.
/^observed: / { print; fflush(); next }
!/^=== |^ *--- PASS: / { said = said $0 "\n" }
/^ *--- PASS: / { passed++ }
/^ *--- FAIL: / { failed++ }
/^ *--- SKIP: / { skipped++ }
match($0, /Ran [0-9]+ of [0-9]+ Specs/) { split(substr($0, RSTART, RLENGTH), word, " "); specs += word[2] }
/^ok  *\t/ { packages++; print; fflush(); said = "" }
/^\?  *\t/ { said = "" }
/^FAIL\t/ { packages++; broken++; printf "%s", said; fflush(); said = "" }
END {
	if (!packages) printf "%s", said
	printf "\n%d packages: %d tests passed, %d failed, %d skipped; %d specs ran in Ginkgo suites\n", packages, passed, failed, skipped, specs
	if (broken) printf "FAILED: %d packages\n", broken
	exit broken > 0 || failed > 0 || passed == 0
}
