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
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Input has either plain objects or the scenarios of scenario files. Scenarios is nil only for
// plain objects.
type Input struct {
	Objects   Objects
	Scenarios []Scenario
	// NotRead is what the input has beside them.
	NotRead NotRead

	// files has the file of each object.
	files map[client.Object]string
}

// HasPlacements reports whether there is anything to decide.
func (in *Input) HasPlacements() bool {
	for _, scenario := range in.Scenarios {
		for _, step := range scenario.Steps {
			if len(List[*v1alpha1.Placement](step.Objects)) > 0 {
				return true
			}
		}
	}
	return len(List[*v1alpha1.Placement](in.Objects)) > 0
}

// Objects are the objects of one hub: with defaults, in input order, each name once. Objects of
// Berth's kinds have the stored version as apiVersion. Namespaces and ConfigMaps are Unstructured
// and unchanged. Several steps of a scenario share objects, so they must not be changed.
type Objects []client.Object

// List returns the objects of one type, in order.
func List[T client.Object](objects Objects) []T {
	var all []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			all = append(all, o)
		}
	}
	return all
}

// Scenario is a recorded sequence of snapshots.
type Scenario struct {
	ID string
	// InputForm is "manifest" if users wrote the objects, "served" if a hub returned them with
	// defaults. Both are read in the same way: defaulting again changes nothing.
	InputForm string
	Steps     []Step
}

// Step is one complete snapshot.
type Step struct {
	// Now is the time of the snapshot; zero if the file does not contain it.
	Now     time.Time
	Objects Objects
	// Refused lists the objects that violate the CRDs. Objects contains them, too, unless they
	// cannot be decoded into their Go types.
	Refused []Refusal
}

// Refusal is why an API server with Berth's CRDs would not store an object.
type Refusal struct {
	// Object is "Placement ns1/p1"; for a cluster-scoped kind "ManagedCluster c1".
	Object string `json:"object"`
	Error  string `json:"error"`
}

// Load reads objects from files, folders and, for the path "-", stdin: YAML or JSON, optionally
// gzipped, single objects, streams of documents or Lists, in any served version. In a folder it
// leaves out subfolders, files whose names begin with a dot, and files without a YAML or JSON
// extension. Of other kinds it reads those that queues need. Input.NotRead has the rest.
//
// Load applies the defaults of the CRDs and validates against their schemas. The first object that
// a strict API server would refuse, or that is defined twice, ends it with an error that names the
// file, the object and the field. In a scenario file a refused object is reported in its step
// instead.
func Load(paths []string, stdin io.Reader) (Input, error) {
	return LoadInto(metav1.NamespaceDefault, paths, stdin)
}

// LoadInto is Load with another default namespace.
func LoadInto(namespace string, paths []string, stdin io.Reader) (Input, error) {
	if len(paths) == 0 {
		return Input{}, fmt.Errorf("no input: name a file, a folder, or - for standard input")
	}
	l := loader{namespace: namespace, definedIn: map[string]string{}, seen: map[string]admitted{}}
	l.input.files = map[client.Object]string{}
	from := sources{stdin: stdin, left: maxInput, notRead: &l.input.NotRead, visit: l.source}
	if err := from.all(paths); err != nil {
		return Input{}, err
	}
	return l.input, nil
}

type loader struct {
	input     Input
	namespace string
	// definedIn has, for each object, the source that defines it.
	definedIn map[string]string
	// seen caches the result for each object of a scenario file, by its text, because steps repeat
	// most objects of earlier steps.
	seen map[string]admitted
	// plain is the first source of plain objects.
	plain string
	// objects is how many objects were read.
	objects int
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
		// An empty list that is not nil marks a scenario file without scenarios.
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
	if err := l.count(item); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	got, err := admit(item, true)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if got.refused != "" {
		return fmt.Errorf("%s: %s: %s", name, got.ref, got.refused)
	}
	// Objects of other kinds, such as a Namespace, may be repeated in several files. Objects of
	// Berth's kinds may not.
	if got.known {
		if other, twice := l.definedIn[got.ref]; twice {
			return fmt.Errorf("%s: %s: already defined in %s", name, got.ref, other)
		}
		l.definedIn[got.ref] = name
	}
	if got.value == nil {
		l.input.NotRead.add(item)
		return nil
	}
	l.input.Objects = append(l.input.Objects, got.value)
	l.input.files[got.value] = name
	return nil
}

// count returns an error for an object that is too large, or one too many.
func (l *loader) count(item object) error {
	if l.objects++; l.objects > maxObjects {
		return fmt.Errorf("more than %d objects", maxObjects)
	}
	if len(item.text) > maxObject {
		return fmt.Errorf("larger than %d MiB, which no API server accepts", maxObject>>20)
	}
	return nil
}

// header has the fields that are needed before a document can be decoded.
type header struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      json.RawMessage `json:"items"`
	Scenarios  json.RawMessage `json:"scenarios"`
}

// object is the text of one object. An item of a typed list may omit apiVersion and kind.
type object struct {
	apiVersion, kind string
	text             json.RawMessage
	// namespace is for objects of Berth's namespaced kinds without metadata.namespace; empty means
	// the default namespace.
	namespace string
}

// maxListDepth is how many Lists may be nested. Real files have at most one inside another.
const maxListDepth = 8

// flatten calls visit for the object in text, or for each object of the List in text, with its
// position.
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
		return fmt.Errorf("%s: more than %d nested Lists", at, maxListDepth)
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
