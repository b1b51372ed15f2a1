package tenancy

import (
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
}

// apply lowers the free amounts to what one quota leaves.
func (r *Remaining) apply(quota, used Quota, by string) {
	if free := max(quota.Applications-used.Applications, 0); quota.Applications < Unlimited && free < r.Applications {
		r.Applications, r.ApplicationsBy = free, by+" maxapplications "+strconv.FormatInt(quota.Applications, 10)
	}
	if free := max(quota.Clusters-used.Clusters, 0); quota.Clusters < Unlimited && free < r.Clusters {
		r.Clusters, r.ClustersBy = free, by+" clusters "+strconv.FormatInt(quota.Clusters, 10)
	}
}

// Remaining returns what the quotas and limits of a queue and all its ancestors leave for an
// application of the user. The members must not include that application.
func (t *Tree) Remaining(members *Members, queue, user string, groups []string) Remaining {
	free := Remaining{Quota: Quota{Unlimited, Unlimited}}
	path, known := t.settings(members, queue)
	for _, q := range path {
		used := members.at(q.Name)
		free.apply(q.Quota, used.total, Cut(q.Name))
		for _, list := range q.limits {
			free.applyLimits(list, used, q.Name, user, groups)
		}
	}
	if tmpl := templateOf(path, known); tmpl != nil {
		queue = strings.ToLower(queue)
		free.apply(tmpl.Quota, members.at(queue).total, Cut(queue))
	}
	return free
}

// applyLimits applies the limits of one level. A user's limit is for that user alone. A group's
// limit is for all users together that count as the group; users without a listed group count as
// the wildcard.
func (r *Remaining) applyLimits(limits []Limit, used *level, queue, user string, groups []string) {
	if name, quota := quotaFor(limits, Limit.usersOf, user); name != "" {
		r.apply(quota, used.users[user], Cut(queue)+" user "+Cut(name))
	}
	if name, quota := quotaFor(limits, Limit.groupsOf, groups...); name != "" {
		r.apply(quota, used.usedBy(name, limits), Cut(queue)+" group "+Cut(name))
	}
}
