package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Extender is a server that filters and scores the candidates of Placements. It acts as a plugin
// with its name, which other lists of the profile may name, too.
type Extender struct {
	// Name of lower case letters, digits and "-", at most 63; no other plugin or extender of the
	// profile has it.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// URLPrefix begins with https://, and has no user, query or fragment. A request goes to
	// URLPrefix/FilterVerb or URLPrefix/PrioritizeVerb.
	// +kubebuilder:validation:MinLength=1
	URLPrefix string `json:"urlPrefix"`

	// FilterVerb is the path of requests whose answers exclude clusters, PrioritizeVerb that of
	// requests whose answers score clusters: letters, digits, "-", "_", "." and "/". At least one
	// of them is required. If both are equal, one request serves for both.
	// +kubebuilder:validation:MinLength=1
	// +optional
	FilterVerb string `json:"filterVerb,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +optional
	PrioritizeVerb string `json:"prioritizeVerb,omitempty"`

	// Weight of the scores in the mode Additive, from -10 to 10; 0 for Placements that list the
	// extender only. Not allowed without PrioritizeVerb.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	// +optional
	Weight *int32 `json:"weight,omitempty"`

	// HTTPTimeout is how long one request may take, from 10ms to 1m. Default 2s.
	// +optional
	HTTPTimeout *metav1.Duration `json:"httpTimeout,omitempty"`

	// TTL is how long an answer counts, from 10s to 24h. Default 5m. Then Berth asks again; until
	// the new answer, the old one counts.
	// +optional
	TTL *metav1.Duration `json:"ttl,omitempty"`

	// FailurePolicy says what happens if the extender does not answer. UseLast: its last answer
	// counts; without one, as Fail. Ignore: as if the profile did not have the extender. Fail:
	// nothing is decided, and the published decision stays.
	// +kubebuilder:default=UseLast
	// +kubebuilder:validation:Enum=UseLast;Ignore;Fail
	// +optional
	FailurePolicy string `json:"failurePolicy,omitempty"`

	// TLSConfig has the files for HTTPS. Berth reads them again when they change.
	// +optional
	TLSConfig *TLSFiles `json:"tlsConfig,omitempty"`

	// Insecure allows http:// in URLPrefix.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// ClusterFields are what is sent of each cluster beside its name: labels, claims and
	// allocatable. Default all of them.
	// +kubebuilder:validation:UniqueItems=true
	// +kubebuilder:validation:items:Enum=labels;claims;allocatable
	// +optional
	ClusterFields []string `json:"clusterFields,omitempty"`
}

// TLSFiles names files in PEM. CertFile and KeyFile are given together.
type TLSFiles struct {
	// CAFile has the certificates that sign the server's. Default: those of the system.
	// +kubebuilder:validation:MinLength=1
	// +optional
	CAFile string `json:"caFile,omitempty"`
	// CertFile and KeyFile authenticate Berth to the server.
	// +kubebuilder:validation:MinLength=1
	// +optional
	CertFile string `json:"certFile,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +optional
	KeyFile string `json:"keyFile,omitempty"`
}

// The values of FailurePolicy.
const (
	UseLast = "UseLast"
	Ignore  = "Ignore"
	Fail    = "Fail"
)

// The values of ClusterFields.
const (
	LabelsField      = "labels"
	ClaimsField      = "claims"
	AllocatableField = "allocatable"
)

// Defaults of an Extender.
const (
	DefaultHTTPTimeout = 2 * time.Second
	DefaultTTL         = 5 * time.Minute
)

// maxExtenders is how many extenders a profile may have.
const maxExtenders = 8

// Timeout returns HTTPTimeout, or the default.
func (e *Extender) Timeout() time.Duration {
	if e.HTTPTimeout == nil {
		return DefaultHTTPTimeout
	}
	return e.HTTPTimeout.Duration
}

// Lifetime returns TTL, or the default.
func (e *Extender) Lifetime() time.Duration {
	if e.TTL == nil {
		return DefaultTTL
	}
	return e.TTL.Duration
}

// Policy returns FailurePolicy, or the default.
func (e *Extender) Policy() string {
	if e.FailurePolicy == "" {
		return UseLast
	}
	return e.FailurePolicy
}

// Sends reports whether a field of clusters is sent.
func (e *Extender) Sends(field string) bool {
	return len(e.ClusterFields) == 0 || slices.Contains(e.ClusterFields, field)
}

// Extender returns the extender with a name; nil if the profile has none.
func (p *Profile) Extender(name string) *Extender {
	for i := range p.Extenders {
		if p.Extenders[i].Name == name {
			return &p.Extenders[i]
		}
	}
	return nil
}

// withExtenders adds the extenders to the enabled plugins, unless the file lists them itself.
func (p *Profile) withExtenders() {
	enabled := slices.Clone(p.Plugins.MultiPoint.Enabled)
	for _, e := range p.Extenders {
		if index(enabled, e.Name) < 0 {
			enabled = append(enabled, Plugin{Name: e.Name, Weight: e.Weight})
		}
	}
	p.Plugins.MultiPoint.Enabled = enabled
}

// hidden replaces addresses in a recorded configuration.
const hidden = "https://hidden.invalid"

// WithoutAddresses returns a copy for recordings: extenders without their URLs and files, and no
// notifications. c may be nil.
func (c *PlacementSchedulerConfiguration) WithoutAddresses() *PlacementSchedulerConfiguration {
	if c == nil {
		return nil
	}
	copied := *c
	copied.Profiles = slices.Clone(c.Profiles)
	for i := range copied.Profiles {
		extenders := slices.Clone(copied.Profiles[i].Extenders)
		for j := range extenders {
			extenders[j].URLPrefix, extenders[j].TLSConfig = hidden, nil
		}
		copied.Profiles[i].Extenders = extenders
	}
	copied.Notifications = nil
	return &copied
}

var verbs = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_./-]*$`)

// validateExtenders finds the mistakes of a profile's extenders that do not depend on plugins.
func validateExtenders(extenders []Extender, at *field.Path) (mistakes field.ErrorList) {
	names := map[string]bool{}
	if len(extenders) > maxExtenders {
		mistakes = append(mistakes, field.TooMany(at, len(extenders), maxExtenders))
	}
	for i := range extenders {
		e, at := &extenders[i], at.Index(i)
		mistakes = append(mistakes, checkUnique(names, at.Child("name"), e.Name)...)
		for _, why := range validation.IsDNS1123Label(e.Name) {
			if e.Name != "" {
				mistakes = append(mistakes, field.Invalid(at.Child("name"), e.Name, why))
			}
		}
		mistakes = append(mistakes, validateAddress(at.Child("urlPrefix"), e.URLPrefix, e.Insecure, false, "use tlsConfig to authenticate")...)
		if e.FilterVerb == "" && e.PrioritizeVerb == "" {
			mistakes = append(mistakes, field.Required(at.Child("filterVerb"), "or prioritizeVerb: an extender filters, scores or does both"))
		}
		for _, verb := range [][2]string{{"filterVerb", e.FilterVerb}, {"prioritizeVerb", e.PrioritizeVerb}} {
			if verb[1] != "" && (!verbs.MatchString(verb[1]) || strings.Contains(verb[1], "..")) {
				mistakes = append(mistakes, field.Invalid(at.Child(verb[0]), verb[1], "must be a path of letters, digits, -, _, . and /"))
			}
		}
		mistakes = append(mistakes, e.validateChoices(at)...)
	}
	return mistakes
}

func (e *Extender) validateChoices(at *field.Path) (mistakes field.ErrorList) {
	switch w := e.Weight; {
	case w == nil:
	case e.PrioritizeVerb == "":
		mistakes = append(mistakes, field.Forbidden(at.Child("weight"), "only an extender with prioritizeVerb scores"))
	case *w < MinWeight || *w > MaxWeight:
		mistakes = append(mistakes, field.Invalid(at.Child("weight"), *w, "must be an integer"+rangeOfWeights))
	}
	if policies := []string{UseLast, Ignore, Fail}; !slices.Contains(policies, e.Policy()) {
		mistakes = append(mistakes, field.NotSupported(at.Child("failurePolicy"), e.FailurePolicy, policies))
	}
	fields := map[string]bool{}
	for i, name := range e.ClusterFields {
		at := at.Child("clusterFields").Index(i)
		mistakes = append(mistakes, checkUnique(fields, at, name)...)
		if known := []string{LabelsField, ClaimsField, AllocatableField}; !slices.Contains(known, name) {
			mistakes = append(mistakes, field.NotSupported(at, name, known))
		}
	}
	return append(mistakes, e.TLSConfig.validate(at.Child("tlsConfig"))...)
}

// durations has the range and the example of each duration in the file.
var durations = map[string]struct{ min, max, example time.Duration }{
	"cycleTimeout": {MinCycleTimeout, MaxCycleTimeout, DefaultCycleTimeout},
	"httpTimeout":  {10 * time.Millisecond, time.Minute, DefaultHTTPTimeout},
	"timeout":      {100 * time.Millisecond, time.Minute, DefaultNotificationTimeout},
	"ttl":          {10 * time.Second, 24 * time.Hour, DefaultTTL},
}

func checkDuration(at *field.Path, value any) field.ErrorList {
	path := at.String()
	limits := durations[path[strings.LastIndex(path, ".")+1:]]
	text, ok := value.(string)
	d, err := time.ParseDuration(text)
	if !ok || err != nil || d < limits.min || d > limits.max {
		return field.ErrorList{field.Invalid(at, value, fmt.Sprintf("must be a duration from %s to %s, for example %s", limits.min, limits.max, limits.example))}
	}
	return nil
}
