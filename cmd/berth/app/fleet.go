package app

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/preview"
	"github.com/berth-dev/berth/pkg/simulator"
)

// askHelp describes, in a help text, who answers a user without permissions.
const askHelp = `If you may not list the fleet, the controller answers, about candidates of the namespace only (role berth-explainer).`

// fleet lists the objects that decisions depend on. For a user who may not list them, it returns
// what asks the controller instead, within the rights of a namespace.
func (f *simulationFlags) fleet(ctx context.Context, hub client.Client) (simulator.Objects, *preview.Asker, error) {
	objects, err := f.read(ctx, hub)
	switch {
	case !apierrors.IsForbidden(err):
		return objects, nil, err
	case f.config != "":
		return nil, nil, fmt.Errorf("%w (without that permission the controller decides with its own configuration: leave out --config)", err)
	}
	return nil, &preview.Asker{Hub: hub, Forbidden: err}, nil
}
