package framework

import "github.com/berth-dev/berth/api/v1alpha1"

// Why a Placement is not decided.
const (
	// Disabled: by its annotation.
	Disabled = "disabled"
	// Terminating: it is being deleted.
	Terminating = "terminating"
)

// WhyNotDecided returns why a Placement is not decided; empty if it is decided.
func WhyNotDecided(pl *v1alpha1.Placement) string {
	switch {
	case !pl.DeletionTimestamp.IsZero():
		return Terminating
	case pl.IsDisabled():
		return Disabled
	}
	return ""
}
