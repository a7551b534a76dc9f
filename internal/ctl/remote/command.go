// Package remote has pilotctl's verb create-remote-secret: it writes the Secret that has a control plane read another cluster. The Secret
// holds the token of a service account there. It must not know how control planes read it.
package remote

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/kubeclient"
)

// options are the flags.
type options struct {
	name, account, server string
	timeout               time.Duration
	at                    *cluster.Flags
}

// Command returns the verb.
func Command(at *cluster.Flags) *cobra.Command {
	o := options{at: at}
	c := &cobra.Command{
		Use: "create-remote-secret", Args: cobra.NoArgs,
		Short: "Print the Secret that has a control plane read the kubeconfig's cluster too",
		Long: "The Secret holds a kubeconfig with the token of a service account of that cluster. Apply it where the control plane " +
			"runs:\n\n" +
			"  pilotctl create-remote-secret --context west --name west | kubectl apply --context east -f -\n\n" +
			"The output is a credential: keep it out of logs and repositories. The rights that the account needs are in " +
			"docs/kubernetes.md#more-clusters.",
		PreRunE: func(*cobra.Command, []string) error { return o.check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := o.secret(cmd.Context())
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			if err != nil {
				return output.Fail(err)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "",
		"the cluster's name in the mesh, as its proxies have it in CLUSTER_ID (default: the uid of its kube-system)")
	f.StringVar(&o.account, "service-account", "istio-reader-service-account",
		"service account of --istioNamespace whose token the control plane shows; where a control plane is installed, istiod is one")
	f.StringVar(&o.server, "server", "", "https:// address of the API server, as the control plane reaches it (default: the kubeconfig's)")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long the cluster may take")
	return c
}

func (o *options) check() error {
	var errs []error
	if o.name != "" && (len(o.name) > 200 || len(validation.IsDNS1123Subdomain(strings.ToLower(o.name))) > 0) {
		errs = append(errs, fmt.Errorf("--name %q: want at most 200 letters, digits, - and .", o.name))
	}
	if u, err := url.Parse(o.server); o.server != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		errs = append(errs, fmt.Errorf("--server %q: want an address as https://10.0.0.7:6443", o.server))
	}
	if o.timeout <= 0 {
		errs = append(errs, errors.New("--timeout: want a positive duration as 30s"))
	}
	return errors.Join(errs...)
}

// secret returns the Secret as YAML.
func (o *options) secret(ctx context.Context) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, o.timeout)
	defer stop()
	config, err := o.at.Config()
	if err != nil {
		return nil, err
	}
	server, err := o.serverOf(config)
	if err != nil {
		return nil, err
	}
	c, err := kubeclient.Open(config)
	if err != nil {
		return nil, err
	}
	name := o.name
	if name == "" {
		system, err := c.Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("the uid of namespace kube-system: %w; name the cluster with --name", err)
		}
		name = string(system.UID)
	}
	token, roots, err := o.token(ctx, c)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{map[string]any{"name": name, "cluster": map[string]any{
			"server": server, "certificate-authority-data": base64.StdEncoding.EncodeToString(roots),
		}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}}},
		"users":    []any{map[string]any{"name": name, "user": map[string]any{"token": string(token)}}},
	})
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{
			"name": "istio-remote-secret-" + strings.ToLower(name), "namespace": o.at.Namespace,
			"labels":      map[string]string{"istio/multiCluster": "true"},
			"annotations": map[string]string{"networking.istio.io/cluster": name},
		},
		"stringData": map[string]string{name: string(kubeconfig)},
	})
}

// serverOf returns the address of the API server for the control plane.
func (o *options) serverOf(config *rest.Config) (string, error) {
	if o.server != "" {
		return o.server, nil
	}
	u, err := url.Parse(config.Host)
	if err != nil || u.Scheme != "https" {
		return "", fmt.Errorf("the kubeconfig's address %q is not https://: name the API server with --server", config.Host)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		fmt.Fprintf(os.Stderr, "pilotctl: %s is this machine's: the control plane of another one needs --server\n", config.Host)
	}
	return config.Host, nil
}

// token returns the token of the service account that does not end, and the roots of its API server. It makes the Secret that has both if
// there is none.
func (o *options) token(ctx context.Context, c *kubeclient.Clients) (token, roots []byte, err error) {
	if _, err := c.ServiceAccounts(o.at.Namespace).Get(ctx, o.account, metav1.GetOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			err = fmt.Errorf("there is no service account %s/%s: make one with the rights of docs/kubernetes.md#more-clusters, or name "+
				"another with --service-account", o.at.Namespace, o.account)
		}
		return nil, nil, err
	}
	secrets := c.Secrets(o.at.Namespace)
	name := o.account + "-istio-remote-secret-token"
	all, err := secrets.List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return nil, nil, err
	}
	if i := slices.IndexFunc(all.Items, func(s corev1.Secret) bool {
		return s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] == o.account &&
			len(s.Data[corev1.ServiceAccountTokenKey]) > 0
	}); i >= 0 {
		return all.Items[i].Data[corev1.ServiceAccountTokenKey], all.Items[i].Data[corev1.ServiceAccountRootCAKey], nil
	}
	_, err = secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: o.at.Namespace, Annotations: map[string]string{corev1.ServiceAccountNameKey: o.account},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{FieldManager: "pilotctl"})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, nil, fmt.Errorf("make Secret %s/%s for the token: %w", o.at.Namespace, name, err)
	}
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		s, err := secrets.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil && len(s.Data[corev1.ServiceAccountTokenKey]) > 0:
			return s.Data[corev1.ServiceAccountTokenKey], s.Data[corev1.ServiceAccountRootCAKey], nil
		case err != nil && !apierrors.IsNotFound(err):
			return nil, nil, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("no token came into Secret %s/%s within %s: does the cluster's token controller run?",
				o.at.Namespace, name, o.timeout)
		}
	}
}
