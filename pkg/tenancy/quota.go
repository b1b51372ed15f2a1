package tenancy

import (
	"errors"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Unlimited is a quota that is not set.
const Unlimited = math.MaxInt64

// clustersResource is the only resource that is enforced: how many clusters are selected.
const clustersResource = "clusters"

// Quota bounds a queue with all below it, or one user or group in it.
type Quota struct {
	Applications int64 // how many may be placed, or Unlimited
	Clusters     int64 // how many may be selected by all of them together, or Unlimited
}

// limit is a quota for each of the users, and for each of the groups as a whole. The last name may be the wildcard.
type limit struct {
	quota         Quota
	users, groups []string
}

func newQuota(c *quotaConfig) Quota { return quotaOf(c.maxApplications, c.max) }

func quotaOf(applications count, most map[string]text) Quota {
	q := Quota{Unlimited, Unlimited}
	if applications.value > 0 {
		q.Applications = int64(applications.value)
	}
	if value, ok := most[clustersResource]; ok {
		if n, err := parseQuantity(clustersResource, value.value); err == nil {
			q.Clusters = n
		}
	}
	return q
}

func newLimits(configs []*limitConfig) []limit {
	limits := make([]limit, len(configs))
	for i, c := range configs {
		limits[i] = limit{quotaOf(c.maxApplications, c.maxResources), values(c.users), values(c.groups)}
	}
	return limits
}

func values(texts []text) []string {
	values := make([]string, len(texts))
	for i, t := range texts {
		values[i] = t.value
	}
	return values
}

// maxDigits is how many digits the largest legal amount can have.
const maxDigits = 19

var (
	quantity = regexp.MustCompile(`^\+?([0-9]+)([A-Za-z]*)$`)
	thousand = []string{"", "k", "M", "G", "T", "P", "E"}
	kibi     = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
)

// parseQuantity reads a whole number with an optional suffix: k (or K), M, G, T, P, E for powers of 1000, with an i (Ki) for powers
// of 1024. Of the resource vcore the number counts in thousandths, and the suffix m is legal.
func parseQuantity(resource, value string) (int64, error) {
	match := quantity.FindStringSubmatch(strings.Join(strings.Fields(value), ""))
	if match == nil {
		return 0, errors.New(messagef("%q is not a quantity: it must be a whole number from 0 on, with a suffix at most", value))
	}
	// Reading a number takes more than linear time.
	digits := strings.TrimLeft(match[1], "0")
	if len(digits) > maxDigits {
		return 0, errors.New(messagef("%q is not a quantity: it is too large", value))
	}
	n, _ := new(big.Int).SetString("0"+digits, 10)
	suffix := match[2]
	base, power := int64(1000), slices.Index(thousand, suffix)
	if power < 0 {
		base, power = 1024, slices.Index(kibi, suffix)
	}
	switch {
	case suffix == "K":
		base, power = 1000, 1
	case resource == "vcore" && suffix == "m":
		power = 0
	case power < 0:
		return 0, errors.New(messagef("%q is not a quantity: %q is no known suffix", value, suffix))
	}
	if resource == "vcore" && suffix != "m" {
		n.Mul(n, big.NewInt(1000))
	}
	n.Mul(n, new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(power)), nil))
	if !n.IsInt64() {
		return 0, errors.New(messagef("%q is not a quantity: it is too large", value))
	}
	return n.Int64(), nil
}

// quotaFor returns the limit that a list sets for somebody: for the first name in it that is theirs, else for the wildcard. The names of a
// limit are its users' or its groups'.
func quotaFor(limits []limit, names func(limit) []string, theirs ...string) (name string, quota Quota) {
	for _, l := range limits {
		for _, listed := range names(l) {
			if slices.Contains(theirs, listed) {
				return listed, l.quota
			}
			if listed == wildcard && name == "" {
				name, quota = listed, l.quota
			}
		}
	}
	return name, quota
}

func (l limit) usersOf() []string  { return l.users }
func (l limit) groupsOf() []string { return l.groups }

// Room is what is left for one more application.
type Room struct {
	Quota
	// By says which quotas leave so little, in words; empty where the number is Unlimited.
	ApplicationsBy, ClustersBy string
}

// narrow takes a quota into account of which some is used.
func (r *Room) narrow(quota, used Quota, by string) {
	if left := max(quota.Applications-used.Applications, 0); quota.Applications < Unlimited && left < r.Applications {
		r.Applications, r.ApplicationsBy = left, by+" maxapplications "+strconv.FormatInt(quota.Applications, 10)
	}
	if left := max(quota.Clusters-used.Clusters, 0); quota.Clusters < Unlimited && left < r.Clusters {
		r.Clusters, r.ClustersBy = left, by+" clusters "+strconv.FormatInt(quota.Clusters, 10)
	}
}

// Room says what the quotas of a queue and all its ancestors, and the limits at each of them, leave to an application of
// the user. The members must not include that application.
func (t *Tree) Room(members *Members, queue, user string, groups []string) Room {
	room := Room{Quota: Quota{Unlimited, Unlimited}}
	path, configured := t.path(queue)
	for _, q := range path {
		used := members.at(q.Name)
		room.narrow(q.Quota, used.total, Cut(q.Name))
		for _, list := range q.limits {
			room.limit(list, used, q.Name, user, groups)
		}
	}
	if tmpl := templateOf(path, configured); tmpl != nil {
		queue = strings.ToLower(queue)
		room.narrow(tmpl.quota, members.at(queue).total, Cut(queue))
	}
	return room
}

// limit takes the limits of one level into account: a user's is for what the user has, a group's for what all have together who count
// as that group, and so everybody who has none of the groups listed counts as the wildcard.
func (r *Room) limit(limits []limit, used *level, queue, user string, groups []string) {
	if name, quota := quotaFor(limits, limit.usersOf, user); name != "" {
		r.narrow(quota, used.users[user], Cut(queue)+" user "+Cut(name))
	}
	if name, quota := quotaFor(limits, limit.groupsOf, groups...); name != "" {
		r.narrow(quota, used.usedBy(name, limits), Cut(queue)+" group "+Cut(name))
	}
}
