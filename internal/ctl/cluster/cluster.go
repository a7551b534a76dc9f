package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"fairway/internal/kubeclient"
	"fairway/internal/printable"
)

// Flags select a cluster, and the control planes in it. Their names are istioctl's.
type Flags struct {
	Kubeconfig string // file; empty: $KUBECONFIG, else ~/.kube/config, else the cluster that this program runs in
	Context    string // of the kubeconfig; empty: its current one
	Namespace  string // of control planes
	Revision   string // of the control planes that are asked; empty: all
}

// Bind declares the flags.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	fs.StringVarP(&f.Kubeconfig, "kubeconfig", "c", "", "kubeconfig file of the cluster ($KUBECONFIG, else ~/.kube/config)")
	fs.StringVar(&f.Context, "context", "", "context of the kubeconfig (default: its current one)")
	fs.StringVar(&f.Revision, "revision", "", "ask only control planes of this revision (default: all)")
	fs.StringVarP(&f.Namespace, "istioNamespace", "i", "istio-system", "namespace of the control planes")
}

// Named reports whether a flag names a cluster.
func (f *Flags) Named() bool { return f.Kubeconfig != "" || f.Context != "" }

// Known reports whether there is a cluster to ask: a flag or a kubeconfig names one, or this program runs in one.
func (f *Flags) Known() bool {
	if f.Named() {
		return true
	}
	for _, file := range clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence() {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	_, err := rest.InClusterConfig()
	return err == nil
}

// Config returns the configuration of a client of the cluster. An error names the wrong flag or file.
func (f *Flags) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if f.Kubeconfig != "" {
		if _, err := os.Stat(f.Kubeconfig); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		rules.ExplicitPath = f.Kubeconfig
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster is known: name a kubeconfig with --kubeconfig, or a control plane with --address")
	}
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig: %w", err)
	}
	return config, nil
}

// Plane is one control plane: a pod.
type Plane struct {
	Name, Namespace string
	Revision        string
}

// running is the label of control planes' pods, as Istio's charts have it.
const running = "app=istiod"

// Labels that distinguish control planes. The project's chart says which product a pod is part of; pods of Istio's have a component.
const (
	partOf    = "app.kubernetes.io/part-of"
	product   = "fairway"
	component = "operator.istio.io/component"
)

// foreign returns which product's a control plane is, if it is another one's; else an empty text. A pod that does not say counts as ours.
func foreign(labels map[string]string) string {
	switch part := labels[partOf]; {
	case part == product:
		return ""
	case part != "":
		return part
	case labels[component] != "":
		return "istio"
	}
	return ""
}

// Reach knows one cluster.
type Reach struct {
	config *rest.Config
	client *kubeclient.Clients
	flags  Flags
	others []string
}

// Others returns the control planes of other products that Planes has left out: the pod, and the product.
func (r *Reach) Others() []string { return r.others }

// Open returns a Reach of the cluster that the flags select. It sends no request yet.
func Open(flags Flags) (*Reach, error) {
	config, err := flags.Config()
	if err != nil {
		return nil, err
	}
	client, err := kubeclient.Open(config)
	if err != nil {
		return nil, err
	}
	return &Reach{config: config, client: client, flags: flags}, nil
}

// Client returns the client of the API server.
func (r *Reach) Client() *kubeclient.Clients { return r.client }

// Planes returns the running control planes, by name. If there is none, the error says where it looked. Pods of another product, which may
// run beside ours during a migration, are left out.
func (r *Reach) Planes(ctx context.Context) ([]Plane, error) {
	selector := running
	if r.flags.Revision != "" {
		selector += ",istio.io/rev=" + r.flags.Revision
	}
	pods, err := r.client.Pods(r.flags.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector, FieldSelector: "status.phase=" + string(corev1.PodRunning),
	})
	if err != nil {
		return nil, fmt.Errorf("look for control planes in namespace %s of %s: %w", r.flags.Namespace, r.config.Host, err)
	}
	var out []Plane
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		if whose := foreign(p.Labels); whose != "" {
			r.others = append(r.others, printable.Text(p.Name+" ("+whose+")", printable.Short))
			continue
		}
		out = append(out, Plane{p.Name, p.Namespace, p.Labels["istio.io/rev"]})
	}
	if len(out) == 0 && len(r.others) > 0 {
		return nil, fmt.Errorf(
			"no control plane of %s runs in namespace %s of %s; there are those of other products: %s. --istioNamespace and --revision "+
				"name others, and --address one outside of the cluster, as 127.0.0.1:8080",
			product, r.flags.Namespace, r.config.Host, strings.Join(r.others, ", "),
		)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf(
			"no control plane runs in namespace %s of %s (pods with %s): pilotctl install makes one, --istioNamespace names another "+
				"namespace, and --address one outside of the cluster, as 127.0.0.1:8080",
			r.flags.Namespace, r.config.Host, selector,
		)
	}
	slices.SortFunc(out, func(a, b Plane) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
