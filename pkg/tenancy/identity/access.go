package identity

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/pkg/tenancy"
)

const (
	accessPrefix       = "admissionController.accessControl."
	defaultSystemUsers = "^system:serviceaccount:kube-system:"
	// maxWarnings is how many warnings about settings are listed.
	maxWarnings = 100
)

// AccessControl are the settings that decide which users may name another submitter. With the zero
// value, no user may.
type AccessControl struct {
	// BypassAuth lets all users name any submitter.
	BypassAuth bool
	// TrustControllers lets users that match SystemUsers do so.
	TrustControllers bool
	// SystemUsers, ExternalUsers and ExternalGroups match anywhere in a name.
	SystemUsers, ExternalUsers, ExternalGroups []*regexp.Regexp
}

// ParseAccessControl reads the settings admissionController.accessControl.* among others. It never
// fails: an invalid value gets its default and a warning.
//
//	bypassAuth        false                                 a boolean (strconv.ParseBool)
//	trustControllers  true                                  the same
//	systemUsers       ^system:serviceaccount:kube-system:   comma-separated regular expressions
//	externalUsers     (empty)                               the same
//	externalGroups    (empty)                               the same
func ParseAccessControl(settings map[string]string) (AccessControl, []string) {
	control := AccessControl{TrustControllers: true, SystemUsers: []*regexp.Regexp{regexp.MustCompile(defaultSystemUsers)}}
	var warnings []string
	instructions := 0
	for _, key := range sortedAccessKeys(settings) {
		value := settings[key]
		var err error
		switch strings.TrimPrefix(key, accessPrefix) {
		case "bypassAuth":
			err = setBool(&control.BypassAuth, value)
		case "trustControllers":
			err = setBool(&control.TrustControllers, value)
		case "systemUsers":
			err = setExpressions(&control.SystemUsers, value, &instructions)
		case "externalUsers":
			err = setExpressions(&control.ExternalUsers, value, &instructions)
		case "externalGroups":
			err = setExpressions(&control.ExternalGroups, value, &instructions)
		default:
			warnings = append(warnings, tenancy.Messagef("%s: unknown setting", key))
		}
		if err != nil {
			warnings = append(warnings, tenancy.Messagef("%s: %v; the default is used", key, err))
		}
	}
	if more := len(warnings) - maxWarnings; more > 0 {
		warnings = append(warnings[:maxWarnings-1], fmt.Sprintf("%d more are not listed", more+1))
	}
	return control, warnings
}

func sortedAccessKeys(settings map[string]string) []string {
	var keys []string
	for key := range settings {
		if strings.HasPrefix(key, accessPrefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func setBool(into *bool, value string) error {
	parsed, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New(tenancy.Messagef("%q is neither true nor false", value))
	}
	*into = parsed
	return nil
}

// setExpressions changes into only if every expression compiles. It ignores empty expressions,
// because they would match every user.
func setExpressions(into *[]*regexp.Regexp, value string, instructions *int) error {
	var parsed []*regexp.Regexp
	for text := range strings.SplitSeq(value, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		expression, err := tenancy.CompilePattern(text, instructions)
		if err != nil {
			return fmt.Errorf("%s is not a regular expression: %w", tenancy.Quote(text), err)
		}
		parsed = append(parsed, expression)
	}
	*into = parsed
	return nil
}

// trusts is true if the user may name another submitter.
func (a AccessControl) trusts(who Identity) bool {
	matches := func(expressions []*regexp.Regexp, name string) bool {
		return slices.ContainsFunc(expressions, func(e *regexp.Regexp) bool { return e.MatchString(name) })
	}
	return a.TrustControllers && matches(a.SystemUsers, who.User) ||
		matches(a.ExternalUsers, who.User) ||
		slices.ContainsFunc(who.Groups, func(group string) bool { return matches(a.ExternalGroups, group) })
}

// AccessRequest describes one create or update of a Placement.
type AccessRequest struct {
	// Update is false for a create.
	Update bool
	// By is the user of the request, after impersonation.
	By Identity
	// Annotation is the user.info annotation and Label the user label, nil where absent; Old… are
	// those of the object as stored, nil on a create.
	Annotation, Label, OldAnnotation, OldLabel *string
	// Queue and OldQueue are what RequestedQueue gives for the object and for the object as stored.
	Queue, OldQueue string
	// Tags and OldTags are the tags of the object and of the object as stored that its queue
	// depends on.
	Tags, OldTags map[string]string
	// Administers is called for an update that changes the requested queue or a tag. It returns
	// true if By may administer the Placement's queue. Nil means false. It is called at most once,
	// and only if the answer depends on it.
	Administers func() bool
}

// AccessDecision is the answer to an AccessRequest.
type AccessDecision struct {
	Allowed bool
	// Reason is why the request is denied, for the user.
	Reason string
	// Stamp is the identity to write to the user.info annotation before the object is stored. Nil
	// does not change the annotation.
	Stamp *Identity
}

func deny(format string, args ...any) AccessDecision {
	return AccessDecision{Reason: tenancy.Messagef(format, args...)}
}

// Decide decides about a request before the object is stamped.
func (a AccessControl) Decide(r AccessRequest) AccessDecision {
	if r.Update {
		return a.decideUpdate(r)
	}
	if r.Annotation != nil {
		return a.decideClientAnnotation(r)
	}
	if a.BypassAuth && isSet(r.Label) {
		return AccessDecision{Allowed: true}
	}
	return AccessDecision{Allowed: true, Stamp: &r.By}
}

// Verify decides about a request after all mutating webhooks. It allows what Decide allows, and the
// stamp that Decide requires; it denies an object without that stamp.
func (a AccessControl) Verify(r AccessRequest) AccessDecision {
	if !r.Update && r.Annotation != nil && *r.Annotation == r.By.String() {
		return AccessDecision{Allowed: true}
	}
	decision := a.Decide(r)
	if decision.Stamp != nil {
		return deny("metadata.annotations[%s] is missing: the webhook stamp.placements.berth.dev must write it", UserInfoAnnotation)
	}
	return decision
}

// decideClientAnnotation checks a user annotation that the client set.
func (a AccessControl) decideClientAnnotation(r AccessRequest) AccessDecision {
	if !a.BypassAuth && !a.trusts(r.By) {
		return deny("user %q with groups %q is not allowed to set user annotation %s", r.By.User, r.By.Groups, UserInfoAnnotation)
	}
	if _, err := Parse(*r.Annotation); err != nil {
		return deny("annotation %s is invalid: %v", UserInfoAnnotation, err)
	}
	return AccessDecision{Allowed: true}
}

func (a AccessControl) decideUpdate(r AccessRequest) AccessDecision {
	switch {
	case r.OldAnnotation != nil && (r.Annotation == nil || *r.Annotation != *r.OldAnnotation):
		return deny("user info annotation change is not allowed: %s says who submitted the Placement", UserInfoAnnotation)
	case r.OldAnnotation == nil && r.Annotation != nil:
		if decision := a.decideClientAnnotation(r); !decision.Allowed {
			return decision
		}
	case r.Annotation == nil && !sameLabel(r.Label, r.OldLabel):
		return deny("the label that names the submitter must not change without annotation %s", UserInfoAnnotation)
	}
	what, old, current := r.queueInput()
	if what == "" || r.bySubmitter() || r.Administers != nil && r.Administers() {
		return AccessDecision{Allowed: true}
	}
	return deny("user %q may not change %s from %q to %q: only the submitter and administrators of the Placement's queue may",
		r.By.User, tenancy.Part(what), old, current)
}

// queueInput returns the first changed input on which the Placement's queue depends; empty for
// none.
func (r AccessRequest) queueInput() (what, old, current string) {
	// Queue names ignore case.
	if !strings.EqualFold(r.Queue, r.OldQueue) {
		return "the requested queue", r.OldQueue, r.Queue
	}
	names := map[string]bool{}
	for _, tags := range []map[string]string{r.OldTags, r.Tags} {
		for name := range tags {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if r.Tags[name] != r.OldTags[name] {
			return "tag " + tenancy.Cut(name) + ", which queue rules read,", r.OldTags[name], r.Tags[name]
		}
	}
	return "", "", ""
}

// bySubmitter is true if By is the submitter of the stored Placement. A Placement of Nobody has no
// submitter.
func (r AccessRequest) bySubmitter() bool {
	if r.OldAnnotation != nil {
		identity, err := Parse(*r.OldAnnotation)
		return err == nil && identity.User == r.By.User
	}
	return isSet(r.OldLabel) && *r.OldLabel == r.By.User
}

func isSet(label *string) bool { return label != nil && *label != "" }

func sameLabel(a, b *string) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}
