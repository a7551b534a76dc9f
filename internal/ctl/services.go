package ctl

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/printable"
)

func (s *session) services() *cobra.Command {
	namespace := ""
	cmd := &cobra.Command{
		Use: "services [HOST]", Args: cobra.MaximumNArgs(1), ValidArgsFunction: s.hostNames,
		Short: "Which registries have each service; of one, every instance: its labels, health, locality, source and age",
		RunE: s.run(func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) == 1 {
				query.Set("host", args[0])
			}
			hosts, err := ask[[]page.HostInfo](cmd.Context(), s, "/debug/servicez", query)
			if err == nil && len(args) == 1 && len(hosts) == 0 {
				hosts, err = s.hostsLike(cmd.Context(), args[0])
			}
			if err != nil {
				return err
			}
			if namespace != "" {
				hosts = slices.DeleteFunc(hosts, func(h page.HostInfo) bool { return h.Namespace != namespace })
			}
			if len(args) == 0 {
				return s.show(cmd, hostList(hosts))
			}
			if len(hosts) == 0 {
				asked := printable.Text(args[0], printable.Short)
				return fmt.Errorf("no registry has a service %s; pilotctl services lists them", asked)
			}
			if slices.ContainsFunc(hosts, func(h page.HostInfo) bool { return h.Hostname != hosts[0].Hostname }) {
				return s.show(cmd, hostList(hosts))
			}
			return s.show(cmd, instances(hosts, time.Now()))
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only hosts of this namespace")
	return cmd
}

// hostsLike returns the hosts that a short name may mean: those that begin with it, up to a dot.
func (s *session) hostsLike(ctx context.Context, short string) ([]page.HostInfo, error) {
	hosts, err := ask[[]page.HostInfo](ctx, s, "/debug/servicez", nil)
	short = strings.ToLower(short) + "."
	return slices.DeleteFunc(hosts, func(h page.HostInfo) bool { return !strings.HasPrefix(string(h.Hostname), short) }), err
}

func hostList(hosts []page.HostInfo) output.Sheet {
	sh := output.Sheet{Header: []string{"HOST", "NAMESPACE", "PORTS", "REGISTRIES", "HEALTHY"}, Value: hosts, Empty: "there is no service"}
	for _, h := range hosts {
		var registries []string
		healthy, all := 0, 0
		for _, p := range h.Parts {
			name := p.Registry
			if p.State != "" && p.State != "synced" {
				name += " (" + p.State + ")"
			}
			registries = append(registries, name)
			if !p.Used {
				continue
			}
			for _, e := range p.Endpoints {
				all++
				if e.Health == mesh.Healthy.String() {
					healthy++
				}
			}
		}
		sh.Rows = append(sh.Rows, []string{
			string(h.Hostname), h.Namespace, portList(h.Ports), strings.Join(slices.Compact(registries), ", "),
			fmt.Sprintf("%d/%d", healthy, all),
		})
	}
	return sh
}

func portList(ports []page.PortInfo) string {
	const most = 4
	var out []string
	for i, p := range ports {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(ports)-most))
			break
		}
		out = append(out, strconv.FormatUint(uint64(p.Port), 10)+"/"+p.Protocol)
	}
	return output.OrDash(strings.Join(out, ","))
}

// instances lists the endpoints that each registry has for the hosts.
func instances(hosts []page.HostInfo, now time.Time) output.Sheet {
	sh := output.Sheet{
		Header: []string{"SOURCE", "ADDRESS", "PORTS", "HEALTH", "LOCALITY", "WEIGHT", "LABELS", "AGE"},
		Value:  hosts, Wide: true, Empty: "no registry has an instance of it",
	}
	for _, h := range hosts {
		for _, p := range h.Parts {
			for _, e := range p.Endpoints {
				sh.Rows = append(sh.Rows, []string{
					p.Registry, e.Address, output.OrDash(e.Ports), e.Health, output.OrDash(e.Locality),
					strconv.FormatUint(uint64(max(e.Weight, 1)), 10), output.OrDash(e.Labels), since(p.Changed, now),
				})
			}
			sh.Notes = append(sh.Notes, partNotes(h, p, now)...)
		}
	}
	return sh
}

// partNotes returns notes on a registry's part where it is not as users would expect.
func partNotes(h page.HostInfo, p page.HostPart, now time.Time) (notes []string) {
	of := fmt.Sprintf("%s in namespace %s", h.Hostname, h.Namespace)
	if !p.Used {
		notes = append(notes,
			fmt.Sprintf("%s of %s is not used: another registry's has precedence, with another resolution.", p.Registry, of))
	}
	if p.State != "" && p.State != "synced" {
		notes = append(notes, printable.Text(fmt.Sprintf("%s is %s for %s: %s.",
			p.Registry, p.State, since(p.Since, now), cmp.Or(p.Detail, "it has not been read yet")), printable.Long))
	}
	if len(p.Endpoints) == 0 && p.Used {
		notes = append(notes, fmt.Sprintf("%s has no instance of %s.", p.Registry, of))
	}
	return notes
}

// since is how long ago something was, in whole units.
func since(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	d := max(now.Sub(*t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
