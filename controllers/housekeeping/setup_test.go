package housekeeping

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelectLoops(t *testing.T) {
	all := []string{"cluster-availability", "cluster-default-set", "cluster-lease", "cluster-taint-time", "clusterset", "clustersetbinding"}
	allowed := slices.Sorted(slices.Values(append(slices.Clone(all), clusterProfileLoop)))
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
	}
	tests := map[string]struct {
		names   string
		ocm     bool
		want    []string
		wantErr string
	}{
		"none":                             {},
		"all":                              {names: "*", want: all},
		"one":                              {names: "clusterset", want: []string{"clusterset"}},
		"two":                              {names: "clusterset,cluster-taint-time", want: []string{"cluster-taint-time", "clusterset"}},
		"all but one":                      {names: "-clusterset", want: without("clusterset")},
		"all but two":                      {names: "-clusterset,-cluster-taint-time", want: without("clusterset", "cluster-taint-time")},
		"all but one, spelt out":           {names: "*,-clusterset", want: without("clusterset")},
		"one, and another not":             {names: "clusterset,-cluster-taint-time", want: []string{"clusterset"}},
		"taken away, then added":           {names: "-clusterset,clusterset", want: all},
		"taken away, then all":             {names: "-clusterset,*", want: all},
		"all beside OCM":                   {names: "*", ocm: true},
		"all but one beside OCM":           {names: "-clusterset", ocm: true},
		"one beside OCM":                   {names: "clusterset", ocm: true, want: []string{"clusterset"}},
		"one that * lacks":                 {names: "*,cluster-profile", want: allowed},
		"it before *":                      {names: "cluster-profile,*", want: allowed},
		"only it":                          {names: "cluster-profile", want: []string{"cluster-profile"}},
		"all but it":                       {names: "-cluster-profile", want: all},
		"it beside OCM":                    {names: "*,cluster-profile", ocm: true, want: []string{"cluster-profile"}},
		"an unknown name":                  {names: "sweeper", wantErr: `--housekeeping: unknown controller "sweeper"; allowed are *, -NAME and the names ` + strings.Join(allowed, ", ")},
		"an unknown name to be left out":   {names: "-sweeper", wantErr: `--housekeeping: unknown controller "sweeper"; allowed are *, -NAME and the names ` + strings.Join(allowed, ", ")},
		"all to be left out":               {names: "-*", wantErr: `--housekeeping: unknown controller "*"; allowed are *, -NAME and the names ` + strings.Join(allowed, ", ")},
		"an empty name":                    {names: "clusterset,", wantErr: `--housekeeping: unknown controller ""; allowed are *, -NAME and the names ` + strings.Join(allowed, ", ")},
		"an empty name to be left out too": {names: "-", wantErr: `--housekeeping: unknown controller ""; allowed are *, -NAME and the names ` + strings.Join(allowed, ", ")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var names []string
			if tc.names != "" {
				names = strings.Split(tc.names, ",")
			}
			chosen, err := selectLoops(loops(nil, nil, nil, Options{}), names, !tc.ocm)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.wantErr {
				t.Errorf("got error %q, want %q", got, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(chosen))); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
		})
	}
}
