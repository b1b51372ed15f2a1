package tenancy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
)

type configCases struct {
	Validation []struct {
		ID, Desc, Config string
		Expect           struct {
			Valid bool
			Error string
		}
	}
	Reload []struct {
		ID, Desc   string
		Configs    []string
		Submission submission
		Expect     struct {
			outcome
			Logged bool
		}
	}
}

func TestValidationCases(t *testing.T) {
	var all configCases
	cases(t, "queue_config.json", &all)
	for _, tc := range all.Validation {
		t.Run(tc.ID, func(t *testing.T) {
			_, _, err := tenancy.Parse([]byte(tc.Config))
			if (err == nil) != tc.Expect.Valid {
				t.Fatalf("%s: want valid %t, got error %v", tc.Desc, tc.Expect.Valid, err)
			}
			if err == nil {
				return
			}
			t.Log(err)
			if !strings.Contains(err.Error(), tc.Expect.Error) || !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%s: want %q and its line, got %v", tc.Desc, tc.Expect.Error, err)
			}
		})
	}
}

func TestReloadCases(t *testing.T) {
	var all configCases
	cases(t, "queue_config.json", &all)
	for _, tc := range all.Reload {
		t.Run(tc.ID, func(t *testing.T) {
			var holder tenancy.Holder
			refused := false
			for _, text := range tc.Configs {
				_, _, err := holder.Update([]byte(text))
				refused = refused || err != nil
			}
			if tc.Expect.Logged && !refused {
				t.Error("no document was refused")
			}
			config := holder.Load()
			if config == nil {
				if !tc.Expect.Rejected {
					t.Fatal("no configuration is in force")
				}
				return
			}
			got := placeIn(t, config.Tree, tc.Submission.request(), nil)
			if diff := cmp.Diff(tc.Expect.outcome, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.Desc, diff)
			}
		})
	}
}
