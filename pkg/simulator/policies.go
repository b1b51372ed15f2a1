package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	policycel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/kinds"
	policyfiles "github.com/berth-dev/berth/config/admission"
)

// policy is a compiled admission policy.
type policy struct {
	rules                             []admissionregistrationv1.NamedRuleWithOperations
	conditions, validations, messages policycel.ConditionEvaluator
	// texts are the messages of validations without an expression for it.
	texts []string
}

// policies are those of config/admission that depend on the object alone: they deny, have no
// parameters, and do not ask who makes the request. What needs a right is taken as permitted.
var policies = sync.OnceValues(func() ([]*policy, error) {
	denies := map[string]bool{}
	var found []*admissionregistrationv1.ValidatingAdmissionPolicy
	err := eachPolicy(func(kind string, text []byte) error {
		if kind == "ValidatingAdmissionPolicy" {
			found = append(found, &admissionregistrationv1.ValidatingAdmissionPolicy{})
			return yaml.UnmarshalStrict(text, found[len(found)-1])
		}
		var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
		err := yaml.UnmarshalStrict(text, &binding)
		denies[binding.Spec.PolicyName] = slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the built-in admission policies: %w", err)
	}
	var all []*policy
	for _, p := range found {
		if !denies[p.Name] || p.Spec.ParamKind != nil || asksForUser(p) {
			continue
		}
		compiled, err := compilePolicy(p)
		if err != nil {
			return nil, fmt.Errorf("compiling the built-in admission policy %s: %w", p.Name, err)
		}
		all = append(all, compiled)
	}
	return all, nil
})

// eachPolicy calls visit with the kind and the text of each object in config/admission.
func eachPolicy(visit func(kind string, text []byte) error) error {
	files, err := policyfiles.FS.ReadDir(".")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := policyfiles.FS.ReadFile(file.Name())
		if err != nil {
			return err
		}
		documents, err := documentsOf(text)
		if err != nil {
			return err
		}
		for _, document := range documents {
			var head metav1.TypeMeta
			if err := yaml.Unmarshal(document, &head); err != nil {
				return err
			}
			if err := visit(head.Kind, document); err != nil {
				return err
			}
		}
	}
	return nil
}

func asksForUser(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return slices.ContainsFunc(p.Spec.Validations, func(v admissionregistrationv1.Validation) bool {
		return strings.Contains(v.Expression, "request.userInfo")
	})
}

// expression is an expression of a policy; returns are the types that its result may have.
type expression struct {
	name, text string
	returns    []*cel.Type
}

var (
	anyType    = []*cel.Type{cel.AnyType, cel.DynType}
	boolType   = []*cel.Type{cel.BoolType}
	stringType = []*cel.Type{cel.StringType}
)

func (e expression) GetName() string          { return e.name }
func (e expression) GetExpression() string    { return e.text }
func (e expression) ReturnTypes() []*cel.Type { return e.returns }

// compilePolicy compiles a policy like an API server.
func compilePolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) (*policy, error) {
	compiler, err := policycel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return nil, err
	}
	with := policycel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range p.Spec.Variables {
		compiler.CompileAndStoreVariable(expression{v.Name, v.Expression, anyType}, with, environment.StoredExpressions)
	}
	var conditions, validations, messages []policycel.ExpressionAccessor
	for _, c := range p.Spec.MatchConditions {
		conditions = append(conditions, expression{c.Name, c.Expression, boolType})
	}
	compiled := &policy{rules: p.Spec.MatchConstraints.ResourceRules}
	for _, v := range p.Spec.Validations {
		validations = append(validations, expression{"", v.Expression, boolType})
		message := v.MessageExpression
		if message == "" {
			message = `""`
		}
		messages = append(messages, expression{"", message, stringType})
		compiled.texts = append(compiled.texts, v.Message)
	}
	compiled.conditions = compiler.CompileCondition(conditions, with, environment.StoredExpressions)
	compiled.validations = compiler.CompileCondition(validations, with, environment.StoredExpressions)
	compiled.messages = compiler.CompileCondition(messages, policycel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	return compiled, errors.Join(slices.Concat(
		compiled.conditions.CompilationErrors(), compiled.validations.CompilationErrors(), compiled.messages.CompilationErrors())...)
}

// applies reports whether the policy is for an operation on objects of a kind.
func (p *policy) applies(kind kinds.Kind, operation admission.Operation) bool {
	return slices.ContainsFunc(p.rules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.Contains(rule.APIGroups, kind.GroupVersion.Group) && slices.Contains(rule.Resources, kind.Plural) &&
			slices.Contains(rule.Operations, admissionregistrationv1.OperationType(operation))
	})
}

// everythingAllowed takes every right as permitted.
var everythingAllowed = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
})

// deny returns the message with which the policy denies an object, empty if it allows it. old is
// the stored object, or nil.
func (p *policy) deny(ctx context.Context, kind kinds.Kind, object, old client.Object) (string, error) {
	operation := admission.Create
	attributes := &admission.VersionedAttributes{VersionedKind: kind.GroupVersion.WithKind(kind.Name), VersionedObject: admission.NewLazyObject(object)}
	if old != nil {
		operation = admission.Update
		attributes.VersionedOldObject.Set(old)
	}
	if !p.applies(kind, operation) {
		return "", nil
	}
	resource := kind.GroupVersion.WithResource(kind.Plural)
	attributes.Attributes = admission.NewAttributesRecord(object, old, attributes.VersionedKind, object.GetNamespace(), object.GetName(),
		resource, "", operation, nil, false, &user.DefaultInfo{})
	request := policycel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(attributes.VersionedKind))
	namespace := policycel.CreateNamespaceObject(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}})
	evaluate := func(e policycel.ConditionEvaluator, with policycel.OptionalVariableBindings) ([]policycel.EvaluationResult, error) {
		results, _, err := e.ForInput(ctx, attributes, request, with, namespace, celconfig.RuntimeCELCostBudget)
		for _, r := range results {
			err = errors.Join(err, r.Error)
		}
		return results, err
	}
	with := policycel.OptionalVariableBindings{Authorizer: everythingAllowed}
	conditions, err := evaluate(p.conditions, with)
	if err != nil || slices.ContainsFunc(conditions, fails) {
		return "", err
	}
	validations, err := evaluate(p.validations, with)
	if i := slices.IndexFunc(validations, fails); err == nil && i >= 0 {
		messages, err := evaluate(p.messages, policycel.OptionalVariableBindings{})
		if text, ok := messages[i].EvalResult.Value().(string); ok && text != "" && err == nil {
			return strings.TrimSpace(text), nil
		}
		return p.texts[i], err
	}
	return "", err
}

func fails(r policycel.EvaluationResult) bool { return r.EvalResult != types.True }
