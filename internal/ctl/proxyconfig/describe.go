package proxyconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/xdstype"
)

// mostGateways is how many gateways' proxies are asked which services they expose.
const mostGateways = 50

// describer asks for all that is behind a workload or a service.
type describer struct {
	session         Session
	namespace, from string
	root            func() string // the root namespace
	connected       []page.ProxySync
}

// description is the answer.
type description struct {
	Workload *workload  `json:"workload,omitempty"`
	From     string     `json:"from,omitempty"` // rules and routes are shown as this proxy has them; empty: none is connected
	Services []*service `json:"services"`
}

// Describe returns the verb describe, with pod and service below it. root returns the root namespace.
func Describe(s Session, root func() string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "describe", Aliases: []string{"des"},
		Short: "Ports, rules, routes, mutual TLS, policies and gateways of a workload or a service",
	}
	add := func(use, alias, short string, find func(*describer, context.Context, string) (*description, error)) {
		d := &describer{session: s, root: root}
		c := &cobra.Command{
			Use: use, Aliases: []string{alias}, Short: short, Args: cobra.ExactArgs(1),
			RunE: s.Run(func(cmd *cobra.Command, args []string) (err error) {
				if d.connected, err = s.Connected(cmd.Context()); err != nil {
					return err
				}
				found, err := find(d, cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if s.Format() == "json" || s.Format() == "yaml" {
					return output.WriteValue(cmd.OutOrStdout(), s.Format(), found)
				}
				return found.write(cmd.OutOrStdout())
			}),
		}
		c.Flags().StringVarP(&d.namespace, "namespace", "n", "", "namespace of a name that has none")
		if alias == "svc" {
			c.Flags().StringVar(&d.from, "from", "", "show what this proxy has (default: a proxy of the service's namespace)")
		} else {
			c.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				return s.Names(cmd, args, typed)
			}
		}
		cmd.AddCommand(c)
	}
	add("pod PROXY|ADDRESS", "po", "A workload: a pod, or a machine, by its proxy's name or its address", (*describer).pod)
	add("service HOST", "svc", "A service of any registry, by its host or the beginning of it", (*describer).service)
	return cmd
}

// hosts returns the services of all registries.
func (d *describer) hosts(ctx context.Context) (out []page.HostInfo, err error) {
	return out, d.session.Ask(ctx, "/debug/servicez", nil, &out)
}

// pod describes a workload.
func (d *describer) pod(ctx context.Context, typed string) (*description, error) {
	w, err := d.workload(ctx, typed)
	if err != nil {
		return nil, err
	}
	hosts, err := d.hosts(ctx)
	if err != nil {
		return nil, err
	}
	by := page.ProxySync{ProxyID: w.id}
	if w.id == "" { // rules and routes are shown as another proxy has them
		if by, err = d.viewpoint(""); err != nil {
			return nil, err
		}
	}
	out := &description{Workload: w, From: page.ShortName(by.ProxyID), Services: []*service{}}
	v, err := d.view(ctx, by.ProxyID)
	if err != nil {
		return nil, err
	}
	for i := range hosts {
		if e, is := endpointAt(&hosts[i], w.Address); is {
			w.Labels = merged(w.Labels, e.Labels)
			out.Services = append(out.Services, v.service(&hosts[i], w))
		}
	}
	if w.id == "" && len(out.Services) == 0 {
		return nil, fmt.Errorf("no connected proxy is called %q, and no service has an endpoint at that address; "+
			"pilotctl proxy-status lists proxies", printable.Text(typed, printable.Short))
	}
	if w.id != "" {
		if err := d.protect(ctx, v, w); err != nil {
			return nil, err
		}
	}
	return out, d.expose(ctx, out.Services)
}

// workload finds the workload that a user typed: an address, or a proxy's name.
func (d *describer) workload(ctx context.Context, typed string) (*workload, error) {
	if a, err := netip.ParseAddr(typed); err == nil {
		w := &workload{Address: a.String()}
		for _, p := range d.connected {
			if page.NodeAddress(p.ProxyID) == w.Address {
				w.id, w.Proxy = p.ProxyID, page.ShortName(p.ProxyID)
			}
		}
		return w, nil
	}
	name, err := d.session.Proxy(ctx, typed, d.namespace)
	if err != nil {
		return nil, err
	}
	p, err := d.find(name)
	if err != nil {
		return nil, err
	}
	return &workload{
		id: p.ProxyID, Proxy: page.ShortName(p.ProxyID), Address: page.NodeAddress(p.ProxyID), Identity: p.Identity,
		Version: p.IstioVersion,
	}, nil
}

// find returns the connected proxy that fits a name best.
func (d *describer) find(name string) (found page.ProxySync, err error) {
	best := 0
	for _, p := range d.connected {
		if fit := page.Fit(p.ProxyID, p.Identity, name); fit > best {
			best, found = fit, p
		}
	}
	if best == 0 {
		return found, fmt.Errorf("no connected proxy is called %q; pilotctl proxy-status lists them", printable.Text(name, printable.Short))
	}
	return found, nil
}

// service describes one service.
func (d *describer) service(ctx context.Context, typed string) (*description, error) {
	hosts, err := d.hosts(ctx)
	if err != nil {
		return nil, err
	}
	found := d.called(hosts, strings.ToLower(typed))
	if len(found) == 0 {
		return nil, fmt.Errorf("no registry has a service %s; pilotctl services lists them", printable.Text(typed, printable.Short))
	}
	if len(found) > 1 {
		var names []string
		for _, h := range found {
			names = append(names, string(h.Hostname)+" -n "+h.Namespace)
		}
		return nil, fmt.Errorf("several services fit %s, name one of them: %s", printable.Text(typed, printable.Short),
			strings.Join(names, ", "))
	}
	view, err := d.viewpoint(found[0].Namespace)
	if err != nil {
		return nil, err
	}
	v, err := d.view(ctx, view.ProxyID)
	if err != nil {
		return nil, err
	}
	out := &description{From: page.ShortName(view.ProxyID), Services: []*service{v.service(found[0], nil)}}
	return out, d.expose(ctx, out.Services)
}

// called returns the services that a name means: the one of this host, or those that begin with it.
func (d *describer) called(hosts []page.HostInfo, name string) (out []*page.HostInfo) {
	for _, fits := range []func(mesh.Host) bool{
		func(h mesh.Host) bool { return string(h) == name },
		func(h mesh.Host) bool {
			return d.namespace != "" && strings.HasPrefix(string(h), name+"."+d.namespace+".")
		},
		func(h mesh.Host) bool { return strings.HasPrefix(string(h), name+".") },
	} {
		for i := range hosts {
			if h := &hosts[i]; fits(h.Hostname) && (d.namespace == "" || h.Namespace == d.namespace) {
				out = append(out, h)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// viewpoint returns the proxy that shows a service as it sees it: the named one, else a sidecar of its namespace, else any; the zero
// ProxySync: none is connected.
func (d *describer) viewpoint(namespace string) (out page.ProxySync, err error) {
	if d.from != "" {
		return d.find(d.from)
	}
	for _, p := range d.connected {
		name := page.ShortName(p.ProxyID)
		if strings.HasSuffix(name, "."+namespace) && p.ProxyType != routerType {
			return p, nil
		}
		if out.ProxyID == "" && p.ProxyType != routerType {
			out = p
		}
	}
	return out, nil
}

// routerType is the type of gateways' proxies in proxy-status.
const routerType = "router"

// view is what a proxy was sent.
type view struct {
	clusters, loads, routes, listeners []message
	rules                              map[string]page.ObjectInfo // DestinationRules by namespace/name
}

// view returns what a proxy was sent; an empty name: nothing.
func (d *describer) view(ctx context.Context, proxy string) (v *view, err error) {
	v = &view{rules: map[string]page.ObjectInfo{}}
	if proxy == "" {
		return v, nil
	}
	from := sent{d.session, proxy}
	for _, of := range []struct {
		typ xdstype.Type
		to  *[]message
	}{{xdstype.Clusters, &v.clusters}, {xdstype.Loads, &v.loads}, {xdstype.Routes, &v.routes}, {xdstype.Listeners, &v.listeners}} {
		some, err := from.with(ctx, of.typ, true)
		if err != nil {
			return nil, err
		}
		*of.to = some
	}
	var rules []page.ObjectInfo
	if err := d.session.Ask(ctx, "/debug/configz", url.Values{"kind": {"DestinationRule"}}, &rules); err != nil {
		return nil, err
	}
	for _, r := range rules {
		v.rules[r.Namespace+"/"+r.Name] = r
	}
	return v, nil
}

// expose adds to services the gateways that lead requests to them.
func (d *describer) expose(ctx context.Context, to []*service) error {
	asked := 0
	var errs []error
	for _, p := range d.connected {
		if p.ProxyType != routerType {
			continue
		}
		if asked++; asked > mostGateways {
			break
		}
		from := sent{d.session, p.ProxyID}
		routes, err := from.with(ctx, xdstype.Routes, true)
		if err == nil {
			var listeners []message
			listeners, err = from.with(ctx, xdstype.Listeners, true)
			for _, s := range to {
				s.expose(page.ShortName(p.ProxyID), routes, listeners)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// protect says which mutual TLS a workload takes, and which policies apply to it.
func (d *describer) protect(ctx context.Context, v *view, w *workload) error {
	w.MutualTLS = v.mutual()
	var all []page.ObjectInfo
	if err := d.session.Ask(ctx, "/debug/configz", url.Values{"kind": {"PeerAuthentication"}}, &all); err != nil {
		return err
	}
	_, namespace, _ := strings.Cut(w.Proxy, ".")
	for _, o := range all {
		var spec struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
		}
		text, err := json.Marshal(o.Spec)
		if err == nil {
			err = json.Unmarshal(text, &spec)
		}
		if err != nil {
			return fmt.Errorf("PeerAuthentication %s/%s: %w", o.Namespace, o.Name, err)
		}
		inside := o.Namespace == namespace || o.Namespace == d.root() && len(spec.Selector.MatchLabels) == 0
		if inside && selects(spec.Selector.MatchLabels, w.Labels) {
			w.PeerAuthentications = append(w.PeerAuthentications, o.Namespace+"/"+o.Name)
		}
	}
	slices.Sort(w.PeerAuthentications)
	for _, l := range v.listeners {
		if text(l.body, "trafficDirection") == "INBOUND" {
			for _, o := range l.made[l.name] {
				if !strings.HasPrefix(o, "ServiceEntry ") && !strings.HasPrefix(o, "Service ") {
					w.Policies = append(w.Policies, o)
				}
			}
		}
	}
	return nil
}
