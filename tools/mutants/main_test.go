package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSurvivorsOf(t *testing.T) {
	mutants := []mutant{
		{number: 1, file: "p/a.go", line: 3, what: "< → <=", code: "return a < b"},
		{number: 2, file: "p/a.go", line: 3, what: "< → >=", code: "return a < b"},
		{number: 3, file: "p/a.go", line: 9, what: "without f()", code: "f()"},
	}
	output := "1 SURVIVED p/a.go:2:8 < → <= ( 0.1 s)\n\nseed 1: 1 of 3 mutants killed, 33.3 %\n" +
		"survived: p/a.go:2:8 < → <=\n\treturn a < b\nsurvived: p/a.go:8:1 without f() (no test runs this line)\n\tf()\n"
	file := filepath.Join(t.TempDir(), "output")
	if err := os.WriteFile(file, []byte(output), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file string
		want []int
	}{
		"without a file, all":       {want: []int{1, 2, 3}},
		"on whatever line they are": {file: file, want: []int{1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := survivorsOf(tc.file, mutants)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("want %v, got %v", tc.want, got)
			}
			for i, m := range got {
				if m.number != tc.want[i] {
					t.Errorf("want %v, got %v", tc.want, got)
				}
			}
		})
	}
}
