package tenancy

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Unlimited is a quota that is not set.
const Unlimited = math.MaxInt64

// Quota bounds a queue with all below it, or one user or group in it.
type Quota struct {
	Applications int64 // how many may be placed, or Unlimited
	Clusters     int64 // how many may be selected by all of them together, or Unlimited
}

// Limit is a quota for each of the users, and for each of the groups as a whole. The last name may
// be the Wildcard.
type Limit struct {
	Quota         Quota
	Users, Groups []string
}

// quotaFor returns the limit for a user: that of the first listed name that is theirs, else of the
// wildcard. A limit lists users or groups.
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

// Room is what is left for one more application.
type Room struct {
	Quota
	// ApplicationsBy and ClustersBy name the limiting quotas; empty where the number is Unlimited.
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

// Room says what the quotas of a queue and all its ancestors, and the limits at each of them, leave
// to an application of the user. The members must not include that application.
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
		room.narrow(tmpl.Quota, members.at(queue).total, Cut(queue))
	}
	return room
}

// limit takes the limits of one level into account: a user's is for what the user has, a group's
// for what all have together who count as that group, and so everybody who has none of the groups
// listed counts as the wildcard.
func (r *Room) limit(limits []Limit, used *level, queue, user string, groups []string) {
	if name, quota := quotaFor(limits, Limit.usersOf, user); name != "" {
		r.narrow(quota, used.users[user], Cut(queue)+" user "+Cut(name))
	}
	if name, quota := quotaFor(limits, Limit.groupsOf, groups...); name != "" {
		r.narrow(quota, used.usedBy(name, limits), Cut(queue)+" group "+Cut(name))
	}
}
