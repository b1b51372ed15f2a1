package resilience

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Kinds of keys.
const (
	kindLabel   = "label"
	kindClaim   = "claim"
	kindCluster = "cluster"
)

// Syntax is the form of a key in help texts.
const Syntax = "label:KEY|claim:NAME|cluster"

// Key names the property of clusters whose values are the domains. The zero value is invalid.
type Key struct{ kind, name string }

// ParseKey reads label:KEY, claim:NAME or cluster.
func ParseKey(text string) (Key, error) {
	kind, name, named := strings.Cut(text, ":")
	switch {
	case kind == kindCluster && !named:
		return Key{kind: kind}, nil
	case kind == kindLabel && name != "":
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			return Key{}, fmt.Errorf("%q is no label key: %s", Short(name), strings.Join(problems, "; "))
		}
		return Key{kind, name}, nil
	case kind == kindClaim && name != "":
		if len(name) > validation.DNS1123SubdomainMaxLength {
			return Key{}, errors.New("the name of a claim has at most 253 characters")
		}
		return Key{kind, name}, nil
	}
	return Key{}, fmt.Errorf("%q is not label:KEY, claim:NAME or cluster", Short(text))
}

func (k Key) String() string {
	if k.kind == kindCluster {
		return k.kind
	}
	return k.kind + ":" + k.name
}

// domainOf returns the domain of a cluster; empty for none.
func (k Key) domainOf(c *framework.Cluster) string {
	switch k.kind {
	case kindLabel:
		return c.Labels[k.name]
	case kindClaim:
		return c.Claims[k.name]
	}
	return c.Name
}

// Of returns the domain of an object as domainOf does.
func (k Key) Of(c *v1alpha1.ManagedCluster) (domain string) {
	switch k.kind {
	case kindLabel:
		return c.Labels[k.name]
	case kindClaim:
		for _, claim := range c.Status.ClusterClaims {
			if claim.Name == k.name {
				domain = claim.Value
			}
		}
		return domain
	}
	return c.Name
}

// domains names n domains: "4 domains of label region", "12 clusters".
func (k Key) domains(n int) string {
	text := "domain"
	if k.kind == kindCluster {
		text = "cluster"
	}
	if n != 1 {
		text += "s"
	}
	if k.kind != kindCluster {
		text += " of " + k.kind + " " + k.name
	}
	return fmt.Sprintf("%d %s", n, text)
}

// Reads returns the label keys and the claim names that the domains depend on.
func (k Key) Reads() (labels, claims []string) {
	switch k.kind {
	case kindLabel:
		return []string{k.name}, nil
	case kindClaim:
		return nil, []string{k.name}
	}
	return nil, nil
}

// Domain is clusters that fail together.
type Domain struct {
	Name string
	// Clusters are the indexes of the clusters, in ascending order.
	Clusters []int
}

// Set returns Clusters as a set.
func (d Domain) Set() framework.Bitset {
	var set framework.Bitset
	for _, i := range d.Clusters {
		set = set.Set(i)
	}
	return set
}

// CandidateDomains divides the candidates of a Snapshot into domains, as DomainsOf does.
func CandidateDomains(k Key, snapshot *framework.Snapshot) (all []Domain, without int) {
	candidates := snapshot.Candidates()
	return DomainsOf(k, func(yield func(*framework.Cluster) bool) {
		for i := range candidates.All {
			if !yield(snapshot.Clusters.Get(i)) {
				return
			}
		}
	})
}

// DomainsOf divides clusters into domains, sorted by name. without is the number of clusters that
// belong to none.
func DomainsOf(k Key, clusters func(yield func(*framework.Cluster) bool)) (all []Domain, without int) {
	at := map[string]int{}
	for c := range clusters {
		name := k.domainOf(c)
		if name == "" {
			without++
			continue
		}
		i, known := at[name]
		if !known {
			i = len(all)
			at[name] = i
			all = append(all, Domain{Name: name})
		}
		all[i].Clusters = append(all[i].Clusters, c.Index)
	}
	slices.SortFunc(all, func(a, b Domain) int { return cmp.Compare(a.Name, b.Name) })
	return all, without
}

// maxName is how many characters of a name messages show.
const maxName = 63

// Short cuts a name for a message.
func Short(name string) string {
	if shown := []rune(name); len(shown) > maxName {
		return string(shown[:maxName-1]) + "…"
	}
	return name
}
