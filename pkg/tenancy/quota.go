package tenancy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Unlimited is a quota that is not set.
const Unlimited = math.MaxInt64

// Quota is the limit of a queue and all queues below it, or of one user or group in them.
type Quota struct {
	Applications int64 // maximum number of Placements, or Unlimited
	Clusters     int64 // maximum number of clusters that they select together, or Unlimited
}

// Limit is a quota for each of the users, and for each of the groups as a whole. The last name may
// be the Wildcard.
type Limit struct {
	Quota         Quota
	Users, Groups []string
}

// quotaFor returns the first limit that lists one of the names, otherwise that of the wildcard. A
// limit lists users or groups.
func quotaFor(limits []Limit, names func(Limit) []string, theirs ...string) (name string, quota Quota) {
	for _, l := range limits {
		for _, listed := range names(l) {
			if slices.Contains(theirs, listed) {
				return listed, l.Quota
			}
			if listed == Wildcard && name == "" {
				name, quota = listed, l.Quota
			}
		}
	}
	return name, quota
}

func (l Limit) usersOf() []string  { return l.Users }
func (l Limit) groupsOf() []string { return l.Groups }

// Remaining is the free quota for one more application.
type Remaining struct {
	Quota
	// ApplicationsBy and ClustersBy name the limiting quotas; empty where the number is Unlimited.
	ApplicationsBy, ClustersBy string

	applications, clusters scope
}

// scope is what one quota counts: the applications of a queue and those below it, or of one user or
// group in them.
type scope struct {
	queue, user, group string
	listed             string  // the user as the limit lists it, such as the wildcard
	limits             []Limit // to which group belongs
	used               Quota
}

func (s scope) String() string {
	switch {
	case s.listed != "":
		return Cut(s.queue) + " user " + Cut(s.listed)
	case s.group != "":
		return Cut(s.queue) + " group " + Cut(s.group)
	}
	return Cut(s.queue)
}

// counts is true if the quota counts the application.
func (s scope) counts(a *Application) bool {
	if rest, in := strings.CutPrefix(a.Queue, s.queue); !in || rest != "" && rest[0] != '.' || s.listed != "" && a.User != s.user {
		return false
	}
	if s.group == "" {
		return true
	}
	as, _ := quotaFor(s.limits, Limit.groupsOf, a.Groups...)
	return as == s.group
}

// apply lowers the free amounts to what one quota leaves.
func (r *Remaining) apply(quota Quota, s scope) {
	if free := max(quota.Applications-s.used.Applications, 0); quota.Applications < Unlimited && free < r.Applications {
		r.Applications, r.ApplicationsBy, r.applications = free, s.String()+" maxapplications "+strconv.FormatInt(quota.Applications, 10), s
	}
	if free := max(quota.Clusters-s.used.Clusters, 0); quota.Clusters < Unlimited && free < r.Clusters {
		r.Clusters, r.ClustersBy, r.clusters = free, s.String()+" clusters "+strconv.FormatInt(quota.Clusters, 10), s
	}
}

// Remaining returns what the quotas and limits of a queue and all its ancestors leave for an
// application of the user. The members must not include that application.
func (t *Tree) Remaining(members *Members, queue, user string, groups []string) Remaining {
	free := Remaining{Quota: Quota{Unlimited, Unlimited}}
	path, known := t.settings(members, queue)
	for _, q := range path {
		used := members.at(q.Name)
		free.apply(q.Quota, scope{queue: q.Name, used: used.total})
		for _, list := range q.limits {
			free.applyLimits(list, used, q.Name, user, groups)
		}
	}
	if tmpl := templateOf(path, known); tmpl != nil {
		queue = strings.ToLower(queue)
		free.apply(tmpl.Quota, scope{queue: queue, used: members.at(queue).total})
	}
	return free
}

// Exceeded describes the quotas of configured queues that the members exceed, such as "queue root.a
// uses 73 of 10 clusters".
func (t *Tree) Exceeded(members *Members) (exceeded []string) {
	return t.root.exceeded(members)
}

func (q *Queue) exceeded(members *Members) (exceeded []string) {
	used := members.at(q.Name).total
	for _, of := range []struct {
		used, quota int64
		what        string
	}{{used.Applications, q.Quota.Applications, "Placements"}, {used.Clusters, q.Quota.Clusters, "clusters"}} {
		if of.quota < Unlimited && of.used > of.quota {
			exceeded = append(exceeded, fmt.Sprintf("queue %s uses %d of %d %s", Cut(q.Name), of.used, of.quota, of.what))
		}
	}
	for _, child := range q.Children {
		exceeded = append(exceeded, child.exceeded(members)...)
	}
	return exceeded
}

// applyLimits applies the limits of one level. A user's limit is for that user alone. A group's
// limit is for all users together that count as the group; users without a listed group count as
// the wildcard.
func (r *Remaining) applyLimits(limits []Limit, used *level, queue, user string, groups []string) {
	if name, quota := quotaFor(limits, Limit.usersOf, user); name != "" {
		r.apply(quota, scope{queue: queue, user: user, listed: name, used: used.users[user]})
	}
	if name, quota := quotaFor(limits, Limit.groupsOf, groups...); name != "" {
		r.apply(quota, scope{queue: queue, group: name, limits: limits, used: used.usedBy(name, limits)})
	}
}

// ApplicationsUsed describes the use of the quota that limits the Placements, for the named
// Placement: ApplicationsBy, how many others use, and which of them are in its namespace.
func (r *Remaining) ApplicationsUsed(members *Members, namespace, name string) string {
	return r.ApplicationsBy + members.describe(r.applications, r.applications.used.Applications, namespace, name, func(a *Application) (string, bool) {
		return Cut(a.Name), true
	})
}

// ClustersUsed is ApplicationsUsed for the quota that limits the clusters.
func (r *Remaining) ClustersUsed(members *Members, namespace, name string) string {
	return r.ClustersBy + members.describe(r.clusters, r.clusters.used.Clusters, namespace, name, func(a *Application) (string, bool) {
		return Cut(a.Name) + " " + strconv.FormatInt(a.Clusters, 10), a.Clusters > 0
	})
}
