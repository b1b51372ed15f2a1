package main

import (
	"fmt"
	"go/token"
	"strings"
)

// names has the names of operators in function names.
var names = map[token.Token]string{
	token.LSS: "LSS", token.LEQ: "LEQ", token.GTR: "GTR", token.GEQ: "GEQ", token.LAND: "LAND", token.LOR: "LOR",
	token.ADD: "ADD", token.SUB: "SUB", token.MUL: "MUL", token.QUO: "QUO", token.REM: "REM",
	token.AND: "AND", token.OR: "OR", token.XOR: "XOR", token.AND_NOT: "ANDNOT", token.SHL: "SHL", token.SHR: "SHR",
}

// Environment variables of a test of rewritten packages: the number of the mutant that is on, or
// the file that receives the numbers of all mutants that the tests reach.
const (
	activeVariable  = "MUTANT"
	reachedVariable = "MUTANTS_REACHED"
)

// switches returns the file that every rewritten package gets: the functions that its mutants call.
func switches(name string, total int) string {
	var out strings.Builder
	fmt.Fprintf(&out, `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var mutantActive, mutantsReached = func() (int, *os.File) {
	active, _ := strconv.Atoi(os.Getenv(%q))
	name := os.Getenv(%q)
	if name == "" {
		return active, nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return active, file
}()

var mutantsSeen [%d]atomic.Bool

func mutated(number int) bool {
	if mutantsReached != nil && !mutantsSeen[number].Swap(true) {
		mutantsReached.WriteString(strconv.Itoa(number) + "\n")
	}
	return mutantActive == number
}

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface{ mutantInteger | ~float32 | ~float64 }
`, name, activeVariable, reachedVariable, total+1)
	for _, op := range []token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ} {
		function(&out, op, "[T mutantNumber](number int, a, b T) bool")
	}
	for _, op := range []token.Token{token.ADD, token.SUB, token.MUL, token.QUO} {
		function(&out, op, "[T mutantNumber](number int, a, b T) T")
	}
	for _, op := range []token.Token{token.REM, token.AND, token.OR, token.XOR, token.AND_NOT} {
		function(&out, op, "[T mutantInteger](number int, a, b T) T")
	}
	for _, op := range []token.Token{token.SHL, token.SHR} {
		function(&out, op, "[T, S mutantInteger](number int, a T, b S) T")
	}
	out.WriteString(`
func mutatedLAND(number int, a bool, b func() bool) bool {
	if mutated(number) {
		return a || b()
	}
	return a && b()
}

func mutatedLOR(number int, a bool, b func() bool) bool {
	if mutated(number) {
		return a && b()
	}
	return a || b()
}
`)
	return out.String()
}

func function(out *strings.Builder, op token.Token, signature string) {
	fmt.Fprintf(out, "\nfunc mutated%s%s {\n", names[op], signature)
	for i, other := range swaps[op] {
		fmt.Fprintf(out, "\tif mutated(number + %d) {\n\t\treturn a %s b\n\t}\n", i, other)
	}
	fmt.Fprintf(out, "\treturn a %s b\n}\n", op)
}
