package install

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// installations are renderings that are whole, with what other projects install: "Kind
// namespace/name".
func installations() map[string]installation {
	kustomized := func(components ...string) func() ([]*unstructured.Unstructured, error) {
		return func() ([]*unstructured.Unstructured, error) { return installed(components...) }
	}
	charted := func(release, namespace, values string) func() ([]*unstructured.Unstructured, error) {
		return func() ([]*unstructured.Unstructured, error) { return helmAs(release, namespace, values) }
	}
	return map[string]installation{
		"config/default":                   {kustomized(), nil},
		"config/beside-ocm":                {kustomized("beside-ocm"), nil},
		"config/validation":                {kustomized("validation"), nil},
		"config/queues and all that is on": {kustomized("validation", "queues", "multicluster", "cluster-profiles", "monitoring", "dashboard", "reporter"), []string{"ConfigMap berth-system/yunikorn-configs"}},
		"config/default and explore":       {kustomized("explore"), []string{"ConfigMap berth-system/kube-root-ca.crt"}},
		"config/default and generator":     {kustomized("generator"), nil},
		"the chart":                        {charted("berth", "berth-system", ""), nil},
		"the chart, everything on":         {charted("berth", "berth-system", everything), []string{"Secret berth-system/pull", "Secret berth-system/berth-webhook-clients", "ConfigMap berth-system/kube-root-ca.crt"}},
		"the chart by other names":         {charted("fleet", "tools", everything), []string{"Secret tools/pull", "Secret tools/berth-webhook-clients", "ConfigMap tools/kube-root-ca.crt"}},
		"the chart with a certificate of one's own": {
			charted("berth", "berth-system", "{queues: {enabled: true}, webhook: {certificate: secret, secretName: mine, caBundle: Y2E=}}"),
			[]string{"Secret berth-system/mine", "ConfigMap berth-system/yunikorn-configs"},
		},
		"the chart with names of one's own": {
			charted("fleet", "tools", "nameOverride: placement\nfullnameOverride: chosen\n"+strings.Replace(everything, "{annotations:", "{create: false, name: mine, annotations:", 1)),
			[]string{"Secret tools/pull", "Secret tools/berth-webhook-clients", "ConfigMap tools/kube-root-ca.crt", "ServiceAccount tools/mine"},
		},
		"the chart with validation only": {charted("berth", "berth-system", "webhook: {certificate: cert-manager}"), nil},
		"the chart without metrics":      {charted("berth", "berth-system", "metrics: {enabled: false}"), nil},
	}
}

type installation struct {
	render  func() ([]*unstructured.Unstructured, error)
	outside []string
}

// TestReferences: every object that another names is there, by kind, name and namespace, and so are
// ports, mounts and labels.
func TestReferences(t *testing.T) {
	for name, installation := range installations() {
		t.Run(name, func(t *testing.T) {
			objects, err := installation.render()
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range dangling(objects, installation.outside) {
				t.Error(problem)
			}
			for _, stranger := range installation.outside {
				if len(dangling(objects, slices.DeleteFunc(slices.Clone(installation.outside), func(s string) bool { return s == stranger }))) == 0 {
					t.Errorf("nothing needs %s", stranger)
				}
			}
		})
	}
}

// TestDanglingReferencesAreFound gives each object that others name another name.
func TestDanglingReferencesAreFound(t *testing.T) {
	installation := installations()["the chart, everything on"]
	objects, err := installation.render()
	if err != nil {
		t.Fatal(err)
	}
	named := []string{
		"Certificate", "ClusterRole", "ConfigMap", "Issuer", "Role", "Service", "ServiceAccount", "ValidatingAdmissionPolicy",
	}
	tried := 0
	for i, o := range objects {
		alone := o.GetKind() == "ConfigMap" && o.GetLabels()["grafana_dashboard"] != "" || o.GetLabels()["app.kubernetes.io/component"] == "metrics"
		// Nothing but people is bound to the roles for people.
		person := o.GetKind() == "ClusterRole" && !bound(objects, title(o))
		// Clients outside the hub's objects connect to these.
		alone = alone || o.GetKind() == "Service" && (strings.HasSuffix(o.GetName(), "-explore") || strings.HasSuffix(o.GetName(), "-generator"))
		if !slices.Contains(named, o.GetKind()) || alone || person {
			continue
		}
		tried++
		changed := slices.Clone(objects)
		changed[i] = o.DeepCopy()
		changed[i].SetName("another")
		if len(dangling(changed, installation.outside)) == 0 {
			t.Errorf("nobody misses %s", title(o))
		}
	}
	if tried < len(named) {
		t.Errorf("only %d objects were tried", tried)
	}
}

// TestWrongDetailsAreFound changes what objects say of each other beside names.
func TestWrongDetailsAreFound(t *testing.T) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) error {
		return func(o *unstructured.Unstructured) error { return unstructured.SetNestedField(o.Object, value, path...) }
	}
	other := map[string]any{"another": "label"}
	tests := map[string]struct {
		title  string
		change func(*unstructured.Unstructured) error
	}{
		"a certificate for another name":  {"Certificate.cert-manager.io berth-system/berth-webhook", set([]any{"another.berth-system.svc"}, "spec", "dnsNames")},
		"a certificate in another secret": {"Certificate.cert-manager.io berth-system/berth-webhook", set("another", "spec", "secretName")},
		"another authority": {"MutatingWebhookConfiguration.admissionregistration.k8s.io /berth",
			set("berth-system/another", "metadata", "annotations", "cert-manager.io/inject-ca-from")},
		"no authority":                 {"ValidatingWebhookConfiguration.admissionregistration.k8s.io /berth", set(map[string]any{}, "metadata", "annotations")},
		"another port of a service":    {"Service berth-system/berth-webhook", set([]any{map[string]any{"port": int64(444), "targetPort": int64(9443)}}, "spec", "ports")},
		"a port where nothing listens": {"Service berth-system/berth-webhook", set([]any{map[string]any{"port": int64(443), "targetPort": int64(9444)}}, "spec", "ports")},
		"other pods of a service":      {"Service berth-system/berth-metrics", set(other, "spec", "selector")},
		"pods that nobody selects":     {"Deployment.apps berth-system/berth", set(other, "spec", "template", "metadata", "labels")},
		"a port that is closed":        {"NetworkPolicy.networking.k8s.io berth-system/berth", set([]any{}, "spec", "ingress")},
		"a monitor of nothing":         {"ServiceMonitor.monitoring.coreos.com berth-system/berth", set(other, "spec", "selector", "matchLabels")},
	}
	installation := installations()["the chart, everything on"]
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := installation.render()
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return title(o) == tc.title })
			if i < 0 {
				t.Fatalf("there is no %s", tc.title)
			}
			if err := tc.change(objects[i]); err != nil {
				t.Fatal(err)
			}
			if len(dangling(objects, installation.outside)) == 0 {
				t.Error("it is not found")
			}
		})
	}
}

// rendered is an installation, and what is wrong with it.
type rendered struct {
	objects []*unstructured.Unstructured
	// there has "Kind namespace/name".
	there    map[string]bool
	problems []string
}

// dangling says what is named and not there.
func dangling(objects []*unstructured.Unstructured, outside []string) []string {
	r := &rendered{objects: objects, there: map[string]bool{}}
	for _, o := range objects {
		r.there[strings.TrimSpace(o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())] = true
		if o.GetKind() == "Certificate" {
			r.there["Secret "+o.GetNamespace()+"/"+text(o, "spec", "secretName")] = true
		}
	}
	for _, o := range outside {
		r.there[o] = true
	}
	for _, o := range objects {
		switch kind := o.GetKind(); {
		case kind == "Deployment":
			r.deployment(o)
		case kind == "Service":
			r.service(o)
		case kind == "Certificate":
			r.certificate(o)
		case strings.HasSuffix(kind, "WebhookConfiguration"):
			r.webhooks(o)
		case strings.HasSuffix(kind, "RoleBinding"):
			r.binding(o)
		case kind == "ValidatingAdmissionPolicyBinding":
			r.need(o, "ValidatingAdmissionPolicy", "", text(o, "spec", "policyName"))
		case kind == "PodDisruptionBudget":
			r.selects(o, "spec", "selector", "matchLabels")
		case kind == "NetworkPolicy":
			r.networkPolicy(o)
		case kind == "ServiceMonitor":
			r.monitor(o)
		}
	}
	return r.problems
}

func (r *rendered) say(o *unstructured.Unstructured, format string, args ...any) {
	r.problems = append(r.problems, title(o)+": "+fmt.Sprintf(format, args...))
}

func (r *rendered) need(o *unstructured.Unstructured, kind, namespace, name string) {
	if !r.there[kind+" "+namespace+"/"+name] {
		r.say(o, "there is no %s %s/%s", kind, namespace, name)
	}
}

// pods are the Deployments in a namespace whose pods have some labels.
func (r *rendered) pods(namespace string, wanted map[string]string) []*appsv1.Deployment {
	var found []*appsv1.Deployment
	for _, o := range r.objects {
		if o.GetKind() != "Deployment" || o.GetNamespace() != namespace {
			continue
		}
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			r.say(o, "%v", err)
		} else if len(wanted) > 0 && labels.SelectorFromSet(wanted).Matches(labels.Set(d.Spec.Template.Labels)) {
			found = append(found, d)
		}
	}
	return found
}

// selects returns the pods that an object selects by labels at a path.
func (r *rendered) selects(o *unstructured.Unstructured, path ...string) []*appsv1.Deployment {
	wanted, _, _ := unstructured.NestedStringMap(o.Object, path...)
	found := r.pods(o.GetNamespace(), wanted)
	if len(found) == 0 {
		r.say(o, "no pods have the labels %v", wanted)
	}
	return found
}

func (r *rendered) deployment(o *unstructured.Unstructured) {
	for _, d := range r.selects(o, "spec", "selector", "matchLabels") {
		pod := d.Spec.Template.Spec
		r.need(o, "ServiceAccount", d.Namespace, pod.ServiceAccountName)
		for _, secret := range pod.ImagePullSecrets {
			r.need(o, "Secret", d.Namespace, secret.Name)
		}
		volumes := map[string]bool{}
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
			if v.Secret != nil {
				r.need(o, "Secret", d.Namespace, v.Secret.SecretName)
			}
			if v.ConfigMap != nil {
				r.need(o, "ConfigMap", d.Namespace, v.ConfigMap.Name)
			}
		}
		for _, spread := range pod.TopologySpreadConstraints {
			if len(r.pods(d.Namespace, spread.LabelSelector.MatchLabels)) == 0 {
				r.say(o, "pods are spread by labels that they lack: %v", spread.LabelSelector.MatchLabels)
			}
		}
		for _, c := range pod.Containers {
			r.container(o, c, volumes)
		}
	}
}

func (r *rendered) container(o *unstructured.Unstructured, c corev1.Container, volumes map[string]bool) {
	mounts := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounts[path.Clean(m.MountPath)] = true
		if !volumes[m.Name] {
			r.say(o, "there is no volume %s to mount", m.Name)
		}
		delete(volumes, m.Name)
	}
	for volume := range volumes {
		r.say(o, "nothing mounts the volume %s", volume)
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if probe == nil {
			continue
		}
		port := probe.TCPSocket
		if port == nil {
			port = &corev1.TCPSocketAction{Port: probe.HTTPGet.Port}
		}
		if !listens(c, port.Port) {
			r.say(o, "a probe asks port %s", &port.Port)
		}
	}
	for _, argument := range c.Args {
		flag, value, _ := strings.Cut(argument, "=")
		switch flag {
		case "--config":
			if !mounts[path.Dir(value)] {
				r.say(o, "nothing is mounted for %s", argument)
			}
		case "--webhook-cert-dir":
			if value != "" && (!mounts[path.Clean(value)] || !listens(c, intstr.FromInt32(9443))) {
				r.say(o, "nothing is mounted, or no port is there, for %s", argument)
			}
		case "--queue-config":
			namespace, name, _ := strings.Cut(value, "/")
			r.need(o, "ConfigMap", namespace, name)
		case "--address", "--metrics-bind-address", "--health-probe-bind-address":
			if port := intstr.Parse(value[strings.LastIndexByte(value, ':')+1:]); !listens(c, port) {
				r.say(o, "no port is there for %s", argument)
			}
		}
	}
}

// listens says whether a container has a port, by name or by number.
func listens(c corev1.Container, port intstr.IntOrString) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
		return port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal
	})
}

func (r *rendered) service(o *unstructured.Unstructured) {
	s := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, s); err != nil {
		r.say(o, "%v", err)
	}
	for _, d := range r.selects(o, "spec", "selector") {
		for _, port := range s.Spec.Ports {
			if !slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return listens(c, port.TargetPort) }) {
				r.say(o, "nothing listens at %s", &port.TargetPort)
			}
		}
	}
}

func (r *rendered) certificate(o *unstructured.Unstructured) {
	r.need(o, text(o, "spec", "issuerRef", "kind"), o.GetNamespace(), text(o, "spec", "issuerRef", "name"))
}

// webhooks: the API server reaches a Service at a port that it has, and trusts its certificate,
// which is for the Service's name.
func (r *rendered) webhooks(o *unstructured.Unstructured) {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, hook := range hooks {
		config := hook.(map[string]any)["clientConfig"].(map[string]any)
		service := config["service"].(map[string]any)
		namespace, name := fmt.Sprint(service["namespace"]), fmt.Sprint(service["name"])
		r.need(o, "Service", namespace, name)
		port := int64(443)
		if given, ok := service["port"]; ok {
			port = given.(int64)
		}
		for _, s := range r.objects {
			if s.GetKind() == "Service" && s.GetNamespace() == namespace && s.GetName() == name && !strings.Contains(fmt.Sprint(s.Object["spec"]), fmt.Sprintf("port:%d ", port)) {
				r.say(o, "%s has no port %d", title(s), port)
			}
		}
		from := o.GetAnnotations()["cert-manager.io/inject-ca-from"]
		if from == "" {
			if config["caBundle"] == nil {
				r.say(o, "no authority is named")
			}
			continue
		}
		if !r.there["Certificate "+from] {
			r.say(o, "there is no Certificate %s", from)
		}
		for _, c := range r.objects {
			names, _, _ := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames")
			if c.GetKind() == "Certificate" && c.GetNamespace()+"/"+c.GetName() == from && !slices.Contains(names, name+"."+namespace+".svc") {
				r.say(o, "%s is for %v", title(c), names)
			}
			if c.GetKind() == "Certificate" && !r.mounted(c) {
				r.say(c, "no pod mounts its Secret")
			}
		}
	}
}

// mounted says whether pods have the certificate's Secret where their webhooks look for it.
func (r *rendered) mounted(certificate *unstructured.Unstructured) bool {
	for _, o := range r.objects {
		if o.GetKind() == "Deployment" && o.GetNamespace() == certificate.GetNamespace() {
			template, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
			if strings.Contains(fmt.Sprint(template), "secretName:"+text(certificate, "spec", "secretName")+"]") {
				return true
			}
		}
	}
	return false
}

func (r *rendered) binding(o *unstructured.Unstructured) {
	namespace := ""
	if text(o, "roleRef", "kind") == "Role" {
		namespace = o.GetNamespace()
	}
	r.need(o, text(o, "roleRef", "kind"), namespace, text(o, "roleRef", "name"))
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for _, s := range subjects {
		s := s.(map[string]any)
		r.need(o, fmt.Sprint(s["kind"]), fmt.Sprint(s["namespace"]), fmt.Sprint(s["name"]))
	}
}

// networkPolicy: whatever listens may be reached.
func (r *rendered) networkPolicy(o *unstructured.Unstructured) {
	rules := fmt.Sprint(o.Object["spec"].(map[string]any)["ingress"])
	for _, d := range r.selects(o, "spec", "podSelector", "matchLabels") {
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, port := range c.Ports {
				if !strings.Contains(rules, fmt.Sprintf("port:%d]", port.ContainerPort)) {
					r.say(o, "port %d cannot be reached", port.ContainerPort)
				}
			}
		}
	}
}

// monitor: a Service has the labels and the ports.
func (r *rendered) monitor(o *unstructured.Unstructured) {
	wanted, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	endpoints, _, _ := unstructured.NestedSlice(o.Object, "spec", "endpoints")
	services := slices.DeleteFunc(slices.Clone(r.objects), func(s *unstructured.Unstructured) bool {
		return s.GetKind() != "Service" || s.GetNamespace() != o.GetNamespace() || !labels.SelectorFromSet(wanted).Matches(labels.Set(s.GetLabels()))
	})
	if len(services) != 1 {
		r.say(o, "%d services have the labels %v", len(services), wanted)
		return
	}
	ports, _, _ := unstructured.NestedSlice(services[0].Object, "spec", "ports")
	for _, endpoint := range endpoints {
		name := endpoint.(map[string]any)["port"]
		if !slices.ContainsFunc(ports, func(p any) bool { return p.(map[string]any)["name"] == name }) {
			r.say(o, "%s has no port %v", title(services[0]), name)
		}
	}
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}
