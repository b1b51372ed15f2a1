package housekeeping

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Bounds of what a ManagedCluster takes from a ClusterProfile. Lengths are in characters, as in the
// CRD of ManagedClusters; maxClaimBytes is for the names and values of all claims.
const (
	maxProfileLabels  = 100
	maxProfileClaims  = 256
	maxClaimBytes     = 64 << 10
	maxClaimName      = 253
	maxClaimValue     = 1024
	maxVersion        = 253
	maxProfileMessage = 1024
	// maxProblems is how many omissions an event names.
	maxProblems = 5
)

// controlPlaneHealthy is the condition of ClusterProfiles that becomes the Available condition.
const controlPlaneHealthy = "ControlPlaneHealthy"

// clusterProfile is what is kept of a ClusterProfile: only what a ManagedCluster takes from it.
type clusterProfile struct {
	types.NamespacedName
	uid     types.UID
	created metav1.Time
	// crd is the CustomResourceDefinition that the profile was read with.
	crd types.UID

	labels    map[string]string
	claims    []v1alpha1.ManagedClusterClaim
	version   string
	available metav1.Condition
	// unreadable is why the profile could not be decoded; then the fields above are empty. leftOut
	// says what the ManagedCluster does not take, of omitted things the first maxProblems.
	unreadable string
	leftOut    []string
	omitted    int
}

// profileStatus is the part of a ClusterProfile that is read.
type profileStatus struct {
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Version    struct {
			Kubernetes string `json:"kubernetes"`
		} `json:"version"`
		Properties []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"properties"`
	} `json:"status"`
}

// readProfile reads a ClusterProfile. Its content is not trusted.
func readProfile(u *unstructured.Unstructured, crd types.UID) *clusterProfile {
	p := &clusterProfile{
		NamespacedName: types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()},
		uid:            u.GetUID(), created: u.GetCreationTimestamp(), crd: crd,
	}
	var content profileStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"status": u.Object["status"]}, &content); err != nil {
		p.unreadable = v1alpha1.CutText(err.Error(), maxProfileMessage)
		return p
	}
	p.readLabels(u.GetLabels())
	p.readClaims(&content)
	if p.version = content.Status.Version.Kubernetes; utf8.RuneCountInString(p.version) > maxVersion {
		p.version = ""
		p.leaveOut("status.version.kubernetes: more than %d characters", maxVersion)
	}
	p.readHealth(content.Status.Conditions)
	return p
}

// notCopied is true for labels with a meaning on the hub: cluster sets, and everything of Berth and
// Open Cluster Management, are decided by the hub's administrator. The other two tell Argo CD that
// an object is its own, to be deleted when it is not in its source.
func notCopied(label string) bool {
	domain, _, _ := strings.Cut(label, "/")
	return domain == v1alpha1.GroupName || domain == "berth.dev" ||
		label == "app.kubernetes.io/instance" || label == "argocd.argoproj.io/instance"
}

func (p *clusterProfile) readLabels(labels map[string]string) {
	p.labels = map[string]string{}
	over := 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case notCopied(key):
		case len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(labels[key])) > 0:
			p.leaveOut("label %s: invalid", shown(key))
		case len(p.labels) == maxProfileLabels:
			over++
		default:
			p.labels[key] = labels[key]
		}
	}
	if over > 0 {
		p.leaveOut("%d labels: a cluster takes at most %d", over, maxProfileLabels)
	}
}

// readClaims keeps the claims sorted by name, so that the same ones are kept in whatever order the
// profile lists its properties. Of two with one name the last one counts, as in ManagedClusters.
func (p *clusterProfile) readClaims(content *profileStatus) {
	values := map[string]string{}
	for _, property := range content.Status.Properties {
		values[property.Name] = property.Value
	}
	over, size := 0, 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		switch {
		case name == "" || value == "":
			p.leaveOut("property %s: without a name or a value", shown(name))
		case utf8.RuneCountInString(name) > maxClaimName:
			p.leaveOut("property %s: a name of more than %d characters", shown(name), maxClaimName)
		case utf8.RuneCountInString(value) > maxClaimValue:
			p.leaveOut("property %s: a value of more than %d characters", shown(name), maxClaimValue)
		case len(p.claims) == maxProfileClaims || size+len(name)+len(value) > maxClaimBytes:
			over++
		default:
			size += len(name) + len(value)
			p.claims = append(p.claims, v1alpha1.ManagedClusterClaim{Name: name, Value: value})
		}
	}
	if over > 0 {
		p.leaveOut("%d properties: a cluster takes at most %d with %d KiB in all", over, maxProfileClaims, maxClaimBytes>>10)
	}
}

// readHealth derives the Available condition.
func (p *clusterProfile) readHealth(conditions []metav1.Condition) {
	p.available = metav1.Condition{
		Type: v1alpha1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonClusterUnreachable,
		Message: fmt.Sprintf("ClusterProfile %s has no condition %s", p, controlPlaneHealthy),
	}
	healthy := meta.FindStatusCondition(conditions, controlPlaneHealthy)
	if healthy == nil {
		return
	}
	switch healthy.Status {
	case metav1.ConditionTrue:
		p.available.Status, p.available.Reason = metav1.ConditionTrue, v1alpha1.ReasonClusterAvailable
	case metav1.ConditionFalse:
		p.available.Status, p.available.Reason = metav1.ConditionFalse, v1alpha1.ReasonClusterUnavailable
	}
	p.available.Message = v1alpha1.CutText(fmt.Sprintf("%s of ClusterProfile %s: %s: %s", controlPlaneHealthy, p, healthy.Reason, healthy.Message), maxProfileMessage)
}

// shown is a name for a message.
func shown(name string) string { return fmt.Sprintf("%q", v1alpha1.CutText(name, 100)) }

// leaveOut adds what the ManagedCluster does not take.
func (p *clusterProfile) leaveOut(format string, args ...any) {
	if p.omitted++; p.omitted <= maxProblems {
		p.leftOut = append(p.leftOut, fmt.Sprintf(format, args...))
	}
}

// omissions says what the ManagedCluster does not take; "" if it takes everything.
func (p *clusterProfile) omissions() string {
	text := strings.Join(p.leftOut, "; ")
	if rest := p.omitted - len(p.leftOut); rest > 0 {
		return fmt.Sprintf("%s; … %d more", text, rest)
	}
	return text
}

// profileMark is the value of v1alpha1.ClusterProfileAnnotation. A person who gives a
// ManagedCluster to a profile writes only the first part.
type profileMark struct {
	types.NamespacedName
	// profile and crd are the UIDs of the profile and of its CustomResourceDefinition.
	profile, crd string
}

func (m profileMark) text() string {
	return fmt.Sprintf("%s %s %s", m.NamespacedName, m.profile, m.crd)
}

// markOf reads the mark of a ManagedCluster; false if it was not made from a ClusterProfile.
func markOf(c metav1.Object) (profileMark, bool) {
	fields := strings.Fields(c.GetAnnotations()[v1alpha1.ClusterProfileAnnotation])
	if len(fields) == 0 {
		return profileMark{}, false
	}
	namespace, name, _ := strings.Cut(fields[0], "/")
	m := profileMark{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	if len(fields) == 3 {
		m.profile, m.crd = fields[1], fields[2]
	}
	return m, true
}

// describe sets the labels and annotations of the profile's ManagedCluster. Labels that the loop
// did not copy stay: also those that the profile has with another value.
func (p *clusterProfile) describe(c *v1alpha1.ManagedCluster) {
	copied := map[string]bool{}
	for key := range strings.SplitSeq(c.Annotations[v1alpha1.CopiedLabelsAnnotation], ",") {
		copied[key] = !notCopied(key)
	}
	var now []string
	for _, key := range slices.Sorted(maps.Keys(p.labels)) {
		if _, has := c.Labels[key]; has && !copied[key] {
			continue
		}
		now = append(now, key)
		metav1.SetMetaDataLabel(&c.ObjectMeta, key, p.labels[key])
	}
	for key, mine := range copied {
		if mine && !slices.Contains(now, key) {
			delete(c.Labels, key)
		}
	}
	metav1.SetMetaDataLabel(&c.ObjectMeta, v1alpha1.ClusterProfileNamespaceLabel, p.Namespace)
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.ClusterProfileAnnotation, profileMark{p.NamespacedName, string(p.uid), string(p.crd)}.text())
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.CopiedLabelsAnnotation, strings.Join(now, ","))
}

// report sets the status that the profile decides. The rest of the status stays.
func (p *clusterProfile) report(c *v1alpha1.ManagedCluster) {
	c.Status.Version.Kubernetes, c.Status.ClusterClaims = p.version, slices.Clone(p.claims)
	available := p.available
	available.ObservedGeneration = c.Generation
	v1alpha1.SetCondition(&c.Status.Conditions, available)
}
