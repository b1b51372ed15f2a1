package recording

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestFormatPage demands every field of the format in docs/reference/recording.md.
func TestFormatPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "recording.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{Entry{}, Header{}, Gap{}, Checkpoint{}, Published{}, Decision{}} {
		kind := reflect.TypeOf(of)
		for field := range kind.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && name != "-" && !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/reference/recording.md does not have %s of %s", name, kind.Name())
			}
		}
	}
}
