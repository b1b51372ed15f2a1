package explore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

const (
	// maxNodes is how many elements a page of 1440 by 900 may have, however large the fleet, and
	// maxMemory how many bytes its objects.
	maxNodes  = 4000
	maxMemory = 100 << 20
)

const (
	loaded  = `document.body.dataset.loaded`
	read    = `document.querySelector('.cell') && ![...document.querySelectorAll('.cell')].some((e) => e.textContent === '·')`
	details = `return document.querySelector('#details').innerText`
	current = `const e = document.getElementById(document.querySelector('#grid').getAttribute('aria-activedescendant'));
		return e ? [e.getAttribute('role'), e.getAttribute('aria-label')] : []`
)

// TestFleet walks through the matrix of 5,000 clusters and 2,000 Placements with mouse and keys.
func TestFleet(t *testing.T) {
	b := newBrowser(t)
	b.prefer("light")
	address := serve(t, fleet())
	start := time.Now()
	b.open(address + "#/?view=matrix&group=none")
	b.wait(loaded)
	fleetTook := time.Since(start)
	b.wait(read)
	fmt.Printf("observed: %d clusters by %d Placements were shown after %s, the cells in sight after %s\n",
		fleetClusters, fleetPlacements, fleetTook.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))

	for _, step := range []struct {
		name string
		does func(*testing.T, *browser)
	}{
		{"only what is in sight is drawn", drawsLittle}, {"keys", keyboard}, {"a narrow window", narrow}, {"accessible in both schemes", colours},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.does(t, &browser{t, b.session})
		})
	}
}

func drawsLittle(t *testing.T, b *browser) {
	size := eval[[]string](b, `const g = document.querySelector('#grid'); return [g.getAttribute('role'), g.getAttribute('aria-rowcount'), g.getAttribute('aria-colcount')]`)
	if want := []string{"grid", fmt.Sprint(fleetClusters + 1), fmt.Sprint(fleetPlacements + 1)}; !slices.Equal(size, want) {
		t.Errorf("the grid is %v, want %v", size, want)
	}
	// The quickest of many says what the page needs; the others, what else the machine had to do.
	var took float64
	b.do("POST", "/execute/async", map[string]any{"args": []any{}, "script": `const done = arguments[0], g = document.querySelector('#grid');
		import('./matrix.js').then(({ draw }) => {
			let least = Infinity;
			for (let i = 1; i <= 100; i++) {
				const start = performance.now();
				g.scrollTop = i * 1000; g.scrollLeft = i * 560; draw(); g.offsetHeight;
				least = Math.min(least, performance.now() - start);
			}
			done(least);
		})`}, &took)
	if took > 100 {
		t.Errorf("%.1f ms to draw another place", took)
	}
	b.wait(read)
	got := eval[[]float64](b, `return [document.getElementsByTagName('*').length, performance.memory.usedJSHeapSize]`)
	fmt.Printf("observed: %.0f elements, %.1f ms to draw and lay out another place of the matrix, %.0f MiB of objects\n", got[0], took, got[1]/(1<<20))
	if got[0] > maxNodes || got[1] > maxMemory {
		t.Errorf("%.0f elements, want at most %d; %.0f bytes, want at most %d", got[0], maxNodes, got[1], maxMemory)
	}
	b.wait(`[...document.querySelectorAll('[role=rowheader]')].some((e) => e.textContent.startsWith('us-east'))`)
}

func keyboard(t *testing.T, b *browser) {
	eval[any](b, `const g = document.querySelector('#grid'); g.scrollTop = g.scrollLeft = 0; document.querySelector('#legend').focus()`)
	b.press(keyTab)
	if id := eval[string](b, `return document.activeElement.id`); id != "grid" {
		t.Fatalf("Tab goes to %q", id)
	}
	b.press(keyControl, keyHome)
	last, lastPlacement := clusterName(fleetClusters-1), fmt.Sprintf("team-%03d/web", fleetPlacements/8-1)
	for _, tc := range []struct {
		keys []string
		want string
	}{
		{[]string{keyDown, keyDown, keyRight}, "gridcell ap-south-0003, team-000/audit: "},
		{[]string{keyEnd}, "gridcell ap-south-0003, " + lastPlacement},
		{[]string{keyHome}, "gridcell ap-south-0003, team-000/api"},
		{[]string{keyControl, keyEnd}, "gridcell " + last + ", " + lastPlacement},
		{[]string{keyRight, keyDown}, "gridcell " + last + ", " + lastPlacement},
		{[]string{keyControl, keyHome}, "gridcell ap-south-0001, team-000/api"},
		{[]string{keyUp}, "columnheader team-000/api"},
		{[]string{keyDown, keyPage}, "gridcell ap-south-00"},
	} {
		b.press(tc.keys...)
		if got := strings.Join(eval[[]string](b, current), " "); !strings.HasPrefix(got, tc.want) {
			t.Errorf("after %+q the current one is %q, want %q", tc.keys, got, tc.want)
		}
	}
	seen := eval[bool](b, `const e = document.querySelector('.cell.current').getBoundingClientRect(), g = document.querySelector('#grid').getBoundingClientRect();
		return e.top >= g.top && e.bottom <= g.bottom && e.left >= g.left && e.right <= g.right`)
	ring := eval[string](b, `const s = getComputedStyle(document.querySelector('.cell.current')); return s.outlineStyle + ' ' + s.outlineWidth`)
	if !seen || ring != "solid 3px" {
		t.Errorf("the current cell is in sight: %t, its outline %q", seen, ring)
	}
	b.press(keyEnter)
	cluster, _, _ := strings.Cut(eval[[]string](b, current)[1], ",")
	b.wait(fmt.Sprintf(`document.querySelector('#details').innerText.includes('elected') && document.querySelector('#details h2').textContent.includes(%q)`, cluster))
	if hash := eval[string](b, `return location.hash`); !strings.Contains(hash, "view=cell&beside=matrix&placement=team-000/api&cluster="+cluster) {
		t.Errorf("the cell is at %q", hash)
	}
	// The focus stays in the matrix, so that the next cell is one key away.
	if id := eval[string](b, `return document.activeElement.id`); id != "grid" {
		t.Errorf("the focus is on %q", id)
	}
	b.press(keyEscape)
	b.wait(`document.querySelector('#side').hidden`)
}

// narrow leaves room for clusters, and for why, in the window of a telephone.
func narrow(t *testing.T, b *browser) {
	b.resize(390, 844)
	defer b.resize(1440, 900)
	const seen = `[...document.querySelectorAll('[role=rowheader]')].filter((e) => {
		const r = e.getBoundingClientRect(), g = document.querySelector('#grid').getBoundingClientRect(), h = document.querySelector('.heads').getBoundingClientRect();
		return r.top >= h.bottom && r.bottom <= g.bottom;
	}).length >= 5`
	b.wait(`innerWidth < 800 && ` + seen)
	eval[any](b, `document.querySelector('#grid').focus()`)
	b.press(keyDown)
	b.press(keyEnter)
	b.wait(`!document.querySelector('#side').hidden && ` + seen)
	room := eval[[]float64](b, `const d = document.querySelector('#details').getBoundingClientRect(); return [d.height, innerHeight - d.bottom, document.documentElement.scrollWidth - innerWidth]`)
	if room[0] < 150 || room[1] < 0 || room[2] > 0 {
		t.Errorf("why has %.0f pixels, %.0f of the window below; the page is %.0f too wide", room[0], room[1], room[2])
	}
	b.press(keyEscape)
}

func colours(t *testing.T, b *browser) {
	b.wait(read)
	for _, scheme := range []string{"light", "dark"} {
		b.prefer(scheme)
		b.accessible()
	}
}

// TestHostile shows names that are markup, as no API server would take them, and has a foreign
// script refused.
func TestHostile(t *testing.T) {
	name, long := `<img src=x onerror="window.harmed=1">`, strings.Repeat("long-", 50)+"end"
	o := simulator.Objects{
		fixture.Set("s"), fixture.Binding("ns", "s"),
		fixture.Cluster(name).Set("s").Label("region", "<b>\u202eeu").Taint("k", name, v1alpha1.TaintEffectNoSelect).Obj(), fixture.Cluster(long).Set("s").Obj(),
		fixture.Placement("ns", name).Obj(), fixture.Placement("ns", long).Obj(), fixture.Placement("ns", "right\u202eleft").Obj(),
	}
	b := newBrowser(t)
	address := serve(t, o)
	b.open(address)
	b.wait(loaded)
	b.wait(`document.querySelector('#overview .line')`)
	if got := eval[string](b, `return document.querySelector('#overview').innerText`); !strings.Contains(got, name) || !strings.Contains(got, `right\u202eleft`) || strings.Contains(got, long) {
		t.Errorf("the overview says\n%s", got)
	}
	b.open("about:blank")
	b.open(address + "#/?view=matrix&group=label:region")
	b.wait(read)
	labels := eval[string](b, `return document.querySelector('#grid').innerText + [...document.querySelectorAll('[aria-label]')].map((e) => e.getAttribute('aria-label')).join('\n')`)
	for _, want := range []string{`<b>\u202eeu`, long, name, "…"} {
		if !strings.Contains(labels, want) {
			t.Errorf("the matrix says\n%s\nwithout %q", labels, want)
		}
	}
	b.click(`.cell.mark`)
	b.wait(`document.querySelector('#details').innerText.includes('excluded by TaintToleration')`)
	if got := eval[string](b, details); !strings.Contains(got, name) {
		t.Errorf("it says\n%s", got)
	}
	got := eval[[]any](b, `const s = document.createElement('script'); try { s.textContent = 'window.harmed=2'; } catch {} document.body.append(s);
		return [document.images.length, window.harmed === undefined, document.documentElement.scrollWidth <= innerWidth]`)
	if fmt.Sprint(got) != "[0 true true]" {
		t.Errorf("images, no harm, and no wider than the window: %v", got)
	}
	var shown []string
	b.do("POST", "/execute/async", map[string]any{"args": []any{}, "script": `const done = arguments[0];
		import('./dom.js').then(({ visible }) => done([visible('a\u202eb\nc\u{e0001}')]))`}, &shown)
	if want := []string{`a\u202eb` + "\n" + `c\ue0001`}; !slices.Equal(shown, want) {
		t.Errorf("control characters are shown as %q, want %q", shown, want)
	}
}
