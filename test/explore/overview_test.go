package explore

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestOverview: the first screen of a hub with things wrong says what is wrong, and leads to it.
func TestOverview(t *testing.T) {
	h := hub(t)
	b := newBrowser(t)
	b.prefer("light")
	address := h.explore(t, "--domains", "label:region")
	b.open(address)
	b.wait(loaded)
	b.wait(`document.querySelectorAll('#overview .rows .line').length > 5`)
	b.picture("explore-overview.png")
	text := eval[string](b, `return document.querySelector('#overview').innerText`)
	for _, want := range []string{"need attention", "Needs attention: ", "misconfigured", "Newest changes", "clusters", " change +"} {
		if !strings.Contains(text, want) {
			t.Errorf("the overview says\n%s\nwithout %q", text, want)
		}
	}
	// The most urgent Placements are the first ones.
	order := eval[[]string](b, `return [...document.querySelectorAll('#overview .rows')][0].innerText.split('\n').map((s) => s.trim()).filter((s) => ['misconfigured', 'short', 'stuck', 'held'].includes(s))`)
	if len(order) < 3 || order[0] != "misconfigured" || order[len(order)-1] == "misconfigured" {
		t.Errorf("the order is %q", order)
	}
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		b.accessible()
	}

	t.Run("a count leads to the matrix", func(t *testing.T) { countLeads(t, &browser{t, b.session}) })
	t.Run("a row leads to the Placement, and Back returns", func(t *testing.T) { rowLeads(t, &browser{t, b.session}, address) })
	t.Run("the filter", func(t *testing.T) { filters(t, &browser{t, b.session}, address) })
	t.Run("the matrix", func(t *testing.T) { matrixOfHub(t, &browser{t, b.session}, address) })
	t.Run("live", func(t *testing.T) { live(t, &browser{t, b.session}, h, address) })
}

func countLeads(t *testing.T, b *browser) {
	count := eval[string](b, `return document.querySelector('#overview .tile.s-held b').textContent`)
	b.click("#overview .tile.s-held")
	b.wait(`document.querySelector('#matrix .head[role=columnheader]')`)
	got := eval[[]string](b, `return [location.hash, document.querySelector('#filter').value, String(document.querySelectorAll('.head[role=columnheader]').length)]`)
	if want := "[#/?view=matrix&filter=state:held state:held " + count + "]"; fmt.Sprint(got) != want {
		t.Errorf("the count of held changes leads to %v, want %s", got, want)
	}
	head := eval[string](b, `return document.querySelector('.head[role=columnheader]').getAttribute('aria-label')`)
	if want := "team-search/web: short, held, 5 selected of 7"; head != want {
		t.Errorf("the head is %q, want %q", head, want)
	}
	b.do("POST", "/back", map[string]any{}, nil)
	b.wait(`!document.querySelector('#overview').hidden && document.querySelector('#filter').value === ''`)
}

func rowLeads(t *testing.T, b *browser, address string) {
	b.click(`#overview .line[href*="placement=team-search/web"]`)
	b.wait(`document.querySelector('#details h2')?.textContent.includes('team-search/web')`)
	if hash := eval[string](b, `return location.hash`); hash != "#/?view=placement&beside=overview&placement=team-search/web" {
		t.Errorf("the details are at %q", hash)
	}
	b.press(keyEscape)
	b.wait(`document.querySelector('#side').hidden`)
	b.do("POST", "/back", map[string]any{}, nil)
	b.wait(`!document.querySelector('#side').hidden`)
	b.open("about:blank")
	b.open(address + "#/?view=placement&placement=team-search/none")
	b.wait(`document.querySelector('#details').innerText.includes('There is no Placement team-search/none')`)
}

func filters(t *testing.T, b *browser, address string) {
	b.open("about:blank")
	b.open(address + "#/?view=matrix&group=none")
	b.wait(`document.querySelector('.head[role=columnheader]')`)
	b.press("/")
	heads := `return [...document.querySelectorAll('.head[role=columnheader]')].map((e) => e.getAttribute('aria-label').split(':')[0]).join(' ')`
	for _, tc := range []struct{ filter, heads, says string }{
		{"ns:team-ml state:misconfigured", "team-ml/cache", ""},
		{"placement:nobind*", "team-unbound/nobinding", ""},
		{"-ns:team-* web", "", "Nothing matches “-ns:team-*”"},
		{"colour:red", "", "There is no filter “colour:”"},
		{"state:lost", "", "There is state:"},
		{"nobinding", "team-unbound/nobinding", ""},
	} {
		b.press(keyEscape)
		b.press(strings.Split(tc.filter, "")...)
		b.wait(fmt.Sprintf(`document.querySelector('#filter').value === %q && (!%q || document.querySelector('#bands').innerText.includes(%q))`, tc.filter, tc.says, tc.says))
		b.wait(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
		if got := eval[string](b, heads); tc.heads != "" && got != tc.heads {
			t.Errorf("%s: the Placements are %q, want %q", tc.filter, got, tc.heads)
		}
	}
	b.press(keyEscape)
	b.wait(`document.querySelector('#filter').value === '' && !document.querySelector('#bands').innerText && !location.hash.includes('filter')`)
	b.press(strings.Split("label:region=eu-west-1 cluster:prod*", "")...)
	b.wait(`document.querySelectorAll('.name[role=rowheader]').length > 0 && [...document.querySelectorAll('.name[role=rowheader]')].every((e) => e.textContent.startsWith('prod-eu-west-1'))`)
	b.press(keyEscape)
}

func matrixOfHub(t *testing.T, b *browser, address string) {
	b.open("about:blank")
	b.open(address + "#/?view=matrix&group=label:region&filter=-ns:team-checkout")
	b.wait(`document.querySelector('.cell.m1')`)
	b.picture("explore-matrix.png")
	groups := eval[[]string](b, `return [...document.querySelectorAll('.row.group .name')].map((e) => e.getAttribute('aria-label') + ' ' + e.getAttribute('aria-expanded'))`)
	if len(groups) == 0 || !strings.HasPrefix(groups[0], "ap-south-1, ") {
		t.Errorf("the groups are %q", groups)
	}
	rows := eval[string](b, `return document.querySelector('#grid').getAttribute('aria-rowcount')`)
	b.click(".row.group .name")
	b.wait(`document.querySelector('.row.group .name').getAttribute('aria-expanded') === 'false' && document.querySelector('#grid').getAttribute('aria-rowcount') !== '` + rows + `'`)
	if got := eval[string](b, `return document.querySelector('.row.group .cell').textContent`); got == "" {
		t.Error("a collapsed group does not say how many clusters of it are selected")
	}
	// Clusters that no shown Placement may select are hidden, and can be shown.
	hidden := eval[string](b, `return document.querySelector('#controls').innerText`)
	if !strings.Contains(hidden, " of 120 clusters") || !strings.Contains(hidden, "Also the ") || !strings.Contains(hidden, "that no shown Placement may select") {
		t.Errorf("it says %q", hidden)
	}
	b.click("#controls input")
	b.wait(`location.hash.includes('all=1') && document.querySelector('.summary').textContent.startsWith('120 clusters')`)
	// The row and the column of the cell under the mouse are marked.
	seen := eval[[]float64](b, `const cell = document.querySelector('.cell.m1'), box = (e) => e.getBoundingClientRect();
		cell.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
		const [row, column] = document.querySelectorAll('.cross');
		return [box(row).top - box(cell).top, box(column).left - box(cell).left]`)
	if fmt.Sprint(seen) != "[0 0]" {
		t.Errorf("the cross-hair is off by %v", seen)
	}
	for _, scheme := range []string{"dark", "light"} {
		b.prefer(scheme)
		b.accessible()
	}
}

// live: what changes on the hub changes on the page, and says when; what is deleted disappears.
func live(t *testing.T, b *browser, h *realHub, address string) {
	kubectl := func(args ...string) {
		t.Helper()
		if err := h.kubectl(args...); err != nil {
			t.Fatal(err)
		}
	}
	kubectl("create", "namespace", "page-live")
	b.open("about:blank")
	b.open(address + "#/?filter=ns:page-live")
	b.wait(`document.querySelector('#bands').innerText.includes('Nothing matches')`)
	kubectl("apply", "-f", "testdata/live.yaml")
	b.wait(`document.querySelector('#overview').innerText.includes('page-live/new')`)
	b.wait(`/changed \d+ s ago/.test(document.querySelector('#status').textContent)`)
	b.click(`#overview .line[href*="placement=page-live/new"]`)
	b.wait(`document.querySelector('#details h2')?.textContent.includes('page-live/new')`)
	kubectl("delete", "-f", "testdata/live.yaml")
	b.wait(`document.querySelector('#details').innerText.includes('This Placement was deleted')`)
	b.wait(`!document.querySelector('#overview .rows')?.innerText.includes('page-live/new')`)
	kubectl("delete", "namespace", "page-live", "--wait=false")
}

// TestLostConnection: the page says that the server does not answer, and goes on when it does.
func TestLostConnection(t *testing.T) {
	b := newBrowser(t)
	server := newServer(t, small())
	address, stop := listen(t, "127.0.0.1:0", server)
	b.open("http://" + address + server.Path())
	b.wait(loaded)
	b.wait(`document.querySelector('#status .dot:not(.lost)')`)
	stop()
	b.wait(`document.querySelector('#bands [role=alert]')?.innerText.includes('The connection to berth explore was lost')`)
	got := eval[string](b, `return document.querySelector('#bands').innerText + document.querySelector('#status').innerText + document.body.className`)
	for _, want := range []string{"Is it still running?", "What is shown is the state of", "Try again now", "not connected", "old"} {
		if !strings.Contains(got, want) {
			t.Errorf("it says %q without %q", got, want)
		}
	}
	b.click("#bands button")
	b.wait(`import('./store.js').then(({ store }) => store.error && !store.loading && store.lost)`)
	listen(t, address, server)
	b.wait(`!document.querySelector('#bands').innerText && document.querySelector('#status .dot:not(.lost)') && !document.body.classList.contains('old')`)
}

// TestFilterLanguage tries the language of the filter on rows, without a page.
func TestFilterLanguage(t *testing.T) {
	b := newBrowser(t)
	b.open(serve(t, small()))
	for filter, want := range map[string]string{
		"":                         "a/web b/api c/web-eu | par us-web",
		"state:held":               "a/web | par us-web",
		"-state:satisfied":         "c/web-eu | par us-web",
		"STATE:Held,short":         "a/web c/web-eu | par us-web",
		"web":                      "a/web c/web-eu | us-web",
		"-web":                     "b/api | par",
		"set:dev":                  "b/api c/web-eu | us-web",
		"-set:dev":                 "a/web b/api c/web-eu | par",
		"label:region=eu":          "a/web b/api c/web-eu | par",
		"-label:region=e*":         "a/web b/api c/web-eu | us-web",
		"label:example.com/a.b":    "a/web b/api c/web-eu | par",
		"label:exampleXcom/a.b":    "a/web b/api c/web-eu |  | Nothing matches “label:exampleXcom/a.b”",
		"available:unset":          "a/web b/api c/web-eu | us-web",
		"available:unknown":        "a/web b/api c/web-eu |  | Nothing matches “available:unknown”",
		"drained:true cluster:us*": "a/web b/api c/web-eu | us-web",
		"placement:web*":           "a/web c/web-eu | par us-web",
		"placement:a/* ns:a":       "a/web | par us-web",
		"ns:a state:short":         " | par us-web | Nothing matches “state:short”",
		"zzz":                      " |  | Nothing matches “zzz”",
		"foo:bar":                  "a/web b/api c/web-eu | par us-web | There is no filter “foo:”",
		"set:":                     "a/web b/api c/web-eu | par us-web | “set:” needs a value, such as set:prod.",
		"cluster:(a+)+$[.*":        "a/web b/api c/web-eu |  | Nothing matches “cluster:(a+)+$[.*”",
		"cluster:*a*r,u*b":         "a/web b/api c/web-eu | par us-web",
		"cluster:par*r":            "a/web b/api c/web-eu |  | Nothing matches “cluster:par*r”",
		"w*b":                      "a/web c/web-eu | us-web",
		// In a name of 253 letters there are very many ways to place these.
		"cluster:a" + strings.Repeat("*a", 20) + "*c": "a/web b/api c/web-eu |  | Nothing matches “cluster:a",
	} {
		var got string
		b.do("POST", "/execute/async", map[string]any{"args": []any{filter}, "script": `const [filter, done] = arguments;
			import('./filter.js').then(({ parse, apply }) => {
				const { placements, clusters, problems } = apply(parse(filter),
					[{ placement: 'a/web', states: ['held', 'satisfied'], sets: ['prod'] }, { placement: 'b/api', states: ['satisfied'], sets: ['prod', 'dev'] }, { placement: 'c/web-eu', states: ['short'] }],
					[{ name: 'par', sets: ['prod'], labels: { region: 'eu', 'example.com/a.b': '1' }, available: 'True' }, { name: 'us-web', sets: ['dev'], labels: { region: 'us' }, drained: true }, ...(filter.startsWith('cluster:a*') ? [{ name: 'a'.repeat(252) + 'b' }] : [])]);
				done([placements.map((p) => p.placement).join(' '), clusters.map((c) => c.name).join(' '), ...problems].join(' | '));
			}, (error) => done(String(error)))`}, &got)
		if got != want && (strings.Count(want, "|") < 2 || !strings.HasPrefix(got, want)) {
			t.Errorf("%q leaves %q, want %q", filter, got, want)
		}
	}
}

// TestFirstAnswerFails: a page whose first question fails says why, and asks again by itself.
func TestFirstAnswerFails(t *testing.T) {
	b := newBrowser(t)
	server := newServer(t, small())
	var failed atomic.Int32
	address, _ := listen(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/api/fleet") && failed.Add(1) <= 2 {
			http.Error(w, `{"error":"the hub is on fire"}`, http.StatusBadGateway)
			return
		}
		server.ServeHTTP(w, r)
	}))
	b.open("http://" + address + server.Path())
	b.wait(`document.querySelector('#bands [role=alert]')?.innerText.includes('the hub is on fire. ')`)
	b.wait(`document.querySelector('#overview .line') && !document.querySelector('#bands').innerText`)
}
