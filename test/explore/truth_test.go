package explore

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// wide has clusters of two regions and three sets, and Placements that lack bindings.
func wide() simulator.Objects {
	o := simulator.Objects{
		fixture.Set("edge"), fixture.Set("prod"), fixture.SelectorSet("global", &metav1.LabelSelector{}), fixture.Binding("ns", "prod"), fixture.Binding("ns", "global"), fixture.Placement("ns", "web").Obj(),
	}
	for i := range 40 {
		region, set := []string{"eu", "us"}[i%2], []string{"prod", "edge"}[i%2]
		c := fixture.Cluster(fmt.Sprintf("c%02d", i)).Set(set).Label("region", region).Allocatable("cpu", fmt.Sprint(8+i))
		if i != 7 {
			c = c.Condition(v1alpha1.ManagedClusterConditionAvailable, "True", fixture.At(0))
		} else {
			c = c.Condition(v1alpha1.ManagedClusterConditionAvailable, "False", fixture.At(0)).Taint("k", "", v1alpha1.TaintEffectNoSelect)
		}
		o = append(o, c.Obj())
	}
	return append(o, fixture.Cluster("alone").Label("region", "eu").Obj())
}

// causes are Placements of which two have one cause, with other numbers.
func causes(f *explore.Fleet) {
	row := func(name, message string, states ...changes.StateName) explore.PlacementRow {
		return explore.PlacementRow{Placement: "ns/" + name, Selected: 18, Wanted: new(int32(16)), States: states, Message: message}
	}
	f.Placements = []explore.PlacementRow{
		row("a", "2 decisions unscheduled", changes.StateShort, changes.StateHeld), row("b", "13 decisions unscheduled", changes.StateShort, changes.StateHeld), row("c", "no binding", changes.StateShort),
		row("d", "it waits", changes.StateHeld, changes.StateMoving),
	}
}

// TestOverviewTells: equal causes are one row, all states are seen, a zero leads nowhere, and the
// worst region is the first one.
func TestOverviewTells(t *testing.T) {
	b := newBrowser(t)
	b.open(serveObjects(t, wide(), causes))
	b.wait(`document.querySelectorAll('#overview .rows .line').length >= 4`)
	rows := eval[[]string](b, `return [...document.querySelectorAll('#overview .rows')][0].innerText.split('\n').map((s) => s.trim()).filter(Boolean)`)
	got := strings.Join(rows, " ")
	for _, want := range []string{"short Ⅱ held 2 Placements ns/a, ns/b", "Such as: 2 decisions unscheduled", "ns/c 18 of 16 no binding", "held → moving ns/d 18 of 16"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says %q without %q", got, want)
		}
	}
	if zero := eval[string](b, `return [...document.querySelectorAll('.tile')].filter((e) => e.querySelector('b').textContent === '0' && e.tagName === 'A').map((e) => e.innerText).join()`); zero != "" {
		t.Errorf("there is a link behind the zero of %q", zero)
	}
	if got := eval[string](b, `return document.querySelector('.regions').innerText`); !strings.HasPrefix(got, "us 1 of 20 clusters not available") {
		t.Errorf("the regions are %q", got)
	}
	b.click(".same summary")
	eval[any](b, `import('./store.js').then(({ store }) => store.tell({ clusters: true }))`)
	b.wait(`document.querySelector('.same[open]') && document.querySelector('.same .rows').innerText.includes('ns/b')`)
	b.looks("explore-causes")
}

// TestNothingIsPretended: what a viewer may not see is not said to be missing, and what is old is
// not said to be good.
func TestNothingIsPretended(t *testing.T) {
	b := newBrowser(t)
	b.open(serveChanged(t, func(f *explore.Fleet) {
		f.Placements, f.Missing, f.Namespace, f.Hub.State = nil, []string{"list placements in namespace team", "list placementchanges in namespace team"}, "team", explore.Connected
	}))
	b.wait(`document.querySelector('#overview .verdict')`)
	if got, want := eval[string](b, `return document.querySelector('#overview .verdict').innerText`), "You may not see Placements: you do not have the permission to list placements in namespace team."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got := eval[string](b, `return document.querySelector('#overview').innerText`); strings.Contains(got, "misconfigured") || !strings.Contains(got, "Changes are not known: you do not have the permission to list placementchanges in namespace team.") {
		t.Errorf("it says\n%s", got)
	}
	b.open("about:blank")
	b.open(serveChanged(t, func(f *explore.Fleet) { f.Missing, f.Hub.State = []string{"list managedclusters"}, explore.Connected }))
	b.wait(`document.querySelector('#overview').innerText.includes('The state of clusters is not known: you do not have the permission to list managedclusters.') && !document.querySelector('.clusters')`)
	b.click(`#views a[href*="view=clusters"]`)
	b.wait(`document.querySelector('#clusters tbody')?.innerText.includes('not known')`)
	b.open("about:blank")
	address, stop := serveUntil(t, small(), func(f *explore.Fleet) { f.Placements[0].States = []changes.StateName{changes.StateSatisfied} })
	b.open(address)
	b.wait(`document.querySelector('#overview .verdict.good')`)
	stop()
	b.wait(`!document.querySelector('.verdict.good') && document.querySelector('#overview .verdict').innerText.includes('Whether that is so now is not known.')`)
}

// TestUndoToNothing: an action that leaves no clusters is not highlighted, and comes after Cancel.
func TestUndoToNothing(t *testing.T) {
	b := newBrowser(t)
	b.open(serve(t, small()))
	b.wait(loaded)
	eval[any](b, `window.fetch = async () => new Response(JSON.stringify({ question: 'Undo?', diff: { summary: { placements: 1, changed: 1, added: 0, removed: 2 }, changes: [{ placement: 'ns/web', operation: 'Updated', before: 2, published: 2, after: 0, added: [], removed: ['a', 'b'] }] } }));
		import('./actions.js').then(({ actionButtons }) => { document.body.append(actionButtons([{ verb: 'drain', command: 'c' }], { cluster: 'c1' })); document.querySelector('[data-key="act drain"]').click(); })`)
	b.wait(`document.querySelector('dialog .buttons button:last-child:not(:disabled):not(.cancel)')`)
	got := eval[string](b, `return [...document.querySelectorAll('dialog .buttons button')].map((e) => e.className).join() + ' ' + document.activeElement.className + ' ' + document.querySelector('dialog .bad').innerText`)
	if want := "cancel,act cancel ns/web would have no clusters."; got != want {
		t.Errorf("the buttons are %q, want %q", got, want)
	}
}

// TestClusterTable sorts and filters the clusters with its heads and the controls.
func TestClusterTable(t *testing.T) {
	b := newBrowser(t)
	b.open(serve(t, wide()) + "#/?view=clusters")
	b.wait(`document.querySelectorAll('#clusters tbody tr').length === 41`)
	row := func() string {
		return eval[string](b, `return [...document.querySelectorAll('#clusters tbody tr:first-child td')].map((e) => e.textContent).join('|')`)
	}
	for _, tc := range []struct{ click, want string }{
		{"health", "c07|unavailable|edge, global|us||1|0 of 15||0"}, {"cpu", "alone|not reported|global|eu||0|||0"}, {"cluster", "alone|"}, {"cluster", "c39|available|edge, global|us||0|0 of 47||0"},
	} {
		b.click(`#clusters th button[data-key=` + tc.click + `]`)
		if got := row(); !strings.HasPrefix(got, tc.want) {
			t.Errorf("by %s the first row is %q, want %q", tc.click, got, tc.want)
		}
	}
	choose := func(name, value string) {
		eval[any](b, `const e = document.querySelector('select[aria-label="Filter by ' + arguments[0] + '"]'); e.value = arguments[1]; e.dispatchEvent(new Event('change'))`, name, value)
	}
	choose("region", "us")
	choose("availability", "false")
	b.wait(`document.querySelector('#clusters .verdict').innerText === '1 of 41 clusters' && document.querySelector('#filter').value === 'label:region=us available:false'`)
	choose("availability", "")
	b.wait(`document.querySelector('#clusters .verdict').innerText === '20 of 41 clusters'`)
	b.click("#clusters tbody a")
	b.wait(`location.hash.includes('view=cluster&beside=clusters') && !document.querySelector('#details[aria-busy]')`)
	b.looks("explore-clusters")
	b.press(keyEscape)
	b.press("?")
	b.wait(`document.querySelector('#keys').open && document.querySelector('#keys').innerText.includes('goes to the filter')`)
	b.accessible()
}

// TestSets: the matrix has each cluster under its exclusive set, and says what is not known.
func TestSets(t *testing.T) {
	b := newBrowser(t)
	address := serveObjects(t, wide(), func(*explore.Fleet) {})
	groups := `return [...document.querySelectorAll('.row.group .name')].map((e) => e.getAttribute('aria-label')).join('; ')`
	b.open(address + "#/?view=matrix&closed=edge,prod&all=1")
	b.wait(`document.querySelector('.row.group')`)
	if got, want := eval[string](b, groups), "edge, 20 clusters; global, 1 cluster; prod, 20 clusters"; got != want {
		t.Errorf("the groups are %q, want %q", got, want)
	}
	b.open("about:blank")
	b.open(serveObjects(t, wide(), func(f *explore.Fleet) {
		f.SetsNotKnown = true
		for i := range f.Clusters {
			f.Clusters[i].Sets = nil
		}
	}) + "#/?view=matrix&all=1")
	b.wait(`document.querySelector('.row.group')`)
	if got, want := eval[string](b, groups), "set not known, 41 clusters"; got != want {
		t.Errorf("the groups are %q, want %q", got, want)
	}
}

// TestLinkToCell: a link to a cell far away shows it, beside its details.
func TestLinkToCell(t *testing.T) {
	b := newBrowser(t)
	last := fmt.Sprintf("team-%03d/web", fleetPlacements/8-1)
	b.at(serve(t, fleet()), "view", "cell", "beside", "matrix", "placement", last, "cluster", clusterName(fleetClusters-1))
	b.wait(`(() => { const e = document.querySelector('.cell.current')?.getBoundingClientRect(), g = document.querySelector('#grid').getBoundingClientRect();
		return e && e.top >= g.top && e.bottom <= g.bottom && e.left >= g.left && e.right <= g.right; })()`)
	if got := eval[[]string](b, current); len(got) != 2 || !strings.HasPrefix(got[1], clusterName(fleetClusters-1)+", "+last) {
		t.Errorf("the current cell is %q", got)
	}
}

// TestPreview shows the YAML of objects, and what an edited Placement would change.
func TestPreview(t *testing.T) {
	b := newBrowser(t)
	b.at(serve(t, wide()), "view", "placement", "placement", "ns/web")
	b.click(`details[data-kept^="Placement ns/web"] summary`)
	b.wait(`document.querySelector('textarea.yaml')?.value.includes('kind: Placement')`)
	eval[any](b, `const e = document.querySelector('textarea.yaml'); e.value = e.value.replace('spec: {}', 'spec: {numberOfClusters: 3}'); e.dispatchEvent(new Event('input'))`)
	// What is typed stays when the hub changes.
	eval[any](b, `import('./store.js').then(({ store }) => store.tell({ all: true }))`)
	b.wait(`!document.querySelector('#details[aria-busy]') && document.querySelector('textarea.yaml').value.includes('numberOfClusters: 3')`)
	eval[any](b, `document.querySelector('textarea.yaml').parentElement.querySelector('button').click()`)
	b.wait(`document.querySelector('details .result')?.innerText.includes('1 Placement changes: ')`)
	b.says("ns/web")
	b.looks("explore-preview")
	eval[any](b, `const e = document.querySelector('textarea.yaml'); e.value = 'spec: ['; e.parentElement.querySelector('button').click()`)
	b.wait(`document.querySelector('details .result [role=alert]')`)
}

// TestRecordingOnly: a page without a hub does not say that all is well, and has no now to go to.
func TestRecordingOnly(t *testing.T) {
	b := newBrowser(t)
	server := explore.NewServer(simulator.Options{}, explore.NewViewer(simulator.Options{}, nil, nil, "../../examples/recording"))
	address, _ := listen(t, "127.0.0.1:0", server)
	b.open("http://" + address + server.Path())
	b.wait(`document.querySelector('#overview .verdict')?.innerText === 'In this state nothing needs attention: 2 Placements on 5 clusters.'`)
	got := eval[string](b, `return document.querySelector('#where').innerText + '; ' + document.querySelector('#bands').innerText`)
	if !strings.HasPrefix(got, "a recording; At Nov 23, 2026") || strings.Contains(got, "Back to now") {
		t.Errorf("it says %q", got)
	}
}
