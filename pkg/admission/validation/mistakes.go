package validation

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Mistakes returns what the webhook refuses of an object: the mistakes that the stored one does not
// have. old may be nil.
func Mistakes(ctx context.Context, validate Validate, validatePolicy ValidatePolicy, object, old client.Object) field.ErrorList {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	switch object := object.(type) {
	case *v1alpha1.Placement:
		stored, _ := old.(*v1alpha1.Placement)
		if stored != nil && sameInputs(object, stored) {
			return nil
		}
		return mistakesOf(func(pl *v1alpha1.Placement) field.ErrorList { return validate(ctx, pl) }, object, stored)
	case *berthv1alpha1.SelectionPolicy:
		stored, _ := old.(*berthv1alpha1.SelectionPolicy)
		return mistakesOf(func(p *berthv1alpha1.SelectionPolicy) field.ErrorList { return validatePolicy(ctx, p) }, object, stored)
	case *v1alpha1.ManagedClusterSet:
		stored, _ := old.(*v1alpha1.ManagedClusterSet)
		return mistakesOf(validateSet, object, stored)
	}
	return nil
}

// mistakesOf returns the mistakes that the stored object does not have; old may be nil.
func mistakesOf[T any](validate func(*T) field.ErrorList, object, old *T) field.ErrorList {
	mistakes := validate(object)
	if len(mistakes) > 0 && old != nil {
		return onlyNew(mistakes, validate(old))
	}
	return mistakes
}

func validateSet(set *v1alpha1.ManagedClusterSet) field.ErrorList {
	if _, mistake := set.CompileSelector(); mistake != nil {
		return field.ErrorList{mistake}
	}
	return nil
}
