package boundedfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{5: "", 4: file + " is larger than 4 bytes"} {
		text, err := ReadFile(file, limit)
		switch {
		case want == "" && (err != nil || string(text) != "12345"):
			t.Errorf("limit %d: %q, %v", limit, text, err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("limit %d: %v, want %s", limit, err, want)
		}
	}
	if _, err := ReadFile("/dev/zero", 4); err == nil || err.Error() != "/dev/zero is a device, not a file" {
		t.Errorf("/dev/zero: %v", err)
	}
}
