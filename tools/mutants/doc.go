// Program mutants changes the code in one place at a time, as a careless edit would, and runs the
// tests that should notice: first those of the changed package, then property and golden tests,
// then those of the packages that import it. It prints which changes no test noticed.
//
// The changes are gremlins' (comparisons, arithmetic, logic, loop control), and also flipped
// boolean literals and removed statements. gremlins itself neither takes a sample nor runs tests of
// other packages, and it copies the whole module; here a change is an overlay, so that only the
// packages that depend on it are compiled again.
//
// Read main.go first; operators.go lists the changes.
package main
