package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/berth-dev/berth/api/kinds"
)

// Input is what was read: plain objects, or the scenarios of scenario files, never both. Scenarios
// is nil for plain objects and only then.
type Input struct {
	Objects   Objects
	Scenarios []Scenario
}

// Objects are one hub's objects: defaulted, in the order they were read, each name once. Their
// apiVersion is the one the CRD stores, whichever was written. Those of other API groups are
// Unstructured, as they were written. Objects are shared, between the steps of a scenario for one,
// and must not be changed.
type Objects []client.Object

// List returns the objects of one type, in their order.
func List[T client.Object](objects Objects) []T {
	var all []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			all = append(all, o)
		}
	}
	return all
}

// Scenario is a history of snapshots recorded under one name.
type Scenario struct {
	ID string
	// InputForm is "manifest" when users wrote the objects, "served" when a hub returned them,
	// defaults written out. Both are read alike: defaulting again changes nothing.
	InputForm string
	Steps     []Step
}

// Step is one complete snapshot.
type Step struct {
	// Now is the instant the snapshot was taken; zero when the file names none.
	Now     time.Time
	Objects Objects
	// Refused names the objects the CRDs would not let in. Such an object is among Objects all the
	// same, unless its values do not even fit their Go types.
	Refused []Refusal
}

// Refusal says why an API server with Berth's CRDs would not store an object.
type Refusal struct {
	// Object is "Placement ns1/p1"; for a cluster-scoped kind "ManagedCluster c1".
	Object string `json:"object"`
	Error  string `json:"error"`
}

// Load reads objects from files, folders and, for the path "-", stdin: YAML or JSON, gzipped or
// not, single objects, streams of documents or Lists, in any served version. In a folder, and the
// folders below it, names that begin with a dot and files without a YAML or JSON extension are
// passed over.
//
// Load applies the CRDs' defaults and enforces their schemas. The first object that a strict API
// server would not take ends it, with an error that names the file, the object and the field; so
// does an object defined twice. In a scenario file a refused object is reported in its step
// instead.
func Load(paths []string, stdin io.Reader) (Input, error) {
	return LoadInto(metav1.NamespaceDefault, paths, stdin)
}

// LoadInto is Load where objects that name no namespace belong to another than the usual one.
func LoadInto(namespace string, paths []string, stdin io.Reader) (Input, error) {
	if len(paths) == 0 {
		return Input{}, fmt.Errorf("no input: name a file, a folder, or - for standard input")
	}
	l := loader{namespace: namespace, definedIn: map[string]string{}, seen: map[string]admitted{}}
	if err := eachSource(paths, stdin, l.source); err != nil {
		return Input{}, err
	}
	return l.input, nil
}

type loader struct {
	input     Input
	namespace string
	// definedIn holds, by object, the source that defines it.
	definedIn map[string]string
	// seen holds what became of each object of a scenario file, by its text: steps repeat most of
	// their predecessors.
	seen map[string]admitted
	// plain is the first source of plain objects.
	plain string
}

func (l *loader) source(name string, data []byte) error {
	documents, err := documentsOf(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, document := range documents {
		at := name
		if len(documents) > 1 {
			at = fmt.Sprintf("%s: document %d", name, i+1)
		}
		if err := l.document(name, at, document); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) document(name, at string, document json.RawMessage) error {
	if !bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")) {
		return fmt.Errorf("%s: not an object with apiVersion and kind", at)
	}
	var head header
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &head); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if head.Kind == "" && head.Scenarios != nil {
		if l.plain != "" {
			return fmt.Errorf("%s: a scenario file cannot be read together with the objects of %s", at, l.plain)
		}
		scenarios, err := l.scenarios(document)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		// Not nil even if the file holds none: that is how a scenario file shows.
		if l.input.Scenarios == nil {
			l.input.Scenarios = []Scenario{}
		}
		l.input.Scenarios = append(l.input.Scenarios, scenarios...)
		return nil
	}
	if l.input.Scenarios != nil {
		return fmt.Errorf("%s: objects cannot be read together with a scenario file", at)
	}
	if l.plain == "" {
		l.plain = name
	}
	return flatten(at, document, header{}, 0, func(at string, item object) error { return l.plainObject(name, at, item) })
}

func (l *loader) plainObject(name, at string, item object) error {
	item.namespace = l.namespace
	got, err := admit(item, true)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if got.refused != "" {
		return fmt.Errorf("%s: %s: %s", name, got.ref, got.refused)
	}
	// A Namespace, say, is often repeated from file to file; only what Berth decides on must be
	// said once.
	if got.known {
		if other, twice := l.definedIn[got.ref]; twice {
			return fmt.Errorf("%s: %s: already defined in %s", name, got.ref, other)
		}
		l.definedIn[got.ref] = name
	}
	if got.value != nil {
		l.input.Objects = append(l.input.Objects, got.value)
	}
	return nil
}

// header is what must be known of a document before it can be read.
type header struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      json.RawMessage `json:"items"`
	Scenarios  json.RawMessage `json:"scenarios"`
}

// object is one object's text. An item of a typed list may leave its version and kind to the list.
type object struct {
	apiVersion, kind string
	text             json.RawMessage
	// namespace is that of one of Berth's namespaced kinds whose text names none; empty is the
	// usual one.
	namespace string
}

// maxListDepth is how many Lists may be nested. Real files have at most one inside another.
const maxListDepth = 8

// flatten calls visit for the object in text, or for each object of the List in text, with where it
// stands.
func flatten(at string, text json.RawMessage, list header, depth int, visit func(at string, item object) error) error {
	var head header
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &head); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if head.APIVersion == "" {
		head.APIVersion = list.APIVersion
	}
	if head.Kind == "" {
		head.Kind = list.Kind
	}
	switch {
	case head.Kind == "":
		return fmt.Errorf("%s: kind: Required value", at)
	case head.APIVersion == "":
		return fmt.Errorf("%s: apiVersion: Required value", at)
	case !head.isList():
		return visit(at, object{apiVersion: head.APIVersion, kind: head.Kind, text: text})
	case depth == maxListDepth:
		return fmt.Errorf("%s: more than %d Lists inside one another", at, maxListDepth)
	}
	var items []json.RawMessage
	if head.Items != nil {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(head.Items, &items); err != nil {
			return fmt.Errorf("%s: items: %w", at, err)
		}
	}
	of := header{}
	if head.Kind != "List" {
		of = header{APIVersion: head.APIVersion, Kind: strings.TrimSuffix(head.Kind, "List")}
	}
	for i, item := range items {
		if err := flatten(fmt.Sprintf("%s: items[%d]", at, i), item, of, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

func (h header) isList() bool {
	if h.Kind == "List" {
		return h.APIVersion == "v1"
	}
	group, _ := schema.ParseGroupVersion(h.APIVersion)
	return strings.HasSuffix(h.Kind, "List") && (h.Items != nil || kinds.InGroup(group.Group))
}
