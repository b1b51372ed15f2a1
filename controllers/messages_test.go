package controllers

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// TestOneWriterOfMessages: conditions are set, and events are built, in one place each, which
// bounds them.
func TestOneWriterOfMessages(t *testing.T) {
	only := map[string]string{
		"meta.SetStatusCondition(": filepath.Join("api", "v1alpha1", "conditions.go"),
		"eventsv1.Event{":          filepath.Join("controllers", "events.go"),
		"corev1.Event{":            "",
		"record.EventRecorder":     "",
	}
	root := os.DirFS("..")
	for _, dir := range []string{"api", "cmd", "controllers", "pkg"} {
		err := fs.WalkDir(root, dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := fs.ReadFile(root, path)
			for text, file := range only {
				if strings.Contains(string(source), text) && path != file {
					t.Errorf("%s has %q: only %q may", path, text, file)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	s := newEventSender(nil, logr.Discard())
	now := time.Unix(0, 1)
	for name, text := range map[string]string{
		"short":         "a",
		"long":          strings.Repeat("a", 1<<20),
		"wide":          strings.Repeat("ß", 1<<20),
		"no valid text": strings.Repeat("a\xff", 2000),
		"many pages":    strings.Repeat("p-decision-1, ", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			s.instance = text
			e := s.event(corev1.ObjectReference{Namespace: "ns", Name: "p"}, report.Event{Reason: text, Action: text, Note: text}, now)
			for part, limit := range map[string]int{e.Note: 1024, e.Reason: 128, e.Action: 128, e.ReportingInstance: 128} {
				if len(part) > limit || !utf8.ValidString(part) || part == "" {
					t.Errorf("got %d bytes %.20q, want at most %d", len(part), part, limit)
				}
			}
		})
	}
	name := strings.Repeat("a-", 126) + "z"
	event := s.event(corev1.ObjectReference{Namespace: "ns", Name: name}, report.Event{}, now)
	if problems := validation.IsDNS1123Subdomain(event.Name); len(problems) > 0 || !strings.HasSuffix(event.Name, ".1") {
		t.Errorf("the event's name is %q: %v", event.Name, problems)
	}
	if diff := cmp.Diff(name, event.Regarding.Name); diff != "" {
		t.Errorf("it regards (-want +got):\n%s", diff)
	}
}
