package config

import (
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Notification sends CloudEvents about Placements to one receiver.
type Notification struct {
	// Name of lower case letters, digits and "-", at most 63. Metrics and logs name the receiver by
	// it.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// URL begins with https://, without user and fragment.
	// +kubebuilder:validation:MinLength=1
	URL string `json:"url"`

	// States are what to notify of: Held (a change waits for an approval or a window),
	// Misconfigured, DeadlineExceeded (a change in steps does not continue) and Unsatisfied.
	// Default all of them.
	// +kubebuilder:validation:UniqueItems=true
	// +kubebuilder:validation:items:Enum=Held;Misconfigured;DeadlineExceeded;Unsatisfied
	// +optional
	States []string `json:"states,omitempty"`

	// Source is the beginning of the attribute source of each event, a URI such as
	// https://hub.example.com. Default: empty.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Source string `json:"source,omitempty"`

	// Timeout is how long one request may take, from 100ms to 1m. Default 10s.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// TokenFile has a bearer token. Berth reads it for each request.
	// +kubebuilder:validation:MinLength=1
	// +optional
	TokenFile string `json:"tokenFile,omitempty"`

	// TLSConfig has the files for HTTPS. Berth reads them again when they change.
	// +optional
	TLSConfig *TLSFiles `json:"tlsConfig,omitempty"`

	// Insecure allows http:// in URL.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
}

// The values of States.
const (
	HeldState             = "Held"
	MisconfiguredState    = "Misconfigured"
	DeadlineExceededState = "DeadlineExceeded"
	UnsatisfiedState      = "Unsatisfied"
)

// NotificationStates are the values of States.
var NotificationStates = []string{HeldState, MisconfiguredState, DeadlineExceededState, UnsatisfiedState}

// DefaultNotificationTimeout applies if Timeout is missing.
const DefaultNotificationTimeout = 10 * time.Second

// RequestTimeout returns Timeout, or the default.
func (n *Notification) RequestTimeout() time.Duration {
	if n.Timeout == nil {
		return DefaultNotificationTimeout
	}
	return n.Timeout.Duration
}

// Sends reports whether the receiver is notified of a state.
func (n *Notification) Sends(state string) bool {
	return len(n.States) == 0 || slices.Contains(n.States, state)
}

// maxNotifications is how many receivers a configuration may have.
const maxNotifications = 16

func validateNotifications(all []Notification) (mistakes field.ErrorList) {
	path, names := field.NewPath("notifications"), map[string]bool{}
	if len(all) > maxNotifications {
		mistakes = append(mistakes, field.TooMany(path, len(all), maxNotifications))
	}
	for i := range all {
		n, at := &all[i], path.Index(i)
		mistakes = append(mistakes, checkUnique(names, at.Child("name"), n.Name)...)
		for _, why := range validation.IsDNS1123Label(n.Name) {
			if n.Name != "" {
				mistakes = append(mistakes, field.Invalid(at.Child("name"), n.Name, why))
			}
		}
		mistakes = append(mistakes, validateAddress(at.Child("url"), n.URL, n.Insecure, true, "use tokenFile or tlsConfig to authenticate")...)
		states := map[string]bool{}
		for j, state := range n.States {
			at := at.Child("states").Index(j)
			mistakes = append(mistakes, checkUnique(states, at, state)...)
			if !slices.Contains(NotificationStates, state) {
				mistakes = append(mistakes, field.NotSupported(at, state, NotificationStates))
			}
		}
		if n.Source != "" {
			if _, err := url.Parse(n.Source); err != nil {
				mistakes = append(mistakes, field.Invalid(at.Child("source"), n.Source, "must be a URI"))
			}
		}
		mistakes = append(mistakes, n.TLSConfig.validate(at.Child("tlsConfig"))...)
	}
	return mistakes
}

// validate may be called on nil.
func (t *TLSFiles) validate(at *field.Path) field.ErrorList {
	if t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		return field.ErrorList{field.Required(at, "certFile and keyFile are given together")}
	}
	return nil
}

// validateAddress does not repeat the address, which may have a password.
func validateAddress(at *field.Path, address string, insecure, query bool, instead string) field.ErrorList {
	if address == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must be a URL that begins with https://")}
	case !query && (u.User != nil || u.RawQuery != "" || u.Fragment != ""):
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must have no user, query or fragment: "+instead)}
	case u.User != nil || u.Fragment != "":
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must have no user or fragment: "+instead)}
	case u.Scheme == "http" && !insecure:
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must begin with https://, unless insecure is true")}
	}
	return nil
}
