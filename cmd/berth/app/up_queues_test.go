package app

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadLocalQueues(t *testing.T) {
	const broken = "partitions:\n- name: default\n  queues: [{name: a!}, {name: b, submitacl: a b c}]\n"
	const name, acl = `partitions[0].queues[0].name: invalid queue name "a!": it must be 1 to 64 letters, digits and _ : # / @ -`,
		`partitions[0].queues[1].submitacl: multiple spaces found in the access list "a b c": exactly one space must separate the users from the groups`
	for what, tc := range map[string]struct{ text, want string }{
		"queues":             {"partitions: [{queues: []}]", ""},
		"a ConfigMap":        {"kind: ConfigMap\ndata: {queues.yaml: 'partitions: [{queues: []}]'}", ""},
		"broken queues":      {broken, "FILE: line 3: " + name + "\nFILE: line 3: " + acl},
		"a broken ConfigMap": {"kind: ConfigMap\ndata:\n  other: |\n    x\n  queues.yaml: |\n    partitions: [{queues: [{name: a!}]}]\n", "FILE: line 6: " + name},
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("FILE", []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := ""
			if _, err := readLocalQueues("FILE"); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
