package simulator

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// endless repeats a text forever, like /dev/zero.
type endless string

func (e endless) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], e)
	}
	return len(p), nil
}

func TestInputIsBounded(t *testing.T) {
	folder := write(t, map[string]string{"big.yaml.gz": zipped(t, strings.Repeat(strings.Repeat(" ", 1<<16)+"\n", maxInput>>16)), "a.yaml": setText})
	fifo, named := filepath.Join(folder, "fifo"), filepath.Join(write(t, nil), "objects.yaml")
	for _, path := range []string{fifo, named} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bomb := "a: &a \"" + strings.Repeat("x", 1<<16) + "\"\nb: [" + strings.Repeat("*a, ", 1<<12) + "]\n"
	laughs := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'm'; i++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", i-1), 10), ", "))
	}
	tests := map[string]struct {
		path  string
		stdin io.Reader
		want  string
	}{
		"an archive":                {path: filepath.Join(folder, "big.yaml.gz"), want: "the input has more than 256 MiB"},
		"standard input":            {path: "-", stdin: endless("# a comment\n"), want: "the input has more than 256 MiB"},
		"a device":                  {path: "/dev/zero", want: "/dev/zero is a device, not a file"},
		"a FIFO in a folder":        {path: filepath.Dir(named), want: "objects.yaml is a named pipe, not a file"},
		"many objects":              {path: "-", stdin: strings.NewReader(strings.Repeat(`{"apiVersion":"v1","kind":"X"}`, maxObjects+1)), want: "more than 200000 objects"},
		"a large YAML document":     {path: "-", stdin: io.LimitReader(endless("a: b\n"), maxDocument+5), want: "larger than 32 MiB"},
		"a document of small parts": {path: "-", stdin: io.LimitReader(endless("[\n"), 2*maxParts+2), want: "more than 4000000 parts"},
		"a large object": {
			path: "-", stdin: strings.NewReader(`{"apiVersion":"v1","kind":"X","a":"` + strings.Repeat("x", maxObject) + `"}`),
			want: "larger than 3 MiB, which no API server accepts",
		},
		"aliases of a long text":       {path: "-", stdin: strings.NewReader(bomb), want: "aliases expand it to more than 32 MiB"},
		"aliases of aliases":           {path: "-", stdin: strings.NewReader(laughs), want: "aliases expand it to more than 32 MiB"},
		"an alias of what contains it": {path: "-", stdin: strings.NewReader("a: &a\n  b: *a\n"), want: "anchor 'a' value contains itself"},
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(fifo, []byte(setText), 0o600) }()
	if input, err := Load([]string{fifo}, nil); err != nil || len(input.Objects) != 1 {
		t.Errorf("a FIFO: %v, %v", input, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]string{tc.path}, tc.stdin)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
	if input, err := Load([]string{"-"}, strings.NewReader("x: &n all\n"+strings.Replace(setText, "name: all", "name: *n", 1))); err == nil {
		t.Errorf("an unknown field beside the anchor: %v", names(input.Objects))
	}
}

// TestNotRead names what is left out, in one short line.
func TestNotRead(t *testing.T) {
	foreign := func(kinds int) string {
		text := ""
		for i := range kinds {
			text += fmt.Sprintf("---\napiVersion: example.com/v1\nkind: Kind%03d%s\n", i, strings.Repeat("x", 300))
		}
		return text
	}
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"everything is read": {files: map[string]string{"a.yaml": setText + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"}},
		"other kinds": {
			files: map[string]string{"a.yaml": strings.Repeat("---\napiVersion: apps/v1\nkind: Deployment\n", 2) + "---\napiVersion: v1\nkind: Service\n"},
			want:  "2 Deployment.apps, 1 Service",
		},
		"a kind of Berth on which no decision depends": {
			files: map[string]string{"a.yaml": "apiVersion: berth.dev/v1alpha1\nkind: PlacementExplanation\nmetadata: {name: x}\n"},
			want:  "1 PlacementExplanation.berth.dev",
		},
		"a ConfigMap without queues": {
			files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n"},
			want:  "1 ConfigMap",
		},
		"folders and files": {
			files: map[string]string{"a.yaml": setText, "deep/er.yaml": setText, "README.md": "x", ".b.yaml": "x", ".git/x": "x"},
			want:  "1 subfolder (deep), 2 files (.b.yaml, README.md)",
		},
		"very many kinds": {
			files: map[string]string{"a.yaml": foreign(100)},
			want:  "1 Kind000xxx",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			input, err := Load([]string{write(t, tc.files)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := input.NotRead.String()
			if len(got) > 1000 || strings.Contains(got, "\n") {
				t.Errorf("%d bytes: %q", len(got), got)
			}
			if name == "very many kinds" {
				if !strings.HasPrefix(got, tc.want) || !strings.HasSuffix(got, ", 95 of 95 more kinds") {
					t.Errorf("not read: %s", got)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAlmostKinds: a kind that differs from a served one by case or plural is an error, and names
// the right kind.
func TestAlmostKinds(t *testing.T) {
	for kind, want := range map[string]string{
		"cluster.open-cluster-management.io/v1beta1 placement":                 "Placement",
		"cluster.open-cluster-management.io/v1beta1 Placements":                "Placement",
		"cluster.open-cluster-management.io/v1beta2 ManagedClusterSetBindings": "ManagedClusterSetBinding",
		"cluster.open-cluster-management.io/v1 managedClusterlist":             "ManagedClusterList",
		"berth.dev/v1alpha1 disruptionpolicies":                                "DisruptionPolicy",
		"berth.dev/v1alpha1 PlacementExplanations":                             "PlacementExplanation",
		"v1 configMap":  "ConfigMap",
		"v1 namespaces": "Namespace",
		"v1 list":       "List",
	} {
		t.Run(kind, func(t *testing.T) {
			version, name, _ := strings.Cut(kind, " ")
			_, err := Load([]string{"-"}, strings.NewReader("apiVersion: "+version+"\nkind: "+name+"\nmetadata: {name: x, namespace: ns}\n"))
			wantError := fmt.Sprintf(`standard input: %s ns/x: kind: Unsupported value: %q: supported values: %q`, name, name, want)
			if err == nil || err.Error() != wantError {
				t.Errorf("error is %v, want %s", err, wantError)
			}
		})
	}
}
