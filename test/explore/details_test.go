package explore

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// panel is the text of the details.
const panel = `return document.querySelector('#details').innerText`

// at opens a state of the page and waits for its details.
func (b *browser) at(address string, route ...string) {
	b.t.Helper()
	query := url.Values{}
	for i := 0; i < len(route); i += 2 {
		query.Set(route[i], route[i+1])
	}
	// Another hash alone would not load the page again.
	b.open("about:blank")
	b.open(address + "#/?" + query.Encode())
	b.wait(`document.body.dataset.loaded && document.querySelector('#details h2') && !document.querySelector('#details[aria-busy]')
		&& !document.querySelector('#details').textContent.includes('the hub has not been read yet')`)
}

// says fails for each text that the details do not have.
func (b *browser) says(wants ...string) {
	b.t.Helper()
	got := eval[string](b, panel)
	for _, want := range wants {
		if !strings.Contains(got, want) {
			b.t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// looks holds the page to WCAG in both schemes and in a narrow window, and takes pictures.
func (b *browser) looks(name string) {
	b.t.Helper()
	for _, scheme := range []string{"dark", "light"} {
		b.prefer(scheme)
		b.accessible()
	}
	b.picture(name + ".png")
	b.resize(390, 844)
	b.wait(`innerWidth < 500`)
	b.accessible()
	if wide := eval[int](b, `return document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		b.t.Errorf("%s: the page is %d pixels wider than a window of 390", name, wide)
	}
	b.picture(name + "-narrow.png")
	b.resize(1440, 900)
	b.wait(`innerWidth > 1000`)
}

// TestPlacementDetails shows a change in steps, and all that is known of its Placement.
func TestPlacementDetails(t *testing.T) {
	h := hub(t)
	b := newBrowser(t)
	address := h.explore(t, "--domains", "label:region")
	b.at(address, "view", "placement", "placement", "team-search/cache")
	// The page follows the hub: it may not have the first step yet.
	b.wait(`!document.querySelector('#details').textContent.includes('Still deciding') && document.querySelector('#details').innerText.includes('revision 2')`)
	b.says("moving", "and wants 8.", "Open change 2, progressing", "minReadySeconds is 3600", "+ added", "− removed", "Configuration: ok", "Change in steps: in progress",
		"cache-decision-1", "revision 2", "candidates by result", "excluded by Predicate", "Resilience by label:region", "domains of label region", "Placement: ", "DisruptionPolicy slowly", "Suspend…")
	for what, expression := range map[string]string{
		"progress bars": `return [...document.querySelectorAll('#details [role=progressbar]')].map((e) => e.getAttribute('aria-label') + ' ' + (Number(e.getAttribute('aria-valuenow')) < Number(e.getAttribute('aria-valuemax')))).join()`,
		"events":        `return String(document.querySelector('#details').innerText.includes('DecisionUpdate'))`,
	} {
		want := "true"
		if what == "progress bars" {
			want = "Clusters added true,Clusters removed true"
		}
		if got := eval[string](b, expression); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	b.click(`details[data-kept^="PlacementDecision team-search/cache-decision-1"] summary`)
	b.click(`details[data-kept^="Placement team-search/cache"] summary`)
	b.wait(`document.querySelector('textarea.yaml')?.value.includes('numberOfClusters: 8') && document.querySelector('#details').innerText.includes('kind: PlacementDecision')`)
	if title := eval[string](b, `return document.title + '; ' + document.querySelector('#where').innerText`); !strings.Contains(title, "team-search/cache · Overview · berth · 127.0.0.1:") || !strings.HasSuffix(title, " · berth-admin") {
		t.Errorf("the title, and where it is, are %q", title)
	}
	b.at(address, "view", "placement", "placement", "team-search/cache")
	b.wait(`!document.querySelector('#details').textContent.includes('Still deciding')`)
	b.looks("explore-moving")

	b.at(address, "view", "placement", "placement", "team-ml/cache")
	b.says("misconfigured", "Configuration: mistake", "it can have one", "SelectionPolicy one")
	if got := eval[string](b, `return document.querySelector('#details .conditions li').innerText`); !strings.Contains(got, "Configuration: mistake") {
		t.Errorf("the first condition is %q", got)
	}

	b.at(address, "view", "placement", "placement", "team-checkout/worker")
	shown := func() int { return eval[int](b, `return document.querySelectorAll('#details .page li').length`) }
	all := eval[int](b, `return Number(document.querySelector('#details .verdict').textContent.match(/\d+/)[0])`)
	// A page of a decision has 100 clusters.
	if got := shown(); got != 50+all-100 {
		t.Errorf("%d of %d clusters are listed, want 50 of the first page, and the second one", got, all)
	}
	b.click(`#details .page button[aria-label^="Show all"]`)
	if got := shown(); got != all {
		t.Errorf("%d of %d clusters are listed after Show all", got, all)
	}
	b.click(`#details .page li a`)
	b.wait(`location.hash.includes('view=cell') && document.querySelector('#details .verdict') && document.querySelector('#details h2').innerText.includes(' for team-checkout/worker')`)
	b.says("Selected")
	eval[any](b, `history.back()`)
	b.wait(`document.querySelector('#details h2').innerText.startsWith('team-checkout/worker')`)
}

// TestClusterAndCellDetails shows what a cluster has, and why a Placement did not select it.
func TestClusterAndCellDetails(t *testing.T) {
	h := hub(t)
	b := newBrowser(t)
	address := h.explore(t)
	b.at(address, "view", "cluster", "cluster", "prod-eu-west-1-0001")
	b.says("1 taint", "maintenance:NoSelect", "vendor=EKS", "region.open-cluster-management.io", "cpu", "requested 0 of 8", "memory", "capacity 32Gi", "prod", "v1.30.2", "Drain…", "What if it were drained…")
	b.looks("explore-cluster")
	b.click(`#details a[title="Show only label:region=eu-west-1"]`)
	b.wait(`location.hash.includes('view=matrix') && document.querySelector('#filter').value === 'label:region=eu-west-1'`)

	b.at(address, "view", "cell", "beside", "matrix", "placement", "team-search/api", "cluster", "prod-ap-south-1-0005")
	b.says("prod-ap-south-1-0005", "for team-search/api", "elected", "Score ", "Spread over label region", "ap-south-1, this cluster's")
	bars := eval[[]string](b, `return [...document.querySelectorAll('#details .score')].map((e) => e.querySelector('.measure span').textContent + ' ' + (e.querySelector('.fill') !== null))`)
	for _, want := range []string{"Balance true", "ap-south-1, this cluster's true", "us-west-2 true"} {
		if !slices.Contains(bars, want) {
			t.Errorf("no bar %q in %q", want, bars)
		}
	}
	b.looks("explore-cell")
	b.at(address, "view", "cell", "placement", "team-search/api", "cluster", "prod-eu-west-1-0001")
	b.says("Not selected: excluded by TaintToleration", "maintenance")

	b.at(address, "view", "cluster", "cluster", "prod-none")
	b.says("prod-none", "Back to the overview")
}

// TestActing approves a held change, which the page shows first, and shows what a viewer may not.
func TestActing(t *testing.T) {
	h := hub(t)
	h.apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: acting}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: staging, namespace: acting}
spec: {clusterSet: staging}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: shop, namespace: acting}
spec: {numberOfClusters: 2}
`)
	// The first decision needs no approval, and is empty if the binding arrives later.
	h.run(t, "wait", "placement/shop", "-n", "acting", "--for=jsonpath={.status.numberOfSelectedClusters}=2", "--timeout=60s")
	h.apply(t, `
apiVersion: berth.dev/v1alpha1
kind: DisruptionPolicy
metadata: {name: careful, namespace: acting}
spec: {placements: [shop], approval: Required}
`)
	h.run(t, "wait", "disruptionpolicy/careful", "-n", "acting", "--for=condition=Ready", "--timeout=60s")
	h.run(t, "patch", "placement", "shop", "-n", "acting", "--type=merge", "-p", `{"spec":{"numberOfClusters":4}}`)
	h.run(t, "wait", "placement/shop", "-n", "acting", "--for=condition=DecisionPending", "--timeout=60s")
	selected := func() string {
		return h.run(t, "get", "placement", "shop", "-n", "acting", "-o", "jsonpath={.status.numberOfSelectedClusters}")
	}

	b := newBrowser(t)
	b.at(h.explore(t), "view", "placement", "placement", "acting/shop")
	b.wait(`document.querySelector('#details button.act[data-key="act approve"]')`)
	b.says("held", "2 clusters and wants 4.", "Reject…", "Suspend…")
	b.click(`button[data-key="act approve"]`)
	b.wait(`document.querySelector('dialog .yes:not(:disabled)')`)
	question := eval[string](b, `return document.querySelector('dialog.confirm').innerText`)
	for _, want := range []string{"Approve acting/shop", "Approve change", "1 Placement changes: 2 clusters added, 0 removed.", "Comment", "kubectl placement approve", "-n acting"} {
		if !strings.Contains(question, want) {
			t.Errorf("no %q in\n%s", want, question)
		}
	}
	b.looks("explore-acting")
	b.press(keyEscape)
	b.wait(`!document.querySelector('dialog.confirm') && document.activeElement.dataset.key === 'act approve'`)
	if got := selected(); got != "2" {
		t.Errorf("%s clusters after Escape, want 2", got)
	}

	b.press(keyEnter)
	b.wait(`document.querySelector('dialog .yes:not(:disabled)')`)
	b.click(`dialog textarea`)
	b.press(strings.Split("agreed with Ann", "")...)
	b.click(`dialog .yes`)
	b.wait(`document.querySelector('dialog .done')`)
	if got := eval[string](b, `return document.querySelector('dialog .done').innerText`); !strings.Contains(got, "pproved") {
		t.Errorf("it says %q", got)
	}
	b.press(keyEnter)
	b.wait(`!document.querySelector('dialog.confirm')`)
	// The page learns of it by itself.
	b.wait(`document.querySelector('#details').innerText.includes('It has 4 clusters and wants 4.')`)
	if got := h.run(t, "get", "placementchanges", "-n", "acting", "-o", "yaml"); !strings.Contains(got, "agreed with Ann") {
		t.Errorf("the comment is not kept in\n%s", got)
	}
	b.wait(`!document.querySelector('button[data-key="act approve"]')`)

	t.Run("without permissions", func(t *testing.T) {
		h.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: explore-reader}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: explore-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: explore-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
`)
		b := &browser{t, b.session}
		b.at(h.explore(t, "--as", "reader"), "view", "placement", "placement", "acting/shop")
		b.says("You need: create disruptionpolicies in namespace acting", "kubectl placement suspend shop -n acting")
		if able := eval[int](b, `return document.querySelectorAll('#details .actions button.act:not(:disabled)').length`); able != 0 {
			t.Errorf("%d actions can be taken", able)
		}
		b.looks("explore-missing")
	})
}

// TestWhatIf composes edits, sees what would change in a table and in the matrix, and writes
// nothing.
func TestWhatIf(t *testing.T) {
	h := hub(t)
	b := newBrowser(t)
	address := h.explore(t)
	clusters := strings.Count(h.run(t, "get", "managedclusters", "-o", "name"), "\n")
	b.at(address, "view", "whatif")
	b.says("Nothing is written to the hub.", "There is no edit yet.")
	eval[any](b, `const kind = document.querySelector('form.edit select'); kind.value = 'lose'; kind.dispatchEvent(new Event('change'))`)
	b.click(`form.edit [name=key]`)
	b.press(strings.Split("region", "")...)
	b.press(keyTab)
	b.press(strings.Split("eu-west-1", "")...)
	b.press(keyEnter)
	b.wait(`document.querySelector('.edits li')`)
	b.says("Lose all clusters with region=eu-west-1 (now 20 clusters)")
	b.click(`#details button.run`)
	b.wait(`document.querySelector('.result .comparison')`)
	b.says("What would change", "Placements change: ", "team-ml/worker", "no longer satisfied", "would have fewer clusters than wanted:")
	moved := eval[[]int](b, `return [...document.querySelectorAll('.result tbody tr')].map((row) => [3, 4].reduce((n, i) => n + Math.abs(Number(row.cells[i].innerText.replace(/[^0-9]/g, ''))), 0))`)
	if !slices.IsSortedFunc(moved, func(a, b int) int { return b - a }) || len(moved) < 5 {
		t.Errorf("the rows are not in order of what moves: %v", moved)
	}
	b.looks("explore-what-if")
	shared := eval[string](b, `return location.href`)

	b.click(`#details a.world`)
	b.wait(`document.querySelector('#bands').innerText.includes('What if…') && !document.querySelector('#matrix').hidden`)
	after := eval[int](b, `return fetch('api/fleet?world=' + new URLSearchParams(location.hash.slice(3)).get('world')).then((r) => r.json()).then((f) => f.clusters.filter((c) => c.labels?.region === 'eu-west-1').length)`)
	if after != 0 {
		t.Errorf("%d of the lost clusters are known after it", after)
	}
	b.picture("explore-what-if-matrix.png")
	eval[any](b, `history.back()`)
	b.wait(`document.querySelector('.edits li') && !document.querySelector('#bands').innerText.includes('What if…')`)
	b.click(`.edits button`)
	b.says("There is no edit yet.")
	if now := strings.Count(h.run(t, "get", "managedclusters", "-o", "name"), "\n"); now != clusters {
		t.Errorf("the hub has %d clusters, and had %d", now, clusters)
	}

	b.open("about:blank")
	b.open(shared)
	b.wait(`document.querySelector('.edits li')`)
	b.says("Lose all clusters with region=eu-west-1")
	for edits, want := range map[string]string{
		`[{"kind":"lose","key":"region","value":"moon"}]`:                          "there is no cluster with label:region=moon",
		`[{"kind":"number","placement":"team-search/none","number":3}]`:            "there is no Placement team-search/none",
		`[{"kind":"taint","cluster":"prod-eu-west-1-0001","key":"k","effect":""}]`: "",
	} {
		b.at(address, "view", "whatif", "edits", edits)
		if want == "" {
			// Not complete: the form has what is known, and asks for the rest.
			if got := eval[string](b, `return document.querySelector('form.edit [name=cluster]').value + ' ' + document.querySelectorAll('.edits li').length`); got != "prod-eu-west-1-0001 0" {
				t.Errorf("the form has %q", got)
			}
			continue
		}
		b.click(`#details button.run`)
		b.wait(`document.querySelector('.result [role=alert]')`)
		b.says(want)
	}
	for _, edits := range []string{`{`, `{}`, `[{"kind":"constructor"}]`, `[{"kind":"drain","cluster":{}}]`, `[null]`} {
		b.at(address, "view", "whatif", "edits", edits)
		b.says("cannot be read")
	}
}

// TestTime moves through a recording by change.
func TestTime(t *testing.T) {
	h := hub(t)
	b := newBrowser(t)
	b.open(h.explore(t, "--recording", h.recording()))
	b.wait(`document.body.dataset.loaded && document.querySelector('section.time .slider')`)
	if got := eval[string](b, `return document.querySelector('section.time .shown').innerText`); got != "Now" {
		t.Errorf("it shows %q, want Now", got)
	}
	marks := eval[int](b, `return document.querySelector('section.time path').getAttribute('d').split('M').length - 1`)
	if marks < 20 {
		t.Errorf("%d marks of changes", marks)
	}
	eval[any](b, `document.querySelector('.slider').focus()`)
	b.press(keyLeft)
	b.wait(`document.querySelector('#bands').innerText.startsWith('At ') && location.hash.includes('world=at-')`)
	last := eval[string](b, `return location.hash`)
	if got := eval[string](b, `return document.querySelector('section.time .cause').innerText`); !strings.Contains(got, "/") || !strings.Contains(got, "+") {
		t.Errorf("the cause is %q", got)
	}
	b.press(keyLeft)
	b.wait(fmt.Sprintf(`location.hash !== %q`, last))
	b.click(`section.time button[aria-label="The next change"]`)
	b.wait(fmt.Sprintf(`location.hash === %q`, last))
	b.looks("explore-time")
	b.click(`section.time button[aria-label^="Leave"]`)
	b.wait(`!location.hash.includes('world=') && document.querySelector('#bands').innerText === ''`)

	// To the first moment: there was no Placement yet.
	eval[any](b, `document.querySelector('.slider').focus()`)
	b.press(keyHome)
	b.wait(`document.querySelector('#bands').innerText.startsWith('At ') && document.querySelector('.slider').value === '0'`)
	eval[any](b, `history.back()`)
	b.wait(`!location.hash.includes('world=')`)

	t.Run("without a hub", func(t *testing.T) {
		server := explore.NewServer(simulator.Options{}, explore.NewViewer(simulator.Options{}, nil, nil, h.recording()))
		web := httptest.NewServer(server)
		t.Cleanup(func() { closeServer(web) })
		b := &browser{t, b.session}
		b.open(web.URL + server.Path())
		b.wait(`document.querySelector('section.time .slider') && document.body.dataset.loaded && location.hash.includes('world=at-')`)
		b.wait(`document.querySelector('#overview').innerText.includes('team-search/web')`)
		b.at(web.URL+server.Path(), "view", "whatif", "world", "at-"+eval[string](b, `return location.hash.match(/world=at-([^&]*)/)[1]`))
		b.says("A what-if needs a hub.")
	})
}

// TestHostileDetails has details of names, labels and taints that are markup.
func TestHostileDetails(t *testing.T) {
	name := `<img src=x onerror="window.harmed=1">`
	long := strings.Repeat("l", 253)
	o := simulator.Objects{
		fixture.Set("s"), fixture.Binding("ns", "s"),
		fixture.Cluster(name).Set("s").Label("k", name).Claim("c", "a\u202eb").Taint("k", name, v1alpha1.TaintEffectNoSelect).Obj(),
		fixture.Cluster(long).Set("s").Obj(),
		fixture.Placement("ns", name).Obj(),
	}
	b := newBrowser(t)
	address := serve(t, o)
	edits, err := json.Marshal([]map[string]string{{"kind": "drain", "cluster": name}, {"kind": "lose", "key": "k", "value": name}})
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range [][]string{
		{"view", "placement", "placement", "ns/" + name},
		{"view", "cluster", "cluster", name},
		{"view", "cell", "placement", "ns/" + name, "cluster", name},
		{"view", "cell", "placement", "ns/" + name, "cluster", long},
		{"view", "whatif", "edits", string(edits)},
	} {
		b.at(address, route...)
		b.says(name)
		if route[1] == "cluster" {
			b.says(`a\u202eb`, "k="+name)
		}
		if route[1] == "whatif" {
			b.click(`#details button.run`)
			b.wait(`document.querySelector('.result').innerText.includes('change')`)
		}
		if got := eval[[]any](b, `return [document.images.length, window.harmed === undefined, document.documentElement.scrollWidth <= innerWidth]`); fmt.Sprint(got) != "[0 true true]" {
			t.Errorf("%q: images, no harm, and no wider than the window: %v", route, got)
		}
	}
}
