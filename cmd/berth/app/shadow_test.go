package app

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

func comparison(placement, result string, change func(*berthv1alpha1.ShadowComparison)) berthv1alpha1.ShadowComparison {
	c := berthv1alpha1.ShadowComparison{
		Placement: placement, Profile: "default", Shadow: "roomy", Result: result, Since: metav1.NewTime(noonTime.Add(-2 * time.Hour)),
		ProfileClusters: 3, ShadowClusters: 3, Decisions: 9,
	}
	change(&c)
	return c
}

var comparisons = []berthv1alpha1.ShadowComparison{
	comparison("shop/web", "Differs", func(c *berthv1alpha1.ShadowComparison) {
		c.OnlyProfile, c.OnlyProfileCount, c.OnlyShadow, c.OnlyShadowCount = []string{"paris"}, 12, []string{"oslo", "rome"}, 2
		c.ProfileMoves, c.ShadowMoves, c.Skipped = 31, 7, 1
	}),
	comparison("shop/cart", "Failed", func(c *berthv1alpha1.ShadowComparison) { c.Message, c.Failed = "Wishes: no", 2 }),
	comparison("shop/list", "Pending", func(c *berthv1alpha1.ShadowComparison) { c.Since = metav1.NewTime(noonTime.Add(-time.Minute)) }),
	comparison("shop/page", "Agrees", func(*berthv1alpha1.ShadowComparison) {}),
}

// TestPrintShadows: the texts for several Placements, for one, and for none.
func TestPrintShadows(t *testing.T) {
	for name, tc := range map[string]struct {
		output string
		all    []berthv1alpha1.ShadowComparison
		one    bool
		want   string
	}{
		"several": {output: "table", all: comparisons, want: `
NAMESPACE   PLACEMENT   PROFILE   SHADOW   RESULT    CLUSTERS   DIFFERENT   MOVES   SHADOW MOVES   COMPARED   SKIPPED   SINCE
shop        web         default   roomy    Differs   3          12          31      7              9          1         120m
shop        cart        default   roomy    Failed    3          0           0       0              9          2         120m
shop        list        default   roomy    Pending   3          0           0       0              9          0         60s
shop        page        default   roomy    Agrees    3          0           0       0              9          0         120m
Shadow roomy selects other clusters than profile default for 1 of 4 Placements, and would have made 7 moves instead of 31 in 120m. 3 decisions could not be compared.
`},
		"wide": {output: "wide", all: comparisons[:2], want: `
NAMESPACE   PLACEMENT   PROFILE   SHADOW   RESULT    CLUSTERS   DIFFERENT   MOVES   SHADOW MOVES   COMPARED   SKIPPED   SINCE   ONLY PROFILE      ONLY SHADOW   MESSAGE
shop        web         default   roomy    Differs   3          12          31      7              9          1         120m    paris … 11 more   oslo rome     <none>
shop        cart        default   roomy    Failed    3          0           0       0              9          2         120m    <none>            <none>        Wishes: no
Shadow roomy selects other clusters than profile default for 1 of 2 Placements, and would have made 7 moves instead of 31 in 120m. 3 decisions could not be compared.
`},
		"one": {output: "table", all: comparisons[:1], one: true, want: `
Placement shop/web: default selects 3 clusters, its shadow roomy selects 3: they differ in 12
  Only default: paris … 11 more
  Only roomy: oslo rome
  Moves in 120m: default 31, roomy 7
  Decisions: 9 compared, 1 skipped, 0 failed
`},
		"one that failed": {output: "table", all: comparisons[1:2], one: true, want: `
Placement shop/cart: default selects 3 clusters, its shadow roomy selects 3: the shadow failed: Wishes: no
  Moves in 120m: default 0, roomy 0
  Decisions: 9 compared, 0 skipped, 2 failed
`},
		"none": {output: "table", want: `
No Placement was decided since the controller started whose profile has a shadow.
`},
		"markdown": {output: "markdown", all: comparisons[3:], want: `
### Shadow profiles

| NAMESPACE | PLACEMENT | PROFILE | SHADOW | RESULT | CLUSTERS | DIFFERENT | MOVES | SHADOW MOVES | COMPARED | SKIPPED | SINCE | ONLY PROFILE | ONLY SHADOW | MESSAGE |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| shop | page | default | roomy | Agrees | 3 | 0 | 0 | 0 | 9 | 0 | 120m |  |  |  |

Shadow roomy selects other clusters than profile default for 0 of 1 Placement, and would have made 0 moves instead of 0 in 120m.
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := (&shadowOptions{output: tc.output}).print(&out, tc.all, tc.one, noonTime); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestShadowJSON: programs get a list, also an empty one.
func TestShadowJSON(t *testing.T) {
	for _, all := range [][]berthv1alpha1.ShadowComparison{nil, comparisons} {
		var out bytes.Buffer
		if err := (&shadowOptions{output: "json"}).print(&out, all, false, noonTime); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Shadows []berthv1alpha1.ShadowComparison `json:"shadows"`
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Shadows == nil || len(got.Shadows) != len(all) {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}
