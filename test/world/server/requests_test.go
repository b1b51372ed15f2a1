package server

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// operation is a request to both servers.
type operation struct {
	method, path, query, contentType string
	// prefix selects the objects of a seed among those that have no namespace.
	prefix string
	// watch is true for a watch; more for the next part of a list.
	watch, more bool
	// body returns the body for one side; nil for none.
	body func(*side) any
	what string
}

func (o *operation) String() string {
	return fmt.Sprintf("%s %s%s %s %s", o.method, o.path, o.query, o.contentType, o.what)
}

// object is the path of the object that an operation changes.
func (o *operation) object() string { return strings.TrimSuffix(o.path, "/status") }

// valid are objects that the servers accept, by kind. Objects of other kinds are empty.
var valid = map[string]map[string]any{
	"Placement":            {"spec": map[string]any{"numberOfClusters": int64(2)}},
	"PlacementDecision":    {"status": map[string]any{"decisions": []any{map[string]any{"clusterName": "c", "reason": ""}}}},
	"ManagedCluster":       {"spec": map[string]any{"hubAcceptsClient": true, "taints": []any{map[string]any{"key": "k", "effect": "NoSelect", "timeAdded": nil}}}},
	"DisruptionPolicy":     {"spec": map[string]any{"placements": []any{"a"}, "maxUnavailable": "10%"}},
	"PlacementEviction":    {"spec": map[string]any{"placement": "a", "cluster": "c"}},
	"PlacementExplanation": {"spec": map[string]any{"placement": "a"}},
	"SelectionPolicy":      {"spec": map[string]any{"placement": "a"}},
	"AddOnPlacementScore":  {"status": map[string]any{"scores": []any{map[string]any{"name": "n", "value": int64(3)}}}},
	"PlacementChange": {
		"spec": map[string]any{
			"placement": "a", "revision": int64(1), "placementGeneration": int64(1), "cause": "PlacementChanged",
			"from": strings.Repeat("0", 64), "to": strings.Repeat("1", 64),
			"addedCount": int64(1), "removedCount": int64(0), "clusters": int64(1),
		},
		"status": map[string]any{"phase": "Held"},
	},
	"ConfigMap": {"data": map[string]any{"a": "b"}},
	"Secret":    {"data": map[string]any{"a": "YQ=="}, "type": "Opaque"},
	"Lease":     {"spec": map[string]any{"holderIdentity": "a", "leaseDurationSeconds": int64(15)}},
}

// lastName ends the names of the last objects of a seed.
const lastName = "-zz-last"

// kindsPerSeed is how many kinds a seed uses: few, so that their objects have long histories.
const kindsPerSeed = 4

// generator draws requests from a seed.
type generator struct {
	random    *rand.Rand
	namespace string
	kinds     []*resource
	// written is the version in which a kind is written.
	written map[*resource]*version
	// edited counts edits. The real server stores a write that changes only what the path ignores
	// if a second has passed, because of the times in managed fields, which the model does not
	// have. So an edit of an ignored status changes an annotation too, and one of the status
	// nothing else.
	edited int
}

func newGenerator(seed uint64, model *Server) *generator {
	g := &generator{random: rand.New(rand.NewPCG(seed, 3)), namespace: fmt.Sprint("seed", seed)}
	for _, r := range model.resources {
		if r.kind != "Namespace" && r.kind != "Event" {
			g.kinds = append(g.kinds, r)
		}
	}
	g.random.Shuffle(len(g.kinds), func(i, j int) { g.kinds[i], g.kinds[j] = g.kinds[j], g.kinds[i] })
	g.kinds, g.written = g.kinds[:kindsPerSeed], map[*resource]*version{}
	for _, r := range g.kinds {
		g.written[r] = pick(g, r.versions...)
	}
	return g
}

func pick[T any](g *generator, of ...T) T { return of[g.random.IntN(len(of))] }

func (g *generator) one(of int) bool { return g.random.IntN(of) == 0 }

func (g *generator) createNamespace() *operation {
	return &operation{method: http.MethodPost, path: "/api/v1/namespaces", contentType: runtime.ContentTypeJSON, body: func(*side) any {
		return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": g.namespace}}
	}}
}

// on returns an operation on a kind.
func (g *generator) on(r *resource, version *version, method string) *operation {
	o := &operation{method: method, contentType: runtime.ContentTypeJSON}
	root := "/apis/" + r.group
	if r.group == "" {
		root = "/api"
	}
	o.path = root + "/" + version.name
	if r.namespaced {
		o.path += "/namespaces/" + g.namespace
	} else {
		o.prefix = g.namespace + "-"
	}
	o.path += "/" + r.plural
	return o
}

// watches are two watches of each version: of all objects, and by label.
func (g *generator) watches() (all []*operation) {
	for _, r := range g.kinds {
		for _, v := range r.versions {
			for _, query := range []string{"?watch=1", "?watch=1&labelSelector=tier%3Dgold"} {
				o := g.on(r, v, http.MethodGet)
				o.query, o.watch = query, true
				all = append(all, o)
			}
		}
	}
	return all
}

// ends create objects of each kind: one whose name the server makes, and one that ends the
// watches.
func (g *generator) ends() (all []*operation) {
	for _, r := range g.kinds {
		all = append(all, g.create(r, g.written[r], "", 0), g.create(r, g.written[r], lastName, 0))
	}
	return all
}

// deleteNamespace deletes the namespace, and creates it and objects in it while it terminates.
func (g *generator) deleteNamespace() []*operation {
	again := g.createNamespace()
	named := *again
	named.path += "/" + g.namespace
	gone, read := named, named
	gone.method, gone.body = http.MethodDelete, nil
	read.method, read.body = http.MethodGet, nil
	all := []*operation{&gone, &gone, again, &read}
	for _, r := range g.kinds {
		if r.namespaced {
			all = append(all, g.create(r, g.written[r], "late", 0))
		}
	}
	return all
}

// cleanUp deletes what no namespace holds.
func (g *generator) cleanUp() (all []*operation) {
	for _, r := range g.kinds {
		if r.namespaced {
			continue
		}
		for _, name := range append(names, lastName) {
			o := g.on(r, r.versions[0], http.MethodPatch)
			o.path += "/" + o.prefix + name
			o.contentType, o.body = string(types.MergePatchType), func(*side) any { return map[string]any{"metadata": map[string]any{"finalizers": nil}} }
			gone := *o
			gone.method, gone.body = http.MethodDelete, nil
			all = append(all, o, &gone)
		}
	}
	return all
}

var names = []string{"a", "b"}

// next draws a request.
func (g *generator) next() *operation {
	r := pick(g, g.kinds...)
	v, read := g.written[r], pick(g, r.versions...)
	switch pick(g, "create", "create", "create", "get", "list", "update", "update", "patch", "patch", "patch", "delete", "delete all") {
	case "create":
		return g.create(r, v, pick(g, names...), g.random.IntN(2))
	case "get":
		o := g.on(r, read, http.MethodGet)
		o.path += "/" + o.prefix + pick(g, names...)
		return o
	case "list":
		return g.list(r, read)
	case "update":
		return g.update(r, v)
	case "patch":
		return g.patch(r, v)
	case "delete":
		return g.delete(r, v)
	default:
		if !g.one(5) || !r.namespaced {
			return g.list(r, read)
		}
		o := g.on(r, v, http.MethodDelete)
		o.query = pick(g, "?labelSelector=tier%3Dgold", "?fieldSelector=metadata.name%3Da")
		return o
	}
}

// create creates an object with mutations; without a name, the server makes one.
func (g *generator) create(r *resource, v *version, name string, mutations int) *operation {
	o := g.on(r, v, http.MethodPost)
	content := runtime.DeepCopyJSON(valid[r.kind])
	if content == nil {
		content = map[string]any{}
	}
	labels := map[string]any{}
	if tier := pick(g, "", "gold", "silver"); tier != "" {
		labels["tier"] = tier
	}
	about := map[string]any{"name": o.prefix + name, "labels": labels}
	switch name {
	case "":
		delete(about, "name")
		about["generateName"] = o.prefix + "made-"
	case lastName:
		about["name"] = "z" + lastName
		if o.prefix != "" {
			about["name"] = o.prefix + "z" + lastName
		}
		labels["tier"] = "gold"
	}
	if g.one(4) && name != lastName {
		about["finalizers"] = []any{"test.berth.dev/hold"}
	}
	if r.kind == "ManagedClusterSetBinding" {
		content["spec"] = map[string]any{"clusterSet": about["name"]}
	}
	content["apiVersion"], content["kind"], content["metadata"] = r.apiVersion(v.name), r.kind, about
	for range mutations {
		o.what += g.mutate(v, content)
	}
	o.body = func(*side) any { return content }
	o.what += fmt.Sprint(" ", about["name"])
	return o
}

func (g *generator) list(r *resource, v *version) *operation {
	o := g.on(r, v, http.MethodGet)
	o.query = pick(g, "?", "?labelSelector=tier%3Dgold", "?labelSelector=tier+notin+(gold),tier", "?fieldSelector=metadata.name%3Db", "?fieldSelector=spec.a%3Db", "?labelSelector=%3D%3D")
	if r.namespaced && g.one(2) {
		o.query, o.more = "?limit="+pick(g, "1", "2", "3"), g.one(2)
	}
	return o
}

// base returns a function that returns a state of the object that was seen: mostly the newest.
func (g *generator) base(o *operation, v string) func(*side) map[string]any {
	back := 0
	if g.one(6) {
		back = 1
	}
	return func(s *side) map[string]any {
		seen := s.seen[o.object()]
		if len(seen) == 0 {
			return map[string]any{"apiVersion": v, "metadata": map[string]any{"name": o.object()[strings.LastIndex(o.object(), "/")+1:]}}
		}
		return runtime.DeepCopyJSON(seen[max(0, len(seen)-1-back)])
	}
}

func (g *generator) named(r *resource, v *version, method string) *operation {
	o := g.on(r, v, method)
	o.path += "/" + o.prefix + pick(g, names...)
	return o
}

func (g *generator) update(r *resource, v *version) *operation {
	o := g.named(r, v, http.MethodPut)
	base := g.base(o, r.apiVersion(v.name))
	status := g.one(3)
	if status {
		o.path += "/status"
	}
	edits := g.edits(v, status)
	o.what = edits.what
	version := pick(g, "", "", "", "none", "other")
	o.body = func(s *side) any {
		content := base(s)
		content["kind"] = r.kind
		switch version {
		case "none":
			delete(metadata(content), "resourceVersion")
		case "other":
			metadata(content)["resourceVersion"] = "1"
		}
		edits.apply(content)
		return content
	}
	return o
}

func (g *generator) patch(r *resource, v *version) *operation {
	o := g.named(r, v, http.MethodPatch)
	status := g.one(3)
	if status {
		o.path += "/status"
	}
	content := map[string]any{}
	edits := g.edits(v, status)
	edits.apply(content)
	o.contentType, o.what = string(types.MergePatchType), edits.what
	if r.builtIn && g.one(2) {
		o.contentType = string(types.StrategicMergePatchType)
	}
	o.body = func(*side) any { return content }
	switch {
	case !status && g.one(6):
		o.contentType, o.what = string(types.JSONPatchType), "label"
		o.body = func(*side) any {
			return []any{map[string]any{"op": "add", "path": "/metadata/labels", "value": map[string]any{"tier": "gold"}}}
		}
	case g.one(5):
		o.what += " old version"
		o.body = func(s *side) any {
			seen := s.seen[o.object()]
			if len(seen) > 0 {
				metadata(content)["resourceVersion"] = metadata(seen[max(0, len(seen)-2)])["resourceVersion"]
			}
			return content
		}
	}
	return o
}

func (g *generator) delete(r *resource, v *version) *operation {
	o := g.named(r, v, http.MethodDelete)
	precondition, base := pick(g, "", "", "uid", "resourceVersion"), g.base(o, "")
	if precondition == "" {
		return o
	}
	o.what = "precondition " + precondition
	o.body = func(s *side) any {
		value := metadata(base(s))[precondition]
		return map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": map[string]any{precondition: value}}
	}
	return o
}

// edits are changes of an object, the same on both sides.
type edits struct {
	what  string
	apply func(content map[string]any)
}

func (g *generator) edits(v *version, status bool) edits {
	values := map[string]any{}
	what := ""
	metadataEdits := map[string]any{}
	switch pick(g, "label", "finalizers", "annotation", "", "") {
	case "label":
		metadataEdits["labels"] = map[string]any{"tier": pick(g, "gold", "silver")}
	case "finalizers":
		metadataEdits["finalizers"] = pick(g, []any{}, []any{"test.berth.dev/hold"})
	case "annotation":
		metadataEdits["annotations"] = map[string]any{"note": pick(g, "x", "y")}
	}
	for range g.random.IntN(3) {
		what += g.mutate(v, values)
	}
	if g.edited++; values["status"] != nil && !status {
		metadataEdits["annotations"] = map[string]any{"edit": fmt.Sprint(g.edited)}
	}
	if status {
		metadataEdits, values = nil, onlyStatus(values)
	}
	return edits{what: fmt.Sprint(what, metadataEdits), apply: func(content map[string]any) {
		for name, value := range metadataEdits {
			metadata(content)[name] = runtime.DeepCopyJSONValue(value)
		}
		overlay(content, values)
	}}
}

func onlyStatus(values map[string]any) map[string]any {
	if values["status"] == nil {
		return nil
	}
	return map[string]any{"status": values["status"]}
}

func overlay(content, values map[string]any) {
	for name, value := range values {
		inner, isMap := value.(map[string]any)
		if there, ok := content[name].(map[string]any); ok && isMap {
			overlay(there, inner)
			continue
		}
		content[name] = runtime.DeepCopyJSONValue(value)
	}
}
