package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/proxyconfig"
	"fairway/internal/dev/folder"
	"fairway/internal/printable"
)

// adminPort is the port of pods where agents answer for Envoy's administration.
const adminPort = 15000

// Ask implements proxyconfig.Session.
func (s *session) Ask(ctx context.Context, path string, query url.Values, into any) error {
	raw, err := ask[json.RawMessage](ctx, s, path, query)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s: %w; is --address the --httpAddr of a pilot-discovery of this version?", path, err)
	}
	return nil
}

// SetAddress implements proxyconfig.Session.
func (s *session) SetAddress(address string) { s.address = address }

// Proxy implements proxyconfig.Session.
func (s *session) Proxy(ctx context.Context, typed, namespace string) (string, error) {
	kind, name, isPath := strings.Cut(typed, "/")
	if isPath && kind != "pod" && kind != "pods" && !strings.Contains(typed, "|") && !strings.Contains(typed, "~") {
		return s.podOf(ctx, kind, name, namespace)
	}
	if isPath && strings.HasPrefix(kind, "pod") {
		typed = name
	}
	if namespace != "" && !strings.Contains(typed, "~") && !strings.HasSuffix(typed, "."+namespace) {
		typed += "." + namespace
	}
	return typed, nil
}

// podOf returns a running pod of a workload in the cluster, as the control plane calls its proxy.
func (s *session) podOf(ctx context.Context, kind, name, namespace string) (string, error) {
	shown := printable.Text(kind+"/"+name, printable.Short)
	owner, known := cluster.OwnerKind(kind)
	if !known {
		return "", fmt.Errorf("%s: want pod/NAME, deploy/NAME, statefulset/NAME or daemonset/NAME", shown)
	}
	if name, ns, ok := strings.Cut(name, "."); ok && namespace == "" {
		return s.podOf(ctx, kind, name, ns)
	}
	inside, err := s.inCluster(ctx)
	if err != nil {
		return "", err
	}
	if !inside && !s.cluster.Known() {
		return "", fmt.Errorf("%s: only a cluster has workloads: name a kubeconfig with --kubeconfig, or a proxy as web-1.shop", shown)
	}
	if namespace == "" {
		namespace = s.cluster.CurrentNamespace()
	}
	r, err := cluster.Open(s.cluster)
	if err != nil {
		return "", err
	}
	pod, err := r.PodOf(ctx, owner, namespace, name)
	return pod + "." + namespace, err
}

// EnvoyAt implements proxyconfig.Session.
func (s *session) EnvoyAt(address string) proxyconfig.Envoy { return envoy{newClient(address)} }

// envoy is the administration of an Envoy, where its agent answers for it.
type envoy struct{ client *client }

// Page implements proxyconfig.Envoy.
func (e envoy) Page(ctx context.Context, path string) ([]byte, error) {
	return e.ask(ctx, http.MethodGet, path, "")
}

func (e envoy) ask(ctx context.Context, method, path, token string) ([]byte, error) {
	body, err := e.client.page(ctx, method, path, token)
	if err != nil {
		var asked *url.Error
		if errors.As(err, &asked) {
			err = asked.Err
		}
		return nil, fmt.Errorf("ask Envoy at %s for %s: %w", e.client.address, path, err)
	}
	return body, nil
}

// Envoy implements proxyconfig.Session.
func (s *session) Envoy(ctx context.Context, proxy string) (proxyconfig.Envoy, error) {
	f, err := s.forwardTo(ctx, proxy, adminPort)
	if err != nil {
		return nil, err
	}
	return s.EnvoyAt(f), nil
}

// forwardTo returns an address of this machine that leads to a port of a proxy's pod. A workload of pilot-discovery dev is on this machine,
// and its administration is the only port.
func (s *session) forwardTo(ctx context.Context, proxy string, port int) (string, error) {
	name, namespace, err := s.find(ctx, proxy)
	if err != nil {
		return "", err
	}
	inside, err := s.inCluster(ctx)
	if err != nil {
		return "", err
	}
	if !inside {
		if at, err := folder.Default().Admin(name); err == nil {
			return at, nil
		}
		return "", fmt.Errorf("%s is not in a cluster that is asked here; on its own machine --admin 127.0.0.1:%d asks its Envoy",
			printable.Text(name+"."+namespace, printable.Short), adminPort)
	}
	r, err := cluster.Open(s.cluster)
	if err != nil {
		return "", err
	}
	f, err := r.Forward(ctx, cluster.Plane{Name: name, Namespace: namespace}, port)
	if err != nil {
		return "", err
	}
	s.opened = append(s.opened, f)
	return f.Address, nil
}

// find returns the pod and namespace of a connected proxy.
func (s *session) find(ctx context.Context, proxy string) (name, namespace string, err error) {
	connected, missing := s.connected(ctx)
	best, found := 0, []string{}
	for _, p := range connected {
		fit := page.Fit(p.ProxyID, p.Identity, proxy)
		switch short := page.ShortName(p.ProxyID); {
		case fit == 0 || fit < best:
		case fit > best:
			best, found = fit, []string{short}
		case !slices.Contains(found, short):
			found = append(found, short)
		}
	}
	switch {
	case len(found) == 0 && missing != nil:
		return "", "", missing
	case len(found) == 0:
		return "", "", fmt.Errorf("no connected proxy is called %q; pilotctl proxy-status lists them", proxy)
	case len(found) > 1:
		return "", "", fmt.Errorf("several proxies fit %q, name one of them in full: %s", proxy, strings.Join(found, ", "))
	}
	i := strings.LastIndexByte(found[0], '.')
	if i < 0 {
		return "", "", fmt.Errorf("proxy %q has no namespace in its name", found[0])
	}
	return found[0][:i], found[0][i+1:], nil
}

// connected returns the proxies of all control planes, without comparing them with the tables.
func (s *session) connected(ctx context.Context) ([]page.ProxySync, error) {
	return gather[page.ProxySync](ctx, s, "/debug/syncz", url.Values{"brief": {"true"}})
}

// Connected implements proxyconfig.Session.
func (s *session) Connected(ctx context.Context) ([]page.ProxySync, error) { return s.connected(ctx) }

// Names implements proxyconfig.Session.
func (s *session) Names(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.completed(cmd, func(ctx context.Context) (out []string) {
		connected, _ := s.connected(ctx) // completion is silent
		for _, p := range connected {
			out = append(out, page.ShortName(p.ProxyID))
		}
		return out
	})
}
