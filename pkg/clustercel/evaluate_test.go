package clustercel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// world returns one cluster with its scores, and the object it is rendered from.
func world(tb testing.TB) (*Cluster, *v1alpha1.ManagedCluster) {
	tb.Helper()
	object := &v1alpha1.ManagedCluster{}
	if err := json.Unmarshal([]byte(`{
		"metadata": {"name": "east-1", "labels": {"env": "prod", "rack": "7"}, "annotations": {"info": "{\"zones\": [\"a\", \"b\"], \"cap\": 5}"}},
		"spec": {"leaseDurationSeconds": 60, "taints": [{"key": "k", "effect": "NoSelect", "timeAdded": "2026-06-01T09:00:00Z"}]},
		"status": {"conditions": [], "allocatable": {"cpu": "0.5", "memory": "1024Mi", "pods": "1e1"}, "version": {"kubernetes": "v1.30.2"},
			"clusterClaims": [{"name": "region", "value": "us-east-1"}]}}`), object); err != nil {
		tb.Fatal(err)
	}
	score := &v1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: "east-1", Name: "demo"}}
	score.Status.Scores = []v1alpha1.AddOnPlacementScoreItem{{Name: "cpu", Value: 42}, {Name: "gpu", Value: -7}}
	rendered, err := Render(object)
	if err != nil {
		tb.Fatal(err)
	}
	scores := func(name string) *v1alpha1.AddOnPlacementScore {
		if name != score.Name {
			return nil
		}
		return score
	}
	return &Cluster{Name: object.Name, Object: rendered, Scores: scores}, object
}

func TestExpression(t *testing.T) {
	cluster, _ := world(t)
	for name, tc := range map[string]struct {
		expression string
		want       bool
		wantErr    string
	}{
		"label":                       {expression: `managedCluster.metadata.labels["env"] == "prod"`, want: true},
		"no such label":               {expression: `managedCluster.metadata.labels["tier"] == "gold"`, wantErr: "no such key: tier"},
		"optional label":              {expression: `managedCluster.metadata.labels[?"tier"].orValue("none") == "none"`, want: true},
		"number in a label":           {expression: `int(managedCluster.metadata.labels.rack) > 5`, want: true},
		"false":                       {expression: `false`},
		"no boolean":                  {expression: `dyn(managedCluster.metadata.name)`, wantErr: "the result is string, not a boolean"},
		"accepted is always there":    {expression: `!managedCluster.spec.hubAcceptsClient`, want: true},
		"lease is an int":             {expression: `managedCluster.spec.leaseDurationSeconds == 60`, want: true},
		"quantities are canonical":    {expression: `managedCluster.status.allocatable == {"cpu": "500m", "memory": "1Gi", "pods": "10"}`, want: true},
		"no empty fields":             {expression: `has(managedCluster.status.capacity) || has(managedCluster.spec.managedClusterClientConfigs)`},
		"times are text":              {expression: `timestamp(managedCluster.spec.taints[0].timeAdded) < timestamp("2026-06-01T10:00:00Z")`, want: true},
		"claims":                      {expression: `managedCluster.status.clusterClaims.exists(c, c.name == "region" && c.value.startsWith("us-"))`, want: true},
		"scores":                      {expression: `managedCluster.scores("demo").filter(s, s.name == "gpu").all(s, s.value < 0)`, want: true},
		"scores are a list":           {expression: `managedCluster.scores("demo").size() == 2`, want: true},
		"no such scores":              {expression: `managedCluster.scores("other").size() == 0`, wantErr: "the cluster has no AddOnPlacementScore other"},
		"scores of something else":    {expression: `{"metadata": dyn({"name": "east-1"})}.scores("demo").size() == 2`, wantErr: "no such overload"},
		"JSON":                        {expression: `managedCluster.metadata.annotations.info.parseJSON().zones.exists(z, z == "b")`, want: true},
		"no JSON":                     {expression: `"{".parseJSON() == {}`, wantErr: "parsing JSON"},
		"strings":                     {expression: `"A-b".lowerAscii().split("-").join("+").replace("+", "") == "ab"`, want: true},
		"format":                      {expression: `"%s=%d".format([managedCluster.metadata.name, 3]) == "east-1=3"`, want: true},
		"lists":                       {expression: `[3, 1, 2].max() == 3 && [1, 2].sum() == 3 && ![2, 1].isSorted()`, want: true},
		"mixed lists":                 {expression: `1 in [dyn("1"), 1]`, want: true},
		"matches":                     {expression: `managedCluster.status.version.kubernetes.matches("^v1[.]30[.]")`, want: true},
		"matches no pattern":          {expression: `"a".matches("[")`, wantErr: "error parsing regexp"},
		"find":                        {expression: `managedCluster.metadata.name.find("[0-9]+") == "1" && "a1b2".findAll("[0-9]") == ["1", "2"]`, want: true},
		"findAll with a limit":        {expression: `"a1b2".findAll("[0-9]", 1) == ["1"] && "a".find("b") == ""`, want: true},
		"find, pattern computed":      {expression: `"a1".find(["[", "0-9]"].join()) == "1"`, want: true},
		"URLs":                        {expression: `url("https://example.com:6443").getPort() == "6443"`, want: true},
		"quantity":                    {expression: `quantity(managedCluster.status.allocatable.memory).isGreaterThan(quantity("1e3"))`, want: true},
		"IP and CIDR":                 {expression: `cidr("10.0.0.0/8").containsIP(ip("10.1.2.3"))`, want: true},
		"named format":                {expression: `!format.dns1123Label().validate("a-b").hasValue()`, want: true},
		"semver":                      {expression: `semver("1.30.2").isGreaterThan(semver("1.29.9")) && !isSemver("v1.30.2")`, want: true},
		"an error before ||":          {expression: `managedCluster.metadata.labels.tier == "gold" || true`, want: true},
		"long texts in errors":        {expression: `managedCluster.metadata.labels["` + strings.Repeat("x", 1000) + `"] == ""`, wantErr: "..."},
		"maps are walked in order":    {expression: `{3: "c", 1: "a", 2: "b"}.map(k, k) == [1, 2, 3] && {"b": 1, true: 2, "a": 3, 1: 4}.map(k, string(k)) == ["true", "1", "a", "b"]`, want: true},
		"labels, too":                 {expression: `managedCluster.metadata.labels.map(k, k) == ["env", "rack"] && "{\"z\": 1, \"y\": {\"d\": 1, \"c\": 1}}".parseJSON().map(k, k) == ["y", "z"]`, want: true},
		"an empty map is nothing":     {expression: `!optional.ofNonZeroValue({}).hasValue() && optional.ofNonZeroValue({1: 1}).hasValue()`, want: true},
		"optional elements":           {expression: `[?managedCluster.metadata.labels[?"tier"], "x"] == ["x"]`, want: true},
		"status, as a whole":          {expression: `managedCluster.status.version == {"kubernetes": "v1.30.2"} && managedCluster == managedCluster`, want: true},
		"conditions are always there": {expression: `managedCluster.status.conditions == []`, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Compile(tc.expression)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := e.Matches(t.Context(), cluster)
			if got != tc.want || (err != nil) != (tc.wantErr != "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("got %v, error %v, want %v, error %q", got, err, tc.want, tc.wantErr)
			}
			if err != nil && len(err.Error()) > maxReason+len("...") {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		expression string
		want       string
	}{
		"syntax":          {`managedCluster.metadata.labels[`, "compilation failed: 1:32: Syntax error"},
		"unknown name":    {`cluster.metadata.name == "a"`, "compilation failed: 1:1: undeclared reference to 'cluster': the only variable is managedCluster"},
		"types":           {`1 == "a"`, "compilation failed: 1:3: found no matching overload for '_==_' applied to '(int, string)'"},
		"lenient semver":  {`semver("v1", true).minor() > 29`, "found no matching overload for 'semver'"},
		"mixed numbers":   {`1 < 2.0`, "found no matching overload"},
		"constant search": {`"a".find("[") == ""`, "instantiation failed: error parsing regexp"},
		"length":          {`"` + strings.Repeat("a", MaxLength) + `" == ""`, "compilation failed: the expression is longer than 16384 bytes"},
		"nesting":         {strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000), "compilation failed: "},
		"deep types":      {`[0]` + strings.Repeat(`.map(a, [a])`, 200) + ` == []`, "compilation failed: more than 64 lists and maps"},
		"doubling types":  {`[0]` + strings.Repeat(`.map(a, {a: a})`, 20) + ` == []`, "compilation failed: more than 8 map keys"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(tc.expression)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && len(err.Error()) > maxMessage+len("...") {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestHostileExpressions has expressions that would take minutes, years or all memory. They end
// within a second each, so that a broken limit shows as a test that does not end.
func TestHostileExpressions(t *testing.T) {
	cluster, _ := world(t)
	doubled := func(times int, then string) string {
		return `["aa"]` + strings.Repeat(".map(x, x + x)", times) + then
	}
	pairs := func(times int) string { return `[0]` + strings.Repeat(".map(a, [a, a])", times) }
	ten := `[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]`
	for name, expression := range map[string]string{
		"loops":                  strings.Repeat(ten+".all(a, ", 9) + "true" + strings.Repeat(")", 9),
		"doubling a string":      doubled(60, `[0] == ""`),
		"doubling a list":        `[[1]]` + strings.Repeat(".map(x, x + x)", 40) + `.size() > 1`,
		"comparing pairs":        ten + ".all(i, " + ten + ".all(j, " + pairs(12) + " == " + pairs(12) + "))",
		"pairs as a key":         `{"a": 1}[dyn(` + pairs(29) + `)] == 1`,
		"pairs in an error":      `int(dyn(` + pairs(29) + `)) == 1`,
		"pairs in optional":      `[?dyn(` + pairs(25) + `)] == []`,
		"replace":                doubled(13, `.map(x, x.replace("a", x)) == []`),
		"join":                   doubled(13, `.map(x, x.split("").join(x)) == []`),
		"format":                 doubled(13, `.map(x, "`+strings.Repeat("%s", 700)+`".format([`+strings.Repeat("x, ", 699)+`x])) == []`),
		"a long regex":           doubled(12, `.exists(x, x.matches(x))`),
		"a large regex":          `"a".matches("` + strings.Repeat("x{1000}", 500) + `")`,
		"a slow regex":           doubled(15, `.exists(x, x.matches("(a?){1000}b"))`),
		"a slow search":          doubled(14, `.exists(x, x.find("(a?){1000}b") == "")`),
		"a quadratic search":     doubled(14, `.exists(x, x.findAll("(a+b|a)") == [])`),
		"a quantity":             `quantity("1e999999999").isGreaterThan(quantity("1"))`,
		"no small quantity":      `isQuantity("1e-999999999") || true`,
		"a very long quantity":   doubled(12, `.exists(x, isQuantity(x.replace("a", "9")))`),
		"JSON, over and over":    doubled(12, `.map(x, "[" + x.replace("a", "1,") + "1]").exists(j, `+strings.Repeat(ten+".all(a, ", 4)+"j.parseJSON() != []"+strings.Repeat(")", 4)+`)`),
		"numbers, over and over": doubled(12, `.map(x, x.replace("a", "0")).exists(n, `+strings.Repeat(ten+".all(a, ", 6)+"int(n) == 0"+strings.Repeat(")", 6)+`)`),
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Compile(expression)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := e.Matches(t.Context(), cluster)
			if got || err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
				t.Errorf("got %v, error %v, want the cost limit", got, err)
			}
		})
	}
}

// TestMatchesQuickly: up to its limit, an evaluation has the same result, cost and error.
func TestMatchesQuickly(t *testing.T) {
	cluster, _ := world(t)
	loops := func(n int) string {
		return strings.Repeat("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, ", n) + "true" + strings.Repeat(")", n)
	}
	costly := 0
	for _, text := range []string{
		"true", `managedCluster.metadata.labels["env"] == "prod"`, `managedCluster.metadata.labels["tier"] == "gold"`, `dyn("x")`, loops(1), loops(2), loops(3), loops(4), loops(7),
		`["aa"]` + strings.Repeat(".map(x, x + x)", 13) + `.exists(x, x.matches("(a?){1000}b")) || true`,
	} {
		e, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		want, wantCost, wantErr := e.Matches(t.Context(), cluster)
		got, cost, err := e.MatchesQuickly(t.Context(), cluster)
		if errors.Is(err, ErrCostly) {
			if costly++; wantCost < QuickLimit || got || cost != QuickLimit {
				t.Errorf("%.60s costs %d: got %t, %d, %v", text, wantCost, got, cost, err)
			}
			continue
		}
		if got != want || cost != wantCost || cost >= QuickLimit || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%.60s: got %t, %d, %v; want %t, %d, %v", text, got, cost, err, want, wantCost, wantErr)
		}
	}
	if costly != 3 {
		t.Errorf("%d expressions are costly, want 3", costly)
	}
}

func TestExpressionEndsWithTheContext(t *testing.T) {
	cluster, _ := world(t)
	e, err := Compile(`[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(b, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(c, true)))`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, _, err := e.Matches(ctx, cluster); got || err == nil {
		t.Errorf("got %v, error %v, want an error", got, err)
	}
}

func TestRender(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster v1alpha1.ManagedCluster
		want    map[string]any
	}{
		"empty": {want: map[string]any{
			"metadata": map[string]any{}, "spec": map[string]any{"hubAcceptsClient": false},
			"status": map[string]any{"conditions": nil, "version": map[string]any{}},
		}},
		"an empty list of conditions": {
			cluster: v1alpha1.ManagedCluster{Status: v1alpha1.ManagedClusterStatus{Conditions: []metav1.Condition{}}},
			want: map[string]any{
				"metadata": map[string]any{}, "spec": map[string]any{"hubAcceptsClient": false},
				"status": map[string]any{"conditions": []any{}, "version": map[string]any{}},
			},
		},
		"numbers": {
			cluster: v1alpha1.ManagedCluster{Spec: v1alpha1.ManagedClusterSpec{HubAcceptsClient: true, LeaseDurationSeconds: 60}},
			want: map[string]any{
				"metadata": map[string]any{}, "spec": map[string]any{"hubAcceptsClient": true, "leaseDurationSeconds": int64(60)},
				"status": map[string]any{"conditions": nil, "version": map[string]any{}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Render(&tc.cluster)
			if err != nil {
				t.Fatal(err)
			}
			delete(got["metadata"].(map[string]any), "creationTimestamp")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExpressionsAreSharedAndBounded(t *testing.T) {
	var cache expressionCache
	first := &Expression{text: "0"}
	cache.put(first)
	if cache.get("0") != first {
		t.Error("the expression is not kept")
	}
	for i := range 2 * maxCached {
		cache.put(&Expression{text: strings.Repeat("x", i)})
		if len(cache.byText) > maxCached {
			t.Fatalf("%d expressions are kept", len(cache.byText))
		}
	}
}

func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		`managedCluster.metadata.labels["env"] == "prod"`,
		`managedCluster.scores("demo").filter(s, s.name == "cpu").all(e, e.value > 0)`,
		`managedCluster.metadata.annotations.info.parseJSON().cap > 3.0`,
		`"a1b2".findAll("[0-9]", 1).map(x, {x: [x]}).size() == quantity("1Gi").asInteger()`,
		`"%s %.3f".format(["a", 1.5]).replace("a", "b").matches("b.*")`,
		`[?optional.of(1), 2] + [3] == [1, 2, 3] && cidr("10.0.0.0/8").containsIP("10.0.0.1")`,
	} {
		f.Add(seed)
	}
	cluster, _ := world(f)
	before := runtime.DeepCopyJSON(cluster.Object)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Compile(text)
		if err != nil {
			return
		}
		first, cost, errFirst := e.Matches(t.Context(), cluster)
		if errFirst != nil && (first || strings.Contains(errFirst.Error(), "internal error")) {
			t.Errorf("%q: %v, %v", text, first, errFirst)
		}
		if again, same, errAgain := e.Matches(t.Context(), cluster); again != first || same != cost || (errAgain == nil) != (errFirst == nil) {
			t.Errorf("%q: %v, %v, costs %d, then %v, %v, %d", text, first, errFirst, cost, again, errAgain, same)
		}
		if diff := cmp.Diff(before, cluster.Object); diff != "" {
			t.Errorf("%q changes the cluster: %s", text, diff)
		}
	})
}

func BenchmarkExpression(b *testing.B) {
	cluster, object := world(b)
	for name, expression := range map[string]string{
		"label":   `managedCluster.metadata.labels["env"] == "prod"`,
		"claims":  `managedCluster.status.clusterClaims.exists(c, c.name == "region" && c.value == "us-east-1")`,
		"scores":  `managedCluster.scores("demo").filter(s, s.name == "cpu").all(s, s.value > 10)`,
		"matches": `managedCluster.status.version.kubernetes.matches("^v1[.](30|31)[.][0-9]+$")`,
	} {
		b.Run(name, func(b *testing.B) {
			e, err := Compile(expression)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if ok, _, err := e.Matches(b.Context(), cluster); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			checked, err := check(`managedCluster.status.clusterClaims.exists(c, c.name == "region" && c.value == "us-east-1")`, managedCluster, environment, checkFields)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := checked.program(QuickLimit); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("render", func(b *testing.B) {
		for b.Loop() {
			if _, err := Render(object); err != nil {
				b.Fatal(err)
			}
		}
	})
}
