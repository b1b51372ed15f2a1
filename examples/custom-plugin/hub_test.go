package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// patience is how long a decision may take on a busy machine; most take milliseconds.
const patience = 30 * time.Second

// start runs a program until stop is called, or the test ends, and returns once the program has
// printed a line with ready.
func start(t *testing.T, ready string, words ...string) (stop func()) {
	t.Helper()
	program := exec.Command(words[0], words[1:]...)
	printed, out := io.Pipe()
	program.Stdout, program.Stderr = out, out
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- program.Wait()
		out.Close()
	}()
	stop = sync.OnceFunc(func() {
		_ = program.Process.Signal(syscall.SIGTERM) // it may have ended, which is said below
		if err := <-ended; err != nil {
			t.Errorf("%s ended: %v", strings.Join(words, " "), err)
		}
	})
	t.Cleanup(stop)
	lines := bufio.NewScanner(printed)
	for lines.Scan() {
		if strings.Contains(lines.Text(), ready) {
			go io.Copy(io.Discard, printed) //nolint:errcheck // nothing reads what comes now
			return stop
		}
		t.Log(lines.Text())
	}
	t.Fatalf("%s ended before it said %q", strings.Join(words, " "), ready)
	return nil
}

type hub struct{ client.Client }

func connect(t *testing.T, kubeconfig string) hub {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return hub{c}
}

// kubectl does what kubectl would, for the few commands that README.md has. A get is repeated until
// it prints what is wanted.
func (h hub) kubectl(t *testing.T, words []string, want string) {
	t.Helper()
	switch words[0] {
	case "apply":
		h.apply(t, words[len(words)-1])
	case "label": // KIND NAME KEY=VALUE
		key, value, _ := strings.Cut(words[3], "=")
		label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)
		if err := h.Patch(t.Context(), named(words[1], words[2], ""), client.RawPatch(types.MergePatchType, label)); err != nil {
			t.Fatal(err)
		}
	case "get": // KIND NAME -n NAMESPACE -o jsonpath=PATH
		object := named(words[1], words[2], words[4])
		var got string
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			err := client.IgnoreNotFound(h.Get(ctx, client.ObjectKeyFromObject(object), object))
			got = find(t, object, strings.TrimPrefix(words[6], "jsonpath="))
			return got == want, err
		})
		if err != nil {
			t.Fatalf("%s prints %q, want %q: %v", strings.Join(words, " "), got, want, err)
		}
	default:
		t.Fatalf("kubectl %s is not known here", words[0])
	}
}

func (h hub) apply(t *testing.T, file string) {
	t.Helper()
	for document := range strings.SplitSeq(readFile(t, file), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := h.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user")); err != nil {
			t.Fatal(err)
		}
	}
}

func named(kind, name, namespace string) *unstructured.Unstructured {
	const group = "cluster.open-cluster-management.io/"
	object := &unstructured.Unstructured{}
	switch kind {
	case "managedcluster":
		object.SetAPIVersion(group + "v1")
		object.SetKind("ManagedCluster")
	case "placementdecision":
		object.SetAPIVersion(group + "v1beta1")
		object.SetKind("PlacementDecision")
	}
	object.SetName(name)
	object.SetNamespace(namespace)
	return object
}

func find(t *testing.T, object *unstructured.Unstructured, path string) string {
	t.Helper()
	var found bytes.Buffer
	expression := jsonpath.New("").AllowMissingKeys(true)
	if err := expression.Parse(path); err != nil {
		t.Fatal(err)
	}
	if err := expression.Execute(&found, object.Object); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(found.String())
}
