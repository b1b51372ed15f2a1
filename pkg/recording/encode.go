package recording

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Encoder turns inputs into entries. It keeps the last state of the objects whose status changes
// often, because entries are relative to it. Begin each checkpoint with a new one.
type Encoder struct {
	last map[objectKey]client.Object
}

// objectKey names an object of any kind.
type objectKey struct {
	kind string
	inventory.Key
}

func keyOf(e *Entry) objectKey {
	return objectKey{e.Kind, inventory.Key{Namespace: e.Namespace, Name: e.Name}}
}

// NewEncoder returns an encoder for a checkpoint.
func NewEncoder() *Encoder { return &Encoder{last: map[objectKey]client.Object{}} }

// Written is an entry whose object or status is not encoded yet.
type Written struct {
	*Entry
	Object client.Object `json:"object,omitempty"`
	Status any           `json:"status,omitempty"`
}

// Encode returns the entry of an input.
func (c *Encoder) Encode(in inventory.Input) (Written, error) { return c.encode(in, false) }

// encode returns the entry of an input, whose object may be reduced.
func (c *Encoder) encode(in inventory.Input, isReduced bool) (Written, error) {
	e := Written{Entry: &Entry{
		Type: string(in.Kind), Number: in.Number, Namespace: in.Placement.Namespace, Name: in.Placement.Name, TaintTimes: in.TaintTimes,
		Clusters: in.Clusters, KeepsLanded: in.KeepsLanded, Unpermitted: in.Unpermitted, Readiness: in.Readiness,
	}}
	if in.Published != nil {
		e.Published = publishedOf(in.Before, in.Published)
	}
	if in.Object == nil {
		return e, nil
	}
	kind, ok := kinds.Of(in.Object)
	if !ok {
		return e, fmt.Errorf("unknown kind of object %T", in.Object)
	}
	e.Kind, e.Namespace, e.Name = kind.Name, in.Object.GetNamespace(), in.Object.GetName()
	key := objectKey{kind.Name, client.ObjectKeyFromObject(in.Object)}
	switch {
	case in.Kind == inventory.InputDeleted:
		e.UID = in.Object.GetUID()
		delete(c.last, key)
		return e, nil
	case isReduced:
		e.Object, e.Reduced = in.Object, true
		delete(c.last, key)
		return e, nil
	}
	if page, ok := in.Object.(*v1alpha1.PlacementDecision); ok {
		e.Hash = framework.ContentHash(page)
	}
	last := c.last[key]
	if status := statusOf(in.Object); status != nil {
		c.last[key] = in.Object
		if last != nil && onlyStatusDiffers(last, in.Object) {
			e.Type, e.Status = TypeStatus, status
			e.Version, e.Generation, e.Annotations = in.Object.GetResourceVersion(), in.Object.GetGeneration(), annotationsOf(in.Object)
			return e, nil
		}
	}
	e.Object = in.Object
	if kept := annotationsOf(in.Object); in.Object.GetManagedFields() != nil || len(kept) != len(in.Object.GetAnnotations()) {
		e.Object = in.Object.DeepCopyObject().(client.Object)
		e.Object.SetManagedFields(nil)
		e.Object.SetAnnotations(kept)
	}
	return e, nil
}

// Limits of annotations, in bytes, so that a user who may edit one object cannot fill the
// recording.
const (
	// maxAnnotations is up to which size all annotations of an object are recorded.
	maxAnnotations = 4 << 10
	// Of more, only those of annotationDomains are: values up to maxAnnotation, together up to
	// maxOwnAnnotations.
	maxAnnotation     = 4 << 10
	maxOwnAnnotations = 16 << 10
)

// annotationDomains are those of the annotations that Berth reads.
var annotationDomains = []string{"berth.dev", v1alpha1.GroupName, "yunikorn.apache.org"}

// annotationsOf returns the annotations that are recorded. Expressions can read all annotations of
// a ManagedCluster.
func annotationsOf(object client.Object) map[string]string {
	all := object.GetAnnotations()
	if _, isCluster := object.(*v1alpha1.ManagedCluster); isCluster || sizeOf(all) <= maxAnnotations {
		return all
	}
	kept, size := map[string]string{}, 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		domain, _, _ := strings.Cut(key, "/")
		if size += len(key) + len(all[key]); len(all[key]) > maxAnnotation || !slices.Contains(annotationDomains, domain) || size > maxOwnAnnotations {
			size -= len(key) + len(all[key])
			continue
		}
		kept[key] = all[key]
	}
	return kept
}

func sizeOf(annotations map[string]string) (size int) {
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	return size
}

// statusOf returns the status of an object of a kind whose status changes often; else nil.
func statusOf(object client.Object) any {
	switch o := object.(type) {
	case *v1alpha1.PlacementDecision:
		return &o.Status
	case *v1alpha1.Placement:
		return &o.Status
	case *berthv1alpha1.PlacementChange:
		return &o.Status
	}
	return nil
}

// onlyStatusDiffers reports whether two states of an object differ only in what an entry with a
// status has. An empty list or map is not the same as none.
func onlyStatusDiffers(a, b client.Object) bool {
	if !reflect.DeepEqual(restOfMetadata(a), restOfMetadata(b)) {
		return false
	}
	switch o := a.(type) {
	case *v1alpha1.Placement:
		return reflect.DeepEqual(o.Spec, b.(*v1alpha1.Placement).Spec)
	case *berthv1alpha1.PlacementChange:
		return reflect.DeepEqual(o.Spec, b.(*berthv1alpha1.PlacementChange).Spec)
	}
	return true
}

// restOfMetadata returns the metadata that an entry with a status does not have.
func restOfMetadata(object client.Object) metav1.ObjectMeta {
	rest := *object.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
	rest.ResourceVersion, rest.Generation, rest.Annotations, rest.ManagedFields = "", 0, nil, nil
	return rest
}

// publishedOf describes a published decision, relative to the one before it if there was one.
func publishedOf(before, now *framework.Published) *Published {
	p := &Published{
		Pages: now.Pages, Generation: now.Generation, Profile: now.Profile, ScoresAt: now.ScoresAt, Revision: now.Revision, RecordDue: now.RecordDue, Queue: now.Queue, Extra: now.Extra, Restored: now.FromPages, SinceStart: now.SinceStart,
		Changes: before != nil,
	}
	if before == nil {
		before = &framework.Published{}
	}
	if before.Digest != now.Digest || len(before.Names) != len(now.Names) {
		p.Added, p.Removed = differences(before.Names, now.Names)
	}
	for name, score := range now.Scores {
		if old, known := before.Scores[name]; !known || old != score {
			if p.Scores == nil {
				p.Scores = map[string]int64{}
			}
			p.Scores[name] = score
		}
	}
	for name := range before.Scores {
		if _, known := now.Scores[name]; !known {
			p.NoScores = append(p.NoScores, name)
		}
	}
	slices.Sort(p.NoScores)
	return p
}

// apply returns the published decision that p describes.
func (p *Published) apply(before *framework.Published) *framework.Published {
	now := &framework.Published{
		Pages: p.Pages, Generation: p.Generation, Profile: p.Profile, ScoresAt: p.ScoresAt, Revision: p.Revision, RecordDue: p.RecordDue, Queue: p.Queue, Extra: p.Extra, FromPages: p.Restored, SinceStart: p.SinceStart,
	}
	if !p.Changes || before == nil {
		before = &framework.Published{}
	}
	removed := make(map[string]bool, len(p.Removed))
	for _, name := range p.Removed {
		removed[name] = true
	}
	for _, name := range before.Names {
		if !removed[name] {
			now.Names = append(now.Names, name)
		}
	}
	now.Names = append(now.Names, p.Added...)
	slices.Sort(now.Names)
	now.Digest = framework.DigestOf(now.Names)
	now.Scores = maps.Clone(before.Scores)
	if now.Scores == nil && p.Scores != nil {
		now.Scores = map[string]int64{}
	}
	maps.Copy(now.Scores, p.Scores)
	for _, name := range p.NoScores {
		delete(now.Scores, name)
	}
	if len(now.Scores) == 0 {
		now.Scores = nil
	}
	return now
}

// differences returns what two sorted lists do not have in common.
func differences(before, now []string) (added, removed []string) {
	for len(before)+len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && before[0] < now[0]:
			removed, before = append(removed, before[0]), before[1:]
		case len(before) == 0 || now[0] < before[0]:
			added, now = append(added, now[0]), now[1:]
		default:
			before, now = before[1:], now[1:]
		}
	}
	return added, removed
}

// Decoder turns entries back into inputs. It keeps the last published decision of each Placement,
// because entries are relative to it. Begin each run, and after a gap, with a new one.
type Decoder struct {
	published map[inventory.Key]*framework.Published
	// hashes are those of the last contents of each page: the recorded one and the one in this
	// process, because each process has its own key.
	hashes map[inventory.Key][]pageHash
	// last has the objects of kinds with statusOf.
	last map[objectKey]client.Object
	// reduced are the objects of which only a reduced state is known.
	reduced map[objectKey]bool
	// sizes are those of what is kept, in bytes of text; size is their sum.
	sizes map[sizeKey]int64
	size  int64
}

// sizeKey names what an entry replaces: the status of an object is apart from the rest.
type sizeKey struct {
	kind string
	objectKey
}

// Size is about how many bytes of text the inputs until now have that no later one replaces. Users
// write most of them, so a reader bounds it.
func (d *Decoder) Size() int64 { return d.size }

// addSize adds the size of an entry.
func (d *Decoder) addSize(e *Entry, in inventory.Input) {
	key, size := sizeKey{e.Type, keyOf(e)}, int64(e.Size)
	switch {
	case in.Published != nil:
		size = 0
		for _, name := range in.Published.Names {
			size += int64(len(name))
		}
		for name := range in.Published.Scores {
			size += int64(len(name))
		}
	case e.Readiness != nil:
		key.Key = inventory.Key{Namespace: e.Readiness.Source}
		if len(e.Readiness.Objects) > 0 {
			key.Key, key.objectKey.kind = e.Readiness.Objects[0].Key, e.Readiness.Source
		}
	case in.Kind == inventory.InputDeleted:
		for _, kind := range []string{string(inventory.InputObject), TypeStatus} {
			key.kind = kind
			d.size -= d.sizes[key]
			delete(d.sizes, key)
		}
		return
	}
	d.size += size - d.sizes[key]
	d.sizes[key] = size
}

// IsReduced reports whether only a reduced state of the object of an entry is known, after Input
// was called for the entry.
func (d *Decoder) IsReduced(e *Entry) bool { return d.reduced[keyOf(e)] }

type pageHash struct{ recorded, own uint64 }

// maxHashes is how many contents of a page are known.
const maxHashes = 8

// addHash adds the content of a page.
func (d *Decoder) addHash(page *v1alpha1.PlacementDecision, recorded uint64) {
	key := inventory.Key{Namespace: page.Namespace, Name: page.Name}
	known := d.hashes[key]
	if len(known) >= maxHashes {
		known = slices.Delete(known, 0, 1)
	}
	d.hashes[key] = append(known, pageHash{recorded, framework.ContentHash(page)})
}

// ownPages replaces recorded hashes by those of this process.
func (d *Decoder) ownPages(namespace string, recorded map[string]uint64) map[string]uint64 {
	own := make(map[string]uint64, len(recorded))
	for name, hash := range recorded {
		own[name] = hash
		for _, known := range d.hashes[inventory.Key{Namespace: namespace, Name: name}] {
			if known.recorded == hash {
				own[name] = known.own
			}
		}
	}
	return own
}

// NewDecoder returns a decoder for an empty inventory.
func NewDecoder() *Decoder {
	return &Decoder{
		published: map[inventory.Key]*framework.Published{}, hashes: map[inventory.Key][]pageHash{}, last: map[objectKey]client.Object{},
		reduced: map[objectKey]bool{}, sizes: map[sizeKey]int64{},
	}
}

// Input returns the input of an entry; false for an entry of another type, or of a kind that this
// version does not know.
func (d *Decoder) Input(e *Entry) (inventory.Input, bool, error) {
	in, ok, err := d.input(e)
	if ok && err == nil {
		d.addSize(e, in)
	}
	return in, ok, err
}

func (d *Decoder) input(e *Entry) (inventory.Input, bool, error) {
	in := inventory.Input{Kind: inventory.InputKind(e.Type), Number: e.Number, TaintTimes: e.TaintTimes, Clusters: e.Clusters, KeepsLanded: e.KeepsLanded, Unpermitted: e.Unpermitted, Readiness: e.Readiness}
	switch in.Kind {
	case inventory.InputObject, inventory.InputDeleted, TypeStatus:
		return d.object(e, in)
	case inventory.InputPublished:
		if e.Published == nil {
			return in, false, fmt.Errorf("entry %d: published is missing", e.Number)
		}
		in.Placement = inventory.Key{Namespace: e.Namespace, Name: e.Name}
		in.Published = e.Published.apply(d.published[in.Placement])
		in.Published.Pages = d.ownPages(e.Namespace, e.Published.Pages)
		d.published[in.Placement] = in.Published
	case inventory.InputReserved, inventory.InputLanded, inventory.InputMissed:
		in.Placement = inventory.Key{Namespace: e.Namespace, Name: e.Name}
	case inventory.InputReadiness:
		if e.Readiness == nil {
			return in, false, fmt.Errorf("entry %d: readiness is missing", e.Number)
		}
	case inventory.InputStarted:
	default:
		return in, false, nil
	}
	return in, true, nil
}

func (d *Decoder) object(e *Entry, in inventory.Input) (inventory.Input, bool, error) {
	at := slices.IndexFunc(kinds.All(), func(k kinds.Kind) bool { return k.Name == e.Kind })
	if at < 0 {
		return in, false, nil
	}
	key := keyOf(e)
	object := kinds.All()[at].New().(client.Object)
	switch e.Type {
	case TypeStatus:
		if d.last[key] == nil {
			return in, false, fmt.Errorf("entry %d: %s %s has no earlier entry", e.Number, e.Kind, key.Key)
		}
		object, in.Kind = d.last[key].DeepCopyObject().(client.Object), inventory.InputObject
		if err := setStatus(object, e); err != nil {
			return in, false, fmt.Errorf("entry %d: %s %s: %w", e.Number, e.Kind, key.Key, err)
		}
	case string(inventory.InputObject):
		if err := json.Unmarshal(e.Object, object); err != nil {
			return in, false, fmt.Errorf("entry %d: %s: %w", e.Number, e.Kind, err)
		}
		e.Namespace, e.Name = object.GetNamespace(), object.GetName()
		if key = keyOf(e); e.Reduced {
			d.reduced[key] = true
		} else {
			delete(d.reduced, key)
		}
	default:
		object.SetNamespace(e.Namespace)
		object.SetName(e.Name)
		object.SetUID(e.UID)
		delete(d.last, key)
		delete(d.reduced, key)
		switch e.Kind {
		case "PlacementDecision":
			delete(d.hashes, key.Key)
		case "Placement":
			delete(d.published, key.Key)
		}
		in.Object = object
		return in, true, nil
	}
	if page, ok := object.(*v1alpha1.PlacementDecision); ok {
		d.addHash(page, e.Hash)
	}
	if statusOf(object) != nil {
		d.last[objectKey{e.Kind, client.ObjectKeyFromObject(object)}] = object
	}
	in.Object = object
	return in, true, nil
}

// setStatus gives a copy of an object the status of an entry.
func setStatus(object client.Object, e *Entry) error {
	object.SetResourceVersion(e.Version)
	object.SetGeneration(e.Generation)
	object.SetAnnotations(e.Annotations)
	switch o := object.(type) {
	case *v1alpha1.PlacementDecision:
		o.Status = v1alpha1.PlacementDecisionStatus{}
	case *v1alpha1.Placement:
		o.Status = v1alpha1.PlacementStatus{}
	case *berthv1alpha1.PlacementChange:
		o.Status = berthv1alpha1.PlacementChangeStatus{}
	}
	return json.Unmarshal(e.Status, statusOf(object))
}
