package explanation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/shadow"
)

// maxName bounds the name of a profile in a status, in bytes.
const maxName = 253

// ShadowsOf returns status.shadows for comparisons, those that differ most first, and the message
// of the condition Explained. It lists fewer clusters of each if they are of a whole namespace.
func ShadowsOf(comparisons []shadow.Comparison, namespace bool) ([]berthv1alpha1.ShadowComparison, string) {
	limit := berthv1alpha1.MaxShadowClusters
	if namespace {
		limit = berthv1alpha1.MaxListedShadowClusters
	}
	all := make([]berthv1alpha1.ShadowComparison, len(comparisons))
	counts := map[shadow.Result]int{}
	for i := range comparisons {
		all[i] = shadowOf(&comparisons[i], limit)
		counts[comparisons[i].Result]++
	}
	slices.SortFunc(all, CompareShadows)
	message := fmt.Sprintf("%d agree, %d differ, %d pending, %d failed",
		counts[shadow.Agrees], counts[shadow.Differs], counts[shadow.Pending], counts[shadow.Failed])
	shown := cut(all)
	if missing := len(all) - len(shown); missing > 0 {
		message += fmt.Sprintf("; %d comparisons are too large for the status: name a Placement in spec.placement", missing)
	}
	return shown, message
}

// CompareShadows orders comparisons: those in which most clusters differ come first, then those
// that failed, those with the most moves of the shadow, and all others by name.
func CompareShadows(a, b berthv1alpha1.ShadowComparison) int {
	differing := func(c *berthv1alpha1.ShadowComparison) int32 { return max(c.OnlyProfileCount, c.OnlyShadowCount) }
	failed := func(c *berthv1alpha1.ShadowComparison) int {
		if c.Result == string(shadow.Failed) {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(differing(&b), differing(&a)), cmp.Compare(failed(&b), failed(&a)),
		cmp.Compare(b.ShadowMoves-b.ProfileMoves, a.ShadowMoves-a.ProfileMoves),
		strings.Compare(a.Placement, b.Placement), strings.Compare(a.Shadow, b.Shadow),
	)
}

func shadowOf(c *shadow.Comparison, limit int) berthv1alpha1.ShadowComparison {
	onlyProfile, onlyShadow := changes.Minus(c.ProfileClusters, c.ShadowClusters), changes.Minus(c.ShadowClusters, c.ProfileClusters)
	one := berthv1alpha1.ShadowComparison{
		Placement: c.Placement.Name, Profile: v1alpha1.CutText(c.Profile, maxName), Shadow: v1alpha1.CutText(c.Shadow, maxName),
		Result: string(c.Result), Message: v1alpha1.CutText(c.Failure, maxText), Since: metav1.Time{Time: c.Since},
		ProfileClusters: int32(len(c.ProfileClusters)), ShadowClusters: int32(len(c.ShadowClusters)),
		OnlyProfileCount: int32(len(onlyProfile)), OnlyShadowCount: int32(len(onlyShadow)),
		OnlyProfile: onlyProfile[:min(len(onlyProfile), limit)], OnlyShadow: onlyShadow[:min(len(onlyShadow), limit)],
		ProfileMoves: c.ProfileMoves, ShadowMoves: c.ShadowMoves, Decisions: c.Compared, Skipped: c.Skipped, Failed: c.Failed,
	}
	if !c.Time.IsZero() {
		one.ComparedTime = &metav1.Time{Time: c.Time}
	}
	return one
}

// cut returns the first comparisons, as far as they have no more than MaxShadowComparisons and
// MaxShadowBytes.
func cut(all []berthv1alpha1.ShadowComparison) []berthv1alpha1.ShadowComparison {
	bytes := 0
	for i := range all {
		text, err := json.Marshal(&all[i])
		if bytes += len(text); err != nil || bytes > berthv1alpha1.MaxShadowBytes || i == berthv1alpha1.MaxShadowComparisons {
			return all[:i]
		}
	}
	return all
}

// NotFoundMessage is the message of the condition Explained if there is no such Placement.
func NotFoundMessage(e *berthv1alpha1.PlacementExplanation) string {
	return fmt.Sprintf("spec.placement: there is no Placement %q in namespace %s", e.Spec.Placement, e.Namespace)
}
