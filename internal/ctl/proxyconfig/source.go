package proxyconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"fairway/internal/admin/page"
	"fairway/internal/disk"
	"fairway/internal/xdstype"
)

// mostFile is the largest dump that is read, in bytes.
const mostFile = 1 << 30

// source has the resources of one proxy.
type source interface {
	// messages returns the resources of a type. Route configurations have all their virtual hosts.
	messages(ctx context.Context, typ xdstype.Type) ([]message, error)
	// whole returns all of it, in the form of Envoy's config_dump.
	whole(ctx context.Context) (map[string]any, error)
}

// sent has the resources that a control plane sent to a proxy.
type sent struct {
	session Session
	proxy   string
}

func (s sent) messages(ctx context.Context, typ xdstype.Type) ([]message, error) {
	return s.with(ctx, typ, typ == xdstype.Routes)
}

// with returns the resources of a type, with the objects that they were made from.
func (s sent) with(ctx context.Context, typ xdstype.Type, made bool) ([]message, error) {
	query := url.Values{"proxyID": {s.proxy}, "type": {typ.Label()}}
	if made {
		query.Set("made", "true")
	}
	var resources []page.Resource
	if err := s.session.Ask(ctx, "/debug/resourcez", query, &resources); err != nil {
		return nil, err
	}
	var out []message
	for _, r := range resources {
		body, err := parse(r.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		out = append(out, message{name: r.Name, body: body, made: r.Made})
	}
	if typ == xdstype.Routes {
		out = together(out)
	}
	return out, nil
}

// together puts virtual hosts that were sent separately into their route configurations. The resource name of a virtual host begins with
// that of its route configuration.
func together(all []message) (out []message) {
	at := map[string]int{}
	for _, m := range all {
		if m.body["domains"] == nil {
			at[m.name] = len(out)
			m.made = maps.Clone(m.made)
			out = append(out, m)
		}
	}
	for _, m := range all {
		if m.body["domains"] == nil {
			continue
		}
		of, _, _ := strings.Cut(m.name, "/")
		i, known := at[of]
		if !known {
			i, at[of] = len(out), len(out)
			out = append(out, message{name: of, body: map[string]any{"name": of}})
		}
		hosts, _ := out[i].body["virtualHosts"].([]any)
		out[i].body["virtualHosts"] = append(hosts, m.body)
		if out[i].made == nil {
			out[i].made = map[string][]string{}
		}
		maps.Copy(out[i].made, m.made)
	}
	return out
}

func (s sent) whole(ctx context.Context) (map[string]any, error) {
	var raw json.RawMessage
	if err := s.session.Ask(ctx, "/debug/config_dump", url.Values{"proxyID": {s.proxy}}, &raw); err != nil {
		return nil, err
	}
	return parse(raw)
}

// dump is a config_dump of Envoy's.
type dump struct{ tree map[string]any }

// errNoDump is the error for a file of another form.
var errNoDump = errors.New("it has no configs: want Envoy's page /config_dump, or the output of pilotctl proxy-config all -o json")

func readDump(text []byte) (dump, error) {
	tree, err := parse(text)
	if err == nil && tree["configs"] == nil {
		err = errNoDump
	}
	return dump{tree}, err
}

func readFile(path string) ([]byte, error) {
	text, err := disk.Stream(path, mostFile)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	return text, nil
}

func (d dump) whole(context.Context) (map[string]any, error) { return d.tree, nil }

// sections are, for each type, the section of a dump, and the paths to its messages: a list, then fields of its elements.
var sections = map[xdstype.Type]struct {
	name  string
	paths [][]string
}{
	xdstype.Clusters: {"ClustersConfigDump", [][]string{
		{"staticClusters", "cluster"}, {"dynamicActiveClusters", "cluster"}, {"dynamicWarmingClusters", "cluster"},
	}},
	xdstype.Listeners: {"ListenersConfigDump", [][]string{
		{"staticListeners", "listener"}, {"dynamicListeners", "activeState", "listener"}, {"dynamicListeners", "warmingState", "listener"},
	}},
	xdstype.Routes: {"RoutesConfigDump", [][]string{
		{"staticRouteConfigs", "routeConfig"}, {"dynamicRouteConfigs", "routeConfig"},
	}},
	xdstype.Loads: {"EndpointsConfigDump", [][]string{
		{"staticEndpointConfigs", "endpointConfig"}, {"dynamicEndpointConfigs", "endpointConfig"},
	}},
	xdstype.Extensions: {"EcdsConfigDump", [][]string{{"ecdsFilters", "ecdsFilter"}}},
}

func (d dump) messages(_ context.Context, typ xdstype.Type) (out []message, err error) {
	s := sections[typ]
	for _, section := range objects(d.tree, "configs") {
		if !strings.HasSuffix(text(section, "@type"), "."+s.name) {
			continue
		}
		for _, path := range s.paths {
			for _, element := range objects(section, path[0]) {
				if m := object(element, path[1:]...); m != nil {
					name := text(m, "name")
					if name == "" {
						name = text(m, "clusterName")
					}
					out = append(out, message{name: name, body: m})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b message) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// bootstrap returns the bootstrap in a dump; nil: it has none.
func (d dump) bootstrap() map[string]any {
	for _, section := range objects(d.tree, "configs") {
		if strings.HasSuffix(text(section, "@type"), ".BootstrapConfigDump") {
			return object(section, "bootstrap")
		}
	}
	return nil
}
