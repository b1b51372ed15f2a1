// Program mutants changes the code in one place at a time, as a careless edit would, and runs the
// tests that should fail: first those of the changed package, then property and golden tests, then
// those of the packages that import it. It prints the changes that no test detects.
//
// It makes gremlins' changes (comparisons, arithmetic, logic, loop control), flips boolean literals
// and removes statements. gremlins itself cannot take a sample or run tests of other packages, and
// it copies the whole module. Here a change is an overlay, so that only dependent packages are
// compiled again.
//
// Read main.go first; operators.go lists the changes.
package main
