// Package boundedfile reads what another user may have made, such as files, archives and standard
// input: no devices, and not without end. It imports nothing of Berth.
package boundedfile
