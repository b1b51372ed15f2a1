// Command sbom prints the bill of materials of a Go program, as SPDX 2.3 in JSON: the modules that
// the program was built from, as the program itself says. Its time is SOURCE_DATE_EPOCH, or now.
//
// Usage: sbom PROGRAM VERSION
package main
