// Program mutants changes the code in one place at a time, as a careless edit would, and runs the
// tests that should fail: first those of the changed package, then property and golden tests, then
// those of the packages that import it. It prints the changes that no test detects.
//
// It makes gremlins' changes (comparisons, arithmetic, logic, loop control), flips boolean literals
// and removes statements. It leaves out what no test of this kind can notice: constants, capacities
// given to make, locks (tests that run one after the other need none) and log lines.
//
// gremlins compiles each change on its own, and it cannot take a sample or run tests of other
// packages. Here all changes are compiled once, each behind a switch, and tests that do not reach a
// change do not run for it.
//
// Read main.go first; operators.go lists the changes.
package main
