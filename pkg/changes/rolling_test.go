package changes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rolling parses "a! b- c~": ! is not ready, * unknown, % young, + original, - a forced removal, ~
// drained, ? unqualified, ^ outranked with the position as its rank.
func rolling(desired, unavailable, surge int, listed, missing string) *RollingUpdate {
	u := &RollingUpdate{Desired: desired, MaxUnavailable: unavailable, MaxSurge: surge, Missing: strings.Fields(missing)}
	for i, text := range strings.Fields(listed) {
		c := Listed{
			Name: strings.TrimRight(text, "!*%+-~?^"), Ready: !strings.ContainsAny(text, "!*%"), Unknown: strings.Contains(text, "*"),
			Young: strings.Contains(text, "%"), Original: strings.Contains(text, "+"),
		}
		for mark, removal := range map[string]Removal{"-": Forced, "~": Drained, "?": Unqualified, "^": Outranked} {
			if strings.Contains(text, mark) {
				c.Removal = removal
			}
			if c.Removal == Outranked {
				c.Rank = i + 1
			}
		}
		u.Listed = append(u.Listed, c)
	}
	return u
}

func TestRollingUpdate(t *testing.T) {
	for name, tc := range map[string]struct {
		update *RollingUpdate
		want   string // added | removed
	}{
		"nothing to do":                                      {rolling(2, 0, 1, "a b", ""), "[] | []"},
		"the first publication is whole":                     {rolling(3, 0, 1, "", "a b c"), "[a b c] | []"},
		"more clusters come at once":                         {rolling(5, 0, 1, "a b", "c d e"), "[c d e] | []"},
		"a replacement comes first":                          {rolling(2, 0, 1, "a b?", "c"), "[c] | []"},
		"then the old cluster leaves":                        {rolling(2, 0, 1, "a b? c", ""), "[] | [b]"},
		"not before the new one is ready":                    {rolling(2, 0, 1, "a b? c!", ""), "[] | []"},
		"the surge limits what comes":                        {rolling(4, 0, 1, "a? b? c? d?", "e f g h"), "[e] | []"},
		"best first":                                         {rolling(2, 0, 1, "a? b?", "z y"), "[z] | []"},
		"in the order of their names":                        {rolling(2, 0, 2, "a? b?", "z y x"), "[y z] | []"},
		"unavailable clusters need no surge":                 {rolling(4, 1, 0, "a? b? c d", "e f"), "[] | [a]"},
		"the place of one that left":                         {rolling(4, 1, 0, "b? c d", "e f"), "[e] | []"},
		"not ready ones leave first":                         {rolling(2, 0, 1, "a b? c?! d", ""), "[] | [b c]"},
		"then drained, unqualified and outranked ones":       {rolling(1, 0, 0, "a^ b^ c? d~ e", ""), "[] | [a b c d]"},
		"the order counts where few may leave":               {rolling(4, 1, 0, "a^ b^ c? d~", "e f g h"), "[] | [d]"},
		"unqualified before outranked":                       {rolling(3, 1, 0, "a^ b^ c?", "e f g"), "[] | [c]"},
		"the lowest rank before others":                      {rolling(2, 1, 0, "a^ b^", "e f"), "[] | [b]"},
		"forced ones leave at once":                          {rolling(3, 0, 1, "a- b- c", "d e"), "[d e] | [a b]"},
		"also below the budget":                              {rolling(3, 0, 1, "a- b c!", ""), "[] | [a]"},
		"without a replacement a cluster stays":              {rolling(3, 0, 1, "a b c?", ""), "[] | []"},
		"a smaller number takes effect at once":              {rolling(2, 0, 1, "a b c^ d^ e^", ""), "[] | [c d e]"},
		"a smaller number, not ready ones leave":             {rolling(2, 0, 1, "a! b c^! d^ e^!", ""), "[] | [c e]"},
		"a smaller number, the last ready ones stay":         {rolling(2, 0, 1, "a! b! c^ d^", ""), "[] | []"},
		"the replacement of an unready one comes first":      {rolling(2, 0, 1, "a?! b?!", "c d"), "[c] | []"},
		"then the unready one leaves":                        {rolling(2, 0, 1, "a?! b?! c!", "d"), "[] | [a]"},
		"also while the replacement is ready":                {rolling(2, 0, 1, "a?! b?! c", "d"), "[] | [a]"},
		"an unrelated unready one keeps none":                {rolling(3, 0, 1, "a! b?! c d", ""), "[] | [b]"},
		"nor does it keep several":                           {rolling(4, 1, 1, "a! b?! c?! d!", "e"), "[e] | [b]"},
		"and the next comes":                                 {rolling(2, 0, 1, "b?! c", "d"), "[d] | []"},
		"room that is just used makes no room":               {rolling(2, 0, 1, "a?! c", "d e"), "[d] | []"},
		"an unready one may not leave below the budget":      {rolling(3, 0, 0, "a?! b c", "d"), "[] | []"},
		"more than the budget is missing: nothing leaves":    {rolling(4, 1, 1, "a? b! c! d e", "f"), "[] | []"},
		"an unknown one does not leave as an unready one":    {rolling(3, 0, 1, "a?* b c! d", ""), "[] | []"},
		"but if enough are known to be ready":                {rolling(2, 0, 1, "a?* b c! d", ""), "[] | [a]"},
		"young ones stay until they are replaced":            {rolling(2, 0, 1, "a+?% b+?%", "c"), "[c] | []"},
		"a young one that was added replaces none":           {rolling(2, 0, 1, "a+?% b+?% c%", ""), "[] | []"},
		"a ready one does":                                   {rolling(2, 0, 1, "a+?% b+?% c", "d"), "[] | [a]"},
		"a smaller number of young ones":                     {rolling(2, 0, 1, "a+% b+% c+^% d+^%", ""), "[] | [c d]"},
		"a young one that was added leaves at once":          {rolling(2, 0, 1, "a+ b+ c?%", ""), "[] | [c]"},
		"unready ones leave before young ones":               {rolling(2, 1, 0, "a+?% b+?!", "c d"), "[] | [b]"},
		"young ones leave before ready ones":                 {rolling(1, 0, 1, "a+? b+?%", ""), "[] | [b]"},
		"minAvailable limits what leaves":                    {rolling(0, 0, 1, "a+? b+? c+? d+?", ""), "[] | [a b]"},
		"minAvailable counts original ones only":             {rolling(0, 0, 1, "a+? b+? c? d?", ""), "[] | [c d]"},
		"minAvailable counts unready ones":                   {rolling(0, 0, 1, "a+?! b+?! c+ d+", ""), "[] | [a b]"},
		"minAvailable does not keep forced removals":         {rolling(0, 0, 1, "a+- b+- c+? d+?", ""), "[] | [a b]"},
		"minAvailable lets others come":                      {rolling(2, 0, 1, "a+? b+?", "c d"), "[c] | []"},
		"a budget above the number takes everything at once": {rolling(2, 5, 0, "a? b?", "c d"), "[] | [a b]"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "minAvailable") {
				tc.update.MinAvailable = 2
			}
			added, removed := tc.update.Next()
			if got := fmt.Sprintf("%v | %v", added, removed); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestRollingUpdateLaws: every step keeps the clusters that are in both sets, publishes none that
// is in neither, and makes the ready clusters no fewer than the budget allows, nor those with the
// young original ones, and the original ones no fewer than minAvailable. If the target has
// the desired number and its clusters become ready, the change ends.
func TestRollingUpdateLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := &RollingUpdate{MaxUnavailable: rapid.IntRange(0, 3).Draw(t, "unavailable")}
		u.MaxSurge = rapid.IntRange(0, 3).Draw(t, "surge")
		u.MinAvailable = max(0, rapid.IntRange(-5, 6).Draw(t, "available"))
		if u.MaxUnavailable == 0 && u.MaxSurge == 0 {
			u.MaxSurge = 1
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "listed") {
			u.Listed = append(u.Listed, Listed{
				Name: fmt.Sprintf("c%02d", i), Rank: i + 1, Ready: rapid.Bool().Draw(t, "ready"), Young: rapid.Bool().Draw(t, "young"), Original: true,
				Removal: Removal(rapid.IntRange(int(Stays), int(Outranked)).Draw(t, "removal")),
			})
		}
		for i := range u.Listed {
			u.Listed[i].Young = u.Listed[i].Young && !u.Listed[i].Ready
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "missing") {
			u.Missing = append(u.Missing, fmt.Sprintf("n%02d", i))
		}
		target := len(u.Missing)
		for _, c := range u.Listed {
			if c.Removal == Stays {
				target++
			}
		}
		u.Desired = target + rapid.IntRange(0, 2).Draw(t, "short")
		complete := u.Desired == target && u.MinAvailable == 0
		for step := 0; ; step++ {
			added, removed := u.Next()
			checkStep(t, u, added, removed)
			quiet := len(added)+len(removed) == 0
			u.step(added, removed)
			if quiet {
				if complete && u.allReady() && (len(u.Missing) > 0 || slices.ContainsFunc(u.Listed, func(c Listed) bool { return c.Removal != Stays })) {
					t.Fatalf("all are ready and the change does not end: %+v", u)
				}
				if u.allReady() {
					return
				}
				for i := range u.Listed {
					c := &u.Listed[i]
					c.Ready = c.Ready || c.Removal == Stays
					c.Young = c.Young && !c.Ready
				}
			}
			if step > 100 {
				t.Fatalf("no end: %+v", u)
			}
		}
	})
}

// allReady is true if every cluster of the target that is listed is ready.
func (u *RollingUpdate) allReady() bool {
	return !slices.ContainsFunc(u.Listed, func(c Listed) bool { return c.Removal == Stays && !c.Ready })
}

// step publishes a step; the added clusters are not ready yet.
func (u *RollingUpdate) step(added, removed []string) {
	u.Listed = slices.DeleteFunc(u.Listed, func(c Listed) bool { return slices.Contains(removed, c.Name) })
	u.Missing = slices.DeleteFunc(u.Missing, func(name string) bool { return slices.Contains(added, name) })
	for _, name := range added {
		u.Listed = append(u.Listed, Listed{Name: name, Young: true})
	}
}

func checkStep(t *rapid.T, u *RollingUpdate, added, removed []string) {
	t.Helper()
	least, before, after, used, inUse := u.Desired-u.MaxUnavailable, 0, 0, 0, 0
	original, voluntary := 0, 0
	for _, c := range u.Listed {
		leaves := slices.Contains(removed, c.Name)
		if c.Original && !leaves {
			original++
		} else if c.Original && c.Removal != Forced {
			voluntary++
		}
		switch {
		case c.Removal == Stays && leaves:
			t.Fatalf("%s is in both sets and leaves", c.Name)
		case c.Removal == Forced && !leaves:
			t.Fatalf("%s must leave", c.Name)
		case c.Removal == Forced:
			continue
		case c.Young && c.Original:
			used++
			if !leaves {
				inUse++
			}
			continue
		case !c.Ready:
			continue
		}
		if before++; !leaves {
			after++
		}
	}
	if voluntary > 0 && original < u.MinAvailable {
		t.Fatalf("%d original clusters stay, and at least %d must", original, u.MinAvailable)
	}
	if after < before && after < least {
		t.Fatalf("%d clusters are ready, then %d, and at least %d must be", before, after, least)
	}
	if used, inUse = used+before, inUse+after; inUse < used && inUse < least {
		t.Fatalf("%d clusters are in use, then %d, and at least %d must be", used, inUse, least)
	}
	for _, name := range added {
		if !slices.Contains(u.Missing, name) {
			t.Fatalf("%s is in neither set and comes", name)
		}
	}
	if len(added) > 0 && len(u.Listed)+len(added) > u.Desired+u.MaxSurge+len(removed) {
		t.Fatalf("%d clusters come, more than the surge allows: %+v", len(added), u)
	}
}
