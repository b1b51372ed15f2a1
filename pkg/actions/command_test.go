package actions

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestShellQuote(t *testing.T) {
	for _, text := range []string{
		"plain", "a/b.c_d-1@x:y=z%+,", "", " ", "two words", "$(touch x)", "`id`", "a'b", "'", "a;b|c&d>e", "~", "*", "!!", "a\nb", `\`, "-n", "#", "é",
	} {
		out, err := exec.Command("sh", "-c", "printf %s "+ShellQuote(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("the shell reads %s as %q, want %q: %v", ShellQuote(text), out, text, err)
		}
	}
	if got := ShellQuote("demo-decision-1"); got != "demo-decision-1" {
		t.Errorf("an ordinary name is quoted: %s", got)
	}
}

func TestCommandAndPermissions(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	for want, tc := range map[string]struct {
		request     Request
		permissions []string
	}{
		"kubectl placement approve placementchange/web-3 -n shop": {Request{Verb: Approve, Placement: web, Change: "web-3"},
			[]string{"patch placementchanges in namespace shop", "get placements in namespace shop", "list placementchanges in namespace shop"}},
		"kubectl placement reject web -n shop": {Request{Verb: Reject, Placement: web},
			[]string{"patch placementchanges in namespace shop", "get placements in namespace shop", "list placementchanges in namespace shop"}},
		"kubectl placement evict web -n shop --cluster 'edge 2'": {Request{Verb: Evict, Placement: web, Cluster: "edge 2"},
			[]string{"create placementevictions in namespace shop", "get placements in namespace shop", "list placementdecisions in namespace shop"}},
		"kubectl placement drain '$(reboot)'": {Request{Verb: Drain, Cluster: "$(reboot)"},
			[]string{"patch managedclusters", "get managedclusters", "list placementdecisions", "list placements"}},
		"kubectl placement undrain edge2": {Request{Verb: Undrain, Cluster: "edge2"},
			[]string{"patch managedclusters", "get managedclusters", "list placementdecisions", "list placements"}},
		"kubectl placement suspend web -n shop": {Request{Verb: Suspend, Placement: web}, []string{
			"create disruptionpolicies in namespace shop", "get disruptionpolicies in namespace shop", "get placements in namespace shop",
			"list placementchanges in namespace shop"}},
		"kubectl placement resume web -n shop": {Request{Verb: Resume, Placement: web}, []string{
			"delete disruptionpolicies in namespace shop", "get disruptionpolicies in namespace shop", "get placements in namespace shop",
			"list placementchanges in namespace shop"}},
		"kubectl placement undo web -n shop --revision 7": {Request{Verb: Undo, Placement: web, Revision: 7}, []string{
			"patch placements in namespace shop", "get placements in namespace shop", "list placementchanges in namespace shop",
			"list placementdecisions in namespace shop"}},
		"kubectl placement pin web -n shop --revision 7 --allow-fewer": {Request{Verb: Pin, Placement: web, Revision: 7, AllowFewer: true}, []string{
			"patch placements in namespace shop", "get placements in namespace shop", "list placementchanges in namespace shop",
			"list placementdecisions in namespace shop"}},
		"kubectl placement unpin web -n shop": {Request{Verb: Unpin, Placement: web},
			[]string{"patch placements in namespace shop", "get placements in namespace shop"}},
	} {
		t.Run(tc.request.Verb, func(t *testing.T) {
			if got := tc.request.Command(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			var got []string
			for _, p := range tc.request.Needs() {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.permissions, got); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCommentOnResumeNeedsPatch: the policy is deleted, so that the Placement keeps the comment.
func TestCommentOnResumeNeedsPatch(t *testing.T) {
	needs := Request{Verb: Resume, Placement: types.NamespacedName{Namespace: "shop", Name: "web"}, Comment: "over"}.Needs()
	if got, want := needs[len(needs)-1].String(), "patch placements in namespace shop"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
