package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// memberTimeout bounds each request to the member, probeTimeout all requests of a probe. retryDelay
// is the pause of a prober. maxMessage is the length at which an error is cut, in characters.
const (
	memberTimeout = 10 * time.Second
	probeTimeout  = time.Minute
	retryDelay    = time.Second
	maxMessage    = 512
)

// Bounds of what a member answers. A ManagedCluster can have 1,000 resources and 1,000 claims.
const (
	nodesPerPage = 100
	maxPages     = 100
	maxResources = 1000
	maxClaims    = 1000
	maxVersion   = 256
)

// prober reads one member. It is immutable.
type prober struct {
	kube   kubernetes.Interface
	claims dynamic.Interface
	// pause is the time before a failed probe is repeated.
	pause time.Duration
}

// facts are what a ready member reports.
type facts struct {
	version               string
	claims                []v1alpha1.ManagedClusterClaim
	capacity, allocatable v1alpha1.ResourceList
}

// probeError is why a probe failed. notReady is true if the member answers that it is not ready.
type probeError struct {
	notReady bool
	message  string
}

func (e *probeError) Error() string { return e.message }

// newProber returns a prober of the member that config connects to. It sends no request yet.
func newProber(config *rest.Config) (*prober, error) {
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS = memberTimeout, -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundedTransport{next} })
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the member: %w", err)
	}
	claims, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the member: %w", err)
	}
	return &prober{kube: kube, claims: claims, pause: retryDelay}, nil
}

// observe probes the member, and repeats a failed probe once.
func (p *prober) observe(ctx context.Context) (*facts, *probeError) {
	seen, failed := p.probe(ctx)
	if failed == nil {
		return seen, nil
	}
	select {
	case <-ctx.Done():
		return nil, failed
	case <-time.After(p.pause):
	}
	return p.probe(ctx)
}

func (p *prober) probe(ctx context.Context) (seen *facts, failed *probeError) {
	// What one member answers must not end the reporter of the others.
	defer func() {
		if reason := recover(); reason != nil {
			seen, failed = nil, &probeError{message: "The member does not respond: " + oneLine(fmt.Errorf("reading its answers: %v", reason))}
		}
	}()
	ctx, cancel := context.WithTimeout(withBudget(ctx), probeTimeout)
	defer cancel()
	if _, err := p.kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		answer, answered := errors.AsType[*apierrors.StatusError](err)
		if answered && answer.Status().Code >= http.StatusInternalServerError {
			return nil, &probeError{notReady: true, message: fmt.Sprintf("The member answers /readyz with %d: %s", answer.Status().Code, oneLine(err))}
		}
		return nil, &probeError{message: "The member does not respond: " + oneLine(err)}
	}
	seen, err := p.readFacts(ctx)
	if err != nil {
		return nil, &probeError{message: "The member does not respond: " + oneLine(err)}
	}
	return seen, nil
}

// oneLine is the text of an error for a condition. It has no source ports, which differ at every
// attempt and would make a write of each.
func oneLine(err error) string {
	text := err.Error()
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Source != nil {
		text = strings.ReplaceAll(text, network.Source.String()+"->", "")
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if runes := []rune(text); len(runes) > maxMessage {
		text = string(runes[:maxMessage]) + " …"
	}
	return text
}

func (p *prober) readFacts(ctx context.Context) (*facts, error) {
	// Unlike ServerVersion, this ends when ctx does.
	answer, err := p.kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the version: %w", err)
	}
	var server version.Info
	if err := json.Unmarshal(answer, &server); err != nil {
		return nil, fmt.Errorf("reading the version: %w", err)
	}
	if len(server.GitVersion) > maxVersion {
		return nil, fmt.Errorf("reading the version: it has more than %d bytes", maxVersion)
	}
	seen := &facts{version: server.GitVersion, capacity: nothing(), allocatable: nothing()}
	if err := p.addNodes(ctx, seen); err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	if seen.claims, err = p.readClaims(ctx); err != nil {
		return nil, fmt.Errorf("listing the claims: %w", err)
	}
	return seen, nil
}

// nodeList is the part of a list of nodes that is read. Its quantities are within the bounds of
// ResourceList, because those of corev1 can take minutes to parse.
type nodeList struct {
	metav1.ListMeta `json:"metadata"`
	Items           []struct {
		Spec struct {
			Unschedulable bool `json:"unschedulable"`
		} `json:"spec"`
		Status struct {
			Capacity    v1alpha1.ResourceList `json:"capacity"`
			Allocatable v1alpha1.ResourceList `json:"allocatable"`
		} `json:"status"`
	} `json:"items"`
}

// addNodes adds the resources of all nodes.
func (p *prober) addNodes(ctx context.Context, seen *facts) error {
	next := ""
	for range maxPages {
		answer, err := p.kube.Discovery().RESTClient().Get().AbsPath("/api/v1/nodes").SetHeader("Accept", runtime.ContentTypeJSON).
			Param("limit", strconv.Itoa(nodesPerPage)).Param("continue", next).DoRaw(ctx)
		if err != nil {
			return err
		}
		if next, err = seen.addPage(answer); err != nil || next == "" {
			return err
		}
	}
	return fmt.Errorf("there are more than %d pages of %d", maxPages, nodesPerPage)
}

// decoding bounds the memory of all members: one page of nodes is decoded at a time.
var decoding sync.Mutex

// addPage adds the resources of a page of nodes and returns the token of the next one.
func (f *facts) addPage(answer []byte) (next string, err error) {
	decoding.Lock()
	defer decoding.Unlock()
	var nodes nodeList
	if err := json.Unmarshal(answer, &nodes); err != nil {
		return "", err
	}
	for _, node := range nodes.Items {
		addAmounts(f.capacity, node.Status.Capacity)
		// A node that is unschedulable has no allocatable resources.
		if !node.Spec.Unschedulable {
			addAmounts(f.allocatable, node.Status.Allocatable)
		}
		if max(len(f.capacity), len(f.allocatable)) > maxResources {
			return "", fmt.Errorf("they have more than %d resources", maxResources)
		}
	}
	return nodes.Continue, nil
}

// nothing is the resources of a member without nodes. Zero differs from unknown, which is no entry.
func nothing() v1alpha1.ResourceList {
	return v1alpha1.ResourceList{v1alpha1.ResourceCPU: resource.Quantity{}, v1alpha1.ResourceMemory: resource.Quantity{}}
}

func addAmounts(into, add v1alpha1.ResourceList) {
	for name, quantity := range add {
		total := into[name]
		total.Add(quantity)
		into[name] = total
	}
}

// readClaims lists the member's ClusterClaims, sorted by name; none if the member does not serve
// the kind.
func (p *prober) readClaims(ctx context.Context) ([]v1alpha1.ManagedClusterClaim, error) {
	kind := schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "clusterclaims"}
	list, err := p.claims.Resource(kind).List(ctx, metav1.ListOptions{Limit: maxClaims})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(list.Items) > maxClaims || list.GetContinue() != "" {
		return nil, fmt.Errorf("there are more than %d", maxClaims)
	}
	var claims []v1alpha1.ManagedClusterClaim
	for i := range list.Items {
		value, _, err := unstructured.NestedString(list.Items[i].Object, "spec", "value")
		if err == nil && value != "" {
			claims = append(claims, v1alpha1.ManagedClusterClaim{Name: list.Items[i].GetName(), Value: value})
		}
	}
	return claims, nil
}
